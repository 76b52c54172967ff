// The scores by which a thread block of the columns kernel chooses: the mean queries of its query blocks, as rows of
// tensor-core products with keys, with bounds of key blocks, and with their means. 32 columns at a time, as
// columns-choose.cuh takes them. Mean queries are two parts of F16, so that scores are as in F32; keys are F16.
#pragma once

#include "columns-choose.cuh"
#include "sequence.cuh"
#include "tile.cuh"

enum { H = MRA_QUERY_BLOCK, N = MRA_DEVICE_KEYS };
static_assert((int) SELECT_BINS == (int) MRA_DEVICE_BINS && sizeof(half) == MRA_DEVICE_HALF &&
        (int) tile_row<64>::LD == 64 + (int) MRA_DEVICE_ROW_PAD && (int) STEP == (int) MRA_DEVICE_STEP,
    "device-pack.h says the same");

// the query blocks of a thread block
struct group {
    struct sequence s;
    int is, head, head_kv;
    int x0, n; // first query block, how many
    int n_b;   // key blocks
    int log_g;
    const char *k, *v; // of the head
    uint4 * means;     // shared [rows/16][2][D/16][32]: mean queries as fragments of mma's first factor, and what they
                       // lack
    float * coarse;    // [rows][D], in the same place: o of the coarse states
    struct choice_memory choose;
    char * tiles;
    uint32_t * taken; // bits [columns/32][rows] of keys
    int expanded;     // words behind `taken`: bits of key blocks
    int * kept;       // of this warp: keys of a query block
    struct sorted_head sorted;
};
template <int D> struct parts {
    enum { N32 = (D + 31) / 32, N16 = N32 * 2 };
};

// where row r of query block x lies in its tensors; in the sorted frame padding stays behind the queries
template <bool SORTED> MRA_DEVICE int query_at(const struct group & b, int x, int r) {
    const int i = x * H + r;
    return SORTED && i < b.s.n_q ? b.sorted.order[i] : i;
}
// sorted: do queries of row r use all keys?
template <bool SORTED> MRA_DEVICE bool uses_all(const struct group & b, int r) {
    return SORTED && b.sorted.all_keys[b.x0 + r];
}
// its first key block of all
MRA_DEVICE int64_t block_of(const struct attn_args & a, const struct group & b) {
    return b.head_kv * a.pack.n_b + first_block(a, b.s, b.is);
}
template <int D> MRA_DEVICE int warp_of() { return mra_device_warps(D) == 1 ? 0 : threadIdx.x / MRA_WARP; }
template <int D> MRA_DEVICE int warps() { // fewer than there may be where shared memory is small
    return mra_device_rows(D) > 16 ? (int) blockDim.x / MRA_WARP : mra_device_warps(D);
}
// Warps that have the same steps of keys, and each 16 of the rows.
template <int D> struct pair {
    enum { N = mra_device_rows(D) / 16 };
};

// ---- scores of mean queries ----

// Channel c of row r -> both parts. Products may take channels in any order: lane l's 16 bytes of a key are 8
// neighbouring channels, so channel c is the lane's word (c%8)/2 of c/32.
template <int D> MRA_DEVICE void set_mean(const struct group & b, int r, int c, float x) {
    const half hi = __float2half_rn(x), lo = __float2half_rn(x - __half2float(hi));
    const int part = r / 16 * 2 * parts<D>::N16 + c / 32 * 2 + c % 8 / 4, lane = r % 8 * 4 + c % 32 / 8,
              word = r % 16 / 8 + c % 4 / 2 * 2;
    half * at = (half *) (b.means + part * MRA_WARP + lane) + word * 2 + c % 2;
    at[0] = hi;
    at[parts<D>::N16 * MRA_WARP * 8] = lo;
}
template <int D, bool SORTED> MRA_DEVICE void mean_queries(const struct attn_args & a, const struct group & b) {
    const int lane = threadIdx.x % MRA_WARP, d = (int) a.q.ne[0];
    for (int r = warp_of<D>(); r < mra_device_rows(D); r += warps<D>()) {
        const int x = b.x0 + r, n = min(H, b.s.n_q - x * H);
        const char * q = row_at(a.q, b.s, b.head, x * H);
        const float * mean = SORTED ? b.sorted.q_mean + (int64_t) x * a.order.dim : NULL;
        for (int c = lane; c < parts<D>::N32 * 32; c += MRA_WARP) {
            float sum = 0.0f;
            if (r < b.n && c < d) {
                if (SORTED) sum = mean[c];
                else {
                    for (int i = 0; i < n; i++) sum += ((const float *) (q + i * a.q.nb[1]))[c];
                    sum /= n;
                }
            }
            set_mean<D>(b, r, c, sum);
        }
    }
}

enum sign { ANY, POSITIVE, NEGATIVE }; // which of a mean query's channels count
// the halves of x where those of `of` are positive, or negative
template <sign S> MRA_DEVICE uint32_t with_sign(uint32_t x, uint32_t of) {
    const uint32_t negative = (of >> 15 & 0x00010001u) * 0xffffu;
    return S == ANY ? x : S == NEGATIVE ? x & negative : x & ~negative;
}

// Rows of F16 that mean queries are multiplied with: n of them, of d channels
struct rows {
    const char * at;
    uint32_t nb; // bytes from one to the next
    int n;
};

// Tiles of the 32 keys of a step that two warps share: [STEP][D] without gaps. Of every other row both halves change
// places, so that 8 lanes, which read half of two rows, read from different banks.
template <int D> MRA_DEVICE int swapped(int row) { return D == 64 ? row % 2 : 0; }
// by both warps, behind the last key that one again
template <int D> MRA_DEVICE void load_keys(half * tile, const struct attn_args & a, const struct group & b, int step) {
    enum { PIECES = D / 8, THREADS = 2 * MRA_WARP };
    const int thread = threadIdx.x % THREADS, d = (int) a.k.ne[0];
#pragma unroll
    for (int t = 0; t < STEP * PIECES / THREADS; t++) {
        const int i = t * THREADS + thread, r = i / PIECES, c = i % PIECES * 8, to = (c + swapped<D>(r) * 32) % D;
        mra_copy16(tile + r * D + to,
            at_channel(b.k, c, d) + (uint64_t) (uint32_t) min(step * STEP + r, b.s.n_k - 1) * a.kh.token,
            bytes_of(c, d));
    }
}

// s += mean queries times the rows of a step, of which a lane has columns 8t + lane/4; behind the last row that one
// again. LO: with what the means lack in F16; TILE: rows of load_keys
template <int D, sign S, bool LO, bool TILE = false>
MRA_DEVICE void add_products(
    float (&s)[4][4], const struct attn_args & a, const struct group & b, const struct rows & rows, int step) {
    const int lane = threadIdx.x % MRA_WARP, d = (int) a.k.ne[0];
    const uint4 * means = b.means + b.choose.row0 / 16 * 2 * parts<D>::N16 * MRA_WARP;
    int row[4];
#pragma unroll
    for (int t = 0; t < 4; t++) row[t] = min(step * STEP + t * 8 + lane / 4, rows.n - 1);
#pragma unroll(D <= 64 ? parts <D>::N32 : 1) // there are too few registers for more
    for (int p = 0; p < parts<D>::N32; p++) {
        uint32_t q[1 + LO][2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint4 whole = means[(2 * p + i) * MRA_WARP + lane];
            const uint32_t of[4] = { whole.x, whole.y, whole.z, whole.w };
#pragma unroll
            for (int part = 0; part <= LO; part++) {
                const uint4 x = part ? means[(parts<D>::N16 + 2 * p + i) * MRA_WARP + lane] : whole;
                const uint32_t w[4] = { x.x, x.y, x.z, x.w };
#pragma unroll
                for (int t = 0; t < 4; t++) q[part][i][t] = with_sign<S>(w[t], of[t]);
            }
        }
        const int c = (TILE ? p ^ swapped<D>(lane / 4) : p) * 32 + lane % 4 * 8;
        const bool there = TILE || c < d;
        const char * at = there ? rows.at + c * sizeof(half) : a.mem + a.pack.zeros;
        const uint32_t nb = there ? rows.nb : 0;
#pragma unroll
        for (int t = 0; t < 4; t++) {
            const uint4 k = *(const uint4 *) (at + (uint64_t) (uint32_t) row[t] * nb);
            const uint32_t k0[2] = { k.x, k.y }, k1[2] = { k.z, k.w };
#pragma unroll
            for (int part = 0; part <= LO; part++) {
                mra_mma_16x8x16(s[t], q[part][0], k0);
                mra_mma_16x8x16(s[t], q[part][1], k1);
            }
        }
    }
}
MRA_DEVICE void clear_scores(float (&s)[4][4]) {
#pragma unroll
    for (int t = 0; t < 4; t++) s[t][0] = s[t][1] = s[t][2] = s[t][3] = 0.0f;
}

// q~.k of the keys of a step
template <int D>
MRA_DEVICE void key_scores(float (&s)[4][4], const struct attn_args & a, const struct group & b, int step) {
    clear_scores(s);
    add_products<D, ANY, true>(s, a, b, { b.k, a.kh.token, b.s.n_k }, step);
}

template <int D>
MRA_DEVICE void tile_key_scores(
    float (&s)[4][4], const struct attn_args & a, const struct group & b, const half * tile) {
    clear_scores(s);
    add_products<D, ANY, true, true>(s, a, b, { (const char *) tile, D * sizeof(half), STEP }, 0);
}

enum block_score { BOUND, POOLED }; // the bound of q~.k, or q~.k~
// of the key blocks of a step
template <int D, block_score KIND>
MRA_DEVICE void block_scores(float (&s)[4][4], const struct attn_args & a, const struct group & b, int step) {
    const uint32_t row = (uint32_t) a.k.ne[0] * sizeof(half), nb = MRA_DEVICE_STATS * row;
    const char * stat = a.mem + a.pack.k_stat + block_of(a, b) * nb;
    clear_scores(s);
    if (KIND == BOUND) {
        add_products<D, POSITIVE, true>(s, a, b, { stat, nb, b.n_b }, step);
        add_products<D, NEGATIVE, true>(s, a, b, { stat + row, nb, b.n_b }, step);
    } else {
        add_products<D, ANY, true>(s, a, b, { stat + 2 * row, nb, b.n_b }, step);
        add_products<D, ANY, false>(s, a, b, { stat + 3 * row, nb, b.n_b }, step);
    }
}

MRA_DEVICE float largest_bias(const struct group & b, int y) {
    float top = -INFINITY;
    for (int j = y << b.log_g; j < min((y + 1) << b.log_g, b.s.n_k); j++) top = fmaxf(top, b.sorted.key_bias[j]);
    return top;
}

// what the key blocks of a step are chosen by
template <int D, bool SORTED>
MRA_DEVICE void block_choices(float (&s)[4][4], const struct attn_args & a, const struct group & b, int step) {
    const int first_n = a.node.u.attn.first_n, diag_n = a.node.u.attn.diag_n;
    if (b.s.plan.bound) block_scores<D, BOUND>(s, a, b, step);
    else block_scores<D, POOLED>(s, a, b, step);
    if (!SORTED && !first_n && !diag_n) return;
    const float bias = SORTED ? largest_bias(b, step * STEP + (int) threadIdx.x % MRA_WARP) : 0.0f;
#pragma unroll
    for (int t = 0; t < 4; t++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int col = column_of_lane(t, e % 2), y = step * STEP + col, x = b.x0 + row_of_lane(b.choose, e / 2);
            if (SORTED) s[t][e] += __shfl_sync(MRA_ALL_LANES, bias, col);
            if (first_n || diag_n)
                s[t][e] = mra_named_key(s[t][e], mra_columns_priors(first_n, diag_n, b.s.plan.g, x, y));
        }
    }
}

// sorted: scores -> what keys are chosen by
template <bool SORTED> MRA_DEVICE void add_bias(float (&s)[4][4], const struct group & b, int step) {
#pragma unroll
    for (int t = 0; t < 4 && SORTED; t++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float bias = b.sorted.key_bias[min(step * STEP + column_of_lane(t, e), b.s.n_k - 1)];
            s[t][e] += bias;
            s[t][e + 2] += bias;
        }
    }
}
