#include "attn-graph.h"
#include "clock.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool qkv_copy(struct qkv * x, const struct mra_attention_input * in) {
    const size_t n = (size_t) in->n, d = ((size_t) in->d + 7) / 8 * 8, all = n * d * (size_t) in->n_head;
    *x = (struct qkv) { .layer = in->layer, .n = in->n, .d = (int) d, .n_head = in->n_head, .scale = in->attn.scale };
    x->q = calloc(3 * all, sizeof(float));
    if (!x->q) return false;
    x->k = x->q + all;
    x->v = x->k + all;
    const float * from[3] = { in->q, in->k, in->v };
    float * const to[3] = { x->q, x->k, x->v };
    for (int c = 0; c < 3; c++)
        for (int h = 0; h < in->n_head; h++) {
            const int at = c ? h / (in->n_head / in->n_head_kv) : h;
            for (size_t i = 0; i < n; i++)
                memcpy(to[c] + ((size_t) h * n + i) * d,
                    (const float *) ((const char *) from[c] + i * in->row_bytes[c]) + (size_t) at * (size_t) in->d,
                    (size_t) in->d * sizeof(float));
        }
    return true;
}

void qkv_free(struct qkv * x) {
    free(x->q);
    memset(x, 0, sizeof(*x));
}

double qkv_weights(const struct qkv * x, int h, int i, double * p) {
    const int d = x->d;
    const float *q = x->q + ((int64_t) h * x->n + i) * d, *k = x->k + (int64_t) h * x->n * d;
    double max = -INFINITY, sum = 0, mean = 0;
    for (int j = 0; j < x->n; j++, k += d) {
        float s[4] = { 0 }; // four sums that the CPU adds at the same time; d is a multiple of 8
        for (int c = 0; c < d; c += 4)
            for (int t = 0; t < 4; t++) s[t] += q[c + t] * k[c + t];
        p[j] = (double) x->scale * ((s[0] + s[1]) + (s[2] + s[3]));
        max = fmax(max, p[j]);
    }
    for (int j = 0; j < x->n; j++) {
        const double s = p[j] - max;
        p[j] = exp(s);
        sum += p[j];
        mean += p[j] * s;
    }
    for (int j = 0; j < x->n; j++) p[j] /= sum;
    return log(sum) - mean / sum;
}

// [n_head][n][d] as [d, n, n_head]
static struct ggml_tensor * tensor_of(struct ggml_context * ctx, const struct qkv * x, float * data) {
    struct ggml_tensor * t = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, x->d, x->n, x->n_head);
    t->data = data;
    return t;
}

static enum mra_status run(ggml_backend_t cpu, ggml_gallocr_t alloc, struct ggml_context * ctx, struct ggml_tensor * o,
    struct ggml_tensor * levels, int reps, struct attn_result * r, struct mra_error * err) {
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_set_output(o);
    ggml_build_forward_expand(graph, o);
    if (levels) {
        ggml_set_output(levels);
        ggml_build_forward_expand(graph, levels);
    }
    if (!ggml_gallocr_alloc_graph(alloc, graph)) return mra_fail(err, MRA_ERR_MEMORY, "no memory for attention");
    r->bytes = (double) ggml_gallocr_get_buffer_size(alloc, 0) - (double) ggml_nbytes(o);
    r->ms = INFINITY;
    for (int i = 0; i < reps; i++) {
        const double t = now_ms();
        if (ggml_backend_graph_compute(cpu, graph) != GGML_STATUS_SUCCESS)
            return mra_fail(err, MRA_ERR_BACKEND, "ggml failed to compute attention");
        r->ms = fmin(r->ms, now_ms() - t);
    }
    r->out = malloc(ggml_nbytes(o));
    if (levels) r->levels = malloc(ggml_nbytes(levels));
    if (!r->out || (levels && !r->levels)) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    memcpy(r->out, o->data, ggml_nbytes(o));
    if (levels) memcpy(r->levels, levels->data, ggml_nbytes(levels));
    return MRA_OK;
}

enum mra_status attn_compute(const struct qkv * x, const struct mra_attn_params * params, int n_threads, int step,
    int reps, struct attn_result * r, struct mra_error * err) {
    struct mra_attn_params p = *params;
    p.scale = x->scale;
    p.n_threads = n_threads;
    *r = (struct attn_result) { 0 };
    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_gallocr_t alloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) {
        .mem_size = 256 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true });
    enum mra_status st = MRA_OK;
    if (!cpu || !alloc || !ctx) st = mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    if (st == MRA_OK) {
        ggml_backend_cpu_set_n_threads(cpu, n_threads);
        struct ggml_tensor *o = ggml_mra_attn(ctx, tensor_of(ctx, x, x->q), tensor_of(ctx, x, x->k),
                               tensor_of(ctx, x, x->v), NULL, &p, err),
                           *levels = o && step ? ggml_mra_attn_levels(ctx, o, step, err) : NULL;
        st = !o || (step && !levels) ? MRA_ERR_ARG : run(cpu, alloc, ctx, o, levels, reps, r, err);
    }
    if (st != MRA_OK) attn_result_free(r);
    if (ctx) ggml_free(ctx);
    if (alloc) ggml_gallocr_free(alloc);
    if (cpu) ggml_backend_free(cpu);
    return st;
}

void attn_result_free(struct attn_result * r) {
    free(r->out);
    free(r->levels);
    memset(r, 0, sizeof(*r));
}
