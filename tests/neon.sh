#!/bin/sh
# The NEON kernels, cross-compiled with Debian's aarch64 compiler and run by qemu-user against the scalar reference.
# usage: neon.sh SOURCE WORK   exit 77: no cross-compiler, or compiled but no qemu to run it
set -eu
src=$1/ggml-mra/src; work=$2; cc=aarch64-linux-gnu-gcc
command -v $cc >/dev/null || { echo "skipped: no $cc (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"; exit 77; }
mkdir -p "$work"
for isa in neon base neon-dot neon-i8mm; do
    case $isa in neon-dot) march=armv8.2-a+dotprod ;; neon-i8mm) march=armv8.2-a+dotprod+i8mm ;; *) march=armv8-a ;; esac
    $cc -march=$march -std=c11 -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wall -Wextra -Werror -c "$src/cpu/isa-$isa.c" -o "$work/$isa.o"
done
for test in test-kernels test-kernels-extreme test-kernels-extreme-attn; do
    $cc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -o "$work/$test" "$1/tests/$test.c" "$src/cpu/dispatch.c" "$src/cpu/int8.c" "$src"/ref/*.c \
        "$work/neon.o" "$work/base.o" "$work/neon-dot.o" "$work/neon-i8mm.o" -lm
done
command -v qemu-aarch64 >/dev/null || { echo "compiled; skipped: no qemu-aarch64 to run it (Debian: qemu-user)"; exit 77; }
qemu-aarch64 "$work/test-kernels" neon 30
qemu-aarch64 "$work/test-kernels" neon-dot 30
qemu-aarch64 "$work/test-kernels" neon-i8mm 30
qemu-aarch64 "$work/test-kernels-extreme" neon 30
qemu-aarch64 "$work/test-kernels-extreme-attn" neon 30
