// list = the `count` best cells of each row of cells, or of the head; ties to the lower row, then the lower column.
// Bit-equal from run to run: only integers are counted atomically.
#include "cells.cuh"
#include "cuda.h"
#include "warp-topk.cuh"

enum { MAX_WARPS = 20 }; // more would leave too few registers for each thread

struct topk_args {
    struct mra_topk_blocks_node p;
    struct level level;
    int32_t * dst; // lists, `stride` apart
    int64_t stride;
    int n_head;
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

// of all rows, by the block; bins: SELECT_BINS of each warp, total: of all
template <class F>
MRA_DEVICE struct threshold head_threshold(
    const F & row, const struct mra_topk_blocks_node & p, int rows, int64_t m, int * bins, int * total) {
    const int warp = threadIdx.x / MRA_WARP, n_warp = blockDim.x / MRA_WARP;
    struct threshold th = { 0, 0 };
    if (m <= 0 || rows == 0) return { ~0u, 0 };
    for (int shift = 24; shift >= 0; shift -= 8) {
        clear_bins(bins + warp * SELECT_BINS);
        __syncwarp();
        for (int x = warp; x < rows; x += n_warp) count_keys(bins + warp * SELECT_BINS, row(x), p, shift, th.key);
        __syncthreads();
        for (int i = threadIdx.x; i < SELECT_BINS; i += blockDim.x) {
            int sum = 0;
            for (int w = 0; w < n_warp; w++) sum += bins[w * SELECT_BINS + i];
            total[i] = sum;
        }
        __syncthreads();
        if (shift == 24) {
            int n = 0;
            for (int i = threadIdx.x % MRA_WARP; i < SELECT_BINS; i += MRA_WARP) n += total[i];
            n = mra_warp_sum(n);
            if (n == 0) return { ~0u, 0 };
            th.left = m < n ? (int) m : n;
        }
        th.key = th.key << 8 | (uint32_t) select_bin(total, &th.left);
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

// One block of threads per head: warp w has the rows w, w + n_warp, ... Rows are taken n_warp at a time, in order, so
// that each warp learns from the counts of the others where its row begins and how many of the equal keys are its own.
__global__ void __launch_bounds__(MAX_WARPS * MRA_WARP) topk_kernel(const struct topk_args a) {
    MRA_DYN_SHARED(int, bins); // [n_warp][SELECT_BINS]
    MRA_SHARED(int, total, SELECT_BINS);
    MRA_SHARED(int2, found, 2 * MAX_WARPS); // taken for certain, equal to the threshold; of two rounds
    MRA_SHARED(int64_t, plan, 1);
    const int head = blockIdx.x % a.n_head, batch = blockIdx.x / a.n_head;
    const int warp = threadIdx.x / MRA_WARP, lane = threadIdx.x % MRA_WARP, n_warp = blockDim.x / MRA_WARP;
    const struct level & l = a.level;
    const struct mra_len len = length_at(l, batch);
    const int rows = mra_div_up(len.n_q, l.cells.h);
    const bool by_row = a.p.rule == MRA_PLAN_ROW, by_max = a.p.rule == MRA_PLAN_ROWMAX;
    int32_t *list = a.dst + blockIdx.x * a.stride, *id = list + l.n_bq + 1;

    if (threadIdx.x == 0) plan[0] = mra_topk_count(&a.p, len); // doubles, which many devices have few units for
    // until offsets are written, their place holds the maxima of the rows
    for (int x = warp; by_max && x < rows; x += n_warp) {
        const float max = row_max(cells_of(l, x, head, batch, len));
        if (lane == 0) list[x] = (int32_t) __float_as_uint(max);
    }
    __syncthreads();
    const auto row = [&](int x) {
        const struct key_row r = { cells_of(l, x, head, batch, len), x,
            by_max && x < rows ? __uint_as_float((unsigned) list[x]) : 0.0f };
        return r;
    };
    const int64_t count = plan[0];
    struct threshold th = { ~0u, 0 };
    if (!by_row) th = head_threshold(row, a.p, rows, count < a.p.cap ? count : a.p.cap, bins, total);

    int64_t n_out = 0; // by all rows of earlier rounds
    for (int x0 = 0, round = 0; x0 < l.n_bq; x0 += n_warp, round ^= 1) {
        const struct key_row r = row(x0 + warp);
        if (by_row) th = row_threshold(r, a.p, count < r.cells.n ? (int) count : r.cells.n, bins + warp * SELECT_BINS);
        int2 n = count_row(r, a.p, th.key);
        if (by_row) n = make_int2(n.x + mra_min(n.y, th.left), 0);
        if (lane == 0) found[round * MAX_WARPS + warp] = n;
        __syncthreads();
        const int2 of = lane < n_warp ? found[round * MAX_WARPS + lane] : make_int2(0, 0); // of warp number `lane`
        const int equal_before = mra_warp_prefix(of.y),
                  quota = by_row ? 0 : mra_min(of.y, max(0, th.left - equal_before));
        const int before = mra_warp_prefix(of.x + quota);
        int64_t first = n_out + __shfl_sync(MRA_ALL_LANES, before, warp);
        int take = __shfl_sync(MRA_ALL_LANES, of.x + quota, warp),
            left = by_row ? th.left : __shfl_sync(MRA_ALL_LANES, quota, warp);
        if (first + take > a.p.cap) { // the list is full: the best of this row that still fit
            first = first < a.p.cap ? first : a.p.cap;
            take = (int) (a.p.cap - first);
            th = row_threshold(r, a.p, take, bins + warp * SELECT_BINS);
            left = th.left;
        }
        take_row(id + first, r, a.p, th.key, left);
        if (lane == 0 && x0 + warp < l.n_bq) list[x0 + warp] = (int32_t) first;
        th.left -= mra_min(th.left, mra_warp_sum(of.y)); // of the head's
        n_out += mra_warp_sum(of.x + quota);
    }
    if (threadIdx.x == 0) list[l.n_bq] = (int32_t) (n_out < a.p.cap ? n_out : a.p.cap);
}

bool mra_cuda_supports_topk_blocks(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) p;
    (void) dst;
    (void) n_src;
    return src[0].ne[2] * src[0].ne[3] <= INT32_MAX;
}

int mra_cuda_topk_blocks(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    const struct mra_tensor &scores = src[0], *parents = mra_tensor_source(p, MRA_SRC_PARENTS, src),
                            *lengths = mra_tensor_source(p, MRA_SRC_LENGTHS, src);
    const int64_t n_list = scores.ne[2] * scores.ne[3];
    struct topk_args a = {};
    a.p = p->u.topk_blocks;
    a.level = level_of(a.p.level, &scores, parents, lengths, scores.ne[3]);
    a.dst = (int32_t *) dst.data;
    a.stride = mra_topk_layout_of(&a.p, n_list, scores.ne[0] * scores.ne[1]).stride;
    a.n_head = (int) scores.ne[2];
    const int n_warp = mra_min(a.level.n_bq, MAX_WARPS);
    return MRA_LAUNCH(topk_kernel, (unsigned) n_list, n_warp * MRA_WARP, n_warp * SELECT_BINS * sizeof(int), stream, a);
}
