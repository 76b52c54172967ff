// The pack node and what the attention nodes behind it take from it. Private to the library.
#pragma once

#include "node.h"

// The node that holds K and V laid out for the attention kernels, and the scratch memory of the attention node behind
// it. q: read with attn->int8 only. attn: frame, slots, max_len and what else the frame needs; starts: lengths holds
// the starts of n_seq packed sequences.
struct ggml_tensor * mra_pack_new(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, bool starts, const struct mra_attn_node * attn, int64_t n_seq,
    struct mra_error * err);

// The scheduler may compute the pack node and the attention node on different devices, which lay K and V out in their
// own ways. src[3] of the attention node is then a copy of bytes that mean nothing here. mra_pack_again: the pack node
// of attn, to be computed in the memory of that copy.
bool mra_pack_is_foreign(const struct ggml_tensor * attn);
struct ggml_tensor mra_pack_again(const struct ggml_tensor * attn);

// Where everything lies in the pack node's memory on the CPU, from its start, which is aligned first:
// [ work counter | sequence 0: head 0, head 1, ... | sequence 1 ... | slot 0 | slot 1 ... ]
struct mra_pack_layout {
    size_t first;     // where sequence 0 begins
    size_t per_token; // a head of a sequence of n tokens has n*per_token + per_head bytes
    size_t per_head;
    size_t slots; // where slot 0 begins
    size_t slot;  // bytes of a slot
    size_t bytes;
    int group; // query blocks per work item
};

// One call of the attention kernels, from the sources of its node: which sequences there are, and where everything
// lies.
struct mra_job {
    const struct ggml_tensor *q, *k, *v, *lengths;
    const struct ggml_tensor * sample; // in the pack node: q, where K and V become integers
    struct ggml_tensor * dst;          // NULL in the pack node
    struct mra_attn_node attn;
    const struct mra_int8_kernels * int8; // NULL: in floats
    bool starts, copy, finest_only;       // the pack node's flags
    struct mra_pack_layout layout;
    const struct ggml_tensor * order;  // the query_order node, NULL: not the sorted frame
    const struct ggml_tensor * shares; // of the heads, NULL: all alike
    char * mem;                        // the pack node's data, aligned; NULL in the query_order node
    int64_t n_seq;
};

// The node of the sorted frame that holds the order of the queries and what else is computed once per head; attn as
// above.
struct ggml_tensor * mra_query_order_new(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, struct ggml_tensor * shares, bool starts,
    const struct mra_attn_node * attn, int64_t n_seq, struct mra_error * err);
// the job of query_order node dst
struct mra_job mra_job_of_order(struct ggml_tensor * dst, const struct mra_node * p);
// a->sorted and n_all of head `head` of sequence s, whose first query is query `first` of its batch
void mra_sorted_head(const struct mra_job * j, int64_t s, int64_t head, int64_t first, struct mra_attn_head * a);

// The job of attention node dst, thread ith. false: this thread must not take part. again: memory for a node.
bool mra_job_of(
    struct mra_job * j, struct ggml_tensor * dst, const struct mra_node * p, int ith, struct ggml_tensor * again);
// head `head` (of q; of k and v where q is NULL) of sequence s; *n_rows: output rows of the sequence, valid or not
struct mra_attn_head mra_job_head(const struct mra_job * j, int64_t s, int64_t head, int64_t * n_rows, bool * exact);
// what head `head` does with n_k > 0 keys; shares may be NULL
struct mra_columns_plan mra_head_plan(
    const struct mra_attn_node * a, const struct ggml_tensor * shares, int64_t head, int n_k);
int mra_job_take(const struct mra_job * j); // next work item; the pack node sets the counter to 0
void * mra_job_slot(const struct mra_job * j, int ith);

// output rows [first, end) become 0
static inline void mra_zero_rows(const struct mra_attn_head * a, int64_t first, int64_t end) {
    for (int64_t i = first; i < end; i++) memset(a->out + i * a->ld_out, 0, a->dv * sizeof(float));
}
