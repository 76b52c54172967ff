// The contenders as graphs over the same inputs, built and allocated once, and their times.
#include "bench-attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum mra_status engine_new(struct engine * e, int n_threads, struct mra_error * err) {
    *e = (struct engine) { .cpu = ggml_backend_cpu_init(), .n_threads = n_threads };
    struct ggml_threadpool_params tp = ggml_threadpool_params_default(n_threads);
    e->pool = ggml_threadpool_new(&tp);
    if (!e->cpu || !e->pool) { engine_free(e); return mra_fail(err, MRA_ERR_BACKEND, "ggml gives no CPU backend with %d threads", n_threads); }
    ggml_backend_cpu_set_n_threads(e->cpu, n_threads);
    ggml_backend_cpu_set_threadpool(e->cpu, e->pool);
    return MRA_OK;
}
void engine_free(struct engine * e) {
    if (e->cpu)  ggml_backend_free(e->cpu);
    if (e->pool) ggml_threadpool_free(e->pool);
    memset(e, 0, sizeof(*e));
}

// the first n of a tensor [dim, heads, n'] as attention takes it: [dim, n, heads]
static struct ggml_tensor * heads_view(struct ggml_context * ctx, struct ggml_tensor * t, int64_t n) {
    struct ggml_tensor * v = ggml_view_3d(ctx, t, t->ne[0], t->ne[1], n, t->nb[1], t->nb[2], 0);
    return ggml_permute(ctx, v, 0, 2, 1, 3);
}

static struct ggml_tensor * build(struct ggml_context * ctx, const struct attn_data * d, enum contender which, int64_t n_q,
        const struct mra_attn_params * p, bool f16, struct mra_error * err) {
    const bool half = which == FLASH_F16 || (which == OURS && f16);
    struct ggml_tensor * q = heads_view(ctx, d->q, n_q), * k = heads_view(ctx, half ? d->k16 : d->k, d->n), * v = heads_view(ctx, half ? d->v16 : d->v, d->n);
    const float scale = 1/sqrtf((float) d->dim);
    if (which == OURS) return ggml_mra_attn(ctx, q, k, v, NULL, p, err);
    if (which != MATMUL) return ggml_flash_attn_ext(ctx, q, k, v, NULL, scale, 0, 0);
    struct ggml_tensor * s = ggml_soft_max_ext(ctx, ggml_mul_mat(ctx, k, q), NULL, scale, 0);
    struct ggml_tensor * o = ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, v)), s);
    return ggml_cont(ctx, ggml_permute(ctx, o, 0, 2, 1, 3));
}

enum mra_status graph_new(struct attn_graph * g, const struct engine * e, const struct attn_data * d, enum contender which, int64_t n_q,
        const struct mra_attn_params * p, bool f16, struct mra_error * err) {
    memset(g, 0, sizeof(*g));
    g->ctx = ggml_init((struct ggml_init_params) { .mem_size = 256*ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true });
    if (!g->ctx) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    g->out = build(g->ctx, d, which, n_q, p, f16, err);
    if (!g->out) { graph_free(g); return MRA_ERR_ARG; }
    ggml_set_output(g->out);
    g->graph = ggml_new_graph(g->ctx);
    ggml_build_forward_expand(g->graph, g->out);
    g->alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(e->cpu));
    if (!g->alloc || !ggml_gallocr_alloc_graph(g->alloc, g->graph)) { graph_free(g); return mra_fail(err, MRA_ERR_MEMORY, "no memory for a graph of n = %lld", (long long) d->n); }
    g->scratch = fmax(0, (double) ggml_gallocr_get_buffer_size(g->alloc, 0) - (double) ggml_nbytes(g->out));
    return MRA_OK;
}
void graph_free(struct attn_graph * g) {
    if (g->alloc) ggml_gallocr_free(g->alloc);
    if (g->ctx)   ggml_free(g->ctx);
    memset(g, 0, sizeof(*g));
}

double graph_run(const struct attn_graph * g, const struct engine * e) {
    const double t0 = now_seconds();
    return ggml_backend_graph_compute(e->cpu, g->graph) == GGML_STATUS_SUCCESS ? now_seconds() - t0 : -1;
}

double estimate(const struct engine * e, const struct attn_data * d, enum contender which, const struct mra_attn_params * p, bool f16) {
    const int64_t n_q = d->n < 128 ? d->n : 128; // ggml's flash attention takes another way below 64
    const double scores = which == MATMUL ? 4.0*(double) (d->n*d->n*d->heads) : 0;
    if (1.2*scores + 4.0*(double) (d->n*d->heads*d->dim) > .7*memory_available()) return INFINITY;
    struct mra_attn_params probe = mra_attn_params_exact();
    probe.n_threads = e->n_threads;
    struct attn_graph g;
    if (graph_new(&g, e, d, which, n_q, &probe, f16, NULL) != MRA_OK) return INFINITY;
    double s = graph_run(&g, e);
    for (int i = 0; i < 2 && s >= 0 && s < .5; i++) s = fmin(s, graph_run(&g, e)); // the first one finds cold caches
    graph_free(&g);
    return s < 0 ? INFINITY : s*(double) d->n/(double) n_q*(which == OURS ? fmin(1, mra_attn_work(p, d->n, d->n)) : 1);
}

// ---- times -----------------------------------------------------------------------------------------------------

enum { MAX_REPS = 1000 };

struct samples { double s[MAX_REPS], total; int n; };

static bool enough(const struct samples * x, int reps) {
    if (reps > 0) return x->n >= reps;
    return x->n == MAX_REPS || x->total >= 1 || (x->n >= 5 && x->total >= .2);
}

// A round gives every contender one run, or as many as fit into 20 ms. The first run warms up and counts only if it is long.
enum mra_status measure(struct attn_graph * const * g, const struct engine * e, int reps, struct timing * t, struct mra_error * err) {
    struct samples * x = calloc(N_CONTENDERS, sizeof(*x));
    if (!x) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    enum mra_status st = MRA_OK;
    bool busy = true;
    for (int round = 0; busy && st == MRA_OK; round++) {
        busy = false;
        for (int i = 0; i < N_CONTENDERS && st == MRA_OK; i++) {
            if (!g[i]) continue;
            double spent = 0;
            for (int k = 0; !enough(&x[i], reps) && (k == 0 || (round > 0 && reps == 0 && spent < .02)); k++) {
                const double s = graph_run(g[i], e);
                if (s < 0) { st = mra_fail(err, MRA_ERR_BACKEND, "ggml failed to compute a graph"); break; }
                spent += s;
                if (round == 0 && s < 1) continue;
                x[i].s[x[i].n++] = s;
                x[i].total += s;
            }
            busy = busy || !enough(&x[i], reps);
        }
    }
    for (int i = 0; i < N_CONTENDERS; i++) {
        t[i] = (struct timing) { NAN, NAN, 0 };
        if (st != MRA_OK || !g[i]) continue;
        const double mid = median(x[i].s, x[i].n); // sorts
        t[i] = (struct timing) { 1e3*mid, 1e3*x[i].s[0], x[i].n };
    }
    free(x);
    return st;
}
