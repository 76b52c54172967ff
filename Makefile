# make         build the library and the programs into build/
# make demo    a real model, fetched, converted, quantized and run; offline from the second time on
# make test    pass the tests
# make bench   measure                   make install [PREFIX=/usr/local]
# make bench-peers      against PyTorch and llama.cpp on this machine; installs them into build/peers (several GB, long)
# make mutants          seeded bugs that the tests must catch (long)
# make test-newer-ggml  the same tests against ggml 0.25.3, with clang (long)
# Everything that is missing is fetched: see .ci/setup and ggml-mra/cmake/find-ggml.cmake.

BUILD   ?= build
PREFIX  ?= /usr/local
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
OPTIONS ?=
PEERS   ?= # options of docs/bench_peers.py, such as -n 512

all: build

setup:
	@.ci/setup

$(BUILD)/CMakeCache.txt: | setup
	cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(OPTIONS)

configure: setup $(BUILD)/CMakeCache.txt

build: configure
	cmake --build $(BUILD) -j $(JOBS)

test: build
	@.ci/setup test
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

demo: configure
	cmake --build $(BUILD) -j $(JOBS) --target mra-programs program-check
	@examples/demo.sh $(BUILD)

bench: build
	$(BUILD)/bin/mra-bench peak
	$(BUILD)/bin/mra-bench attn -n 512,4096,16384 --frame exact --frame mra2 --frame columns --budget 1/16,1/8
	$(BUILD)/bin/mra-bench linear --type q8_0 --type q4_k --type f16
	$(BUILD)/bin/mra-bench linear --type f32 --type f16 --type q8_0 --type q4_0 --type q4_k

bench-peers: build
	python3 docs/bench_peers.py $(BUILD) $(PEERS)

mutants: build
	tests/mutants.sh . $(BUILD)
	tests/mutants-programs.sh . $(BUILD)
	tests/mutants-cuda.sh . $(BUILD)

test-newer-ggml: setup
	.ci/newer-ggml

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf $(BUILD) build-newer-ggml

.PHONY: all setup configure build test demo bench bench-peers mutants test-newer-ggml install clean
