// dst[x][y] = scale * q_x.k_y, or the bound scale * sum_c max(q_xc kmin_yc, q_xc kmax_yc): of all cells, or of the
// children of listed ones
#include "cells.cuh"
#include "cuda.h"

enum {
    THREADS = 128,
    CHANNELS = 32,
    LD = CHANNELS + 4
}; // channels at a time; LD: rows 16 bytes apart in the banks, so that 8 lanes read 8 rows at once

struct score_args {
    struct strided q, k, k_max;
    float * dst; // all cells: [n_batch][n_head][n_bq][n_bk]; children: [n_batch][n_head][cap][rh][rg]
    struct level level;
    int64_t head_size;           // of dst
    int d, n_head, heads_per_kv; // heads of q per head of k
    int n_x, n_col;              // tiles of rows (of each parent row) and of columns
    float scale;
    bool aligned;
};

// columns of a tile: candidates [first, n) of a row of cells
struct columns {
    struct mra_cell_row row;
    int first, n;
};
MRA_DEVICE int column(const struct columns & c, int i) { // -1: no such cell
    return mra_cell_at(&c.row, c.first + i, nullptr);
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

// Tile of RG*4 rows x (THREADS/RG)*TN columns; thread (r, c) has rows 4r.., columns c, c + THREADS/RG, ...
template <int RG, int TN, bool BOUND>
__global__ void __launch_bounds__(THREADS) score_kernel(const struct score_args a) {
    constexpr int BM = RG * 4, CG = THREADS / RG, BN = CG * TN;
    MRA_SHARED(float, sq, BM * LD);
    MRA_SHARED(float, sk, BN * LD);
    MRA_SHARED(float, sm, BOUND ? BN * LD : 4);
    const struct level & l = a.level;
    const int tile = blockIdx.x, head = blockIdx.y, batch = blockIdx.z, hk = head / a.heads_per_kv;
    const int tx = tile / a.n_col % a.n_x, parent = tile / a.n_col / a.n_x;
    const struct mra_len len = length_at(l, batch), all = { l.cells.n_q, len.n_k };
    const int child_rows = l.parents.data ? mra_child_rows(&l.cells) : 1;
    // rows of this tile; those behind the last valid row are -inf, so that they count here
    int x_end = l.n_bq, x0 = tx * BM;
    struct columns cols = { cells_of(l, l.parents.data ? parent * child_rows : 0, head, batch, all),
        tile % a.n_col * BN, l.n_bk };
    float * dst = a.dst + ((int64_t) batch * a.n_head + head) * a.head_size;
    int width = 1; // children side by side in a parent
    if (l.parents.data) {
        const struct mra_cell_list parents = parents_of(l, head, batch);
        const struct mra_cell_span entries = mra_list_row(&parents, parent);
        width = mra_child_cols(&l.cells);
        cols.n = (entries.end - entries.first) * width;
        x0 += parent * child_rows;
        x_end = (parent + 1) * child_rows;
        dst += (int64_t) entries.first * child_rows * width;
    }
    if (cols.first >= cols.n) return;
    const int rows = mra_div_up(len.n_q, l.cells.h), x_last = mra_min(x_end, rows);

    float acc[4][TN] = {};
    const float *q0 = row_of(a.q, 0, head, batch), *k0 = row_of(a.k, 0, hk, batch),
                *m0 = BOUND ? row_of(a.k_max, 0, hk, batch) : nullptr;
    const int tr = threadIdx.x / CG * 4, tc = threadIdx.x % CG;
    for (int c0 = 0; c0 < a.d; c0 += CHANNELS) {
        load_tile(sq, BM, c0, a.d, a.aligned, [&](int r) {
            return r < 0 ? q0 : x0 + r < x_last ? (const float *) ((const char *) q0 + (x0 + r) * a.q.row) : nullptr;
        });
        load_tile(sk, BN, c0, a.d, a.aligned, [&](int r) {
            const int y = r < 0 ? 0 : column(cols, r);
            return y < 0 ? nullptr : (const float *) ((const char *) k0 + y * a.k.row);
        });
        if (BOUND)
            load_tile(sm, BN, c0, a.d, a.aligned, [&](int r) {
                const int y = r < 0 ? 0 : column(cols, r);
                return y < 0 ? nullptr : (const float *) ((const char *) m0 + y * a.k_max.row);
            });
        mra_copy_commit();
        mra_copy_wait<0>();
        __syncthreads();
#pragma unroll 1
        for (int c = 0; c < CHANNELS; c += 4) {
            float4 q[4];
#pragma unroll
            for (int i = 0; i < 4; i++) q[i] = *(const float4 *) (sq + (tr + i) * LD + c);
#pragma unroll
            for (int j = 0; j < TN; j++) {
                const float4 k = *(const float4 *) (sk + (tc + j * CG) * LD + c);
                const float4 m = BOUND ? *(const float4 *) (sm + (tc + j * CG) * LD + c) : k;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if (BOUND) {
                        acc[i][j] += fmaxf(q[i].x * k.x, q[i].x * m.x);
                        acc[i][j] += fmaxf(q[i].y * k.y, q[i].y * m.y);
                        acc[i][j] += fmaxf(q[i].z * k.z, q[i].z * m.z);
                        acc[i][j] += fmaxf(q[i].w * k.w, q[i].w * m.w);
                    } else {
                        acc[i][j] = fmaf(q[i].x, k.x, acc[i][j]);
                        acc[i][j] = fmaf(q[i].y, k.y, acc[i][j]);
                        acc[i][j] = fmaf(q[i].z, k.z, acc[i][j]);
                        acc[i][j] = fmaf(q[i].w, k.w, acc[i][j]);
                    }
                }
            }
        }
        __syncthreads(); // before the next channels overwrite these
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int x = x0 + tr + i;
        if (x >= x_end) break;
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const int t = cols.first + tc + j * CG;
            if (t >= cols.n) break;
            const float s = x < rows && column(cols, tc + j * CG) >= 0 ? acc[i][j] * a.scale : -INFINITY;
            if (l.parents.data) dst[((int64_t) (t / width) * child_rows + x % child_rows) * width + t % width] = s;
            else dst[(int64_t) x * l.n_bk + t] = s;
        }
    }
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
    const int rows = parents ? child_rows : a.level.n_bq, n_parent = parents ? a.level.n_parent_row : 1;
    a.n_x = mra_div_up(rows, small ? 4 : 32);
    a.n_col = mra_div_up(a.level.n_bk, small ? 128 : 64); // a parent row lists no column twice
    const dim3 grid((unsigned) (a.n_col * a.n_x * n_parent), (unsigned) dst.ne[2], (unsigned) dst.ne[3]);
    if (small) return MRA_LAUNCH((score_kernel<1, 1, false>), grid, THREADS, 0, stream, a);
    if (k_max) return MRA_LAUNCH((score_kernel<8, 4, true>), grid, THREADS, 0, stream, a);
    return MRA_LAUNCH((score_kernel<8, 4, false>), grid, THREADS, 0, stream, a);
}
