// The mean key, and
//   key_bias[j] = [1/2 log(scale^2 sum_c q_var_c (k_jc - k_mean_c)^2) + log|v_j - v_mean|]/scale.
#include "common.h"

static double mean_of(struct mra_rows x, int n, int c) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += mra_ref_value(x, i, c);
    return n ? sum / n : 0;
}

static double log_f32(double x) { return log(x > FLT_MAX ? FLT_MAX : x); }

void mra_ref_key_bias(const struct mra_attn_head * a, void * scratch) {
    const struct mra_sorted * s = &a->sorted;
    double k_mean[256], v_mean[256];
    (void) scratch;
    memset(s->k_mean, 0, sizeof(float) * MRA_ROUND_UP(a->d, MRA_PAD));
    for (int c = 0; c < a->d; c++) s->k_mean[c] = (float) (k_mean[c] = mean_of(a->k, a->n_k, c));
    for (int c = 0; c < a->dv; c++) v_mean[c] = mean_of(a->v, a->n_k, c);
    for (int j = 0; j < a->n_k; j++) {
        double k2 = 0, v2 = 0;
        for (int c = 0; c < a->d; c++) k2 += s->q_var[c] * pow(mra_ref_value(a->k, j, c) - k_mean[c], 2);
        for (int c = 0; c < a->dv; c++) v2 += pow(mra_ref_value(a->v, j, c) - v_mean[c], 2);
        const double spread = (double) a->scale * a->scale * k2 + 1e-9;
        const double bias = .5 * (log_f32(spread) + log_f32(v2 + 1e-18)) / a->scale;
        s->key_bias[j] = isnan(bias) ? 0 : (float) bias;
    }
}
