#!/bin/sh
# The PTX of the CUDA kernels, and what warps execute of it: see cuda-count.c. No GPU needed.
# usage: cuda-count.sh SOURCE BUILD [OPTIONS of mra-cuda-count]    exit code 77: there is no nvcc
set -u
src=$(cd "$1" && pwd)/ggml-mra/src; build=$(cd "$2" && pwd); shift 2
ptx=$build/ptx; mkdir -p "$ptx"
PATH="$PATH:${CUDA_PATH:+$CUDA_PATH/bin:}${CUDA_HOME:+$CUDA_HOME/bin:}/usr/local/cuda/bin"
command -v nvcc >/dev/null || { echo "skipped: no nvcc"; exit 77; }
for f in "$src"/cuda/*.cu; do
    to=$ptx/$(basename "$f" .cu).ptx
    [ -e "$to" ] && [ -z "$(find "$src"/cuda "$src"/*.h -newer "$to" \( -name '*.cuh' -o -name '*.h' -o -path "$f" \))" ] || echo "$f"
done | xargs -P 2 -I{} sh -c 'to=$1/$(basename "$2" .cu).ptx; nvcc -std=c++17 -O3 -ptx -arch=compute_80 "$2" -o "$to.new" && mv "$to.new" "$to"' sh "$ptx" {} || {
    echo "nvcc failed"; exit 1; }
exec "$build/bin/mra-cuda-count" "$@" "$ptx"/*.ptx
