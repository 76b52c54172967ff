// How nodes are made, read and computed. Private to the library.
#pragma once

#include "ggml-mra.h"
#include "kernels.h"
#include "node-params.h"

#include <string.h>

#define MRA_PARAMS_OFFS (GGML_MAX_OP_PARAMS - sizeof(struct mra_node))
_Static_assert(sizeof(struct mra_node) <= GGML_MAX_OP_PARAMS - 24, "ggml_custom_op_params takes the first 24 bytes");

static inline struct mra_node mra_node_get(const struct ggml_tensor * t) {
    struct mra_node p = { 0 };
    if (t->op == GGML_OP_CUSTOM) memcpy(&p, (const char *) t->op_params + MRA_PARAMS_OFFS, sizeof(p));
    if (p.magic != MRA_MAGIC || p.kind >= MRA_KIND_COUNT) p.kind = MRA_KIND_NONE;
    return p;
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

// A node of ours; src may hold NULLs, which are left out. NULL with a reason where ggml's layout is not what we know.
struct ggml_tensor * mra_node_new(struct ggml_context * ctx, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2,
    int64_t ne3, struct ggml_tensor ** src, int n_src, struct mra_node p, const char * name, struct mra_error * err);

// ggml_custom_op_t: runs thread ith of nth
void mra_compute(struct ggml_tensor * dst, int ith, int nth, void * userdata);
void mra_compute_pool(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_block_score(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_topk_blocks(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_coarse_state(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_pack(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_block_sparse_attn(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_attn(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_scratch(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_linear(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_norm(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);

// Valid queries and keys of sequence b, from a lengths tensor (or NULL); cut to what the tensors hold.
struct mra_len mra_lengths(const struct ggml_tensor * lengths, int64_t n_batch, int64_t b, int64_t n_q, int64_t n_k);

enum mra_status mra_check_lengths(const struct ggml_tensor * lengths, int64_t n_batch, struct mra_error * err);
enum mra_status mra_check_qkv(
    const struct ggml_tensor * q, const struct ggml_tensor * k, const struct ggml_tensor * v, struct mra_error * err);
enum mra_status mra_check_params(const struct mra_attn_params * p, struct mra_error * err);

// The node that holds packed K and V and the scratch memory of the attention node behind it (pack.c). p: a
// MRA_KIND_ATTN node's parameters; max_len: of a sequence.
struct ggml_tensor * mra_pack_node(struct ggml_context * ctx, struct ggml_tensor * k, struct ggml_tensor * v,
    struct ggml_tensor * lengths, const struct mra_node * p, int64_t n_seq, int64_t max_len, struct mra_error * err);
// The scheduler may compute the two nodes on different devices, which lay K and V out differently: src[3] of an
// attention node is then a copy of bytes that mean nothing here. mra_pack_again: the pack node of attn, to be computed
// in the memory of that copy.
bool mra_pack_is_foreign(const struct ggml_tensor * attn);
struct ggml_tensor mra_pack_again(const struct ggml_tensor * attn);

// One call of the attention kernels, from the sources of its node: which sequences there are, and where everything
// lies.
struct mra_job {
    const struct ggml_tensor *q, *k, *v, *lengths;
    struct ggml_tensor * dst; // NULL in the pack node
    struct mra_node pack;     // the pack node's parameters
    char * mem;               // the pack node's data
    int64_t n_seq;
    int group; // query blocks per work item
    size_t slot_bytes;
};
struct mra_job mra_job_new(const struct ggml_tensor * q, const struct ggml_tensor * k, const struct ggml_tensor * v,
    const struct ggml_tensor * lengths, const struct ggml_tensor * pack, struct ggml_tensor * dst);
// head `head` (of q; of k and v where q is NULL) of sequence s; *n_rows: output rows of the sequence, valid or not
struct mra_attn_head mra_job_head(const struct mra_job * j, int64_t s, int64_t head, int64_t * n_rows, bool * exact);
int mra_job_take(const struct mra_job * j); // next work item; reset by the pack node
void * mra_job_slot(
    const struct mra_job * j, int ith); // scratch of thread ith, NULL: this thread has none and must not take part

// topk_blocks with capacity cap; p holds rule, count or {sizes, level, budget}, priors
struct ggml_tensor * mra_topk_blocks_node(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * lengths, const struct mra_level * level, int64_t cap,
    struct mra_node p, int n_threads, struct mra_error * err);

int mra_slots(int n_threads); // threads that may take part
