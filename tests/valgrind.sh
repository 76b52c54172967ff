#!/bin/bash
# valgrind.sh [JOBS] [PART...]: builds the programs into build-valgrind for instructions that valgrind knows (AVX2 at most) and runs parts of test-programs.sh
# with each program under memcheck: a read of what was never written, an access out of bounds or a lost block is an exit code that no test expects.
# Left out: what limits memory, counts on time, or is about full disks and signals rather than memory.
set -eu
cd "$(dirname "$0")/.."
jobs=${1:-2}; [ $# = 0 ] || shift
parts=${*:-basics formats inputs calibrate studies}
command -v valgrind >/dev/null || { echo "valgrind.sh: no valgrind (Debian: valgrind)" >&2; exit 1; }
dir=build-valgrind; bin=$PWD/$dir/under-valgrind; mkdir -p $dir "$bin"
[ -f $dir/CMakeCache.txt ] || .ci/step "configuring" $dir/configure.log cmake -S . -B $dir -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF
.ci/step "compiling" $dir/build.log cmake --build $dir -j "$jobs" --target mra-programs program-check
for program in "$dir"/bin/mra-*; do
    printf '#!/bin/sh\nexec valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "%s" "$@"\n' "$PWD/$program" >"$bin/$(basename "$program")"
done
chmod +x "$bin"/mra-*
export MRA_ISA=v3
bad=0
for part in $parts; do
    tests/test-programs.sh "$part" "$bin" "$PWD/tests/golden" "$PWD/$dir/run" "$PWD/$dir/bin/program-check" || bad=1
done
exit $bad
