// What a node of ours carries, and how it is made and read. Private to the library.
#pragma once

#include "ggml-mra.h"
#include "kernels.h"

#include <string.h>

enum mra_kind {
    MRA_KIND_NONE, MRA_KIND_POOL, MRA_KIND_SCORE, MRA_KIND_TOPK, MRA_KIND_COARSE, MRA_KIND_PACK, MRA_KIND_SPARSE, MRA_KIND_ATTN,
    MRA_KIND_COUNT
};

enum mra_flag {
    MRA_HAS_LENGTHS = 1 << 0, // optional sources, in this order behind the fixed ones
    MRA_HAS_PARENTS = 1 << 1,
    MRA_HAS_K_MAX   = 1 << 2,
    MRA_HAS_STATE   = 1 << 3,
    MRA_IS_STARTS   = 1 << 4, // the lengths tensor holds the starts of packed sequences
    MRA_KEYS        = 1 << 5, // pool: key lengths
    MRA_DROP        = 1 << 6, // attn: MRA-2-s
    MRA_COPY        = 1 << 7, // pack: rows of k and v are copied
};

// Parameters travel in the last 40 bytes of op_params (64): ggml's own {fun, n_tasks, userdata} take the first 24. No userdata,
// so there is no lifetime to manage and graph copies keep working.
struct mra_node {
    uint32_t magic;
    uint8_t  kind, flags, rule, level;
    union {
        struct { int32_t block, pool; } pool;
        struct { struct mra_node_shape { uint8_t h, g, ph, pg; } shape; int32_t n_q, n_k; float scale; } score;
        struct { struct mra_node_shape shape; int32_t n_q, n_k; int32_t count; uint16_t first_n, diag_n; uint8_t sizes[4]; float budget; int32_t slots; } topk; // count < 0: from the budget
        struct { struct mra_node_shape shape; int32_t n_q, n_k; } coarse;
        struct { uint8_t h, g; float scale; } sparse;
        struct { uint8_t frame, block; uint16_t first_n, diag_n; int32_t m1, m2; float scale, budget; int32_t slots, max_len; } attn; // pack and attn
    } u;
};
#define MRA_MAGIC       0x3141524dU // "MRA1"
#define MRA_PARAMS_OFFS (GGML_MAX_OP_PARAMS - sizeof(struct mra_node))
_Static_assert(sizeof(struct mra_node) <= GGML_MAX_OP_PARAMS - 24, "ggml_custom_op_params takes the first 24 bytes");

static inline struct mra_node mra_node_get(const struct ggml_tensor * t) {
    struct mra_node p = {0};
    if (t->op == GGML_OP_CUSTOM) memcpy(&p, (const char *) t->op_params + MRA_PARAMS_OFFS, sizeof(p));
    if (p.magic != MRA_MAGIC || p.kind >= MRA_KIND_COUNT) p.kind = MRA_KIND_NONE;
    return p;
}

// A node of ours; src may hold NULLs, which are left out. NULL with a reason where ggml's layout is not what we know.
struct ggml_tensor * mra_node_new(struct ggml_context * ctx, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
        struct ggml_tensor ** src, int n_src, struct mra_node p, const char * name, struct mra_error * err);

// ggml_custom_op_t: runs thread ith of nth
void mra_compute(struct ggml_tensor * dst, int ith, int nth, void * userdata);
void mra_compute_pool  (struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_score (struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_topk  (struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_coarse(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_pack  (struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_sparse(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
void mra_compute_attn  (struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);

// Valid queries and keys of sequence b, from a lengths tensor (or NULL); cut to what the tensors hold.
struct mra_len { int n_q, n_k; };
struct mra_len mra_lengths(const struct ggml_tensor * lengths, int64_t n_batch, int64_t b, int64_t n_q, int64_t n_k);

enum mra_status mra_check_lengths(const struct ggml_tensor * lengths, int64_t n_batch, struct mra_error * err);
enum mra_status mra_check_qkv(const struct ggml_tensor * q, const struct ggml_tensor * k, const struct ggml_tensor * v, struct mra_error * err);
enum mra_status mra_check_params(const struct mra_attn_params * p, struct mra_error * err);

// The columns frame for one sequence.
struct mra_columns_plan {
    bool exact, bound; // exact: the budget covers everything
    int  g, m1, m2;    // keys per block; blocks expanded, keys kept
};
struct mra_columns_plan mra_plan_columns(float budget, int m1, int m2, int block, int n_k);

// Cells refined at each level of a square frame (sizes ends with 1, then 0), per row of cells or per head.
void mra_plan_square(const int * sizes, const int * explicit_counts, float budget, enum mra_rule rule, int64_t n_q, int64_t n_k, int64_t * counts);

// The node that holds packed K and V and the scratch memory of the attention node behind it (pack.c). p: a MRA_KIND_ATTN node's
// parameters; max_len: of a sequence.
struct ggml_tensor * mra_pack_node(struct ggml_context * ctx, struct ggml_tensor * k, struct ggml_tensor * v, struct ggml_tensor * lengths,
        const struct mra_node * p, int64_t n_seq, int64_t max_len, struct mra_error * err);

// One call of the attention kernels, from the sources of its node: which sequences there are, and where everything lies.
struct mra_job {
    const struct ggml_tensor * q, * k, * v, * lengths;
    struct ggml_tensor *       dst;         // NULL in the pack node
    struct mra_node            pack;        // the pack node's parameters
    char *                     mem;         // the pack node's data
    int64_t                    n_seq;
    int                        group;       // query blocks per work item
    size_t                     slot_bytes;
};
struct mra_job mra_job_new(const struct ggml_tensor * q, const struct ggml_tensor * k, const struct ggml_tensor * v, const struct ggml_tensor * lengths,
        const struct ggml_tensor * pack, struct ggml_tensor * dst);
// head `head` (of q; of k and v where q is NULL) of sequence s; *n_rows: output rows of the sequence, valid or not
struct mra_head mra_job_head(const struct mra_job * j, int64_t s, int64_t head, int64_t * n_rows, bool * exact);
int    mra_job_take(const struct mra_job * j);            // next work item; reset by the pack node
void * mra_job_slot(const struct mra_job * j, int ith);   // scratch of thread ith, NULL: this thread has none and must not take part

// topk_blocks' sort keys of one thread: all cells of a head, or one row of cells
enum { MRA_SELECT_SLACK = 16 }; // what the select kernel may write behind its last entry
static inline int64_t mra_topk_keys(int rule, int64_t cells, int64_t row) {
    return (rule == MRA_RULE_ROW && row < cells ? row : cells) + 4*MRA_SELECT_SLACK;
}
// topk_blocks with capacity cap; p holds rule, count or {sizes, level, budget}, priors
struct ggml_tensor * mra_topk_node(struct ggml_context * ctx, struct ggml_tensor * scores, struct ggml_tensor * parents, struct ggml_tensor * lengths,
        const struct mra_level * level, int64_t cap, struct mra_node p, int n_threads, struct mra_error * err);

int mra_slots(int n_threads); // threads that may take part
