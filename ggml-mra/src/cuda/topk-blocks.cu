// list = the `count` best cells of each row of cells, or of the head; ties to the lower row, then the lower column.
// Bit-equal from run to run: only integers are counted atomically.
#include "cuda.h"
#include "topk-rows.cuh"

enum { MAX_WARPS = 20 }; // more would leave too few registers for each thread

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
            const int n = bins_total(total);
            if (n == 0) return { ~0u, 0 };
            th.left = m < n ? (int) m : n;
        }
        th.key = th.key << 8 | (uint32_t) select_bin(total, &th.left);
    }
    return th;
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

// ---- several thread blocks per head, where it has many rows: each step of topk_kernel is a launch ----

enum { GRID_WARPS = 8, GRID_ROWS = 32 }; // of a thread block
static_assert(4 * (int) SELECT_BINS == (int) MRA_TOPK_BINS, "node-params.h says the same");

// of one list, between launches
struct topk_scratch {
    int * bins; // [4][SELECT_BINS] of all rows: each byte of the keys; in the end the threshold's key
    int2 * row; // [n_bq] keys above the threshold and equal to it; then entries, and of them equal ones or -1: the best
    float * max; // [n_bq]
};
MRA_DEVICE struct topk_scratch scratch_of(const struct topk_args & a, int list) {
    int32_t * at = a.scratch + list * a.scratch_words;
    return { at, (int2 *) (at + MRA_TOPK_BINS), (float *) (at + MRA_TOPK_BINS + 2 * a.level.n_bq) };
}

// a thread block's list and rows
struct topk_part {
    int list, x0, x1;
    struct mra_len len;
    struct topk_scratch s;
    const struct topk_args & a;
    MRA_DEVICE_MEMBER struct mra_cell_row cells(int x) const {
        return cells_of(a.level, x, list % a.n_head, list / a.n_head, len);
    }
    MRA_DEVICE_MEMBER struct key_row row(int x) const {
        return { cells(x), x, a.p.rule == MRA_PLAN_ROWMAX ? s.max[x] : 0.0f };
    }
};
MRA_DEVICE struct topk_part part_of(const struct topk_args & a) {
    const int parts = mra_div_up(a.level.n_bq, GRID_ROWS), list = blockIdx.x / parts,
              x0 = blockIdx.x % parts * GRID_ROWS;
    const struct mra_len len = length_at(a.level, list / a.n_head);
    return { list, x0, mra_min(x0 + GRID_ROWS, mra_div_up(len.n_q, a.level.cells.h)), len, scratch_of(a, list), a };
}
MRA_DEVICE int64_t topk_wanted(const struct topk_args & a, struct mra_len len) { // by one thread: doubles
    const int64_t count = mra_topk_count(&a.p, len);
    return count < a.p.cap ? count : a.p.cap;
}

// what the first n bytes of the threshold are, by a warp
MRA_DEVICE struct threshold bins_threshold(const int * bins, int n, int64_t m) {
    struct threshold th = { 0, 0 };
    if (m <= 0) return { ~0u, 0 };
    for (int i = 0; i < n; i++) {
        if (i == 0) {
            const int sum = bins_total(bins);
            if (sum == 0) return { ~0u, 0 };
            th.left = m < sum ? (int) m : sum;
        }
        th.key = th.key << 8 | (uint32_t) select_bin(bins + i * SELECT_BINS, &th.left);
    }
    return th;
}

__global__ void __launch_bounds__(GRID_WARPS * MRA_WARP) topk_start(const struct topk_args a) {
    const struct topk_part t = part_of(a);
    for (int i = threadIdx.x; t.x0 == 0 && i < MRA_TOPK_BINS; i += blockDim.x) t.s.bins[i] = 0;
    for (int x = t.x0 + threadIdx.x / MRA_WARP; a.p.rule == MRA_PLAN_ROWMAX && x < t.x1; x += GRID_WARPS) {
        const float max = row_max(t.cells(x));
        if (threadIdx.x % MRA_WARP == 0) t.s.max[x] = max;
    }
}

// byte `level` of the keys, from the highest, of those whose bytes before are the threshold's
__global__ void __launch_bounds__(GRID_WARPS * MRA_WARP) topk_bins(const struct topk_args a, int level) {
    MRA_SHARED(int, bins, SELECT_BINS);
    MRA_SHARED(int64_t, wanted, 1);
    const struct topk_part t = part_of(a);
    if (threadIdx.x == 0) wanted[0] = topk_wanted(a, t.len);
    for (int i = threadIdx.x; i < SELECT_BINS; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    const struct threshold th = bins_threshold(t.s.bins, level, wanted[0]);
    for (int x = t.x0 + threadIdx.x / MRA_WARP; x < t.x1; x += GRID_WARPS)
        count_keys(bins, t.row(x), a.p, 24 - 8 * level, th.key);
    __syncthreads();
    for (int i = threadIdx.x; i < SELECT_BINS; i += blockDim.x)
        if (bins[i]) atomicAdd(&t.s.bins[level * SELECT_BINS + i], bins[i]);
}

__global__ void __launch_bounds__(GRID_WARPS * MRA_WARP) topk_count(const struct topk_args a) {
    MRA_SHARED(int, bins, GRID_WARPS * SELECT_BINS);
    MRA_SHARED(int64_t, wanted, 1);
    const struct topk_part t = part_of(a);
    const bool by_row = a.p.rule == MRA_PLAN_ROW;
    const int warp = threadIdx.x / MRA_WARP;
    if (threadIdx.x == 0) wanted[0] = by_row ? mra_topk_count(&a.p, t.len) : topk_wanted(a, t.len);
    __syncthreads();
    struct threshold th = { ~0u, 0 };
    if (!by_row) th = bins_threshold(t.s.bins, 4, wanted[0]);
    for (int x = t.x0 + warp; x < t.x1; x += GRID_WARPS) {
        const struct key_row r = t.row(x);
        if (by_row)
            th = row_threshold(r, a.p, wanted[0] < r.cells.n ? (int) wanted[0] : r.cells.n, bins + warp * SELECT_BINS);
        int2 n = count_row(r, a.p, th.key);
        if (by_row) n = make_int2(n.x + mra_min(n.y, th.left), 0);
        if (threadIdx.x % MRA_WARP == 0) t.s.row[x] = n;
    }
}

// where the rows of a list begin, by one warp; the threshold's key stays in the place of the bins
__global__ void __launch_bounds__(MRA_WARP) topk_offsets(const struct topk_args a) {
    const int list = blockIdx.x, lane = threadIdx.x, n_bq = a.level.n_bq;
    const struct topk_scratch s = scratch_of(a, list);
    const struct mra_len len = length_at(a.level, list / a.n_head);
    const int rows = mra_div_up(len.n_q, a.level.cells.h);
    int32_t * offsets = a.dst + list * a.stride;
    struct threshold th = { ~0u, 0 };
    if (a.p.rule != MRA_PLAN_ROW) th = bins_threshold(s.bins, 4, topk_wanted(a, len));
    int64_t n_out = 0; // by all rows before
    for (int x0 = 0; x0 < n_bq; x0 += MRA_WARP) {
        const int x = x0 + lane;
        const int2 of = x < rows ? s.row[x] : make_int2(0, 0);
        const int quota = mra_min(of.y, max(0, th.left - mra_warp_prefix(of.y))), n = of.x + quota;
        const int64_t first = n_out + mra_warp_prefix(n);
        const bool full = first + n > a.p.cap;
        const int from = (int) (first < a.p.cap ? first : a.p.cap);
        if (x < n_bq) offsets[x] = from;
        if (x < rows) s.row[x] = full ? make_int2(a.p.cap - from, -1) : make_int2(n, quota);
        th.left -= mra_min(th.left, mra_warp_sum(of.y)); // goes to rows behind
        n_out += mra_warp_sum(n);
    }
    __syncwarp(); // all lanes have read the bins
    if (lane > 0) return;
    offsets[n_bq] = (int32_t) (n_out < a.p.cap ? n_out : a.p.cap);
    s.bins[0] = (int) th.key;
}

__global__ void __launch_bounds__(GRID_WARPS * MRA_WARP) topk_take(const struct topk_args a) {
    MRA_SHARED(int, bins, GRID_WARPS * SELECT_BINS);
    const struct topk_part t = part_of(a);
    const int warp = threadIdx.x / MRA_WARP;
    int32_t *list = a.dst + t.list * a.stride, *id = list + a.level.n_bq + 1;
    for (int x = t.x0 + warp; x < t.x1; x += GRID_WARPS) {
        const struct key_row r = t.row(x);
        const int2 of = t.s.row[x];
        struct threshold th = { (uint32_t) t.s.bins[0], of.y };
        if (a.p.rule == MRA_PLAN_ROW || of.y < 0) th = row_threshold(r, a.p, of.x, bins + warp * SELECT_BINS);
        take_row(id + list[x], r, a.p, th.key, th.left);
    }
}

static int topk_grid(const struct topk_args & a, int64_t n_list, void * stream) {
    const unsigned n = (unsigned) (mra_div_up(a.level.n_bq, GRID_ROWS) * n_list), threads = GRID_WARPS * MRA_WARP;
    int rc = MRA_CUDA_OK;
    if (a.p.rule != MRA_PLAN_ROW) rc = MRA_LAUNCH(topk_start, n, threads, 0, stream, a);
    for (int level = 0; level < 4 && a.p.rule != MRA_PLAN_ROW && rc == MRA_CUDA_OK; level++)
        rc = MRA_LAUNCH(topk_bins, n, threads, 0, stream, a, level);
    if (rc == MRA_CUDA_OK) rc = MRA_LAUNCH(topk_count, n, threads, 0, stream, a);
    if (rc == MRA_CUDA_OK) rc = MRA_LAUNCH(topk_offsets, (unsigned) n_list, MRA_WARP, 0, stream, a);
    return rc == MRA_CUDA_OK ? MRA_LAUNCH(topk_take, n, threads, 0, stream, a) : rc;
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
    const struct mra_topk_layout layout = mra_topk_layout_of(&a.p, n_list, scores.ne[0] * scores.ne[1]);
    a.stride = layout.stride;
    a.n_head = (int) scores.ne[2];
    a.scratch = a.dst + layout.device;
    a.scratch_words = layout.device_words;
    if (layout.device_words && mra_div_up(a.level.n_bq, GRID_ROWS) * n_list <= INT32_MAX)
        return topk_grid(a, n_list, stream);
    const int n_warp = mra_min(a.level.n_bq, MAX_WARPS);
    return MRA_LAUNCH(topk_kernel, (unsigned) n_list, n_warp * MRA_WARP, n_warp * SELECT_BINS * sizeof(int), stream, a);
}
