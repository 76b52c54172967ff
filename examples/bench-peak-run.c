// Rates of the loops of bench-peak.inc: threads start together, the slowest one's end counts, the best of several runs
// is kept.
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__GNUC__)
#    include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#    include <sys/auxv.h>
#endif

extern const struct peak_isa peak_base;
#if defined(__x86_64__)
extern const struct peak_isa peak_v3, peak_v4, peak_vnni, peak_avxvnni, peak_amx;
#elif defined(__aarch64__)
extern const struct peak_isa peak_neon, peak_dotprod, peak_i8mm;
#endif

// ---- levels ----------------------------------------------------------------------------------------------------

#if defined(__x86_64__)
static bool cpuid7(unsigned sub, int reg, int bit) { // reg: 0 eax, 2 ecx
    unsigned r[4];
    return __get_cpuid_count(7, sub, &r[0], &r[1], &r[2], &r[3]) && (r[reg] >> bit & 1);
}
static bool runs_v3(void) { return mra_kernels_by_name("v3") != NULL; }
static bool runs_v4(void) { return mra_kernels_by_name("v4") != NULL; }
static bool runs_vnni(void) { return runs_v4() && cpuid7(0, 2, 11); }   // AVX512_VNNI
static bool runs_avxvnni(void) { return runs_v3() && cpuid7(1, 0, 4); } // AVX_VNNI
static bool runs_amx(void) { return mra_kernels_by_name("v4-amx") != NULL; }
#elif defined(__aarch64__)
static bool runs_neon(void) { return mra_kernels_by_name("neon") != NULL; }
static bool runs_dotprod(void) {
#    if defined(__linux__)
    return getauxval(AT_HWCAP) >> 20 & 1; // HWCAP_ASIMDDP
#    else
    return true; // every Apple core with this ABI
#    endif
}
static bool runs_i8mm(void) { return mra_kernels_by_name("neon-i8mm") != NULL; }
#endif
static bool runs_base(void) { return mra_kernels_by_name("base") != NULL; }

static const struct {
    const struct peak_isa * isa;
    bool (*runs)(void);
    const char * kernels; // of that level
} levels[] = {
    { &peak_base, runs_base, "base" },
#if defined(__x86_64__)
    { &peak_v3, runs_v3, "v3" },
    { &peak_avxvnni, runs_avxvnni, "v3-vnni" },
    { &peak_v4, runs_v4, "v4" },
    { &peak_vnni, runs_vnni, "v4-vnni" },
    { &peak_amx, runs_amx, "v4-amx" },
#elif defined(__aarch64__)
    { &peak_neon, runs_neon, "neon" },
    { &peak_dotprod, runs_dotprod, "neon-dot" },
    { &peak_i8mm, runs_i8mm, "neon-i8mm" },
#endif
};
enum { N_LEVELS = sizeof(levels) / sizeof(levels[0]) };

const struct peak_isa * peak_isa_at(int i) {
    for (int l = 0; l < N_LEVELS; l++) {
        if (levels[l].runs() && i-- == 0) return levels[l].isa;
    }
    return NULL;
}
const struct peak_isa * peak_isa_of(const char * kernels) {
    if (strcmp(kernels, "ref") == 0) return &peak_base; // what the compiler makes of plain C
    for (int l = 0; l < N_LEVELS; l++)
        if (strcmp(levels[l].kernels, kernels) == 0 && levels[l].runs()) return levels[l].isa;
    return NULL;
}

// ---- threads ---------------------------------------------------------------------------------------------------

enum kind { FMA, INT8, BF16, READ };

struct run {
    const struct peak_isa * isa;
    enum kind kind;
    int n_threads;
    int64_t n;      // steps, or values to read
    int64_t * data; // READ: [n_threads][n], all 1
    pthread_barrier_t start, end;
    double seconds;
};
struct worker {
    struct run * r;
    int ith;
    bool ok;
};

// false if the result is not that of n steps
static bool work(struct run * r, int ith) {
    static volatile float one = 1; // read at run time: the compiler must not know it
    switch (r->kind) {
        case FMA: return r->isa->fma(r->n, one) == r->isa->fma_flops / 2 * (double) r->n;
        case INT8: return r->isa->int8(r->n) == (int64_t) (r->isa->int8_ops / 2) * r->n;
        case BF16: return r->isa->bf16(r->n) == r->isa->bf16_flops / 2 * (double) r->n;
        case READ: return r->isa->sum(r->data + ith * r->n, r->n) == r->n;
    }
    return false;
}

static void * worker_main(void * arg) {
    struct worker * w = arg;
    struct run * r = w->r;
    if (r->kind == READ)
        for (int64_t i = 0; i < r->n; i++) r->data[w->ith * r->n + i] = 1; // first touch by its reader
    pthread_barrier_wait(&r->start);
    const double t0 = now_seconds();
    w->ok = work(r, w->ith);
    pthread_barrier_wait(&r->end);
    if (w->ith == 0) r->seconds = now_seconds() - t0;
    return NULL;
}

// seconds of one run, negative if it cannot run or did not do its work
static double run_once(struct run * r) {
    struct worker * w = calloc((size_t) r->n_threads, sizeof(*w));
    pthread_t * id = calloc((size_t) r->n_threads, sizeof(*id));
    bool ok = w && id && pthread_barrier_init(&r->start, NULL, (unsigned) r->n_threads) == 0;
    if (ok && pthread_barrier_init(&r->end, NULL, (unsigned) r->n_threads) == 0) {
        for (int i = 0; i < r->n_threads; i++) w[i] = (struct worker) { r, i, false };
        for (int i = 1; i < r->n_threads; i++)
            if (pthread_create(&id[i], NULL, worker_main, &w[i]) != 0) abort(); // the barriers would wait for ever
        worker_main(&w[0]);
        for (int i = 1; i < r->n_threads; i++) pthread_join(id[i], NULL);
        for (int i = 0; i < r->n_threads; i++) ok = ok && w[i].ok;
        pthread_barrier_destroy(&r->end);
    } else ok = false;
    if (w && id) pthread_barrier_destroy(&r->start);
    free(w);
    free(id);
    return ok ? r->seconds : -1;
}

// ---- rates -----------------------------------------------------------------------------------------------------

enum { MAX_STEPS = 1 << 23 }; // a float counts to 2^24
static const double run_seconds =
    0.03; // long enough for the clock to settle, short enough to fall between other programs' turns

static double rate(struct run * r, double per_step, int n_runs) {
    double best = 0, spent = 0;
    for (int i = 0; i < n_runs || (best > 0 && spent < n_runs * run_seconds && i < 100); i++) {
        const double s = run_once(r);
        if (s < 0) return -1;
        spent += s;
        if (s > 1e-3) best = fmax(best, per_step * (double) r->n * r->n_threads / s / 1e9);
        if (r->kind != READ && s < run_seconds) {
            r->n = s < run_seconds / 8 ? r->n * 4 : (int64_t) ((double) r->n * run_seconds / s) + 1;
            if (r->n > MAX_STEPS) r->n = MAX_STEPS;
        }
    }
    return best;
}

double peak_fma(const struct peak_isa * isa, int n_threads, int n_runs) {
    struct run r = { .isa = isa, .kind = FMA, .n_threads = n_threads, .n = 100000 };
    return rate(&r, isa->fma_flops, n_runs);
}

double peak_int8(const struct peak_isa * isa, int n_threads, int n_runs) {
    struct run r = { .isa = isa, .kind = INT8, .n_threads = n_threads, .n = 100000 };
    return isa->int8 ? rate(&r, isa->int8_ops, n_runs) : NAN;
}

double peak_bf16(const struct peak_isa * isa, int n_threads, int n_runs) {
    struct run r = { .isa = isa, .kind = BF16, .n_threads = n_threads, .n = 100000 };
    return isa->bf16 ? rate(&r, isa->bf16_flops, n_runs) : NAN;
}

double peak_read(const struct peak_isa * isa, int n_threads) {
    int64_t bytes = 256 << 20; // far more than the last cache
#ifdef _SC_LEVEL3_CACHE_SIZE
    const int64_t l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (4 * l3 > bytes) bytes = 4 * l3;
#endif
    if ((double) bytes > memory_available() / 2) return NAN;
    struct run r = { .isa = isa, .kind = READ, .n_threads = n_threads, .n = bytes / 8 / n_threads / 128 * 128 };
    r.data = aligned_alloc(64, (size_t) (r.n * n_threads * 8));
    if (!r.data) return NAN;
    const double gbs = rate(&r, 8, PEAK_RUNS);
    free(r.data);
    return gbs;
}
