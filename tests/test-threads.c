// Contexts of several threads that do not say how many threads they want share the CPUs: as fast as with one each.
#include "encoder-golden.h"
#include "machine.h"

#include <pthread.h>
#include <time.h>

enum { N_CONTEXTS = 4, N_TOKENS = 100 };
static const double SECONDS = .7;

struct caller {
    pthread_t thread;
    const struct golden * g;
    int n_threads, n_used; // asked for; what the last call had
    pthread_barrier_t * start;
    int n_calls;
    float * row; // of the last call
    int64_t n;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void * call(void * user) {
    struct caller * c = user;
    int32_t ids[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) ids[i] = c->g->seqs[0].ids[i % c->g->seqs[0].n];
    const struct mra_seq seq = { .n = N_TOKENS, .ids = ids };
    const struct mra_output want = pooled(MRA_POOLING_MEAN);
    struct mra_context_params p = threads(c->n_threads);
    struct mra_result r = { 0 };
    struct mra_context * ctx = mra_context_new(c->g->model, &p, NULL);
    pthread_barrier_wait(c->start);
    for (const double end = now() + SECONDS; ctx && now() < end; c->n_calls++)
        mra_encode(ctx, &seq, 1, &want, &r, NULL);
    c->n_used = mra_context_stats(ctx).n_threads;
    c->n = r.n_cols;
    c->row = malloc((size_t) (r.n_cols + 1) * sizeof(float));
    if (r.data) memcpy(c->row, r.data, (size_t) r.n_cols * sizeof(float));
    mra_context_free(ctx);
    return NULL;
}

// calls of N_CONTEXTS at the same time
static double run(const struct golden * g, int n_threads, struct caller * callers) {
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, N_CONTEXTS + 1);
    for (int i = 0; i < N_CONTEXTS; i++) {
        callers[i] = (struct caller) { .g = g, .n_threads = n_threads, .start = &start };
        if (pthread_create(&callers[i].thread, NULL, call, &callers[i]) != 0) exit(1);
    }
    pthread_barrier_wait(&start);
    int n = 0;
    for (int i = 0; i < N_CONTEXTS; i++) {
        pthread_join(callers[i].thread, NULL);
        n += callers[i].n_calls;
    }
    pthread_barrier_destroy(&start);
    return n;
}

static void test_contexts(const struct golden * g) {
    struct caller one[N_CONTEXTS], shared[N_CONTEXTS];
    double n[2] = { 0 };
    for (int i = 0; i < 3; i++) {
        n[0] += run(g, 1, one);
        n[1] += run(g, 0, shared);
        for (int k = 0; k < N_CONTEXTS; k++) {
            CHECK(one[k].n == 64 && shared[k].n == 64 && memcmp(one[k].row, shared[k].row, 64 * sizeof(float)) == 0,
                "context %d of the shared ones computes something else", k);
            free(one[k].row);
            free(shared[k].row);
        }
    }
    printf("%d contexts: %.0f calls with one thread each, %.0f with the default\n", N_CONTEXTS, n[0], n[1]);
    if (mra_cpu_count("") <= N_CONTEXTS)
        CHECK(n[1] > n[0] / 3, "%d contexts do %.2f of what they do with one thread each", N_CONTEXTS, n[1] / n[0]);
}

static void test_alone(const struct golden * g) {
    struct mra_context * ctx = context(g->model, threads(0));
    encode(ctx, g->seqs, 1, pooled(MRA_POOLING_MEAN));
    CHECK(mra_context_stats(ctx).n_threads == mra_cpu_count(""), "alone it has %d threads, not %d",
        mra_context_stats(ctx).n_threads, mra_cpu_count(""));
    mra_context_free(ctx);
    ctx = context(g->model, threads(3));
    encode(ctx, g->seqs, 1, pooled(MRA_POOLING_MEAN));
    CHECK(mra_context_stats(ctx).n_threads == 3, "3 asked for, %d given", mra_context_stats(ctx).n_threads);
    mra_context_free(ctx);
}

int main(int argc, char ** argv) {
    if (argc < 2) return 1;
    goldens_begin(argv[1]);
    struct golden g = golden_open("bert");
    test_alone(&g);
    test_contexts(&g);
    golden_close(&g);
    goldens_end();
    return summary("test-threads");
}
