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

// a->pack = K and V of a, by the kernels under test
static inline void head_pack(struct mra_attn_head * a) {
    const int D = MRA_ROUND_UP(a->d, MRA_PAD), DV = MRA_ROUND_UP(a->dv, MRA_PAD), nb = (a->n_k + a->g - 1) / a->g,
              np = MRA_ROUND_UP(nb, MRA_PANEL);
    const size_t es = a->k.type == MRA_F16 ? 2 : 4;
    a->pack = (struct mra_pack) { .type = a->k.type,
        .k = malloc(a->n_k * D * es),
        .v = malloc(a->n_k * DV * es),
        .ldk = D,
        .ldv = DV,
        .kp = malloc((size_t) nb * a->g * D * es),
        .k_range = calloc((size_t) np * 2 * D, 4),
        .k_mean = calloc((size_t) np * D, 4),
        .v_mean = malloc((size_t) nb * DV * 4) };
    for (int j = 0; j < a->n_k; j += 16 * a->g)
        kern->pack(a, j, j + 16 * a->g < a->n_k ? j + 16 * a->g : a->n_k, true, true);
}
static inline void pack_free(const struct mra_pack * p) {
    void * all[] = { p->k, p->v, p->kp, p->k_range, p->k_mean, p->v_mean };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) free(all[i]);
}
