// What the kernels of topk_blocks do with a row of cells, each by a warp: sort keys, the m-th largest of them, how many
// are above it, and which are taken.
#pragma once

#include "cells.cuh"
#include "warp-topk.cuh"

struct topk_args {
    struct mra_topk_blocks_node p;
    struct level level;
    int32_t * dst; // lists, `stride` apart
    int64_t stride;
    int n_head;
    int32_t * scratch; // where several thread blocks share a head: `scratch_words` for each list
    int64_t scratch_words;
};

// a row of cells with what its keys need
struct key_row {
    struct mra_cell_row cells;
    int x;
    float max;
};

// sort key of candidate t, 0: never taken; cells that more priors name first, then by score, less the row's maximum
MRA_DEVICE uint32_t key_at(const struct key_row & r, const struct mra_topk_blocks_node & p, int t, int * col) {
    float s;
    *col = mra_cell_at(&r.cells, t, &s);
    if (*col < 0) return 0;
    s -= r.max;
    const int first_n = p.first_n, diag_n = p.diag_n;
    if (first_n || diag_n) s = mra_named_key(s, mra_square_priors(first_n, diag_n, r.x, *col));
    return select_key(s);
}

// adds byte `shift` of the keys that begin with `prefix` to bins; one warp
MRA_DEVICE void count_keys(
    int * bins, const struct key_row & r, const struct mra_topk_blocks_node & p, int shift, uint32_t prefix) {
    int col;
    for (int t = threadIdx.x % MRA_WARP; t < r.cells.n; t += MRA_WARP) {
        const uint32_t key = key_at(r, p, t, &col);
        if (shift == 24 || key >> (shift + 8) == prefix) atomicAdd(&bins[key >> shift & (SELECT_BINS - 1)], 1);
    }
}

// the m-th largest key, and how many of those equal to it are among the m largest; 0: no key is left out
struct threshold {
    uint32_t key;
    int left;
};

MRA_DEVICE void clear_bins(int * bins) {
    for (int i = threadIdx.x % MRA_WARP; i < SELECT_BINS; i += MRA_WARP) bins[i] = 0;
}

// of one row, by one warp
MRA_DEVICE struct threshold row_threshold(
    const struct key_row & r, const struct mra_topk_blocks_node & p, int m, int * bins) {
    struct threshold th = { 0, mra_min(m, r.cells.n) };
    if (th.left <= 0) return { ~0u, 0 };
    for (int shift = 24; shift >= 0; shift -= 8) {
        clear_bins(bins);
        __syncwarp();
        count_keys(bins, r, p, shift, th.key);
        __syncwarp();
        th.key = th.key << 8 | (uint32_t) select_bin(bins, &th.left);
        __syncwarp();
    }
    return th;
}

// keys of a row above and equal to a threshold; one warp
MRA_DEVICE int2 count_row(const struct key_row & r, const struct mra_topk_blocks_node & p, uint32_t threshold) {
    int2 n = make_int2(0, 0);
    int col;
    for (int t = threadIdx.x % MRA_WARP; t < r.cells.n; t += MRA_WARP) {
        const uint32_t key = key_at(r, p, t, &col);
        n.x += key > threshold;
        n.y += key == threshold && key;
    }
    return make_int2(mra_warp_sum(n.x), mra_warp_sum(n.y));
}

// writes the columns of a row that are above the threshold, and the first `left` of those equal to it; one warp
MRA_DEVICE void take_row(
    int32_t * id, const struct key_row & r, const struct mra_topk_blocks_node & p, uint32_t threshold, int left) {
    const int lane = threadIdx.x % MRA_WARP;
    const uint32_t below = (1u << lane) - 1;
    for (int t0 = 0; t0 < r.cells.n; t0 += MRA_WARP) {
        int col = 0;
        const uint32_t key = key_at(r, p, t0 + lane, &col);
        const bool equal = key == threshold && key;
        const uint32_t equals = __ballot_sync(MRA_ALL_LANES, equal);
        const bool taken = key > threshold || (equal && __popc(equals & below) < left);
        const uint32_t all = __ballot_sync(MRA_ALL_LANES, taken);
        if (taken) id[__popc(all & below)] = col;
        left -= mra_min(left, __popc(equals));
        id += __popc(all);
    }
}

MRA_DEVICE float row_max(const struct mra_cell_row & r) {
    float max = -INFINITY, s;
    for (int t = threadIdx.x % MRA_WARP; t < r.n; t += MRA_WARP)
        if (mra_cell_at(&r, t, &s) >= 0 && s > max) max = s;
    return mra_warp_max(max);
}
