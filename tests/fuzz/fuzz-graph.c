// Graphs, for the targets that compute them.
#include "fuzz.h"
#include "ggml.h"
#include "ggml-cpu.h"

#include <stdlib.h>

struct ggml_context * graph_context(void) {
    return ggml_init((struct ggml_init_params) {
        .mem_size = ggml_tensor_overhead() * 512 + ggml_graph_overhead(), .no_alloc = true });
}

void tensor_alloc(struct ggml_tensor * t) {
    if (t->view_src) t->data = (char *) t->view_src->data + t->view_offs;
    else if (!t->data) require(posix_memalign(&t->data, 64, ggml_nbytes(t) + (ggml_nbytes(t) == 0)) == 0);
}

void graph_compute(struct ggml_context * ctx, struct ggml_tensor * out, int n_threads) {
    if (!out) return;
    struct ggml_cgraph * g = ggml_new_graph_custom(ctx, 256, false);
    ggml_build_forward_expand(g, out);
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) tensor_alloc(t);
    struct ggml_cplan plan = ggml_graph_plan(g, n_threads, NULL);
    plan.work_data = malloc(plan.work_size + 1);
    require(plan.work_data && ggml_graph_compute(g, &plan) == GGML_STATUS_SUCCESS);
    free(plan.work_data);
}

void graph_context_free(struct ggml_context * ctx) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t))
        if (!t->view_src) free(t->data);
    ggml_free(ctx);
}
