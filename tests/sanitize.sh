#!/bin/bash
# sanitize.sh asan|ubsan|tsan|fuzz [JOBS] [CTEST OPTIONS...]: builds into build-<name> with that sanitizer and runs the tests there.
# fuzz: address and undefined together (the latter not in kernels), in the folder of `make fuzz`, whose libraries are there already.
# Left out are tests that
# - build something else, check texts, or fetch models: install, offline, cuda-*, neon, mutants, format, setup, python-*, minilm, granite
# - limit the address space or count on time: faults-memory, server-load, *bench*. The sanitizers reserve terabytes, and are 2 to 20
#   times slower
# - tsan: all but those with threads; only their programs are built
set -eu
cd "$(dirname "$0")/.."
name=$1 jobs=${2:-2}; shift; [ $# = 0 ] || shift
case $name in
    asan)  kind=address ;;
    ubsan) kind=undefined ;;
    tsan)  kind=thread ;;
    fuzz)  kind="fuzzer;address;undefined"; export CC=clang-14 CXX=clang++-14 ;;
    *)     echo "sanitize.sh: asan, ubsan, tsan or fuzz, not '$name'" >&2; exit 2 ;;
esac
dir=build-$name; mkdir -p $dir
# -fexpensive-optimizations: without it -O1 makes no fused multiplications, which the reference of integers states
.ci/step "configuring" $dir/configure.log cmake -S . -B $dir -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O1 -DCMAKE_CXX_FLAGS=-O1 \
    "-DGGML_MRA_KERNEL_OPT=-O1;-fexpensive-optimizations" "-DGGML_MRA_SANITIZE=$kind"

leave='install|offline|cuda|neon|mutants|format|setup|python|faults-memory|server-load|bench|minilm|granite|includes'
targets=
if [ $name = tsan ]; then
    targets="--target test-threads test-attn test-ops test-encoder test-encoder-api test-encoder-attention test-memory mra-server"
    set -- -R 'test-threads|test-attn$|test-ops|test-encoder$|test-encoder-api|test-encoder-attention|test-memory|server$' "$@"
fi
.ci/step "compiling with -fsanitize=$kind" $dir/build.log cmake --build $dir -j "$jobs" $targets
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
ctest --test-dir $dir -E "$leave" --output-on-failure -j "$jobs" --timeout 1500 "$@"
