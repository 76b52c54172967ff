// What a node of ours carries, without ggml's types: its kind, which sources it has, and its parameters; tensors as
// plain strided arrays. Shared by the drivers of all devices.
#pragma once

#include "cells.h"

// The one table of node kinds: ROW(kind, word, name). The word names the driver mra_compute_<word> and the node
// ("mra_<word>"), the name is what ggml_mra_op_name gives.
#define MRA_NODE_KINDS(ROW) \
    ROW(POOL, pool, "pool") \
    ROW(BLOCK_SCORE, block_score, "block-score") \
    ROW(TOPK_BLOCKS, topk_blocks, "topk-blocks") \
    ROW(COARSE_STATE, coarse_state, "coarse-state") \
    ROW(PACK, pack, "pack") \
    ROW(BLOCK_SPARSE_ATTN, block_sparse_attn, "block-sparse-attn") \
    ROW(ATTN, attn, "attn") \
    ROW(QUERY_ORDER, query_order, "query-order") \
    ROW(SPAN_POOL, span_pool, "span-pool") \
    ROW(NORM, norm, "norm") \
    ROW(GLU, glu, "glu") \
    ROW(ROPE_TABLE, rope_table, "rope-table") \
    ROW(ROPE, rope, "rope") \
    ROW(WINDOW_ATTN, window_attn, "window-attn") \
    ROW(SCRATCH, scratch, "scratch") \
    ROW(LINEAR, linear, "linear") \
    ROW(ATTN_ERROR, attn_error, "attn-error") \
    ROW(ATTN_LEVELS, attn_levels, "attn-levels")

enum mra_kind {
    MRA_KIND_NONE,
#define ROW(kind, word, name) MRA_KIND_##kind,
    MRA_NODE_KINDS(ROW)
#undef ROW
        MRA_KIND_COUNT
};

// Optional sources. A node has its fixed sources first, then those of these that were given, in this order.
enum mra_source {
    MRA_SRC_K_MAX,
    MRA_SRC_PARENTS,
    MRA_SRC_STATE,
    MRA_SRC_LENGTHS,               // of attn, pack, query_order also: the starts of packed sequences (MRA_FLAG_STARTS)
    MRA_SRC_BIAS,                  // of the first weights; those of the next weights follow
    MRA_SRC_SHARES = MRA_SRC_BIAS, // of attn, query_order, attn_error: how many keys each head keeps, beside the others
    MRA_SRC_RESIDUAL = MRA_SRC_BIAS + 3,
    MRA_SRC_COUNT
};

enum mra_flag {
    MRA_FLAG_STARTS = 1 << 0,      // attn, pack, query_order: the lengths tensor holds the starts of packed sequences
    MRA_FLAG_KEYS = 1 << 1,        // pool: x are keys, so that key lengths count
    MRA_FLAG_FINEST_ONLY = 1 << 2, // attn, coarse_state: what is not refined is dropped (MRA-2-s)
    MRA_FLAG_COPY = 1 << 3,        // pack: rows of k and v are copied
    MRA_FLAG_GIVEN = 1 << 4,       // query_order, in tests: the order is there already
};

struct mra_pool_node {
    int32_t block; // rows per block
    int32_t kind;  // enum mra_pool of ggml-mra.h
};

struct mra_span_pool_node {
    uint8_t kind; // enum mra_span_kind
};

struct mra_block_score_node {
    struct mra_cell_level level;
    float scale;
};

struct mra_topk_blocks_node {
    struct mra_cell_level level;
    int32_t cap;      // cells a list has room for
    uint16_t first_n; // priors, as in ggml-mra.h
    uint16_t diag_n;
    uint8_t sizes[4]; // of all levels but the last, 0-filled, where the budget says how many are taken; else all 0
    union {
        int32_t count; // sizes[0] == 0: cells taken, of each row of cells or of the head
        float budget;  // of the whole attention
    } take;
    uint16_t slots;      // threads that have sort keys
    uint8_t rule;        // enum mra_rule
    uint8_t level_index; // where sizes are given: which of them this level has
};

struct mra_coarse_state_node {
    struct mra_cell_level level;
};

struct mra_block_sparse_attn_node {
    uint8_t h; // queries per block
    uint8_t g; // keys per block
    float scale;
};

// Of a pack node whose keys are read in order by the queries near them: rows stay where they are, even if spread.
enum { MRA_FRAME_NEAR = 255 };

// pack, query_order and attn
struct mra_attn_node {
    uint8_t frame;    // enum mra_frame; of a pack node also MRA_FRAME_NEAR
    uint8_t block;    // columns, sorted: keys per block, 0: by length
    uint16_t first_n; // priors, as in ggml-mra.h
    uint16_t diag_n;
    uint16_t slots; // threads that have scratch memory
    int32_t m1;     // columns, sorted: key blocks expanded, -1: the budget says how many
    int32_t m2;     // keys kept
    float scale;
    float budget;
    int32_t max_len;      // longest sequence
    uint8_t int8 : 4;     // on the CPU in integers: bytes of an integer of K and V; 0: in floats
    uint8_t int8_all : 4; // columns, sorted: so are scores and coarse values; no keys are transposed as floats
    uint8_t shares;       // sorted: heads keep different numbers of keys (MRA_SRC_SHARES, but for pack)
    int16_t n_all;        // sorted: query blocks that use all keys, -1: by length
};

struct mra_linear_node {
    uint8_t n_w;    // weights, side by side
    uint8_t gelu;   // with the activation
    uint16_t slots; // threads that have scratch memory
    uint8_t gated;  // the weights are a gate and what is multiplied with it, or one of both, the gate first
    uint8_t act;    // enum mra_glu, of the gate
    uint8_t bytes;  // rows of the result are struct mra_byte_group
};

struct mra_norm_node {
    float eps;
    uint8_t rms; // the mean is not subtracted
};

struct mra_glu_node {
    uint8_t act; // enum mra_glu
};

struct mra_rope_table_node {
    float base;
    float scale; // of positions
};

struct mra_rope_node {
    int32_t n_head; // heads at the start of a row that are turned
    int32_t d;
    uint8_t interleaved;
};

struct mra_window_attn_node {
    float scale;
    float max_bias;  // ALiBi's; 0: none
    int32_t window;  // largest distance, -1: any
    int32_t max_len; // longest sequence
};

struct mra_attn_error_node {
    float scale;
    int32_t n_rows; // sampled of each head
    // where the order of the queries is a source: of the attention that made it, as above
    float budget;
    int32_t m1, m2;
    uint8_t block, int8;
};

struct mra_attn_levels_node {
    int32_t step;   // every step-th query
    uint16_t slots; // threads that have scratch memory
};

// Parameters travel in the last 40 bytes of op_params (64): ggml's own {fun, n_tasks, userdata} take the first 24. No
// userdata, so there is no lifetime to manage and graph copies keep working.
struct mra_node {
    uint32_t magic;
    uint8_t kind;    // enum mra_kind
    uint8_t n_fixed; // fixed sources
    uint8_t sources; // bit s: it has optional source s of enum mra_source
    uint8_t flags;   // of enum mra_flag
    union {
        struct mra_pool_node pool;
        struct mra_block_score_node block_score;
        struct mra_topk_blocks_node topk_blocks;
        struct mra_coarse_state_node coarse_state;
        struct mra_block_sparse_attn_node block_sparse_attn;
        struct mra_attn_node attn;
        struct mra_linear_node linear;
        struct mra_norm_node norm;
        struct mra_glu_node glu;
        struct mra_rope_table_node rope_table;
        struct mra_rope_node rope;
        struct mra_window_attn_node window_attn;
        struct mra_attn_error_node attn_error;
        struct mra_attn_levels_node attn_levels;
        struct mra_span_pool_node span_pool;
    } u;
};
#define MRA_MAGIC 0x3141524dU // "MRA1"

// where optional source s stands among the sources of a node; -1: the node has none
MRA_INLINE int mra_source_at(const struct mra_node * p, int s) {
    if (!(p->sources >> s & 1)) return -1;
    int at = p->n_fixed;
    for (int i = 0; i < s; i++) at += p->sources >> i & 1;
    return at;
}
// number of sources of a node
MRA_INLINE int mra_source_count(const struct mra_node * p) {
    int n = p->n_fixed;
    for (int i = 0; i < MRA_SRC_COUNT; i++) n += p->sources >> i & 1;
    return n;
}

// -log2 of ALiBi's slope of a head, for max_bias = 1: (h + 1)/m of the first m heads, m the largest power of two up to
// n_head; the others have those of 2m heads that lie between
MRA_INLINE float mra_alibi_exponent(int64_t h, int64_t n_head) {
    int64_t m = 1;
    while (2 * m <= n_head) m *= 2;
    return h < m ? (float) (h + 1) / (float) m : (float) (2 * (h - m) + 1) / (float) (2 * m);
}

// frames whose query blocks choose single keys
MRA_INLINE bool mra_attn_has_columns(const struct mra_attn_node * a) {
    return a->frame == MRA_PLAN_COLUMNS || a->frame == MRA_PLAN_SORTED;
}

// the columns or sorted frame of a sequence of n_k keys
MRA_INLINE struct mra_columns_plan mra_attn_plan(const struct mra_attn_node * a, int n_k) {
    if (a->frame == MRA_PLAN_SORTED) return mra_plan_sorted(a->budget, a->m1, a->m2, a->block, n_k);
    return mra_plan_columns(a->budget, a->m1, a->m2, a->block, n_k);
}

// sorted: query blocks of a sequence of n_q queries that use all keys
MRA_INLINE int mra_attn_all_keys(const struct mra_attn_node * a, int n_q) {
    const int n_b = mra_div_up(n_q, MRA_QUERY_BLOCK);
    return a->n_all < 0 ? mra_sorted_all_keys(a->m1 < 0 ? a->budget : 1.0f, n_q) : mra_min(a->n_all, n_b);
}

// The results of a query_order node, in 4-byte words; every device lays them out alike. Sequence s, whose first query
// is query t of all sequences, has its query blocks from t/MRA_QUERY_BLOCK + s on. Scratch memory follows.
struct mra_order_layout {
    int64_t order;    // I32 [n_batch][n_head][n_q]     indices within the sequence, -1 behind its last query
    int64_t key_bias; // F32 [n_batch][n_head][n_k]
    int64_t q_mean;   // F32 [n_head][n_b][dim]
    int64_t spread;   // F32 [n_head][n_b]
    int64_t all_keys; // I32 [n_head][n_b]
    int64_t q_var;    // F32 [n_seq][n_head][dim]
    int64_t k_mean;   // F32 [n_seq][n_head][dim]
    int64_t words;
    int64_t n_b; // query blocks of a head of all sequences
    int dim;     // head size rounded up to 16
};
// n_seq: packed sequences, or n_batch
MRA_INLINE struct mra_order_layout mra_order_layout_of(
    int d, int64_t n_q, int64_t n_k, int64_t n_head, int64_t n_batch, int64_t n_seq) {
    struct mra_order_layout l;
    l.n_b = n_batch * n_q / MRA_QUERY_BLOCK + n_seq;
    l.dim = (d + 15) / 16 * 16;
    int64_t at = 0;
#define MRA_TAKE(n) (at = (at + 15) / 16 * 16 + (n), at - (n))
    l.order = MRA_TAKE(n_batch * n_head * n_q);
    l.key_bias = MRA_TAKE(n_batch * n_head * n_k);
    l.q_mean = MRA_TAKE(n_head * l.n_b * l.dim);
    l.spread = MRA_TAKE(n_head * l.n_b);
    l.all_keys = MRA_TAKE(n_head * l.n_b);
    l.q_var = MRA_TAKE(n_seq * n_head * l.dim);
    l.k_mean = MRA_TAKE(n_seq * n_head * l.dim);
#undef MRA_TAKE
    l.words = at;
    return l;
}

enum mra_span_kind { MRA_SPAN_KIND_MEAN, MRA_SPAN_KIND_MEAN_SQRT, MRA_SPAN_KIND_MAX };

// rows of a span {first, n}, cut to the n_rows there are
struct mra_span_rows {
    int64_t first, n;
};
MRA_INLINE struct mra_span_rows mra_span_rows_of(const int32_t * span, int64_t n_rows) {
    struct mra_span_rows r = { span[0], span[1] };
    if (r.first < 0 || r.first >= n_rows || r.n < 0) r.first = r.n = 0;
    if (r.n > n_rows - r.first) r.n = n_rows - r.first;
    return r;
}
// what the sum over n rows, or their maximum, is multiplied by
MRA_INLINE double mra_span_scale(int kind, int64_t n) {
    return kind == MRA_SPAN_KIND_MAX || n < 1 ? 1.0
                                              : 1.0 / (kind == MRA_SPAN_KIND_MEAN ? (double) n : sqrt((double) n));
}

// how many cells a topk_blocks node takes of a sequence: of each row of cells, or of the head
MRA_INLINE int64_t mra_topk_count(const struct mra_topk_blocks_node * p, struct mra_len len) {
    if (!p->sizes[0]) return p->take.count;
    int sizes[MRA_PLAN_LEVELS + 1] = { 0 };
    int64_t counts[MRA_PLAN_LEVELS] = { 0 };
    for (int i = 0; i < 4 && p->sizes[i]; i++) {
        sizes[i] = p->sizes[i];
        sizes[i + 1] = 1;
    }
    if (len.n_q > 0 && len.n_k > 0) mra_plan_square(sizes, NULL, p->take.budget, p->rule, len.n_q, len.n_k, counts);
    return counts[p->level_index];
}

// The memory of a topk_blocks node, in 4-byte words: a cell list for each head of each sequence, then sort keys for
// each thread that takes part; or on a device, where a head has many rows of cells, what its thread blocks share.
enum {
    MRA_TOPK_SLACK = 16,    // words that the kernel may write behind its last entry
    MRA_TOPK_ROWS = 128,    // more rows than these are shared by several thread blocks
    MRA_TOPK_BINS = 4 * 256 // for each byte of the sort keys
};
struct mra_topk_layout {
    int64_t list;                 // words of a list: offsets, then cap columns
    int64_t stride;               // from one list to the next
    int64_t keys;                 // where the sort keys begin
    int64_t n_key;                // sort keys of one thread: of one row of cells, or of all cells of a head
    int64_t room;                 // words of one thread's sort keys
    int64_t device, device_words; // where a device's memory begins, and how much each list has; 0: none
    int64_t words;                // of all
};
// n_list: heads of all sequences; n_cell: cells of a head
MRA_INLINE struct mra_topk_layout mra_topk_layout_of(
    const struct mra_topk_blocks_node * p, int64_t n_list, int64_t n_cell) {
    const int64_t n_col = mra_level_cols(&p->level);
    struct mra_topk_layout l;
    l.list = mra_level_rows(&p->level) + 1 + (int64_t) p->cap;
    l.stride = l.list + MRA_TOPK_SLACK;
    l.keys = l.stride * n_list;
    l.n_key = p->rule == MRA_PLAN_ROW && n_col < n_cell ? n_col : n_cell;
    l.room = l.n_key + 4 * MRA_TOPK_SLACK;
    const int64_t n_row = mra_level_rows(&p->level), keys = l.keys + p->slots * l.room;
    l.device = (l.keys + 3) / 4 * 4;
    l.device_words = n_row > MRA_TOPK_ROWS ? MRA_TOPK_BINS + (3 * n_row + 3) / 4 * 4 : 0;
    l.words = l.device + n_list * l.device_words;
    if (l.words < keys) l.words = keys;
    return l;
}

enum mra_tensor_type { MRA_TENSOR_F32, MRA_TENSOR_F16, MRA_TENSOR_I32, MRA_TENSOR_I8 };

// element (i0, i1, i2, i3) at data + i0*nb[0] + i1*nb[1] + ...; data NULL: there is no such tensor
struct mra_tensor {
    char * data;
    enum mra_tensor_type type;
    int64_t ne[4];
    size_t nb[4];
};

// optional source s among the tensors src of a node, NULL: it has none
MRA_INLINE const struct mra_tensor * mra_tensor_source(
    const struct mra_node * p, int s, const struct mra_tensor * src) {
    const int at = mra_source_at(p, s);
    return at < 0 ? NULL : &src[at];
}
