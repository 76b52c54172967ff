// Engine, graphs and their times: see bench-graph.h.
#include "bench-graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum mra_status engine_new(struct engine * e, int n_threads, struct mra_error * err) {
    *e = (struct engine) { .cpu = ggml_backend_cpu_init(), .n_threads = n_threads };
    struct ggml_threadpool_params tp = ggml_threadpool_params_default(n_threads);
    e->pool = ggml_threadpool_new(&tp);
    if (!e->cpu || !e->pool) {
        engine_free(e);
        return mra_fail(err, MRA_ERR_BACKEND, "ggml gives no CPU backend with %d threads", n_threads);
    }
    ggml_backend_cpu_set_n_threads(e->cpu, n_threads);
    ggml_backend_cpu_set_threadpool(e->cpu, e->pool);
    return MRA_OK;
}
void engine_free(struct engine * e) {
    if (e->cpu) ggml_backend_free(e->cpu);
    if (e->pool) ggml_threadpool_free(e->pool);
    memset(e, 0, sizeof(*e));
}

enum mra_status graph_begin(struct bench_graph * g, struct mra_error * err) {
    memset(g, 0, sizeof(*g));
    g->ctx = ggml_init((struct ggml_init_params) {
        .mem_size = 256 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true });
    return g->ctx ? MRA_OK : mra_fail(err, MRA_ERR_MEMORY, "out of memory");
}
enum mra_status graph_allocate(
    struct bench_graph * g, const struct engine * e, const char * what, struct mra_error * err) {
    ggml_set_output(g->out);
    g->graph = ggml_new_graph(g->ctx);
    ggml_build_forward_expand(g->graph, g->out);
    g->alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(e->cpu));
    if (!g->alloc || !ggml_gallocr_alloc_graph(g->alloc, g->graph)) {
        graph_free(g);
        return mra_fail(err, MRA_ERR_MEMORY, "no memory for a graph of %s", what);
    }
    g->scratch = fmax(0, (double) ggml_gallocr_get_buffer_size(g->alloc, 0) - (double) ggml_nbytes(g->out));
    return MRA_OK;
}
void graph_free(struct bench_graph * g) {
    if (g->alloc) ggml_gallocr_free(g->alloc);
    if (g->ctx) ggml_free(g->ctx);
    memset(g, 0, sizeof(*g));
}

double graph_run(const struct bench_graph * g, const struct engine * e) {
    const double t0 = now_seconds();
    return ggml_backend_graph_compute(e->cpu, g->graph) == GGML_STATUS_SUCCESS ? now_seconds() - t0 : -1;
}

// ---- times -----------------------------------------------------------------------------------------------------

enum { MAX_REPS = 1000 };

struct samples {
    double s[MAX_REPS], total;
    int n;
};

static bool enough(const struct samples * x, int reps) {
    if (reps > 0) return x->n >= reps;
    return x->n == MAX_REPS || x->total >= 1 || (x->n >= 5 && x->total >= .2);
}

// A round gives every contender one run, or as many as fit into 20 ms. The first run warms up and counts only if it is
// long.
enum mra_status measure(struct bench_graph * const * g, int n, const struct engine * e, int reps, struct timing * t,
    struct mra_error * err) {
    struct samples * x = calloc((size_t) n, sizeof(*x));
    if (!x) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    enum mra_status st = MRA_OK;
    bool busy = true;
    for (int round = 0; busy && st == MRA_OK; round++) {
        busy = false;
        for (int i = 0; i < n && st == MRA_OK; i++) {
            if (!g[i]) continue;
            double spent = 0;
            for (int k = 0; !enough(&x[i], reps) && (k == 0 || (round > 0 && reps == 0 && spent < .02)); k++) {
                const double s = graph_run(g[i], e);
                if (s < 0) {
                    st = mra_fail(err, MRA_ERR_BACKEND, "ggml failed to compute a graph");
                    break;
                }
                spent += s;
                if (round == 0 && s < 1) continue;
                x[i].s[x[i].n++] = s;
                x[i].total += s;
            }
            busy = busy || !enough(&x[i], reps);
        }
    }
    for (int i = 0; i < n; i++) {
        t[i] = (struct timing) { NAN, NAN, 0 };
        if (st != MRA_OK || !g[i]) continue;
        const double mid = median(x[i].s, x[i].n); // sorts
        t[i] = (struct timing) { 1e3 * mid, 1e3 * x[i].s[0], x[i].n };
    }
    free(x);
    return st;
}
