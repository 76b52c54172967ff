// y = (x - mean)/sqrt(var + eps)*w + b
#include "common.h"

void mra_ref_norm(float * y, const float * x, const float * w, const float * b, int n, float eps, bool rms) {
    double mean = 0, var = 0;
    for (int c = 0; c < n && !rms; c++) mean += x[c];
    mean /= n;
    for (int c = 0; c < n; c++) var += (x[c] - mean) * (x[c] - mean);
    const double s = 1 / sqrt(var / n + (double) eps);
    for (int c = 0; c < n; c++) y[c] = (float) ((x[c] - mean) * s * w[c] + (b ? b[c] : 0));
}
