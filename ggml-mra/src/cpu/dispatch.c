// Which table of kernels runs: the best this CPU has, or the one MRA_ISA names.
#include "../kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static bool runnable(const struct mra_kernels * k) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (k == &mra_kernels_v4)   return v4;
    if (k == &mra_kernels_v3)   return v3;
    if (k == &mra_kernels_base) return v2;
#endif
    (void) k;
    return true;
}

// best first
static const struct mra_kernels * const tables[] = {
#if defined(__x86_64__)
    &mra_kernels_v4, &mra_kernels_v3,
#elif defined(__aarch64__)
    &mra_kernels_neon,
#endif
    &mra_kernels_base, &mra_kernels_ref,
};
enum { N_TABLES = sizeof(tables)/sizeof(tables[0]) };

const struct mra_kernels * mra_kernels_by_name(const char * name) {
    for (int i = 0; i < N_TABLES; i++) {
        if (strcmp(tables[i]->name, name) == 0) return runnable(tables[i]) ? tables[i] : NULL;
    }
    return NULL;
}

static _Atomic(const struct mra_kernels *) current;

const struct mra_kernels * mra_kernels_get(void) {
    const struct mra_kernels * k = atomic_load_explicit(&current, memory_order_relaxed);
    if (k) return k;
    const char * name = getenv("MRA_ISA"); // a level this CPU lacks falls back to the best it has
    k = name ? mra_kernels_by_name(name) : NULL;
    for (int i = 0; !k; i++) if (runnable(tables[i])) k = tables[i];
    atomic_store_explicit(&current, k, memory_order_relaxed);
    return k;
}

void mra_kernels_set(const struct mra_kernels * k) { atomic_store_explicit(&current, k, memory_order_relaxed); }
