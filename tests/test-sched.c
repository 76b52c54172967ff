// Our nodes in a graph with ggml's own, computed by ggml_backend_sched on the CPU backend, in one context after
// another.
#include "harness.h"

// out = attn(x wq, x wk, x wv) wo + x, as one layer of an encoder has it
static struct ggml_tensor * layer(struct graph * g, struct ggml_tensor * x, struct ggml_tensor * const * w,
    int64_t n_head, const struct mra_attn_params * p, struct mra_error * err) {
    const int64_t n_embd = x->ne[0], n = x->ne[1], d = n_embd / n_head;
    struct ggml_tensor * h[3];
    for (int i = 0; i < 3; i++)
        h[i] = ggml_permute(g->ctx, ggml_reshape_3d(g->ctx, ggml_mul_mat(g->ctx, w[i], x), d, n_head, n), 0, 2, 1, 3);
    struct ggml_tensor * a = p ? ggml_mra_attn(g->ctx, h[0], h[1], h[2], NULL, p, err)
                               : ggml_flash_attn_ext(g->ctx, h[0], h[1], h[2], NULL, 1 / sqrtf((float) d), 0, 0);
    if (!a) return NULL;
    return ggml_add(g->ctx, ggml_mul_mat(g->ctx, w[3], ggml_reshape_2d(g->ctx, a, n_embd, n)), x);
}

static float * run(const char * frame, int n_threads, int n_layer) {
    enum { N = 300, E = 128 };
    struct graph g = graph_new();
    float *xd = data_new(DATA_WALK, N, E, 1), *wd = data_new(DATA_NORMAL, 4 * E, E, 2);
    for (int i = 0; i < 4 * E * E; i++) wd[i] *= .1f;
    struct ggml_tensor *w[4], *x = graph_input(&g, GGML_TYPE_F32, E, N, 1, 1, xd);
    for (int i = 0; i < 4; i++) w[i] = graph_input(&g, GGML_TYPE_F32, E, E, 1, 1, wd + i * E * E);
    struct mra_attn_params p = mra_attn_params_default();
    struct mra_error err = { 0 };
    p.budget = .3f;
    if (frame) CHECK(mra_attn_params_parse(&p, frame, &err) == MRA_OK, "%s", err.msg);
    for (int i = 0; i < n_layer && x; i++) x = layer(&g, x, w, 4, frame ? &p : NULL, &err);
    CHECK(x, "%s: %s", frame, err.msg);
    ggml_set_output(x);
    struct ggml_cgraph * cg = ggml_new_graph_custom(g.ctx, 512, false);
    ggml_build_forward_expand(cg, x);

    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, n_threads);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 512, false, false);
    float * out = NULL;
    if (ggml_backend_sched_alloc_graph(sched, cg)) {
        for (int i = 0; i < g.n_in; i++) ggml_backend_tensor_set(g.in[i].t, g.in[i].data, 0, ggml_nbytes(g.in[i].t));
        if (ggml_backend_sched_graph_compute(sched, cg) == GGML_STATUS_SUCCESS) {
            out = malloc(ggml_nbytes(x));
            ggml_backend_tensor_get(x, out, 0, ggml_nbytes(x));
        }
    }
    ggml_backend_sched_free(sched);
    ggml_backend_free(cpu);
    graph_free(&g);
    free(xd);
    free(wd);
    CHECK(out, "%s: the scheduler failed", frame ? frame : "flash");
    return out;
}

int main(void) {
    enum { OUT = 300 * 128 };
    float *flash = run(NULL, 2, 3), *exact = run("exact", 2, 3);
    const double e = max_error(exact, flash, OUT);
    CHECK(e <= 1e-4, "three layers of exact attention differ from flash attention by %.1e", e);
    static const char * const frames[] = { "exact", "columns", "sorted", "mra2", "mra2s", "16,4,1" };
    for (int i = 0; i < 6; i++) {
        float *one = run(frames[i], 1, 3), *four = run(frames[i], 4, 3);
        CHECK(memcmp(one, four, OUT * sizeof(float)) == 0, "%s: 4 threads give other bits than 1", frames[i]);
        CHECK(relative_error(one, flash, OUT) < (i < 3 ? .6 : 1), "%s: error %.2f against exact attention", frames[i],
            relative_error(one, flash, OUT));
        free(one);
        free(four);
    }
    free(flash);
    free(exact);
    return summary("test-sched");
}
