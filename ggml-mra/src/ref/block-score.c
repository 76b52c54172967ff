// dst[i][j] = scale * q_i.k_j, or the bound scale * sum_c max(q_ic kmin_jc, q_ic kmax_jc)
#include "common.h"

static double larger(double a, double b) { return a > b || a != a ? a : b; } // NaN if one is

void mra_ref_block_score(float * dst, size_t ld, const float * q, size_t ldq, int n_q, const float * k,
    const float * k_max, size_t ldk, int n_k, int d, float scale) {
    for (int i = 0; i < n_q; i++)
        for (int j = 0; j < n_k; j++) {
            double s = 0;
            for (int c = 0; c < d; c++) {
                const double p = (double) q[i * ldq + c] * k[j * ldk + c];
                s += k_max ? larger(p, (double) q[i * ldq + c] * k_max[j * ldk + c]) : p;
            }
            dst[i * ld + j] = (float) (s * scale);
        }
}
