// The softmax of 16 query rows in one warp, going on tile by tile: o_i = sum_j e^{s_ij - max_i} v_j, sum_i = sum_j
// e^{s_ij - max_i}. Fragments are those of mma.m16n8: lane l holds rows l/4 and l/4 + 8, columns 2*(l%4) and the one
// behind, of every 8.
#pragma once

#include "common.cuh"
#include "tile.cuh"

// The thread blocks of exact attention. D = 256: smaller tiles and fewer rows keep registers and shared memory within
// bounds
template <int D> struct attend_shape {
    enum {
        KEYS = D <= 128 ? 32 : 16,
        WARPS = D <= 128 ? 4 : 2,
        BLOCKS = D <= 64 ? 3 : 2
    }; // BLOCKS: that a multiprocessor holds at least
};

template <int D> struct softmax_state {
    float o[D / 8][4];
    float max[2], sum[2]; // scores times log2(e); sum: this lane's share
};

// every row starts from o[dv], max and sum; max = -inf: from nothing
template <int D> MRA_DEVICE void state_start(softmax_state<D> & st, const float * o, int dv, float max, float sum) {
    const int lane = threadIdx.x % MRA_WARP;
    const bool some = max > -INFINITY;
#pragma unroll
    for (int i = 0; i < D / 8; i++) {
        const int c = i * 8 + lane % 4 * 2;
        const bool in = some && c < dv;
        st.o[i][0] = st.o[i][2] = in ? o[c] : 0.0f;
        st.o[i][1] = st.o[i][3] = in ? o[c + 1] : 0.0f;
    }
    st.max[0] = st.max[1] = max;
    st.sum[0] = st.sum[1] = some && lane % 4 == 0 ? sum : 0.0f;
}

// 16 rows of Q in F16: in registers, or in shared memory where those are too few. rows: [16][LD]
template <int D, bool in_shared = (D > 128)> struct query_rows { uint32_t part[D / 16][4]; };
template <int D> struct query_rows<D, true> { half * rows; };
template <int D> struct query_shape {
    enum { SHARED = D > 128 ? 16 * tile_row<D>::LD : 0 };
}; // halves of shared memory

// channels [16c, 16c + 16) as mma's first factor
template <int D> MRA_DEVICE void query_part(uint32_t (&a)[4], const query_rows<D, false> & q, int c) {
#pragma unroll
    for (int t = 0; t < 4; t++) a[t] = q.part[c][t];
}
template <int D> MRA_DEVICE void query_part(uint32_t (&a)[4], const query_rows<D, true> & q, int c) {
    const int lane = threadIdx.x % MRA_WARP;
    mra_ldmatrix_x4<false>(a, q.rows + lane % 16 * tile_row<D>::LD + c * 16 + lane / 16 * 8);
}
template <int D> MRA_DEVICE void place_queries(query_rows<D, false> &, half *) {}
template <int D> MRA_DEVICE void place_queries(query_rows<D, true> & q, half * shared) { q.rows = shared; }
template <int D> MRA_DEVICE void set_query(query_rows<D, false> & q, int c, int t, int, int, uint32_t x) {
    q.part[c][t] = x;
}
template <int D> MRA_DEVICE void set_query(query_rows<D, true> & q, int, int, int row, int at, uint32_t x) {
    *(uint32_t *) (q.rows + row * tile_row<D>::LD + at) = x;
}

// rows that lie in order
struct rows_in_order {
    MRA_DEVICE_MEMBER int operator()(int r) const { return r; }
};

// q = sign times rows row(0), ..., row(n - 1) at `from` (nb bytes from row to row) and d channels of each; 0 behind
// them. A barrier of the warp has to follow.
template <int D, class R = rows_in_order>
MRA_DEVICE void load_queries(query_rows<D> & q, half * shared, const char * from, size_t nb, int n, int d,
    float sign = 1.0f, const R & row = R()) {
    const int lane = threadIdx.x % MRA_WARP;
    const bool pairs = ((uintptr_t) from | nb) % sizeof(float2) == 0; // else rows lie at odd places
    place_queries(q, shared);
    const int64_t at_row[2] = { row(min(lane / 4, n - 1)), row(min(lane / 4 + 8, n - 1)) };
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            const int r = lane / 4 + t % 2 * 8, at = c * 16 + t / 2 * 8 + lane % 4 * 2;
            const float * x = (const float *) (from + at_row[t % 2] * (int64_t) nb) + at;
            float2 y = make_float2(0.0f, 0.0f);
            if (r < n && at < d) y = pairs ? *(const float2 *) x : make_float2(x[0], x[1]);
            set_query(q, c, t, r, at, mra_pack_half2(y.x * sign, y.y * sign));
        }
    }
}

// q.k of N keys, of which the first n count, the others get -inf. k: rows of a tile
template <int D, int N>
MRA_DEVICE void tile_scores(float (&s)[N / 8][4], const query_rows<D> & q, const half * k, int n) {
    const int lane = threadIdx.x % MRA_WARP, LD = tile_row<D>::LD;
#pragma unroll
    for (int j = 0; j < N / 8; j++) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.0f;
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        uint32_t a[4];
        query_part<D>(a, q, c);
#pragma unroll
        for (int j = 0; j < N / 16; j++) {
            uint32_t b[4];
            mra_ldmatrix_x4<false>(b, k + (j * 16 + lane % 8 + lane / 16 * 8) * LD + c * 16 + lane / 8 % 2 * 8);
            const uint32_t b0[2] = { b[0], b[1] }, b1[2] = { b[2], b[3] };
            mra_mma_16x8x16(s[2 * j], a, b0);
            mra_mma_16x8x16(s[2 * j + 1], a, b1);
        }
    }
    if (n >= N) return; // all tiles but the last
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
#pragma unroll
        for (int t = 0; t < 4; t++) s[j][t] = j * 8 + lane % 4 * 2 + t % 2 < n ? s[j][t] : -INFINITY;
    }
}

// Row r of a lane goes on with these scores, which become weights; returns what has to be multiplied into o.
template <int D, int N> MRA_DEVICE float row_weights(softmax_state<D> & st, float (&s)[N / 8][4], int r, float scale) {
    float top = -INFINITY;
#pragma unroll
    for (int j = 0; j < N / 8; j++) top = fmaxf(top, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
    top = fmaxf(st.max[r], mra_warp_max<4>(top) * scale);
    const float base = top > -INFINITY ? top : 0.0f, corr = mra_exp2(st.max[r] - base);
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
        s[j][2 * r] = mra_exp2(fmaf(s[j][2 * r], scale, -base));
        s[j][2 * r + 1] = mra_exp2(fmaf(s[j][2 * r + 1], scale, -base));
        sum += s[j][2 * r] + s[j][2 * r + 1];
    }
    st.max[r] = top;
    st.sum[r] = st.sum[r] * corr + sum;
    return corr;
}

// Goes on with N keys of these scores. v: the rows of a tile; scale > 0: times log2(e)
template <int D, int N>
MRA_DEVICE void state_add(softmax_state<D> & st, float (&s)[N / 8][4], const half * v, float scale) {
    const int lane = threadIdx.x % MRA_WARP, LD = tile_row<D>::LD;
    const float corr[2] = { row_weights<D, N>(st, s, 0, scale), row_weights<D, N>(st, s, 1, scale) };
    if (__any_sync(MRA_ALL_LANES, corr[0] != 1.0f || corr[1] != 1.0f)) { // seldom: a new maximum
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
#pragma unroll
            for (int t = 0; t < 4; t++) st.o[i][t] *= corr[t / 2];
        }
    }
#pragma unroll
    for (int j = 0; j < N / 16; j++) {
        const uint32_t p[4] = { mra_pack_half2(s[2 * j][0], s[2 * j][1]), mra_pack_half2(s[2 * j][2], s[2 * j][3]),
            mra_pack_half2(s[2 * j + 1][0], s[2 * j + 1][1]), mra_pack_half2(s[2 * j + 1][2], s[2 * j + 1][3]) };
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint32_t b[4];
            mra_ldmatrix_x4<true>(b, v + (j * 16 + lane % 8 + lane / 8 % 2 * 8) * LD + i * 16 + lane / 16 * 8);
            const uint32_t b0[2] = { b[0], b[1] }, b1[2] = { b[2], b[3] };
            mra_mma_16x8x16(st.o[2 * i], p, b0);
            mra_mma_16x8x16(st.o[2 * i + 1], p, b1);
        }
    }
}

// Goes on with N keys, of which the first n count. k, v: the rows of a tile; scale > 0: times log2(e)
template <int D, int N>
MRA_DEVICE void state_attend(
    softmax_state<D> & st, const query_rows<D> & q, const half * k, const half * v, int n, float scale) {
    float s[N / 8][4];
    tile_scores<D, N>(s, q, k, n);
    state_add<D, N>(st, s, v, scale);
}

// o/sum -> rows row(0), ... of out: the first n_valid of n_rows (at most 16), 0 in the others. nb: bytes from row to
// row
template <int D, class R = rows_in_order>
MRA_DEVICE void state_store(
    const softmax_state<D> & st, float * out, size_t nb, int n_valid, int n_rows, int dv, const R & to_row = R()) {
    const int lane = threadIdx.x % MRA_WARP;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = lane / 4 + r * 8;
        const int64_t to_at = row < n_rows ? to_row(row) : 0;
        const float sum = mra_warp_sum<4>(st.sum[r]), f = row < n_valid && sum > 0.0f ? 1.0f / sum : 0.0f;
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            const int c = i * 8 + lane % 4 * 2;
            float2 * to = (float2 *) ((float *) ((char *) out + to_at * (int64_t) nb) + c);
            if (row < n_rows && c < dv)
                *to = row < n_valid ? make_float2(st.o[i][2 * r] * f, st.o[i][2 * r + 1] * f) : make_float2(0.0f, 0.0f);
        }
    }
}
