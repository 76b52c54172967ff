// out_i = sum_j e^{p_ij} v_j / sum_j e^{p_ij}, p_ij = scale q_i.k_j - slope |i - j|, over |i - j| <= window
#include "common.h"

static double score(const struct mra_attn_head * a, int i, int j, float slope) {
    return mra_ref_score(a->scale * mra_ref_dot(a->q, i, a->k, j, a->d) - (double) slope * abs(i - j));
}

void mra_ref_window_attn(const struct mra_attn_head * a, int i0, int i1, int window, float slope, void * scratch) {
    (void) scratch;
    for (int i = i0; i < i1; i++) {
        const int first = window < 0 || i < window ? 0 : i - window,
                  end = window < 0 || a->n_k - i <= window ? a->n_k : i + window + 1;
        double m = -INFINITY, l = 0, acc[256] = { 0 };
        for (int j = first; j < end; j++) {
            const double s = score(a, i, j, slope);
            if (s > m || s != s) m = s;
        }
        if (m == -INFINITY) m = 0; // no key has a weight, and -inf - -inf would be NaN
        for (int j = first; j < end; j++) {
            const double p = exp(score(a, i, j, slope) - m);
            l += p;
            for (int c = 0; c < a->dv; c++) acc[c] += p * mra_ref_value(a->v, j, c);
        }
        for (int c = 0; c < a->dv; c++) a->out[i * a->ld_out + c] = l == 0 ? 0 : (float) (acc[c] / l);
    }
}
