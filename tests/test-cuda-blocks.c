// How many thread blocks the nodes of square frames launch for long sequences: with 12 heads of 64 at n = 16384 and
// 65536. Kernels are listed and do not run, so no tensor has data. A limit for each row: launches follow the work that
// there is, not the cells that there could be.
#include "cuda-target.h"

#include "../ggml-mra/src/cuda/cuda.h"
#include "../ggml-mra/src/node.h"
#include "cuda-host/host.h"

enum { D = 64, N_HEAD = 12 };

static const struct blocks_case {
    const char * frame;
    float budget;
    int n;
    double most; // thousands of thread blocks in all
} cases[] = {
    { "mra2", 1.0f / 8, 16384, 60 },
    { "16,4,1", 1.0f / 8, 16384, 600 },
    { "64,16,4,1", 1.0f / 8, 16384, 630 },
    { "mra2", 1.0f / 32, 65536, 260 },
    { "16,4,1", 1.0f / 32, 65536, 2400 },
    { "64,16,4,1", 1.0f / 32, 65536, 2750 },
};

static struct ggml_tensor * heads(struct ggml_context * ctx, enum ggml_type type, int n) {
    return ggml_new_tensor_3d(ctx, type, D, n, N_HEAD);
}

// thread blocks of all nodes of a kind, in thousands
struct blocks {
    double of[MRA_KIND_COUNT], all;
};

static bool run_node(const struct ggml_tensor * t, struct blocks * sum) {
    struct mra_tensor src[GGML_MAX_SRC];
    const struct mra_node p = mra_node_get(t);
    int n_src = 0;
    if (p.kind == MRA_KIND_NONE) return true;
    for (; n_src < GGML_MAX_SRC && t->src[n_src]; n_src++) src[n_src] = mra_tensor_of(t->src[n_src]);
    mra_host_only_list(true);
    const int code = mra_cuda_run(&p, mra_tensor_of(t), src, n_src, NULL);
    CHECK(code == MRA_CUDA_OK, "%s: %s", ggml_mra_op_name(t), mra_cuda_message(code));
    struct mra_host_launch l;
    for (int i = 0; mra_host_launch_get(i, &l); i++) {
        sum->of[p.kind] += (double) l.blocks / 1000;
        sum->all += (double) l.blocks / 1000;
    }
    return code == MRA_CUDA_OK;
}

static void count(const struct blocks_case * c) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { 1 << 20, NULL, true });
    struct mra_attn_params p = mra_attn_params_default();
    struct mra_error err = { 0 };
    struct blocks sum = { 0 };
    p.budget = c->budget;
    const bool parsed = mra_attn_params_parse(&p, c->frame, &err) == MRA_OK;
    struct ggml_tensor * o = parsed
        ? ggml_mra_attn(ctx, heads(ctx, GGML_TYPE_F32, c->n), heads(ctx, GGML_TYPE_F16, c->n),
              heads(ctx, GGML_TYPE_F16, c->n), NULL, &p, &err)
        : NULL;
    CHECK(o, "%s: %s", c->frame, err.msg);
    if (o) {
        struct ggml_cgraph * g = ggml_new_graph(ctx);
        ggml_build_forward_expand(g, o);
        for (int i = 0; i < ggml_graph_n_nodes(g); i++)
            if (!run_node(ggml_graph_node(g, i), &sum)) break;
        printf("%-10s 1/%-3.0f %6d %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f\n", c->frame, 1 / (double) c->budget, c->n,
            sum.of[MRA_KIND_POOL], sum.of[MRA_KIND_BLOCK_SCORE], sum.of[MRA_KIND_TOPK_BLOCKS],
            sum.of[MRA_KIND_COARSE_STATE], sum.of[MRA_KIND_BLOCK_SPARSE_ATTN], sum.all);
        CHECK(sum.all > 0 && sum.all <= c->most, "%s, n = %d: %.1f thousand thread blocks, not at most %.1f", c->frame,
            c->n, sum.all, c->most);
    }
    ggml_free(ctx);
}

int main(void) {
    mra_kernels_set(&mra_kernels_cuda);
    printf("thousands of thread blocks, %d heads\n%-10s %-5s %6s %8s %8s %8s %8s %8s %8s\n", N_HEAD, "frame", "w", "n",
        "pool", "scores", "topk", "coarse", "fine", "all");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) count(&cases[i]);
    return n_failed > 0;
}
