// How far a result is from what it should be.
#pragma once

#include <math.h>
#include <stdint.h>

// ||a - b|| / ||b||; infinite for NaN or Inf in a
static inline double relative_error(const float * a, const float * b, int64_t n) {
    double e = 0, m = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(a[i])) return INFINITY;
        e += ((double) a[i] - b[i]) * ((double) a[i] - b[i]);
        m += (double) b[i] * b[i];
    }
    return m > 0 ? sqrt(e / m) : e > 0 ? INFINITY : 0;
}
