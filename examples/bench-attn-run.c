// The contenders of mra-bench attn as graphs over the same inputs.
#include "bench-attn.h"

#include <math.h>
#include <stdio.h>

// the first n of a tensor [dim, heads, n'] as attention takes it: [dim, n, heads]
static struct ggml_tensor * heads_view(struct ggml_context * ctx, struct ggml_tensor * t, int64_t n) {
    struct ggml_tensor * v = ggml_view_3d(ctx, t, t->ne[0], t->ne[1], n, t->nb[1], t->nb[2], 0);
    return ggml_permute(ctx, v, 0, 2, 1, 3);
}

static struct ggml_tensor * build(struct ggml_context * ctx, const struct attn_data * d, enum contender which,
    int64_t n_q, const struct mra_attn_params * p, bool f16, struct mra_error * err) {
    const bool half = which == FLASH_F16 || ((which == OURS || which == FLOATS) && f16);
    struct ggml_tensor *q = heads_view(ctx, d->q, n_q), *k = heads_view(ctx, half ? d->k16 : d->k, d->n),
                       *v = heads_view(ctx, half ? d->v16 : d->v, d->n);
    const float scale = 1 / sqrtf((float) d->dim);
    struct mra_attn_params floats = *p;
    floats.type = MRA_ATTN_FLOAT;
    if (which == OURS || which == FLOATS) return ggml_mra_attn(ctx, q, k, v, NULL, which == OURS ? p : &floats, err);
    if (which != MATMUL) return ggml_flash_attn_ext(ctx, q, k, v, NULL, scale, 0, 0);
    struct ggml_tensor * s = ggml_soft_max_ext(ctx, ggml_mul_mat(ctx, k, q), NULL, scale, 0);
    struct ggml_tensor * o = ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, v)), s);
    return ggml_cont(ctx, ggml_permute(ctx, o, 0, 2, 1, 3));
}

enum mra_status graph_new(struct bench_graph * g, const struct engine * e, const struct attn_data * d,
    enum contender which, int64_t n_q, const struct mra_attn_params * p, bool f16, struct mra_error * err) {
    enum mra_status st = graph_begin(g, err);
    if (st != MRA_OK) return st;
    g->out = build(g->ctx, d, which, n_q, p, f16, err);
    if (!g->out) {
        graph_free(g);
        return MRA_ERR_ARG;
    }
    char what[32];
    snprintf(what, sizeof(what), "n = %lld", (long long) d->n);
    return graph_allocate(g, e, what, err);
}

double estimate(const struct engine * e, const struct attn_data * d, enum contender which,
    const struct mra_attn_params * p, bool f16) {
    const int64_t n_q = d->n < 128 ? d->n : 128; // ggml's flash attention takes another way below 64
    const double scores = which == MATMUL ? 4.0 * (double) (d->n * d->n * d->heads) : 0;
    if (1.2 * scores + 4.0 * (double) (d->n * d->heads * d->dim) > .7 * memory_available()) return INFINITY;
    struct mra_attn_params probe = mra_attn_params_exact();
    probe.n_threads = e->n_threads;
    struct bench_graph g;
    if (graph_new(&g, e, d, which, n_q, &probe, f16, NULL) != MRA_OK) return INFINITY;
    double s = graph_run(&g, e);
    for (int i = 0; i < 2 && s >= 0 && s < .5; i++) s = fmin(s, graph_run(&g, e)); // the first one finds cold caches
    graph_free(&g);
    return s < 0 ? INFINITY
                 : s * (double) d->n / (double) n_q * (which <= FLOATS ? fmin(1, mra_attn_work(p, d->n, d->n)) : 1);
}
