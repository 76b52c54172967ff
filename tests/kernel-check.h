// What the tests of kernel tables share: the table under test, a count of checks, seeded numbers. Without ggml, so that
// they can be cross-compiled and run under an emulator.
#pragma once

#include "../ggml-mra/src/kernels.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct mra_kernels * kern; // under test

static uint64_t seed = 1;
static inline uint32_t rnd(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33);
}
static inline int pick(int lo, int hi) { return lo + (int) (rnd() % (uint32_t) (hi - lo + 1)); }
static inline float gauss(void) {
    float t = 0;
    for (int i = 0; i < 6; i++) t += (float) rnd() / 2147483648.0f - .5f;
    return 1.4f * t;
}

// the table that argv[1] names, or the best this CPU runs; false: it does not run here
static inline bool kern_find(int argc, char ** argv) {
    kern = argc > 1 ? mra_kernels_by_name(argv[1]) : mra_kernels_get();
    if (!kern) printf("skipped: kernels %s do not run here\n", argv[1]);
    return kern != NULL;
}
static inline int kern_summary(const char * program) {
    printf("%s %s: %d checks, %d failed\n", program, kern->name, n_checks, n_failed);
    return n_failed ? 1 : 0;
}
