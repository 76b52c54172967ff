#!/bin/sh
# Seeded bugs of the CUDA kernels: each line of the list changes one place of a copy of them; emulated under the checker, the operator
# tests must then fail - by what the checker found, or by a wrong result. Prints which.
# usage: mutants-cuda.sh SOURCE BUILD [WORD]    BUILD: a configured build folder; WORD: only lines that have it, `short`: a selection
#        mutants-cuda.sh SOURCE -               only whether every line fits
# The list: see seeded-bugs.sh. Files are in ggml-mra/src/cuda.
set -u
src=$(cd "$1" && pwd); only=${3:-}; work=$src/ggml-mra/src; fit=1; log=
if [ "$2" != - ]; then
    build=$(cd "$2" && pwd); work=$build/cuda-mutant${PART:+-${PART%/*}}; fit=0; log=$work/log
    cp "$src"/ggml-mra/src/*.h "$work/"; cp "$src"/ggml-mra/src/cuda/*.cu* "$src/ggml-mra/src/cuda/cuda.h" "$work/cuda/"
fi
. "$src/tests/seeded-bugs.sh"

places() { for f in $1; do echo "$work/cuda"/$f; done; }
build_test() { cmake --build "$build" -j 2 --target "test-cuda-mutant-$1"; }
run_test() { # ops, attn, query-order, span-pool, layers, rope or blocks; stops at the first failure
    case $1 in
        ops) set -- ops 200 ;;
        attn) set -- attn 0 17000 ;;
        query-order) set -- query-order "$src/tests/golden/attn" ;;
        *) set -- "$1" "" ;;
    esac
    MRA_FAIL_FAST=1 timeout -k 10 600 "$build/bin/test-cuda-mutant-$1" ${2:-} ${3:-} && return 0
    why=$(grep -m 1 '^cuda-host:' "$log" || grep -m 1 '^FAIL' "$log" || echo "the program died")
    why=$(echo "$why" | sed 's/^FAIL [^ ]* //; s/^cuda-host: /the checker: /')
    return 1
}

seeded_bugs <<'LIST'
span-pool short|span-pool.cu|part[threadIdx.x] = acc;|part[threadIdx.x] = acc; if (0)
span-pool  |span-pool.cu|for (int i = 1; i < LANES; i++)|for (int i = 2; i < LANES; i++)
span-pool  |span-pool.cu|if (c < a.d) {|{
span-pool  |span-pool.cu|return a != a \!\! a >= b ? a : b;|return a >= b ? a : b;
span-pool  |span-pool.cu|mra_span_scale(a.kind, span.n)|mra_span_scale(0, span.n)
ops short  |pool.cu|part[threadIdx.x] = acc;|part[threadIdx.x] = acc; if (0)
ops        |pool.cu|for (int i = 1; i < n_team; i++)|for (int i = 2; i < n_team; i++)
ops short  |pool.cu|blockIdx.x*a.d + c;|blockIdx.x*a.d + c + 4;
ops        |pool.cu|1.0f/(end - first)|1.0f/a.block
ops        |pool.cu|mra_min(first + a.block, a.keys ? len.n_k : len.n_q)|first + a.block
ops short  |block-score.cu|mra_copy_wait<0>();|mra_copy_wait<1>();
ops        |block-score.cu|mra_copy_wait<0>();|mra_copy_wait<0>(); if (0)
ops short  |block-score.cu|__syncthreads(); // before the next channels overwrite these|
ops        |block-score.cu|c < CHANNELS; c += 4|c < CHANNELS - 4; c += 4
ops        |block-score.cu|LD = CHANNELS + 4|LD = CHANNELS
ops        |block-score.cu|if (y >= t.n) break;|
ops        |block-score.cu|x < t.n_valid && column(t|column(t
attn       |block-score.cu|t.dst += (int64_t) entries.first * t.child_rows * t.child_cols;|
attn       |block-score.cu|t.x0 += parent * t.child_rows;|
attn       |block-score.cu|return x + (int64_t) mra_list_row|return (int64_t) mra_list_row
attn       |block-score.cu|cols, size) <= tile|cols, size) < tile
attn       |block-score.cu|at > 0 ? (int) at : 0|0
attn       |block-score.cu|* mra_child_cols(&a.level.cells)/n_col|/n_col
blocks     |block-score.cu|(int64_t) a.level.parent_cap*mra_child_cols|(int64_t) a.level.n_parent_row*a.level.n_bk*mra_child_cols
ops short  |topk-*|(equal && __popc(equals & below) < left)|(equal && __popc(equals) - __popc(equals & below) <= left)
ops        |topk-*|(equal && __popc(equals & below) < left)|equal
attn       |topk-*|th.left -= mra_min(th.left, mra_warp_sum(of.y)); // of the head's|
attn       |topk-*|max(0, th.left - equal_before)|th.left
ops        |topk-*|found[round*MAX_WARPS + warp] = n;|found[round*MAX_WARPS + warp] = n; if (0)
ops short  |topk-*|round ^= 1)|round = 0)
ops        |topk-*|clear_bins(bins + warp*SELECT_BINS);|clear_bins(bins + warp*SELECT_BINS); if (0)
ops        |topk-*|clear_bins(bins + warp*SELECT_BINS); __syncwarp();|clear_bins(bins + warp*SELECT_BINS);
ops        |topk-*|clear_bins(bins); __syncwarp();|clear_bins(bins);
ops        |topk-*|count_keys(bins, r, p, shift, th.key);|count_keys(bins, r, p, shift, th.key); if (0)
ops        |topk-*|    s -= r.max;|
attn       |topk-*|plan[0] = mra_topk_count(&a.p, len);|plan[0] = a.p.take.count;
ops        |topk-*|t.x0 == 0 && i < MRA_TOPK_BINS|i < 0
ops        |topk-*|atomicAdd(&t.s.bins[level*SELECT_BINS + i], bins[i]);|t.s.bins[level*SELECT_BINS + i] = bins[i];
ops        |topk-*|th.left -= mra_min(th.left, mra_warp_sum(of.y)); // goes to rows behind|
ops        |topk-*|max(0, th.left - mra_warp_prefix(of.y))|th.left
ops        |topk-*|__syncwarp(); // all lanes have read the bins|
ops        |topk-*|a.p.rule == MRA_PLAN_ROWMAX ? s.max[x] : 0.0f|0.0f
ops        |warp-topk.cuh|*m -= __shfl_sync(MRA_ALL_LANES, above, owner);|*m -= above;
ops        |warp-topk.cuh|__float_as_uint(x + 0.0f)|__float_as_uint(x)
ops short  |coarse-state.cu|if (lane == 0) warp_max[warp] = top;|if (lane == 0) warp_max[warp] = top; if (0)
ops        |coarse-state.cu|column[threadIdx.x] = col;|column[threadIdx.x] = col; if (0)
ops short  |coarse-state.cu|for (int i = 1; i < n_team; i++)|for (int i = 1; i < n_team - 1; i++)
ops        |coarse-state.cu|mra_min(g, r.len.n_k - col * g) * expf|g * expf
ops        |coarse-state.cu|o = make_float4(o.x*corr,|o = make_float4(o.x,
attn       |coarse-state.cu|\!\! has_column(r.taken, r.n_taken, col)|
attn       |coarse-state.cu|row_of(a.state, r.x / mra_child_rows(&a.level.cells), r.head, r.batch)|row_of(a.state, 0, r.head, r.batch)
ops        |common.cuh|o > 0; o /= 2) x = fmaxf|o > 1; o /= 2) x = fmaxf
ops        |common.cuh|if (lane >= o) sum += below;|sum += below;
ops short  |block-sparse-attn.cu|mra_copy_wait<0>();|mra_copy_wait<1>();
ops        |block-sparse-attn.cu|__syncthreads(); // tile t is there|// tile t is there
ops        |block-sparse-attn.cu|tiles[(t + 1)%2], k|tiles[t%2], k
ops        |block-sparse-attn.cu|a.scale < 0.0f ? -1.0f : 1.0f|1.0f
ops        |block-sparse-attn.cu|if (j >= l.n) return -1;|
ops        |softmax-state.cuh|mra_warp_max<4>(top)|mra_warp_max<2>(top)
ops        |softmax-state.cuh|mra_warp_sum<4>(st.sum[r])|mra_warp_sum<2>(st.sum[r])
ops        |softmax-state.cuh|if (row < n_rows && c < dv)|if (c < dv)
attn       |columns*|__syncwarp(); // tile t is there|// tile t is there
attn       |columns*|mra_copy_wait<0>(); __syncwarp(); // tile t is there|mra_copy_wait<1>(); __syncwarp(); // tile t is there
attn short |columns*|__syncwarp(); // before the next values overwrite these|
attn       |columns*|__syncthreads(); // the last time: nobody needs mean queries any more|
attn       |columns*|__syncwarp(); // all lanes have read what lane 0 writes|
attn       |columns*|min(step*STEP + t*8 + lane/4, rows.n - 1)|(step*STEP + t*8 + lane/4)
attn       |columns*|min(first + r, n - 1)|(first + r)
attn       |columns*|there ? rows.at + c*sizeof(half) : a.mem + a.pack.zeros|rows.at + c*sizeof(half)
attn       |columns*|there ? rows.nb : 0|rows.nb
attn       |columns*|return all & ((w & 1)|return ((w & 1)
attn       |columns*|j >= n_kept ? -1 : all|all
attn       |columns*|min(step*STEP + r, b.s.n_k - 1)|(step*STEP + r)
attn       |columns*|__syncthreads(); // the keys of this turn are there|// the keys of this turn are there
attn       |columns*|__syncthreads(); // K is there|// K is there
attn short |columns*|__syncthreads(); // V is there|// V is there
attn       |columns*|__syncthreads(); // before others take this memory|
attn       |columns*|__syncwarp(); // before the next overwrite these|
attn       |columns*|load_keys<D>(tile[k ^ 1],|load_keys<D>(tile[k],
attn       |columns*|b.taken[i] = 0;|(void) i;
attn       |columns*|__any_sync(MRA_ALL_LANES, w & all)|__any_sync(MRA_ALL_LANES, w & 1)
attn       |columns*|p ^ swapped<D>(lane/4)|p
attn       |columns*|D == 64 ? row%2 : 0|0
attn       |columns*|step != have|have < 0
attn       |columns*|warp%pair<D>::N*16|0
attn       |columns*|first_item + blockIdx.x;|blockIdx.x;
attn       |columns*|on[half] &= ~(k.above \! k.open);|on[half] &= ~k.above;
attn       |columns*|(last ? log_last : (float) b.log_g)|(float) b.log_g
attn       |columns*|st.sum[half] = mra_warp_sum<4>(st.sum[half])|st.sum[half] = mra_warp_sum<2>(st.sum[half])
attn       |columns*|k.open && c0 == 0|k.open
attn       |columns*|last ? b.coarse + c0 : waits|b.coarse + c0
attn       |columns*|if (last && lane%4 == 0) c.sum|if (lane%4 == 0) c.sum
attn       |columns*|for (int i = left; i < n; i++) sum +=|for (int i = left + 1; i < n; i++) sum +=
attn short |columns*|clear_bins(m); __syncthreads();|clear_bins(m);
attn       |columns*|__syncwarp(); if (lane > 0) return;|if (lane > 0) return;
attn       |columns*|__syncwarp(); #pragma unroll for (int i = 0; i < OPEN/MRA_WARP; i++) { if (i*MRA_WARP + lane >= n)|for (int i = 0; i < OPEN/MRA_WARP; i++) { if (i*MRA_WARP + lane >= n)
attn       |columns*|rank[i] < left|rank[i] <= left
attn       |columns*|return w \! __shfl_xor_sync(MRA_ALL_LANES, w, 2);|return w;
attn       |columns*|if (place > prefix) k.above|if (place >= prefix) k.above
attn       |softmax-state.cuh|corr[0] != 1.0f \!\! corr[1] != 1.0f|corr[0] != 1.0f
attn       |tile.cuh|half k[N][tile_row<D>::LD];|half k[N][tile_row<D>::LD - 8];
attn       |tile.cuh|PART == 8 ? lane / PART : lane % AT_ONCE|lane / PART
attn       |softmax-state.cuh|t%2 < n ?|t%2 <= n ?
attn       |softmax-state.cuh|some && lane%4 == 0 ? sum|some ? sum
ops        |softmax-state.cuh|st.o[i][t] *= corr[t/2];|if (t < 2) st.o[i][t] *= corr[0];
ops        |block-sparse-attn.cu|if (n_cell > 0) r.n -=|if (0) r.n -=
attn       |block-sparse-attn.cu|head/(n_head/(int) a.k.ne[2])|head%(int) a.k.ne[2]
attn       |sequence.cuh|/ MRA_KEY_BLOCK + s;|/ MRA_KEY_BLOCK;
attn       |pack.cu|k->nb, (uintptr_t) k->data) \!\! !mra_device_in_place(f16, v->nb, (uintptr_t) v->data)|k->nb, 0) \!\! !mra_device_in_place(f16, v->nb, 0)
attn       |pack.cu|hi = max4(hi, v);|hi = v;
attn       |pack.cu|sum.x/n,|sum.x/s.plan.g,
query-order|order-tree.cu|__syncthreads(); // before it changes|
layers short|window-attn.cu|dv, key < last ? key : -1, thread, blockDim.x); mra_copy_commit(); const int j|dv, key, thread, blockDim.x); mra_copy_commit(); const int j
layers     |window-attn.cu|&& key < r.n_k;|;
layers     |window-attn.cu|&& j + n <= r.n_k;|;
layers     |window-attn.cu|__syncthreads(); // tile t is there|// tile t is there
layers     |window-attn.cu|mra_copy_wait<0>();|mra_copy_wait<1>();
layers     |window-attn.cu|tiles[(t + 1) % 2], k|tiles[t % 2], k
layers short|window-attn.cu|key >= row - r.reach|key > row - r.reach
layers     |window-attn.cu|key <= row + r.reach|key < row + r.reach
layers     |window-attn.cu|j <= r.i + 15 + r.reach|j < r.i + 15 + r.reach
layers     |window-attn.cu|j + n > r.i - r.reach|j + n > r.i - r.reach + 1
layers     |window-attn.cu|j >= r.i + 15 - r.reach|j >= r.i - r.reach
layers     |window-attn.cu|j + n <= r.i + r.reach + 1|j + n <= r.i + r.reach + 16
layers     |window-attn.cu|max(i0 - r.reach, 0)|max(i0 - r.reach + 1, 0)
layers     |window-attn.cu|min(end + r.reach, s.n_k)|min(end + r.reach - 1, s.n_k)
layers     |window-attn.cu|min(w.window, s.n_k)|w.window
layers     |window-attn.cu|head / (n_head / (int) a.k.ne[2])|head % (int) a.k.ne[2]
layers     |window-attn.cu|mra_alibi_exponent(head, n_head)|mra_alibi_exponent(head, 2*n_head)
layers     |window-attn.cu|-r.slope, s[y][t] * r.scale|-r.slope, s[y][t]
layers     |norm.cu|if (i >= a.x.n) return;|
layers     |norm.cu|mra_warp_sum(mean) / a.n|mra_warp_sum(mean) / (a.n + 1)
layers     |norm.cu|c < a.n && !a.rms|c < a.n
layers     |norm.cu|a.b ? a.b[c] : 0.0f|0.0f
layers     |glu.cu|gate[n + c]|gate[n]
layers     |glu.cu|0.044715f*x|0.044715f
rope  short|rope.cu|a.interleaved ? 1 : a.r;|a.interleaved ? 1 : a.d/2;
rope       |rope.cu|a.interleaved ? 2 : 1|1
rope       |rope.cu|i / a.r*a.d|i / a.r*2*a.r
rope       |rope.cu|o*cs + e*s|o*cs - e*s
rope       |rope.cu|i < a.n_head*a.r|i < a.n_head*a.r - 1
rope       |rope.cu|a.positions[blockIdx.x]|(int) blockIdx.x
rope       |rope.cu|p->u.rope_table.scale*|
LIST
