// Which table of kernels runs: the best this CPU has, or the one MRA_ISA names.
#include "../kernels.h"
#include "x86-levels.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#    include <cpuid.h>
#    if defined(__linux__)
#        include <sys/syscall.h>
#        include <unistd.h>
#    endif
#elif defined(__aarch64__) && defined(__linux__)
#    include <sys/auxv.h>
#endif

#if defined(__x86_64__)
// XGETBV without -mxsave: what the system saves when it switches tasks
static uint32_t enabled_state(void) {
    uint32_t lo, hi;
    __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

static struct mra_x86_words x86_words(void) {
    struct mra_x86_words w = { 0 };
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) w.leaf1_ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        w.leaf7_ebx = b;
        w.leaf7_ecx = c;
        w.leaf7_edx = d;
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) w.leaf7_1_eax = a;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) w.ext1_ecx = c;
    if (w.leaf1_ecx >> 27 & 1) w.xcr0 = enabled_state(); // OSXSAVE: the instruction exists
    return w;
}

static bool runs(enum mra_x86_level level) { return mra_x86_levels(x86_words()) >> level & 1; }
static bool v2(void) { return runs(MRA_X86_V2); }
static bool v3(void) { return runs(MRA_X86_V3); }
static bool v4(void) { return runs(MRA_X86_V4); }
static bool v3_vnni(void) { return runs(MRA_X86_V3_VNNI); }
static bool v4_vnni(void) { return runs(MRA_X86_V4_VNNI); }

// Linux gives a process the state of tiles only where it asks for it (ARCH_REQ_XCOMP_PERM, XTILEDATA); threads that are
// there already get it, too. 0, or why it refuses.
static int ask_for_tiles(void) {
#    if defined(__linux__) && defined(SYS_arch_prctl)
    return syscall(SYS_arch_prctl, 0x1023, 18) == 0 ? 0 : errno;
#    else
    return ENOSYS;
#    endif
}
static bool v4_amx(void) { return runs(MRA_X86_V4_AMX) && ask_for_tiles() == 0; }
#elif defined(__aarch64__)
static bool neon_dot(void) {
#    if defined(__linux__)
    return getauxval(AT_HWCAP) >> 20 & 1; // HWCAP_ASIMDDP
#    else
    return false;
#    endif
}
static bool neon_i8mm(void) {
#    if defined(__linux__)
    return neon_dot() && (getauxval(AT_HWCAP2) >> 13 & 1); // HWCAP2_I8MM
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
    { "v4-amx", v4_amx, &mra_kernels_v4, &mra_dense_v4_amx, &mra_int8_v4_amx },
    { "v4-vnni", v4_vnni, &mra_kernels_v4, &mra_dense_v4_vnni, &mra_int8_v4_vnni },
    { "v4", v4, &mra_kernels_v4, NULL, NULL },
    { "v3-vnni", v3_vnni, &mra_kernels_v3, &mra_dense_v3_vnni, &mra_int8_v3_vnni },
    { "v3", v3, &mra_kernels_v3, NULL, NULL },
    { "base", v2, &mra_kernels_base, NULL, NULL },
#elif defined(__aarch64__)
    { "neon-i8mm", neon_i8mm, &mra_kernels_neon, &mra_dense_neon_i8mm, &mra_int8_neon_i8mm },
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

// one line on stderr: the name was given for a purpose, and other kernels give other times
static void say_unknown(const char * name, const char * best) {
    char list[128] = "";
    for (int i = 0; i < N_ENTRIES; i++)
        if (entries[i].runs()) snprintf(list + strlen(list), sizeof(list) - strlen(list), " %s", entries[i].name);
#if defined(__x86_64__)
    const int refused = strcmp(name, "v4-amx") == 0 && runs(MRA_X86_V4_AMX) ? ask_for_tiles() : 0;
    if (refused) {
        fprintf(stderr,
            "ggml-mra: MRA_ISA: the system refuses tiles to this process (%s), which 'v4-amx' needs; using %s, of%s\n",
            strerror(refused), best, list);
        return;
    }
#endif
    fprintf(stderr, "ggml-mra: MRA_ISA: this CPU does not run '%.40s'; using %s, of%s\n", name, best, list);
}

const struct mra_kernels * mra_kernels_get(void) {
    const struct mra_kernels * k = atomic_load_explicit(&current, memory_order_acquire);
    if (k) return k;
    const char * name = getenv("MRA_ISA");
    const struct mra_kernels * none = NULL;
    k = name && *name ? mra_kernels_by_name(name) : NULL;
    const bool unknown = name && *name && !k;
    for (int i = 0; !k; i++)
        if (entries[i].runs()) k = table(i);
    // of several threads one stores, and says so
    if (!atomic_compare_exchange_strong(&current, &none, k)) return none;
    if (unknown) say_unknown(name, k->name);
    return k;
}

void mra_kernels_set(const struct mra_kernels * k) { atomic_store_explicit(&current, k, memory_order_relaxed); }
