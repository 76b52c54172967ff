// Rows of queries, keys and values as floats, for all attention in integers or tiles.
#pragma once

#include "../kernels.h"
#include "vec.h"

// row t as floats, zero padded to D; in tmp unless it lies so
INL const float * int8_row(struct mra_rows x, int64_t t, int d, int D, float * tmp) {
    const char * src = x.data + t * (int64_t) x.stride;
    if (x.type == MRA_F32 && d == D) return (const float *) src;
    for (int c = 0; c < d; c++)
        tmp[c] = x.type == MRA_F16 ? half_to_float(((const uint16_t *) src)[c]) : ((const float *) src)[c];
    for (int c = d; c < D; c++) tmp[c] = 0;
    return tmp;
}

INL void int8_ahead(struct mra_rows x, int64_t t, int n, int D) {
    if (t < n)
        for (int c = 0; c < D; c += 16) __builtin_prefetch(x.data + t * (int64_t) x.stride + 4 * c);
}

// x . y, rows of D, in 16 sums: the same bits with vectors of any length
INL float int8_dot_16(const float * x, const float * y, int D) {
    vf sum[16 / VL];
    float s[16];
    UNROLL for (int i = 0; i < 16 / VL; i++) sum[i] = v_set1(0);
    for (int c = 0; c < D; c += 16)
        UNROLL for (int i = 0; i < 16 / VL; i++)
            sum[i] = v_fused(v_load(x + c + i * VL), v_load(y + c + i * VL), sum[i]);
    UNROLL for (int i = 0; i < 16 / VL; i++) v_store(s + i * VL, sum[i]);
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++) s[i] += s[i + n];
    return s[0];
}

// where the results of rows [i, i + n) go, up to i1, and the queries H rows behind them
INL void int8_fetch_rows(const struct mra_attn_head * a, int i, int n, int i1, int H) {
    for (const int stop = i + n < i1 ? i + n : i1; i < stop; i++) {
        for (int c = 0; c < a->dv; c += 16) __builtin_prefetch(a->out + mra_query_at(a, i) * a->ld_out + c, 1);
        if (i + H < a->n_q) int8_ahead(a->q, (int64_t) mra_query_at(a, i + H), INT32_MAX, a->d);
    }
}

// the larger; NaN if one is
INL float int8_most(float a, float b) { return a <= b || b != b ? b : a; }

// What the logits lack of every row of a query block i0/16: scale*q.mean = scale*dot(q, mean[D]) + *same. In the sorted
// frame it is the coarse state that is off, by (q - q~).k_mean, and less is lacking by that.
INL void int8_lacking(
    float * mean, float * same, const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int D) {
    *same = 0;
    memcpy(mean, p->mean, sizeof(float) * D);
    if (!a->sorted.order) return;
    const float *k_mean = a->sorted.k_mean, *q_mean = a->sorted.q_mean + (size_t) i0 / MRA_QUERY_BLOCK * D;
    vf dot = v_set1(0);
    for (int c = 0; c < D; c += VL) {
        v_store(mean + c, v_load(mean + c) - v_load(k_mean + c));
        dot = v_fma(v_load(q_mean + c), v_load(k_mean + c), dot);
    }
    *same = v_hsum(dot);
}
