// The ggml graph of one forward pass over sequences laid end to end.
#pragma once

#include "model.h"

enum mra_head_kind { MRA_HEAD_NONE, MRA_HEAD_CLASS, MRA_HEAD_MLM, MRA_HEAD_SPARSE, MRA_HEAD_COLBERT, MRA_HEAD_DENSE };

struct mra_graph_shape {
    int n_tokens, n_seq;
    const int32_t * starts; // [n_seq + 1] first token of each sequence, then n_tokens
    int max_len;            // of a sequence
    int n_rows;             // rows of the hidden states that are wanted; 0: all tokens
    int n_spans;            // of tokens, each of which becomes a row of the result; 0: none
    enum mra_span_pool pool;
    int n_ffn_rows; // tokens whose feed-forward part is computed at a time
    enum mra_head_kind head;
    bool given; // n_rows rows of hidden states are given: only the head is computed
    bool dense; // weights lie in the CPU's memory: dense layers and norms by our operators, else by ggml's
    struct mra_attn_params attn;
    bool together;    // frames of square cells: sequences side by side, padded to max_len, else one after the other
    bool planned;     // heads keep different numbers of keys
    int n_error_rows; // queries of each head whose error is measured; 0: none
};

struct mra_part_end {
    const struct ggml_tensor * node; // the last one of a part
    enum mra_part part;
};

// q, k and v of all tokens of a layer, channel `at` of their rows being the first
struct mra_graph_qkv {
    const struct ggml_tensor * last; // behind which all of them are there
    const struct ggml_tensor * x[3];
    int64_t at[3];
};

struct mra_graph {
    struct ggml_cgraph * gf;
    struct mra_graph_qkv * qkv; // [n_layer]
    struct mra_part_end * ends; // [n_ends] in the order of the nodes
    int n_ends;
    // inputs, to be filled once the graph is allocated
    struct ggml_tensor *ids, *positions; // I32 [n_tokens]; positions NULL: not used
    struct ggml_tensor * types;          // I32 [n_tokens], NULL: the model has no token types
    struct ggml_tensor * starts;         // I32 [n_seq + 1]; NULL: not used
    struct ggml_tensor * rows;           // I32 [n_rows]; NULL: all
    struct ggml_tensor * spans;          // I32 [2, n_spans]; NULL: none
    // together: tokens of the sequences, and token of each place of the padded ones and the other way round; the last
    // two NULL: all sequences are equally long
    struct ggml_tensor * lengths;          // I32 [n_seq]
    struct ggml_tensor *padded, *unpadded; // I32 [max_len*n_seq], [n_tokens]
    struct ggml_tensor * shares;           // F32 [n_head, n_layer]; NULL: not planned
    struct ggml_tensor * given;            // F32 [n_embd, n_rows]; NULL: the tokens are
    struct ggml_tensor * out;              // F32 [n_cols, n_rows], or n_spans
    struct ggml_tensor ** errors; // [mra_graph_n_errors] of ggml_mra_attn_error, layer by layer; NULL: exact in floats
};

// nodes of ggml_mra_attn_error of a layer: one, or with square cells one for each sequence
int mra_graph_n_errors(const struct mra_graph_shape * s);

// nodes and leafs it takes at most; and ends of parts
size_t mra_graph_size(const struct mra_model * m, const struct mra_graph_shape * s);
size_t mra_graph_max_ends(const struct mra_model * m);

// Hands q, k and v to params.on_attention where t is the last node they need. seqs [n_seq]: the caller's numbers of the
// sequences. Returns whether it is such a node; params NULL: only that.
struct mra_context_params;
bool mra_graph_give_qkv(const struct mra_graph * g, const struct mra_model * m, const struct mra_graph_shape * s,
    const int * seqs, const struct ggml_tensor * t, const struct mra_context_params * params);

// ctx is no_alloc and has room for mra_graph_size tensors and a graph of that size; g->ends: mra_graph_max_ends of
// them, g->errors: mra_graph_n_errors for each layer, where n_error_rows is not 0; g->qkv: one of each layer
enum mra_status mra_graph_build(struct mra_graph * g, struct ggml_context * ctx, const struct mra_model * m,
    const struct mra_graph_shape * s, struct mra_error * err);

// The part of the model a node is the last one of, or MRA_PART_COUNT.
enum mra_part mra_graph_part(const struct mra_graph * g, const struct ggml_tensor * t);
