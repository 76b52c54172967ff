// Which table of kernels runs: the best this CPU has, or the one MRA_ISA names.
#include "../kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#    include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#    include <sys/auxv.h>
#endif

#if defined(__x86_64__)
static bool avx_vnni(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
}

// bit by bit what x86-64-v2, v3, v4 and their dot products ask for
static int x86_level(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) return 0;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return 2;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
        ? 4
        : 3;
}

static bool v2(void) { return x86_level() >= 2; }
static bool v3(void) { return x86_level() >= 3; }
static bool v4(void) { return x86_level() >= 4; }
static bool v3_vnni(void) { return v3() && avx_vnni(); }
static bool v4_vnni(void) { return v4() && __builtin_cpu_supports("avx512vnni"); }
#elif defined(__aarch64__)
static bool neon_dot(void) {
#    if defined(__linux__)
    return getauxval(AT_HWCAP) >> 20 & 1; // HWCAP_ASIMDDP
#    else
    return false;
#    endif
}
#endif
static bool any(void) { return true; }

// best first; dense, int8: a table that is made of `kernels` and these
struct entry {
    const char * name;
    bool (*runs)(void);
    const struct mra_kernels * kernels;
    const struct mra_dense_kernels * dense;
    const struct mra_int8_kernels * int8;
};
static const struct entry entries[] = {
#if defined(__x86_64__)
    { "v4-vnni", v4_vnni, &mra_kernels_v4, &mra_dense_v4_vnni, &mra_int8_v4_vnni },
    { "v4", v4, &mra_kernels_v4, NULL, NULL },
    { "v3-vnni", v3_vnni, &mra_kernels_v3, &mra_dense_v3_vnni, &mra_int8_v3_vnni },
    { "v3", v3, &mra_kernels_v3, NULL, NULL },
    { "base", v2, &mra_kernels_base, NULL, NULL },
#elif defined(__aarch64__)
    { "neon-dot", neon_dot, &mra_kernels_neon, &mra_dense_neon_dot, &mra_int8_neon_dot },
    { "neon", any, &mra_kernels_neon, NULL, NULL },
    { "base", any, &mra_kernels_base, NULL, NULL },
#else
    { "base", any, &mra_kernels_base, NULL, NULL },
#endif
    { "ref", any, &mra_kernels_ref, NULL, NULL },
};
enum { N_ENTRIES = sizeof(entries) / sizeof(entries[0]) };

static struct mra_kernels made[N_ENTRIES];

__attribute__((constructor)) static void make_tables(void) {
    for (int i = 0; i < N_ENTRIES; i++)
        if (entries[i].dense) {
            made[i] = *entries[i].kernels;
            made[i].name = entries[i].name;
            made[i].dense = *entries[i].dense;
            made[i].int8 = *entries[i].int8;
        }
}

static const struct mra_kernels * table(int i) { return entries[i].dense ? &made[i] : entries[i].kernels; }

const struct mra_kernels * mra_kernels_by_name(const char * name) {
    for (int i = 0; i < N_ENTRIES; i++) {
        if (strcmp(entries[i].name, name) == 0) return entries[i].runs() ? table(i) : NULL;
    }
    return NULL;
}

static _Atomic(const struct mra_kernels *) current;

const struct mra_kernels * mra_kernels_get(void) {
    const struct mra_kernels * k = atomic_load_explicit(&current, memory_order_relaxed);
    if (k) return k;
    const char * name = getenv("MRA_ISA"); // a level this CPU lacks falls back to the best it has
    k = name ? mra_kernels_by_name(name) : NULL;
    for (int i = 0; !k; i++)
        if (entries[i].runs()) k = table(i);
    atomic_store_explicit(&current, k, memory_order_relaxed);
    return k;
}

void mra_kernels_set(const struct mra_kernels * k) { atomic_store_explicit(&current, k, memory_order_relaxed); }
