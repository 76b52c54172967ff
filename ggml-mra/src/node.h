// How nodes are made, read and computed: what every operator's file (op-*.c) builds on. Private to the library.
//
// Words, each with one meaning here and in the kernels:
//   head    attention head
//   block   h neighbouring queries or g neighbouring keys
//   cell    a block of queries x a block of keys
//   level   all cells of one shape; cells of a level are refined into those of the next
//   list    cell list: which cells of a level are refined
//   state   softmax state of a row: weighted sum of values, maximum, sum of weights
//   pack    K and V laid out for the attention kernels
//   group   query blocks that share a work item of the columns frame
//   panel   32 columns laid side by side
//   slot    scratch memory of one thread
//   band    rows that share a work item of a dense layer; its columns are cut into strips
//   chunk   a piece of a text (in the encoder only)
#pragma once

#include "ggml-mra.h"
#include "kernels.h"
#include "node-params.h"

#include <string.h>

#define MRA_PARAMS_OFFS (GGML_MAX_OP_PARAMS - sizeof(struct mra_node))
_Static_assert(sizeof(struct mra_node) <= GGML_MAX_OP_PARAMS - 24, "ggml_custom_op_params takes the first 24 bytes");

// the parameters of t; kind NONE: t is no node of ours
static inline struct mra_node mra_node_get(const struct ggml_tensor * t) {
    struct mra_node p = { 0 };
    if (t && t->op == GGML_OP_CUSTOM) memcpy(&p, (const char *) t->op_params + MRA_PARAMS_OFFS, sizeof(p));
    if (p.magic != MRA_MAGIC || p.kind >= MRA_KIND_COUNT) p.kind = MRA_KIND_NONE;
    return p;
}
static inline void mra_node_set(struct ggml_tensor * t, struct mra_node p) {
    p.magic = MRA_MAGIC;
    memcpy((char *) t->op_params + MRA_PARAMS_OFFS, &p, sizeof(p));
}

// t for the drivers of other devices
static inline struct mra_tensor mra_tensor_of(const struct ggml_tensor * t) {
    struct mra_tensor r = { .data = t->data, .type = MRA_TENSOR_F32 };
    if (t->type == GGML_TYPE_F16) r.type = MRA_TENSOR_F16;
    if (t->type == GGML_TYPE_I32) r.type = MRA_TENSOR_I32;
    if (t->type == GGML_TYPE_I8) r.type = MRA_TENSOR_I8;
    for (int i = 0; i < 4; i++) {
        r.ne[i] = t->ne[i];
        r.nb[i] = t->nb[i];
    }
    return r;
}

// What a node reads: fixed sources up to the first NULL, then the optional ones that are not NULL.
struct mra_sources {
    struct ggml_tensor * fixed[6];
    struct ggml_tensor * optional[MRA_SRC_COUNT]; // by enum mra_source
};

// A node of kind p.kind and shape ne[4]; p.n_fixed and p.sources are filled in. NULL with a reason where ctx is NULL or
// full, or where the kind has no row in MRA_NODE_KINDS.
struct ggml_tensor * mra_node_new(struct ggml_context * ctx, enum ggml_type type, const int64_t * ne,
    const struct mra_sources * src, struct mra_node p, struct mra_error * err);

// The same, but the result is x, the first fixed source, changed in place.
struct ggml_tensor * mra_node_inplace(
    struct ggml_context * ctx, const struct mra_sources * src, struct mra_node p, struct mra_error * err);

// optional source s of a node, NULL: it has none
static inline struct ggml_tensor * mra_source(
    const struct ggml_tensor * node, const struct mra_node * p, enum mra_source s) {
    const int at = mra_source_at(p, s);
    return at < 0 ? NULL : node->src[at];
}

// ggml_custom_op_t: runs thread ith of nth. Where the node's kind is unknown (its parameters were overwritten, or come
// from a newer library) every byte of dst becomes 0xff: NaN as F32 and F16, -1 as I32.
void mra_compute(struct ggml_tensor * dst, int ith, int nth, void * userdata);

// the drivers, one in each op-*.c: part ith of nth of a node on the CPU
#define ROW(kind, word, name) \
    void mra_compute_##word(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
MRA_NODE_KINDS(ROW)
#undef ROW

// Valid queries and keys of sequence b, from a lengths tensor (or NULL); cut to what the tensors hold.
struct mra_len mra_lengths(const struct ggml_tensor * lengths, int64_t n_batch, int64_t b, int64_t n_q, int64_t n_k);

// row (i1, i2, i3) of an F32 tensor
static inline float * mra_row(const struct ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return (float *) ((char *) t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3]);
}

// rows of one head, from row `first` on
static inline struct mra_rows mra_rows_of(const struct ggml_tensor * t, int64_t first, int64_t head, int64_t batch) {
    return (struct mra_rows) {
        .data = (const char *) t->data + first * t->nb[1] + head * t->nb[2] + batch * t->nb[3],
        .stride = t->nb[1],
        .type = t->type == GGML_TYPE_F16 ? MRA_F16 : MRA_F32,
    };
}

// the cell list of one head, which has n_row rows of cells; t NULL: none
static inline struct mra_cell_list mra_list_of(const struct ggml_tensor * t, int n_row, int64_t head, int64_t batch) {
    if (!t) return (struct mra_cell_list) { 0 };
    return (struct mra_cell_list) {
        .offsets = (const int32_t *) ((const char *) t->data + head * t->nb[1] + batch * t->nb[2]),
        .n_row = n_row,
        .cap = (int) (t->ne[0] - n_row - 1),
    };
}

int mra_slots(int n_threads); // threads that may take part

// what topk_blocks builds, for the composed attention: p holds rule, take, sizes, priors; cap: cells of a list
struct ggml_tensor * mra_topk_blocks_new(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * lengths, const struct mra_level * level, int64_t cap,
    struct mra_topk_blocks_node p, int n_threads, struct mra_error * err);

// For a frame that drops what is not refined: the state of coarse_state with nothing in it, but NaN in rows that drop a
// score of NaN or +inf, so that these are not lost. v: any of the keys' values; only its shape counts.
struct ggml_tensor * mra_dropped_state_new(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * refined, struct ggml_tensor * v, struct ggml_tensor * state,
    struct ggml_tensor * lengths, const struct mra_level * level, struct mra_error * err);

// what ggml_mra_linear builds, of any form: `of` holds all but n_w and slots
struct ggml_tensor * mra_linear_new(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_dense * w,
    int n_w, struct ggml_tensor * residual, struct mra_linear_node of, int n_threads, struct mra_error * err);
