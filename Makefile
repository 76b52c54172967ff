# make         build the library and the programs into build/
# make demo    a real model, fetched, converted, quantized and run; offline from the second time on
# make test    pass the tests
# make bench   measure
# make install [PREFIX=/usr/local] [DESTDIR=]     programs, man pages, shell completion, libraries; make uninstall removes them
# make figures          draw docs/*.svg again from the measurements beside them
# make eval             retrieval by two real models, exact and approximate attention, quantized weights (about half an hour)
# make bench-peers      against PyTorch, OpenVINO, onnxruntime and llama.cpp on this machine: time and closeness; installs them into build/peers (several GB, long)
# make compare-pipelines    entities and classes of small trained models beside transformers' pipelines (the same packages as bench-peers)
# make mutants          seeded bugs that the tests must catch (long)
# make test-wheel       the Python wheel compiled as pip does, also on an emulated CPU without AVX (long)
# make test-python-adapters, test-python-reference    LangChain, LlamaIndex, Chroma; sentence-transformers (several GB)
# make test-ray         embed_shards.py on a Ray cluster that loses a worker and a node (some hundred MB)
# make bench-server     mra-server beside llama_cpp.server and sentence-transformers (several GB, long)
# make test-cuda-build  the programs with ggml's CUDA backend, compiled for one architecture: they start without a GPU (tens of minutes; nvcc)
# make test-newer-ggml  the same tests against ggml 0.25.3, with clang (long)
# make fuzz [T=300]      every fuzz target in turn, T seconds in all (clang; tests/fuzz)
# make test-asan         the tests with the address sanitizer; also test-ubsan, test-tsan (long)
# make test-valgrind     the programs' tests with each program under valgrind (long)
# make soak [N=20000]    N documents through mra-embed; memory and descriptors must stay flat (long)
# make sbom              what is fetched, with versions, hashes and licences, as build/sbom.json (CycloneDX)
# Compilers' output goes to build/*.log and is shown where it fails; V=1 shows all of it.
# Everything that is missing is fetched: see .ci/setup and ggml-mra/cmake/find-ggml.cmake.

BUILD   ?= build
PREFIX  ?= /usr/local
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
OPTIONS ?=
PEERS   ?= # options of docs/scripts/bench_peers.py, such as -n 512
EVAL    ?= # options of docs/scripts/eval_tasks.py, such as --models granite
V       ?= 0

export V
MAKEFLAGS += --no-print-directory
COMPILE = cmake --build $(BUILD) -j $(JOBS) $(if $(filter-out 0,$(V)),--verbose)

all: build

setup:
	@.ci/setup

# `configured` holds the options of the last configuration that went well
configure: setup
	@if [ ! -f $(BUILD)/configured ] || { [ -n '$(OPTIONS)' ] && [ "$$(cat $(BUILD)/configured)" != '$(OPTIONS)' ]; }; then \
	    .ci/step "configuring; the first time fetches ggml's source" $(BUILD)/configure.log \
	        cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX)) $(OPTIONS) \
	    && echo '$(OPTIONS)' > $(BUILD)/configured; \
	fi

dependencies: configure
	@.ci/step "compiling ggml" $(BUILD)/ggml.log $(COMPILE) --target mra-dependencies

build: dependencies
	@.ci/step "compiling library, programs and tests" $(BUILD)/build.log $(COMPILE)

programs: dependencies
	@.ci/step "compiling library and programs" $(BUILD)/build.log $(COMPILE) --target mra-programs program-check

test: build
	@.ci/setup test
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

demo: programs
	@examples/demo.sh $(BUILD)

bench: build
	$(BUILD)/bin/mra-bench peak
	$(BUILD)/bin/mra-bench attn -n 512,4096,16384 --frame exact --frame mra2 --frame columns --budget 1/16,1/8
	$(BUILD)/bin/mra-bench linear --type q8_0 --type q4_k --type f16
	$(BUILD)/bin/mra-bench linear --type f32 --type f16 --type q8_0 --type q4_0 --type q4_k

bench-peers: build
	python3 docs/scripts/bench_peers.py $(BUILD) $(PEERS)

compare-pipelines: programs
	@python3 docs/scripts/pipelines.py $(BUILD)

eval: programs
	@.ci/venv $(BUILD)/venv convert/requirements.txt
	@$(BUILD)/venv/bin/python -B docs/scripts/eval_tasks.py $(BUILD) $(EVAL)

figures:
	python3 docs/scripts/plot_attn.py docs/attn-curve.jsonl > docs/attn-curve.svg
	python3 docs/scripts/plot_peers.py docs/peers.jsonl > docs/peers.svg
	python3 docs/scripts/plot_eval.py docs/eval-tasks.jsonl > docs/eval-tasks.svg

mutants: build
	tests/mutants.sh . $(BUILD)
	tests/mutants-programs.sh . $(BUILD)
	tests/mutants-python.sh . $(BUILD)
	tests/mutants-cuda.sh . $(BUILD)

PYTHON_TESTS = ggml-mra/python/tests
test-wheel: build
	@.ci/setup test
	$(PYTHON_TESTS)/run.sh $(BUILD) python3
	$(PYTHON_TESTS)/other-cpu.sh $(BUILD)

test-python-adapters test-python-reference: build
	$(PYTHON_TESTS)/$@.sh $(BUILD)

test-ray: build
	@.ci/pip-install $(BUILD)/scale-out examples/scale-out/requirements-ray.txt
	timeout 300 $(BUILD)/scale-out/bin/python -B examples/scale-out/test_ray.py $(abspath $(BUILD))/bin

bench-server: build
	python3 docs/scripts/bench_server.py $(BUILD)

test-cuda-build: build
	cmake -DBUILD=$(abspath $(BUILD)) -DSOURCE=$(CURDIR) -DWHOLE=ON -DJOBS=$(JOBS) -P tests/cuda-configure.cmake

test-newer-ggml: setup
	.ci/newer-ggml

T ?= 300
fuzz:
	@.ci/setup fuzz
	@mkdir -p build-fuzz
	@[ -f build-fuzz/CMakeCache.txt ] || .ci/step "configuring" build-fuzz/configure.log env CC=clang-14 CXX=clang++-14 cmake -S . -B build-fuzz -DCMAKE_BUILD_TYPE=None \
	    -DCMAKE_C_FLAGS=-O1 -DCMAKE_CXX_FLAGS=-O1 -DGGML_MRA_KERNEL_OPT=-O1 "-DGGML_MRA_SANITIZE=fuzzer;address;undefined"
	@.ci/step "compiling the fuzz targets" build-fuzz/build.log cmake --build build-fuzz -j $(JOBS) --target mra-fuzzers
	@.ci/pip-install build-fuzz/venv convert/requirements.txt
	@tests/fuzz/run.sh build-fuzz $(T)

test-asan test-ubsan test-tsan: setup
	@tests/sanitize.sh $(@:test-%=%) $(JOBS)
test-valgrind: setup
	@tests/valgrind.sh $(JOBS)

N ?= 20000
soak: programs
	@tests/soak.sh $(BUILD) $(N)

sbom:
	@mkdir -p $(BUILD)
	@python3 .ci/sbom.py > $(BUILD)/sbom.json && echo $(BUILD)/sbom.json

install: programs
	@.ci/step "installing into $(DESTDIR)$(abspath $(PREFIX))" $(BUILD)/install.log cmake --install $(BUILD) --prefix $(abspath $(PREFIX))

uninstall:
	@cmake -DMANIFEST=$(BUILD)/install_manifest.txt -DPREFIX=$(abspath $(PREFIX)) -P ggml-mra/cmake/uninstall.cmake

clean:
	rm -rf $(BUILD) build-newer-ggml build-fuzz build-asan build-ubsan build-tsan build-valgrind

.PHONY: all setup configure dependencies build programs test demo bench bench-peers compare-pipelines eval figures mutants test-newer-ggml
.PHONY: fuzz test-asan test-ubsan test-tsan test-valgrind soak sbom install uninstall clean
.PHONY: test-cuda-build bench-server test-wheel test-python-adapters test-python-reference test-ray
