// dst[x][y] = scale * q_x.k_y, or the bound scale * sum_c max(q_xc kmin_yc, q_xc kmax_yc): of all cells, or of the
// children of listed ones
#include "cells.cuh"
#include "cuda.h"

enum {
    THREADS = 128,
    CHUNK = 32,
    LD = CHUNK + 4
}; // channels at a time; LD: rows 16 bytes apart in the banks, so that 8 lanes read 8 rows at once

struct score_args {
    struct strided q, k, k_max;
    float * dst; // all cells: [n_batch][n_head][n_bq][n_bk]; children: [n_batch][n_head][cap][rh][rg]
    struct level level;
    int64_t head_size;    // of dst
    int d, n_head, group; // group: heads of q per head of k
    int n_x, n_col;       // tiles of rows (of each parent row) and of columns
    float scale;
    bool aligned;
};

// columns of a tile: key blocks [first, ...), or children of the parents that one parent row lists
struct columns {
    const int32_t * id;
    int first, n, rg, cols;
};
MRA_DEVICE int column(const struct columns & c, int i) { // -1: no such cell
    const int t = c.first + i;
    if (t >= c.n) return -1;
    const int y = c.id ? c.id[t / c.rg] * c.rg + t % c.rg : t;
    return y < c.cols ? y : -1;
}

// CHUNK channels from c0 on of `rows` rows; zeros where there is none
template <class F> MRA_DEVICE void load_tile(float * s, int rows, int c0, int d, bool aligned, const F & row) {
    for (int i = threadIdx.x; i < rows * (CHUNK / 4); i += THREADS) {
        const int r = i / (CHUNK / 4), c = i % (CHUNK / 4) * 4;
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
    const int tile = blockIdx.x, head = blockIdx.y, batch = blockIdx.z, hk = head / a.group;
    const int tx = tile / a.n_col % a.n_x, parent = tile / a.n_col / a.n_x;
    const struct mra_len len = length_at(l.len, batch, l.n_q, l.n_k);
    struct columns cols = { nullptr, tile % a.n_col * BN, l.n_bk, 1, mra_div_up(len.n_k, l.g) };
    int x_end = l.n_bq, x0 = tx * BM; // rows of this tile
    float * dst = a.dst + ((int64_t) batch * a.n_head + head) * a.head_size;
    if (l.parents.data) {
        const int32_t * off = list_of(l.parents, head, batch) + parent;
        cols.id = list_of(l.parents, head, batch) + l.n_parent_row + 1 + off[0];
        cols.n = (off[1] - off[0]) * l.rg;
        cols.rg = l.rg;
        x0 += parent * l.rh;
        x_end = (parent + 1) * l.rh;
        dst += (int64_t) off[0] * l.rh * l.rg;
    }
    if (cols.first >= cols.n) return;
    const int rows = mra_div_up(len.n_q, l.h), x_last = mra_min(x_end, rows);

    float acc[4][TN] = {};
    const float *q0 = row_of(a.q, 0, head, batch), *k0 = row_of(a.k, 0, hk, batch),
                *m0 = BOUND ? row_of(a.k_max, 0, hk, batch) : nullptr;
    const int tr = threadIdx.x / CG * 4, tc = threadIdx.x % CG;
    for (int c0 = 0; c0 < a.d; c0 += CHUNK) {
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
        for (int c = 0; c < CHUNK; c += 4) {
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
            if (cols.id) dst[((int64_t) (t / l.rg) * l.rh + x % l.rh) * l.rg + t % l.rg] = s;
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
    int at = 2;
    const struct mra_tensor *k_max = next_source(p, MRA_HAS_K_MAX, src, &at),
                            *parents = next_source(p, MRA_HAS_PARENTS, src, &at);
    const struct mra_tensor * lengths = next_source(p, MRA_HAS_LENGTHS, src, &at);
    struct score_args a = {};
    a.q = strided_of(src[0]);
    a.k = strided_of(src[1]);
    if (k_max) a.k_max = strided_of(*k_max);
    a.dst = (float *) dst.data;
    a.level = level_of(
        p->u.block_score.shape, p->u.block_score.n_q, p->u.block_score.n_k, nullptr, parents, lengths, src[0].ne[3]);
    a.head_size = dst.ne[0] * dst.ne[1];
    a.d = (int) src[0].ne[0];
    a.n_head = (int) src[0].ne[2];
    a.group = (int) (src[0].ne[2] / src[1].ne[2]);
    a.scale = p->u.block_score.scale;
    a.aligned = aligned16(src[0]) && aligned16(src[1]) && (!k_max || aligned16(*k_max));
    const bool small = parents && a.level.rh <= 4; // few rows share a list of columns
    const int rows = parents ? a.level.rh : a.level.n_bq, n_parent = parents ? a.level.n_parent_row : 1;
    a.n_x = mra_div_up(rows, small ? 4 : 32);
    a.n_col = mra_div_up(a.level.n_bk, small ? 128 : 64); // a parent row lists no column twice
    const dim3 grid((unsigned) (a.n_col * a.n_x * n_parent), (unsigned) dst.ne[2], (unsigned) dst.ne[3]);
    if (small) return MRA_LAUNCH((score_kernel<1, 1, false>), grid, THREADS, 0, stream, a);
    if (k_max) return MRA_LAUNCH((score_kernel<8, 4, true>), grid, THREADS, 0, stream, a);
    return MRA_LAUNCH((score_kernel<8, 4, false>), grid, THREADS, 0, stream, a);
}
