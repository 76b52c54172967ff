// dst[x][y] = scale * q_x.k_y, or the bound scale * sum_c max(q_xc kmin_yc, q_xc kmax_yc): of all cells, or of the
// children of listed ones
#include "cells.cuh"
#include "cuda.h"

enum {
    THREADS = 128,
    CHANNELS = 32,    // at a time
    LD = CHANNELS + 4 // rows 16 bytes apart in the banks, so that 8 lanes read 8 rows at once
};

struct score_args {
    struct strided q, k, k_max;
    float * dst; // all cells: [n_batch][n_head][n_bq][n_bk]; children: [n_batch][n_head][cap][rh][rg]
    struct level level;
    int64_t head_size;           // of dst
    int d, n_head, heads_per_kv; // heads of q per head of k
    int n_x, n_col;              // tiles of rows (of each parent row); without parents also of columns
    float scale;
    bool aligned;
};

// The cells of one thread block: rows [x0, x_end), and as columns candidates [first, n) of a row of cells.
struct score_tile {
    int head, batch;
    int x0, x_end, n_valid; // rows from n_valid on are padding
    struct mra_cell_row candidates;
    int first, n;
    int child_rows, child_cols; // children of a parent: below each other, side by side; without parents 1 and 1
    float * dst;                // the head's; with parents the first one's of this parent row
};

// Tiles of `size` columns, numbered through the parent rows: those of row x begin at this one. A row has as many as its
// entries, of `cols` columns each, need, and at most one more.
MRA_DEVICE int64_t first_tile(const struct mra_cell_list & parents, int x, int cols, int size) {
    return x + (int64_t) mra_list_row(&parents, x).first * cols / size;
}
// the parent row of tile number `tile`, by a warp
MRA_DEVICE int row_of_tile(const struct mra_cell_list & parents, int tile, int cols, int size) {
    int first = 0, n = parents.n_row; // it is one of these
    while (n > 1) {
        const int step = mra_div_up(n, MRA_WARP), at = threadIdx.x % MRA_WARP * step;
        const uint32_t begun = __ballot_sync(
            MRA_ALL_LANES, at < n && first_tile(parents, first + at, cols, size) <= tile);
        const int last = begun ? 31 - __clz((int) begun) : 0;
        first += last * step;
        n = mra_min(step, n - last * step);
    }
    return first;
}

MRA_DEVICE struct score_tile tile_of(const struct score_args & a, int n_row, int n_col) {
    const struct level & l = a.level;
    struct score_tile t;
    t.head = blockIdx.y;
    t.batch = blockIdx.z;
    t.child_rows = t.child_cols = 1;
    int parent = 0, tile_row, tile_col;
    const struct mra_cell_list parents = parents_of(l, t.head, t.batch);
    if (parents.offsets) {
        t.child_rows = mra_child_rows(&l.cells);
        t.child_cols = mra_child_cols(&l.cells);
        const int tile = blockIdx.x / a.n_x;
        parent = row_of_tile(parents, tile, t.child_cols, n_col);
        tile_row = blockIdx.x % a.n_x;
        const int64_t at = tile - first_tile(parents, parent, t.child_cols, n_col);
        tile_col = at > 0 ? (int) at : 0; // lists are data
    } else {
        tile_row = blockIdx.x / a.n_col;
        tile_col = blockIdx.x % a.n_col;
    }
    // padding rows get -inf, so they count as rows here
    const struct mra_len len = length_at(l, t.batch), all = { l.cells.n_q, len.n_k };
    t.n_valid = mra_div_up(len.n_q, l.cells.h);
    t.candidates = cells_of(l, parent * t.child_rows, t.head, t.batch, all);
    t.x0 = tile_row * n_row;
    t.x_end = l.n_bq;
    t.first = tile_col * n_col;
    t.n = l.n_bk;
    t.dst = a.dst + ((int64_t) t.batch * a.n_head + t.head) * a.head_size;
    if (parents.offsets) {
        const struct mra_cell_span entries = mra_list_row(&parents, parent);
        t.n = (entries.end - entries.first) * t.child_cols;
        t.x0 += parent * t.child_rows;
        t.x_end = (parent + 1) * t.child_rows;
        t.dst += (int64_t) entries.first * t.child_rows * t.child_cols;
    }
    return t;
}
MRA_DEVICE int column(const struct score_tile & t, int i) { // -1: no such cell
    return mra_cell_at(&t.candidates, t.first + i, nullptr);
}

// CHANNELS channels from c0 on of `rows` rows; zeros where there is none
template <class F> MRA_DEVICE void load_tile(float * s, int rows, int c0, int d, bool aligned, const F & row) {
    for (int i = threadIdx.x; i < rows * (CHANNELS / 4); i += THREADS) {
        const int r = i / (CHANNELS / 4), c = i % (CHANNELS / 4) * 4;
        const float * src = row(r);
        const bool there = src && c0 + c < d;
        if (aligned) mra_copy16(s + r * LD + c, there ? src + c0 + c : row(-1), there ? 16 : 0);
        else *(float4 *) (s + r * LD + c) = there ? load4(src + c0 + c, false) : make_float4(0, 0, 0, 0);
    }
}

// rows of K, or of its maxima, for the columns of a tile
MRA_DEVICE void load_columns(
    float * s, int n_col, int c0, const struct score_args & a, const struct strided & k, const struct score_tile & t) {
    const float * first = row_of(k, 0, t.head / a.heads_per_kv, t.batch);
    load_tile(s, n_col, c0, a.d, a.aligned, [&](int r) {
        const int y = r < 0 ? 0 : column(t, r);
        return y < 0 ? nullptr : (const float *) ((const char *) first + y * k.row);
    });
}

// sum + q.k of 4 channels, or the bound of it: k has their minima, m their maxima
template <bool BOUND> MRA_DEVICE float add_product(float sum, float4 q, float4 k, float4 m) {
    if (BOUND) {
        sum += fmaxf(q.x * k.x, q.x * m.x);
        sum += fmaxf(q.y * k.y, q.y * m.y);
        sum += fmaxf(q.z * k.z, q.z * m.z);
        return sum + fmaxf(q.w * k.w, q.w * m.w);
    }
    return fmaf(q.w, k.w, fmaf(q.z, k.z, fmaf(q.y, k.y, fmaf(q.x, k.x, sum))));
}

// acc[i][j] += the products of CHANNELS channels: rows q, q + LD, ..., columns k, k + STEP*LD, ... (m likewise)
template <int STEP, int TN, bool BOUND>
MRA_DEVICE void add_channels(float (&acc)[4][TN], const float * q_rows, const float * k_rows, const float * m_rows) {
#pragma unroll 1
    for (int c = 0; c < CHANNELS; c += 4) {
        float4 q[4];
#pragma unroll
        for (int i = 0; i < 4; i++) q[i] = *(const float4 *) (q_rows + i * LD + c);
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const float4 k = *(const float4 *) (k_rows + j * STEP * LD + c);
            const float4 m = BOUND ? *(const float4 *) (m_rows + j * STEP * LD + c) : k;
#pragma unroll
            for (int i = 0; i < 4; i++) acc[i][j] = add_product<BOUND>(acc[i][j], q[i], k, m);
        }
    }
}

// acc of rows x0 + row + i and columns col + j*STEP of the tile
template <int STEP, int TN>
MRA_DEVICE void store_scores(
    const struct score_args & a, const struct score_tile & t, const float (&acc)[4][TN], int row, int col) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int x = t.x0 + row + i;
        if (x >= t.x_end) break;
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const int y = t.first + col + j * STEP; // of the candidates
            if (y >= t.n) break;
            const float s = x < t.n_valid && column(t, col + j * STEP) >= 0 ? acc[i][j] * a.scale : -INFINITY;
            if (!a.level.parents.data) t.dst[(int64_t) x * a.level.n_bk + y] = s;
            else {
                const int64_t child_row = (int64_t) (y / t.child_cols) * t.child_rows + x % t.child_rows;
                t.dst[child_row * t.child_cols + y % t.child_cols] = s;
            }
        }
    }
}

// THREAD_ROWS x STEP threads share a tile of THREAD_ROWS*4 rows x STEP*TN columns; thread (r, c) has rows 4r..4r + 3,
// columns c, c + STEP, ...
template <int THREAD_ROWS, int TN, bool BOUND>
__global__ void __launch_bounds__(THREADS) score_kernel(const struct score_args a) {
    constexpr int STEP = THREADS / THREAD_ROWS, BM = THREAD_ROWS * 4, BN = STEP * TN;
    MRA_SHARED(float, sq, BM * LD);
    MRA_SHARED(float, sk, BN * LD);
    MRA_SHARED(float, sm, BOUND ? BN * LD : 4);
    const struct score_tile t = tile_of(a, BM, BN);
    if (t.first >= t.n) return;
    const int row = threadIdx.x / STEP * 4, col = threadIdx.x % STEP, x_last = mra_min(t.x_end, t.n_valid);
    const float * q0 = row_of(a.q, 0, t.head, t.batch);
    float acc[4][TN] = {};
    for (int c0 = 0; c0 < a.d; c0 += CHANNELS) {
        load_tile(sq, BM, c0, a.d, a.aligned, [&](int r) {
            return r < 0            ? q0
                : t.x0 + r < x_last ? (const float *) ((const char *) q0 + (t.x0 + r) * a.q.row)
                                    : nullptr;
        });
        load_columns(sk, BN, c0, a, a.k, t);
        if (BOUND) load_columns(sm, BN, c0, a, a.k_max, t);
        mra_copy_commit();
        mra_copy_wait<0>();
        __syncthreads();
        add_channels<STEP, TN, BOUND>(acc, sq + row * LD, sk + col * LD, sm + (BOUND ? col * LD : 0));
        __syncthreads(); // before the next channels overwrite these
    }
    store_scores<STEP, TN>(a, t, acc, row, col);
}

bool mra_cuda_supports_block_score(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) p;
    (void) n_src;
    return src[0].ne[0] % 4 == 0 && dst->ne[2] <= 65535 && dst->ne[3] <= 65535;
}

int mra_cuda_block_score(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    const struct mra_tensor *k_max = mra_tensor_source(p, MRA_SRC_K_MAX, src),
                            *parents = mra_tensor_source(p, MRA_SRC_PARENTS, src),
                            *lengths = mra_tensor_source(p, MRA_SRC_LENGTHS, src);
    struct score_args a = {};
    a.q = strided_of(src[0]);
    a.k = strided_of(src[1]);
    if (k_max) a.k_max = strided_of(*k_max);
    a.dst = (float *) dst.data;
    a.level = level_of(p->u.block_score.level, nullptr, parents, lengths, src[0].ne[3]);
    a.head_size = dst.ne[0] * dst.ne[1];
    a.d = (int) src[0].ne[0];
    a.n_head = (int) src[0].ne[2];
    a.heads_per_kv = (int) (src[0].ne[2] / src[1].ne[2]);
    a.scale = p->u.block_score.scale;
    a.aligned = aligned16(src[0]) && aligned16(src[1]) && (!k_max || aligned16(*k_max));
    const int child_rows = mra_child_rows(&a.level.cells);
    const bool small = parents && child_rows <= 4; // few rows share a list of columns
    const int rows = parents ? child_rows : a.level.n_bq, n_col = small ? 128 : 64;
    a.n_x = mra_div_up(rows, small ? 4 : 32);
    a.n_col = mra_div_up(a.level.n_bk, n_col);
    // as many as the parents' list has room for, not as many as there are cells: see first_tile
    const int64_t n_tile = parents
        ? a.level.n_parent_row + (int64_t) a.level.parent_cap * mra_child_cols(&a.level.cells) / n_col
        : a.n_col;
    if (n_tile * a.n_x > INT32_MAX) return MRA_CUDA_UNSUPPORTED;
    const dim3 grid((unsigned) (n_tile * a.n_x), (unsigned) dst.ne[2], (unsigned) dst.ne[3]);
    if (small) return MRA_LAUNCH((score_kernel<1, 1, false>), grid, THREADS, 0, stream, a);
    if (k_max) return MRA_LAUNCH((score_kernel<8, 4, true>), grid, THREADS, 0, stream, a);
    return MRA_LAUNCH((score_kernel<8, 4, false>), grid, THREADS, 0, stream, a);
}
