# make         build the library and the programs into build/
# make demo    run the main job          make test   pass the tests
# make bench   measure                   make install [PREFIX=/usr/local]
# Everything that is missing is fetched: see .ci/setup and ggml-mra/cmake/find-ggml.cmake.

BUILD   ?= build
PREFIX  ?= /usr/local
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
OPTIONS ?=

all: build

setup:
	@.ci/setup

$(BUILD)/CMakeCache.txt: | setup
	cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(OPTIONS)

configure: setup $(BUILD)/CMakeCache.txt

build: configure
	cmake --build $(BUILD) -j $(JOBS)

test: build
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

demo: build
	$(BUILD)/bin/mra-demo

bench: build
	$(BUILD)/bin/mra-bench attn -n 512,4096

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf $(BUILD)

.PHONY: all setup configure build test demo bench install clean
