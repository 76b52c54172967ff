// dst[b][c] = mean, min or max of x[t][c] over the valid rows t of block b
#include "common.h"

void mra_ref_pool(float * dst, struct mra_rows x, int d, int n_valid, int block, int kind, int b0, int b1) {
    for (int b = b0; b < b1; b++) {
        const int end = (b + 1) * block < n_valid ? (b + 1) * block : n_valid;
        for (int c = 0; c < d; c++) {
            double sum = 0, lo = INFINITY, hi = -INFINITY;
            bool nan = false;
            for (int t = b * block; t < end; t++) {
                const double v = mra_ref_value(x, t, c);
                sum += v;
                lo = fmin(lo, v);
                hi = fmax(hi, v);
                nan = nan || v != v;
            }
            if (nan) lo = hi = NAN;
            const double mean = sum / (end - b * block);
            const double value = kind == MRA_POOL_KIND_MEAN ? mean : kind == MRA_POOL_KIND_MIN ? lo : hi;
            dst[(b - b0) * (int64_t) d + c] = end <= b * block ? 0 : (float) value;
        }
    }
}
