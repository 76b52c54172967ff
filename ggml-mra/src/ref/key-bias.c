// Means of the sorted query blocks, the mean key, and
//   key_bias[j] = [1/2 log(scale^2 sum_c D_c (k_jc - k_mean_c)^2) + log|v_j - v_mean|]/scale.
#include "common.h"

enum { H = MRA_QUERY_BLOCK };

// mean of channel c of rows idx[0..n), or of rows 0..n-1
static double mean_of(struct mra_rows x, const int32_t * idx, int n, int c) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += mra_ref_value(x, idx ? idx[i] : i, c);
    return n ? sum / n : 0;
}

void mra_ref_key_bias(const struct mra_attn_head * a, void * scratch) {
    const int D = MRA_ROUND_UP(a->d, MRA_PAD), n_block = (a->n_q + H - 1) / H;
    double var[256] = { 0 }, k_mean[256], v_mean[256];
    (void) scratch;
    memset(a->sorted.k_mean, 0, sizeof(float) * D);
    memset(a->sorted.q_mean, 0, sizeof(float) * n_block * D);
    for (int c = 0; c < a->d; c++) {
        a->sorted.k_mean[c] = (float) (k_mean[c] = mean_of(a->k, NULL, a->n_k, c));
        for (int x = 0; x < n_block; x++) {
            const int32_t * idx = a->sorted.order + x * H;
            const int n = a->n_q - x * H < H ? a->n_q - x * H : H;
            const double mean = mean_of(a->q, idx, n, c);
            a->sorted.q_mean[x * D + c] = (float) mean;
            for (int i = 0; i < n; i++) var[c] += pow(mra_ref_value(a->q, idx[i], c) - mean, 2) / a->n_q;
        }
    }
    for (int c = 0; c < a->dv; c++) v_mean[c] = mean_of(a->v, NULL, a->n_k, c);
    for (int j = 0; j < a->n_k; j++) {
        double k2 = 0, v2 = 0;
        for (int c = 0; c < a->d; c++) k2 += var[c] * pow(mra_ref_value(a->k, j, c) - k_mean[c], 2);
        for (int c = 0; c < a->dv; c++) v2 += pow(mra_ref_value(a->v, j, c) - v_mean[c], 2);
        const double spread = (double) a->scale * a->scale * k2 + 1e-9;
        a->sorted.key_bias[j] = (float) (.5 * (log(spread) + log(v2 + 1e-18)) / a->scale);
    }
}
