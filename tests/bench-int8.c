// Time of exact attention in integers against floats, same rows, taking turns: 12 heads x 64, validated before timed;
// the same within a window of 64; then lists of keys. usage: bench-int8 N...   MRA_ISA and MRA_THREADS (2) as
// everywhere
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { N_HEAD = 12, D = 64, NEAR = 64, MAX_THREADS = 16, PACK_KEYS = 512, TURNS = 400 };

static const struct mra_kernels * k;
static int n, n_threads = 2, window; // window: -1: all keys
static float *x[3], *out;            // [n][head][d]
static char *pack[N_HEAD], *copy[N_HEAD], *scratch[MAX_THREADS];
static double pack_time;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

// threads that spin between runs
static atomic_int run_no, n_running, n_waiting, barrier_no;
static void (*job)(int thread);

static void barrier(void) {
    const int no = atomic_load(&barrier_no);
    if (atomic_fetch_add(&n_waiting, 1) == n_threads - 1) {
        atomic_store(&n_waiting, 0);
        atomic_fetch_add(&barrier_no, 1);
    } else
        while (atomic_load(&barrier_no) == no) {}
}
static void * worker(void * arg) {
    for (int seen = 0;; seen++) {
        while (atomic_load(&run_no) == seen) {}
        job((int) (intptr_t) arg);
        atomic_fetch_sub(&n_running, 1);
    }
    return NULL;
}
static double run(void (*f)(int thread)) {
    const double t0 = now();
    job = f;
    atomic_store(&n_running, n_threads - 1);
    atomic_fetch_add(&run_no, 1);
    f(0);
    while (atomic_load(&n_running)) {}
    return now() - t0;
}

static struct mra_attn_head head(int h) {
    const size_t stride = sizeof(float) * N_HEAD * D, kd = sizeof(float) * n * D;
    struct mra_attn_head a = { .n_q = n, .n_k = n, .d = D, .dv = D, .scale = 1 / sqrtf(D), .ld_out = N_HEAD * D };
    a.q = (struct mra_rows) { (const char *) (x[0] + h * D), stride, MRA_F32 };
    a.k = (struct mra_rows) { (const char *) (x[1] + h * D), stride, MRA_F32 };
    a.v = (struct mra_rows) { (const char *) (x[2] + h * D), stride, MRA_F32 };
    a.pack = (struct mra_pack) { .type = MRA_F32, .k = copy[h], .v = copy[h] + kd, .ldk = D, .ldv = D };
    a.out = out + h * D;
    return a;
}

// both as nodes: packing, barrier, rows
static void in_integers(int thread) {
    const int parts = (n + PACK_KEYS - 1) / PACK_KEYS, tasks = (n + MRA_EXACT_ROWS - 1) / MRA_EXACT_ROWS;
    const double t0 = now();
    for (int i = N_HEAD * parts * thread / n_threads; i < N_HEAD * parts * (thread + 1) / n_threads; i++) {
        const struct mra_attn_head a = head(i / parts);
        const struct mra_int8_pack p = mra_int8_pack_at(pack[i / parts], D, D, n, k->int8.bytes, false);
        const int j = i % parts * PACK_KEYS;
        k->int8.pack(&a, &p, j, j + PACK_KEYS < n ? j + PACK_KEYS : n);
    }
    barrier();
    if (!thread) pack_time = now() - t0;
    for (int i = N_HEAD * tasks * thread / n_threads; i < N_HEAD * tasks * (thread + 1) / n_threads; i++) {
        const struct mra_attn_head a = head(i / tasks);
        const struct mra_int8_pack p = mra_int8_pack_at(pack[i / tasks], D, D, n, k->int8.bytes, false);
        const int i0 = i % tasks * MRA_EXACT_ROWS, i1 = i0 + MRA_EXACT_ROWS < n ? i0 + MRA_EXACT_ROWS : n;
        if (window < 0) mra_int8_attn_rows(k, &a, &p, i0, i1, scratch[thread]);
        else mra_int8_window_rows(k, &a, &p, i0, i1, window, scratch[thread]);
    }
}
static void in_floats(int thread) {
    const int tasks = (n + MRA_EXACT_ROWS - 1) / MRA_EXACT_ROWS;
    for (int h = N_HEAD * thread / n_threads; window < 0 && h < N_HEAD * (thread + 1) / n_threads; h++) {
        const struct mra_attn_head a = head(h);
        k->pack(&a, 0, n, true, false);
    }
    barrier();
    for (int i = N_HEAD * tasks * thread / n_threads; i < N_HEAD * tasks * (thread + 1) / n_threads; i++) {
        struct mra_attn_head a = head(i / tasks);
        const int i0 = i % tasks * MRA_EXACT_ROWS, i1 = i0 + MRA_EXACT_ROWS < n ? i0 + MRA_EXACT_ROWS : n;
        if (window < 0) {
            k->block_sparse_attn(&a, i0, i1, NULL, 0, 1, NULL, scratch[thread]);
            continue;
        }
        a.pack = (struct mra_pack) {
            .type = MRA_F32, .k = (void *) a.k.data, .v = (void *) a.v.data, .ldk = N_HEAD * D, .ldv = N_HEAD * D
        };
        k->window_attn(&a, i0, i1, window, 0, scratch[thread]);
    }
}

static void * memory(size_t bytes) { return aligned_alloc(64, MRA_ROUND_UP(bytes + 64, 64)); }

static int bench(int length, int near) {
    n = length;
    window = near;
    const size_t count = (size_t) n * N_HEAD * D;
    float * want = malloc(sizeof(float) * count);
    out = malloc(sizeof(float) * count);
    for (int i = 0; i < 3; i++) x[i] = data_new(DATA_NORMAL, n, N_HEAD * D, 1 + i);
    for (int h = 0; h < N_HEAD; h++) {
        pack[h] = memory(mra_int8_pack_size(D, D, n, k->int8.bytes));
        copy[h] = memory(2 * sizeof(float) * n * D);
    }
    run(in_floats);
    memcpy(want, out, sizeof(float) * count);
    memset(out, 0xff, sizeof(float) * count);
    run(in_integers);
    const double error = relative_error(out, want, count);
    if (!(error < 0.03)) return printf("n=%d: error %.4f\n", n, error), 1;
    double best[2] = { 1e9, 1e9 }, packing = 0;
    const double stop = now() + 8;
    for (int i = 0; i < TURNS && (i < 3 || now() < stop); i++) {
        const double f = run(in_floats), t = run(in_integers);
        if (t < best[1]) packing = pack_time;
        best[0] = fmin(best[0], f);
        best[1] = fmin(best[1], t);
    }
    const double ops = 4.0 * n * fmin(n, window < 0 ? n : 2 * window + 1) * D * N_HEAD;
    char what[24] = "";
    if (window >= 0) snprintf(what, sizeof(what), ", window %d", window);
    printf("%s, %d threads, 12 x 64, n=%d%s: floats %.3f ms, integers %.3f ms (packing %.3f), %.2fx, %.0f GOP/s, error "
           "%.2f %%\n",
        k->name, n_threads, n, what, best[0] * 1e3, best[1] * 1e3, packing * 1e3, best[0] / best[1],
        ops / best[1] * 1e-9, 100 * error);
    for (int i = 0; i < 3; i++) free(x[i]);
    for (int h = 0; h < N_HEAD; h++) {
        free(pack[h]);
        free(copy[h]);
    }
    free(want);
    free(out);
    return 0;
}

// 16 queries over m listed keys of n, one thread: the columns frame's fine part. Lists change from call to call.
static int bench_list(int length, int m) {
    n = length;
    enum { LISTS = 64 };
    int32_t(*idx)[1024] = malloc(sizeof(*idx) * LISTS);
    uint64_t seed = 1;
    for (int l = 0; l < LISTS; l++)
        for (int j = 0, c = 0; j < n && c < m; j++)
            if (rng_int(&seed, 1, n - j) <= m - c) idx[l][c++] = j;
    out = malloc(sizeof(float) * n * N_HEAD * D);
    for (int i = 0; i < 3; i++) x[i] = data_new(DATA_NORMAL, n, N_HEAD * D, 1 + i);
    pack[0] = memory(mra_int8_pack_size(D, D, n, k->int8.bytes));
    copy[0] = memory(2 * sizeof(float) * n * D);
    const struct mra_attn_head a = head(0);
    const struct mra_int8_pack p = mra_int8_pack_at(pack[0], D, D, n, k->int8.bytes, true);
    k->pack(&a, 0, n, true, false);
    k->int8.pack(&a, &p, 0, n);
    float want[16 * D], got[16 * D];
    double best[2] = { 1e9, 1e9 };
    for (int turn = 0; turn < 200; turn++) {
        const double t0 = now();
        for (int l = 0; l < LISTS; l++) k->block_sparse_attn(&a, 0, 16, idx[l], m, 1, NULL, scratch[0]);
        for (int i = 0; i < 16; i++) memcpy(want + i * D, a.out + i * a.ld_out, sizeof(float) * D);
        const double t1 = now();
        for (int l = 0; l < LISTS; l++) k->int8.attn(&a, &p, 0, 16, idx[l], m, NULL, scratch[0]);
        const double t2 = now();
        for (int i = 0; i < 16; i++) memcpy(got + i * D, a.out + i * a.ld_out, sizeof(float) * D);
        if (!(relative_error(got, want, 16 * D) < 0.03)) return printf("list of %d: wrong\n", m), 1;
        best[0] = fmin(best[0], (t1 - t0) / LISTS);
        best[1] = fmin(best[1], (t2 - t1) / LISTS);
    }
    printf("%s, 1 thread, 16 queries, %d of %d keys: floats %.2f us, integers %.2f us, %.2fx, %.0f GOP/s\n", k->name, m,
        n, best[0] * 1e6, best[1] * 1e6, best[0] / best[1], 64.0 * m * D / best[1] * 1e-9);
    for (int i = 0; i < 3; i++) free(x[i]);
    free(pack[0]);
    free(copy[0]);
    free(out);
    free(idx);
    return 0;
}

int main(int argc, char ** argv) {
    k = mra_kernels_get();
    if (getenv("MRA_THREADS")) n_threads = atoi(getenv("MRA_THREADS"));
    if (argc < 2 || n_threads < 1 || n_threads > MAX_THREADS) {
        fprintf(stderr, "usage: bench-int8 N...\n");
        return 2;
    }
    if (!k->int8.attn) {
        printf("%s has no attention in integers\n", k->name);
        return 77;
    }
    const size_t other = mra_block_sparse_attn_scratch(D, D);
    for (int i = 0; i < n_threads; i++) {
        scratch[i] = memory(other > MRA_INT8_SCRATCH ? other : MRA_INT8_SCRATCH);
        pthread_t t;
        if (i && pthread_create(&t, NULL, worker, (void *) (intptr_t) i)) return 1;
    }
    int bad = 0;
    for (int i = 1; i < argc; i++)
        bad |= atoi(argv[i]) < 1 || bench(atoi(argv[i]), -1) || (k->int8.window_attn && bench(atoi(argv[i]), NEAR));
    for (int m = 128; m <= 1024; m *= 2) bad |= bench_list(4096, m);
    return bad;
}
