// What a level's unrefined cells add to the softmax state (o[dv], max, sum) of each row of cells: e^{score} g' v~ each
#include "cells.cuh"
#include "cuda.h"

enum { THREADS = 128, WARPS = THREADS / MRA_WARP };

struct coarse_args {
    struct level level;
    struct strided refined, v, state; // state.data NULL: the coarsest level
    int refined_cap;
    float * dst; // [n_batch][n_head][n_bq][dv + 2]
    int dv, n_head;
    int heads_per_kv; // heads of scores per head of v
    int per_row;      // threads that share a row of v, 4 channels each; a power of two
    bool aligned;
    bool dropped; // cells count for nothing
};

// is col among id[0..n), ascending?
MRA_DEVICE bool has_column(const int32_t * id, int n, int col) {
    int lo = 0;
    while (n > 0) {
        const int half_n = n / 2;
        if (id[lo + half_n] < col) {
            lo += half_n + 1;
            n -= half_n + 1;
        } else if (id[lo + half_n] > col) n = half_n;
        else return true;
    }
    return false;
}

// The row of cells of one thread block, and which of its columns are refined.
struct coarse_row {
    int x, head, batch;
    struct mra_len len;
    struct mra_cell_row cells;
    const int32_t * taken; // [n_taken] refined columns, ascending
    int n_taken;
};

MRA_DEVICE struct coarse_row row_of_block(const struct coarse_args & a) {
    const struct level & l = a.level;
    struct coarse_row r;
    r.x = blockIdx.x % l.n_bq;
    r.head = blockIdx.x / l.n_bq % a.n_head;
    r.batch = blockIdx.x / l.n_bq / a.n_head;
    r.len = length_at(l, r.batch);
    r.cells = cells_of(l, r.x, r.head, r.batch, r.len);
    const struct mra_cell_list refined = { list_of(a.refined, r.head, r.batch), l.n_bq, a.refined_cap };
    const struct mra_cell_span entries = mra_list_row(&refined, r.x);
    r.taken = mra_list_columns(&refined) + entries.first;
    r.n_taken = entries.end - entries.first;
    return r;
}

// column and score of candidate t; the score is -inf where there is no cell, or a refined one
MRA_DEVICE int unrefined_cell(const struct coarse_row & r, int t, float * score) {
    *score = -INFINITY;
    const int col = mra_cell_at(&r.cells, t, score);
    if (col < 0 || has_column(r.taken, r.n_taken, col)) *score = -INFINITY;
    return col;
}

// out[0..dv) = sum over the teams of o, 4 channels from c on each; out[dv], out[dv + 1] = max, sum
MRA_DEVICE void store_state(float * out, const struct coarse_args & a, float4 * part, float4 o, float max, float sum) {
    const int n_team = THREADS / a.per_row, c = threadIdx.x * 4;
    part[threadIdx.x] = o;
    __syncthreads();
    if ((int) threadIdx.x < a.per_row && c < a.dv) { // the first team
        for (int i = 1; i < n_team; i++) {
            const float4 p = part[i * a.per_row + threadIdx.x];
            o = make_float4(o.x + p.x, o.y + p.y, o.z + p.z, o.w + p.w);
        }
        out[c] = o.x;
        out[c + 1] = o.y;
        out[c + 2] = o.z;
        out[c + 3] = o.w;
    }
    if (threadIdx.x == 0) {
        out[a.dv] = max;
        out[a.dv + 1] = sum;
    }
}

// One block of threads per row of cells, THREADS cells at a time: a thread has a cell's weight, then each team of
// per_row threads adds rows of v.
__global__ void __launch_bounds__(THREADS) coarse_kernel(const struct coarse_args a) {
    MRA_SHARED(float, weight, THREADS);
    MRA_SHARED(int, column, THREADS);
    MRA_SHARED(float, warp_max, WARPS);
    MRA_SHARED(float, warp_sum, WARPS);
    MRA_SHARED(float4, part, THREADS);
    const struct coarse_row r = row_of_block(a);
    const int h = a.level.cells.h, g = a.level.cells.g;
    const int warp = threadIdx.x / MRA_WARP, lane = threadIdx.x % MRA_WARP;
    const int team = threadIdx.x / a.per_row, n_team = THREADS / a.per_row, c = threadIdx.x % a.per_row * 4;

    float max = -INFINITY, sum = 0;
    float4 o = make_float4(0, 0, 0, 0);
    if (a.state.data && r.x < mra_div_up(r.len.n_q, h)) {
        const float * s = row_of(a.state, r.x / mra_child_rows(&a.level.cells), r.head, r.batch);
        max = s[a.dv];
        sum = s[a.dv + 1];
        if (team == 0 && c < a.dv) o = load4(s + c, false);
    }
    for (int t0 = a.dropped ? r.cells.n : 0; t0 < r.cells.n; t0 += THREADS) {
        float s;
        const int col = unrefined_cell(r, t0 + threadIdx.x, &s);
        const float top = mra_warp_max(s);
        if (lane == 0) warp_max[warp] = top;
        __syncthreads();
        float next = max;
#pragma unroll
        for (int i = 0; i < WARPS; i++) next = fmaxf(next, warp_max[i]);
        const float base = next > -INFINITY ? next : 0; // nothing so far: all weights are 0
        const float corr = expf(max - base), w = s == -INFINITY ? 0 : mra_min(g, r.len.n_k - col * g) * expf(s - base);
        const float w_sum = mra_warp_sum(w);
        if (lane == 0) warp_sum[warp] = w_sum;
        weight[threadIdx.x] = w;
        column[threadIdx.x] = col;
        __syncthreads();
        max = next;
        sum *= corr;
#pragma unroll
        for (int i = 0; i < WARPS; i++) sum += warp_sum[i];
        o = make_float4(o.x * corr, o.y * corr, o.z * corr, o.w * corr);
        const int n = mra_min(THREADS, r.cells.n - t0);
        for (int j = team; c < a.dv && j < n; j += n_team) {
            const float f = weight[j];
            if (f == 0) continue; // refined: its mean need not be finite
            const float4 v = load4(row_of(a.v, column[j], r.head / a.heads_per_kv, r.batch) + c, a.aligned);
            o = make_float4(fmaf(f, v.x, o.x), fmaf(f, v.y, o.y), fmaf(f, v.z, o.z), fmaf(f, v.w, o.w));
        }
    }
    store_state(a.dst + (int64_t) blockIdx.x * (a.dv + 2), a, part, o, max, sum);
}

bool mra_cuda_supports_coarse_state(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) p;
    (void) n_src;
    return src[2].ne[0] % 4 == 0 && src[2].ne[0] <= 4 * THREADS && dst->ne[1] * dst->ne[2] * dst->ne[3] <= INT32_MAX;
}

int mra_cuda_coarse_state(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    const struct mra_tensor &scores = src[0], &v = src[2], *parents = mra_tensor_source(p, MRA_SRC_PARENTS, src),
                            *state = mra_tensor_source(p, MRA_SRC_STATE, src),
                            *lengths = mra_tensor_source(p, MRA_SRC_LENGTHS, src);
    struct coarse_args a = {};
    a.level = level_of(p->u.coarse_state.level, &scores, parents, lengths, scores.ne[3]);
    a.refined = strided_of(src[1]);
    a.refined_cap = (int) src[1].ne[0] - a.level.n_bq - 1;
    a.v = strided_of(v);
    if (state) a.state = strided_of(*state);
    a.dst = (float *) dst.data;
    a.dv = (int) v.ne[0];
    a.n_head = (int) scores.ne[2];
    a.heads_per_kv = (int) (scores.ne[2] / v.ne[2]);
    a.aligned = aligned16(v);
    a.dropped = p->flags & MRA_FLAG_FINEST_ONLY;
    a.per_row = 1;
    while (a.per_row * 4 < a.dv) a.per_row *= 2;
    return MRA_LAUNCH(coarse_kernel, (unsigned) (dst.ne[1] * dst.ne[2] * dst.ne[3]), THREADS, 0, stream, a);
}
