// Values that break kernels: NaN of several bit patterns, infinities, denormals, values whose products leave the range
// of floats; and what a table's result may be beside the reference's.
#pragma once

#include "kernel-check.h"

static inline float of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

enum special { NANS, PLUS_INF, MINUS_INF, DENORMAL, HUGE_VALUE, ZERO, N_SPECIAL };

// HUGE_VALUE: far from overflow by itself, but not its square
static inline float special(enum special kind) {
    static const uint32_t nans[] = { 0x7fc00000, 0x7fc00001, 0x7fc0007f, 0xffc00155, 0x7f8000ff, 0x7fffffff };
    switch (kind) {
        case NANS: return of_bits(nans[pick(0, 5)]);
        case PLUS_INF: return INFINITY;
        case MINUS_INF: return -INFINITY;
        case DENORMAL: return of_bits((uint32_t) pick(0, 1) << 31 | (uint32_t) pick(1, 0x7fffff));
        case HUGE_VALUE: return (pick(0, 1) ? 1e30f : -1e30f) * (float) pick(1, 64);
        default: return pick(0, 1) ? 0.0f : -0.0f;
    }
}
static inline uint16_t special_half(enum special kind) {
    static const uint16_t nans[] = { 0x7e00, 0x7c01, 0xfe55, 0x7fff };
    switch (kind) {
        case NANS: return nans[pick(0, 3)];
        case PLUS_INF: return 0x7c00;
        case MINUS_INF: return 0xfc00;
        case DENORMAL: return (uint16_t) (pick(0, 1) << 15 | pick(1, 1023));
        case HUGE_VALUE: return (uint16_t) (pick(0, 1) << 15 | 0x7bff);
        default: return (uint16_t) (pick(0, 1) << 15);
    }
}

// finite and near where `ref` is, else not finite; NaN where ref is NaN
static inline bool agrees(float x, float ref, double tol) {
    if (isnan(ref)) return isnan(x);
    if (isinf(ref)) return !isfinite(x);
    return fabs((double) x - ref) <= tol + 1e-43; // denormals are rounded to multiples of 1.4e-45
}
