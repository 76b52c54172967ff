// What the files that write a graph share. NULL is what an operator gave that could not be built; it passes through
// every function here, the reason is in b->err.
#pragma once

#include "graph.h"

struct mra_graph_builder {
    struct ggml_context * ctx;
    const struct mra_model * m;
    const struct mra_graph_shape * s;
    struct mra_graph * g;
    struct mra_error * err;
    int layer;
    struct ggml_tensor * turns[2]; // tables of RoPE: of layers without a window, of those with one; NULL: not used yet
};

// channels of a head, before it is padded
static inline int mra_graph_head_size(const struct mra_graph_builder * b) {
    return b->m->info.n_embd / b->m->info.n_head;
}

// the nodes of x come before all that follow; it is the last one of its part
struct ggml_tensor * mra_graph_end_part(struct mra_graph_builder * b, struct ggml_tensor * x, enum mra_part part);

struct ggml_tensor * mra_graph_norm(struct mra_graph_builder * b, struct mra_norm l, struct ggml_tensor * x);

// act(W x + b) + residual (or NULL)
struct ggml_tensor * mra_graph_linear(struct mra_graph_builder * b, struct mra_dense l, struct ggml_tensor * x,
    enum mra_act act, struct ggml_tensor * residual);

// graph-attention.c: x -> [n_embd, n_tokens], without what follows it
struct ggml_tensor * mra_graph_attention(
    struct mra_graph_builder * b, const struct mra_layer * l, struct ggml_tensor * x);
