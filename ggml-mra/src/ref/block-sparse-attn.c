// out_i = (state + sum_j e^{scale q_i.k_j} v_j) / (same with v = 1) over the listed keys, and what unrefined cells add
// to a state
#include "common.h"

void mra_ref_coarse_state(float * o, float * max, float * sum, const float * s, const float * w, const int32_t * y,
    int n, const float * v, size_t ldv, int dv) {
    double m = *max;
    for (int j = 0; j < n; j++)
        if (s[j] > m || s[j] != s[j]) m = s[j]; // NaN stays. Not fmax: gcc 12 for aarch64 breaks on that reduction
    if (m == -INFINITY) return;
    const double corr = exp(*max - m); // +inf - +inf is NaN
    double l = *sum * corr;
    for (int j = 0; j < n; j++) l += w[j] * exp(s[j] - m);
    for (int c = 0; c < dv; c++) {
        double acc = o[c] * corr;
        for (int j = 0; j < n; j++) acc += w[j] * exp(s[j] - m) * v[y[j] * ldv + c];
        o[c] = (float) acc;
    }
    *max = (float) m;
    *sum = (float) l;
}

static double score(const struct mra_attn_head * a, int i, int j) {
    return mra_ref_score(a->scale * mra_ref_dot(a->q, i, a->k, j, a->d));
}

void mra_ref_block_sparse_attn(const struct mra_attn_head * a, int i0, int i1, const int32_t * cells, int n_cell, int g,
    const float * state, void * scratch) {
    (void) scratch;
    if (!cells) {
        n_cell = 1;
        g = a->n_k;
    }
    for (int i = i0; i < i1; i++) {
        double m = state ? state[a->dv] : -INFINITY, l = 0;
        double acc[256] = { 0 };
        for (int e = 0; e < n_cell; e++)
            for (int j = cells ? cells[e] * g : 0, end = j + g; j < end && j < a->n_k; j++) {
                m = fmax(m, score(a, i, j));
            }
        if (m == -INFINITY) m = 0; // no key has a weight, and -inf - -inf would be NaN
        if (state && state[a->dv] != -INFINITY) {
            const double f = exp(state[a->dv] - m);
            l = state[a->dv + 1] * f;
            for (int c = 0; c < a->dv; c++) acc[c] = state[c] * f;
        }
        for (int e = 0; e < n_cell; e++)
            for (int j = cells ? cells[e] * g : 0, end = j + g; j < end && j < a->n_k; j++) {
                const double p = exp(score(a, i, j) - m);
                l += p;
                for (int c = 0; c < a->dv; c++) acc[c] += p * mra_ref_value(a->v, j, c);
            }
        for (int c = 0; c < a->dv; c++) a->out[i * a->ld_out + c] = l == 0 ? 0 : (float) (acc[c] / l);
    }
}
