// Kernel contracts: plain pointers, no ggml types. Every implementation - the scalar reference and each CPU instruction
// set level - is one table of this type. Kernels trust what is said here; ops check it before.
#pragma once

#include "int8.h"
#include "plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mra_type { MRA_F32, MRA_F16 };
enum mra_glu_act { MRA_GLU_ACT_GELU, MRA_GLU_ACT_GELU_TANH, MRA_GLU_ACT_RELU, MRA_GLU_ACT_SILU };
enum mra_pool_kind { MRA_POOL_KIND_MEAN, MRA_POOL_KIND_MIN, MRA_POOL_KIND_MAX };

enum {
    MRA_EXACT_ROWS = 64, // queries per work item of the exact frame
    MRA_GROUP_MAX = 64,  // query blocks per work item of the columns frame, at most
    MRA_PAD = 16,        // packed rows are padded with zeros to a multiple of this
    MRA_PANEL = 32,      // block columns per panel of the packed block statistics
    MRA_ORDER_KEYS = MRA_SORTED_KEYS,
    MRA_ORDER_ROWS = MRA_SORTED_ROWS,
    MRA_LINEAR_ROWS = 1008,         // rows of a dense layer's work item, at most,
    MRA_LINEAR_VALUES = 294 * 3072, // and their values: as bytes they stay in a second-level cache
    MRA_LINEAR_COLS = 32,           // its columns are a multiple of this, but for the last
};

#define MRA_ROUND_UP(x, m) (((x) + (m) -1) / (m) * (m))

// Rows of one head of one sequence in a tensor: row t starts at data + t*stride bytes.
struct mra_rows {
    const char * data;
    size_t stride;
    enum mra_type type;
};

// K and V of one head of one sequence, laid out for the attention kernels. dk, dv: head sizes rounded up to MRA_PAD.
struct mra_pack {
    enum mra_type type;
    void * k;        // [n_k][ldk]   rows padded with zeros; the tensor itself where that already holds
    void * v;        // [n_k][ldv]
    size_t ldk, ldv; // elements
    // block statistics, columns frame only; blocks of g keys, n_b = ceil(n_k/g), n_p = n_b rounded up to MRA_PANEL
    void * kp;       // [n_b][dk][g]              keys of a block, transposed; 0 behind the last key. NULL: rows will do
    float * k_range; // [n_p/32][2*dk][32]        channel maxima, then minima, of 32 blocks
    float * k_mean;  // [n_p/32][dk][32]
    float * v_mean;  // [n_b][dv]
};

// What the sorted frame computes once per head of queries, before any attention.
struct mra_sorted {
    int32_t * order;    // [n_q]        the queries, alike ones side by side: 16 of them are a query block
    float * q_mean;     // [n_b][D]     mean of the queries of each block; D = d rounded up to MRA_PAD, 0 behind d
    float * q_var;      // [D]          mean over all queries of (q - q_mean of its block)^2
    float * spread;     // [n_b]        variance of scores within each block, up to a factor that all share
    int32_t * all_keys; // [n_b]        1: the queries of this block attend to all keys
    float * k_mean;     // [D]          mean key
    float * key_bias;   // [n_k]        added to q~.k_j where keys are chosen
};

// Attention of one head of one sequence.
struct mra_attn_head {
    struct mra_rows q, k, v;
    struct mra_pack pack;
    int n_q, n_k; // valid rows
    int d, dv;
    float scale;
    float * out; // row i at out + i*ld_out, dv floats
    size_t ld_out;
    // columns frame
    int g;      // keys per block, 16 or 32
    int m1, m2; // blocks expanded, keys kept, per query block
    int first_n, diag_n;
    bool bound;               // expand by the min/max bound, else by the pooled score
    bool finest_only;         // drop what is not kept
    int group;                // query blocks per work item: a multiple of 8, at most MRA_GROUP_MAX
    struct mra_sorted sorted; // sorted frame; order NULL: columns
    int n_all;                // its query blocks that use all keys
    // attention in integers: its kernels (NULL: in floats) and what they packed
    const struct mra_int8_kernels * int8;
    struct mra_int8_pack int8_pack;
};

// where query i of a head lies in its tensors: in the order of the text, or of the sorted frame
static inline size_t mra_query_at(const struct mra_attn_head * a, int i) {
    return a->sorted.order ? (size_t) a->sorted.order[i] : (size_t) i;
}

// query_order looks at every stride-th of n rows. Odd: positions that repeat have even periods.
static inline int mra_order_stride(int n, int n_wanted) { return n / n_wanted > 1 ? n / n_wanted | 1 : 1; }

// how many priors of the columns frame name key block y for query block x
static inline int mra_columns_named(const struct mra_attn_head * a, int x, int y) {
    return mra_columns_priors(a->first_n, a->diag_n, a->g, x, y);
}

enum mra_weight_type { MRA_W_F32, MRA_W_F16, MRA_W_Q8_0, MRA_W_Q4_0, MRA_W_Q4_K, MRA_W_ANY };

// Weights W [n][k] as a file has them, row j at data + j*stride. Q8_0, Q4_0, Q4_K: ggml's blocks.
struct mra_weights {
    const char * data;
    size_t stride, row_bytes;
    enum mra_weight_type type;
    void (*to_float)(const void * w, float * x, int64_t n); // all but F32; from the start of a block
    const float * bias;                                     // [n] or NULL
    int n, first;                                           // first column of y
};

// 32 values of a row of bytes: value i is d*q[i], d being the largest of them over 127
struct mra_byte_group {
    float d;     // of NaN and infinity, whatever the bytes are
    int32_t sum; // of the bytes
    int8_t q[32];
};

// y_i = gelu(W x_i + bias) + res_i, or with a gate y_i = act(gate x_i + its bias) (W x_i + bias). Rows of f32, strides
// in bytes. k is a multiple of 32; of 256 for types with larger blocks.
struct mra_linear {
    const char *x, *res; // res may be NULL, and may be y
    char * y;
    size_t stride_x, stride_res, stride_y;
    int k;
    bool gelu;                       // x Phi(x)
    bool x_bytes, y_bytes;           // rows are struct mra_byte_group; of x: no weights are floats; of y: no residual
    const struct mra_weights * gate; // of the shape of W, floats where W is; NULL: none
    int act;                         // enum mra_glu_act, behind a gate
    bool stream;                     // y is so large that caches do not keep it
    bool floats, integers;           // kinds of weights that x will meet: F32 and F16, all others
};

// Rows of a work item, at most: whole tiles of 6 rows, and nearly so of 12 and 14.
static inline int mra_linear_rows(int k) {
    const int n = MRA_LINEAR_VALUES / k / 42 * 42;
    return n < 42 ? 42 : n > MRA_LINEAR_ROWS ? MRA_LINEAR_ROWS : n;
}

struct mra_dense_kernels {
    // Rows [i0, i1) of x, at most mra_linear_rows(k), into scratch, in the form linear wants them.
    void (*linear_x)(const struct mra_linear * a, int i0, int i1, void * scratch);

    // y for the rows that linear_x took, columns [n0, n1) of w; n0 is a multiple of MRA_LINEAR_COLS
    void (*linear)(
        const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1, void * scratch);

    // Rows it computes at once, and how many values of x it wants at most in a work item; 0: 12, MRA_LINEAR_VALUES
    int rows, values;

    bool bytes; // it reads and writes rows of bytes, and rounds rows of floats to the same
};

// Values that are not finite, alike in every table: NaN in gives NaN out.
//   Scores are F32 (times log2(e)); one beyond that range is infinite. A score of -inf has no weight, and a row without
//   any weight is 0. A score of NaN or +inf among those a row uses makes the row NaN. The columns frame uses, for each
//   query of a block of 16, the scores of the block's mean: a NaN among them, also of keys it then drops, makes all 16
//   rows NaN. NaN or an infinity in V of a key that is used makes its channel NaN or infinite.
//   pool: NaN in the block gives NaN in the channel. block_score: NaN in q or k gives NaN. coarse_state: a score of NaN
//   makes max, sum and o NaN; of +inf, sum and o. norm: all NaN. glu: the channel. rope: the pair. pack: k_mean and
//   v_mean of a block with NaN are NaN, k_range is any; of infinities it holds +-FLT_MAX.
struct mra_kernels {
    const char * name;

    // dst[b - b0][d] = mean, minimum or maximum (kind: enum mra_pool_kind) over rows [b*block, (b+1)*block) of x, cut
    // off at n_valid; 0 if none is left
    void (*pool)(float * dst, struct mra_rows x, int d, int n_valid, int block, int kind, int b0, int b1);

    // dst[i*ld + j] = scale * q_i.k_j, or with k_max, k being the minima:  scale * sum_c max(q_ic k_jc, q_ic k_max_jc)
    // q_i at q + i*ldq floats, k_j and k_max_j at k + j*ldk
    void (*block_score)(float * dst, size_t ld, const float * q, size_t ldq, int n_q, const float * k,
        const float * k_max, size_t ldk, int n_k, int d, float scale);

    // idx = positions of the m largest of x[n], ascending; ties to the lower position. -inf and NaN are never taken, so
    // fewer than m may be written; returns how many. x has room for, and idx may be written up to, 16 further entries.
    int (*topk_blocks)(int32_t * idx, float * x, int n, int m);

    // Adds n cells to a softmax state (o[dv], max, sum; max = -inf: empty): cell j has score s[j], weight w[j] and
    // value row y[j] of v.
    void (*coarse_state)(float * o, float * max, float * sum, const float * s, const float * w, const int32_t * y,
        int n, const float * v, size_t ldv, int dv);

    // Fills the pack of a->k, a->v for keys [j0, j1); j0 is a multiple of 16*g. copy: k and v rows; columns: block
    // statistics, of which only kp is needed, and filled, where all blocks are expanded
    void (*pack)(const struct mra_attn_head * a, int j0, int j1, bool copy, bool columns);

    // Query rows [i0, i1) (at most MRA_EXACT_ROWS) over keys: all of them (cells NULL), or n_cell blocks of g keys,
    // cells[] ascending, cut off at n_k. state: o[dv], max, sum that every row starts from, or NULL.
    void (*block_sparse_attn)(const struct mra_attn_head * a, int i0, int i1, const int32_t * cells, int n_cell, int g,
        const float * state, void * scratch);

    // sorted.order = the leaves, from left to right, of a balanced tree over the queries 0..n_q-1. A node of m > 16
    // queries y_1..y_m, ascending, sends those with the ceil(m/32)*16 smallest y.z to its left, ties to the lower
    // index:
    //   z = C Y'Y C_c,  c = argmax_c C_cc sum_i Y_ic^2,  Y = every stride-th y minus their mean,
    // C = covariance of every stride-th key: y'Cy is the variance of y's scores. A z of 0, or one that is not finite,
    // leaves the order as it is, and queries whose y.z is NaN come last.
    // Then the blocks' q_mean, q_var, and spread[x] = sum_c C_cc mean_{i in x} (q_ic - q_mean_c)^2. The n_all blocks
    // with the largest spread have all_keys, ties to the lower block: queries that are like no others end up together,
    // and their mean means nothing. given: sorted.order is there already. Reads a->q, k, n_q, n_k, d, n_all.
    void (*query_order)(const struct mra_attn_head * a, bool given, void * scratch);

    // sorted.k_mean, and
    //   key_bias[j] = [1/2 log(scale^2 sum_c q_var_c (k_jc - k_mean_c)^2) + log|v_j - v_mean|]/scale.
    // 1e-9, 1e-18 are added to what the logarithms see (of |v|, squared). exp(scale*(q~.k_j + bias)) is about the error
    // of leaving key j to q~. A sum beyond F32's range counts as its
    // largest number; a bias of NaN becomes 0. Reads sorted.q_var.
    void (*key_bias)(const struct mra_attn_head * a, void * scratch);

    // Columns frame, query blocks [x0, x0 + a->group) as far as there are any. With a->int8 the kept keys' part is
    // computed in integers, where these are good enough, and so are logits and coarse values where it has the kernels;
    // scratch then has MRA_INT8_SCRATCH bytes more. Where pack.kp is NULL, logits in floats come from rows of K.
    // With sorted.order: the sorted frame. Query block x has the queries order[16 x ...], its key blocks are expanded
    // by bound + largest bias, keys kept by q~.k_j + key_bias[j], and what is not kept weighs e^{scale (q~.k_j + (q_i -
    // q~).k_mean)}: as if k_mean had been subtracted from all keys. Blocks with all_keys are exact.
    void (*columns)(const struct mra_attn_head * a, int x0, void * scratch);

    struct mra_dense_kernels dense;

    // y = (x - mean)/sqrt(var + eps)*w + b over n values, var = mean of (x - mean)^2; rms: with 0 for the mean. b may
    // be NULL; y may be x
    void (*norm)(float * y, const float * x, const float * w, const float * b, int n, float eps, bool rms);

    // y_c = act(gate_c)*up_c, c < n; act: enum mra_glu_act. y may be gate or up
    void (*glu)(float * y, const float * gate, const float * up, int n, int act);

    // Turns n_head heads of d channels that lie end to end, in place: with r = n_rot/2, table = cos_0..cos_r-1,
    // sin_0..sin_r-1 and the pair c < r being channels (c, r + c), or (2c, 2c + 1) if interleaved,
    //   (a, b) -> (a cos_c - b sin_c, b cos_c + a sin_c).
    // Channels from n_rot on stay as they are.
    void (*rope)(float * x, const float * table, int n_head, int d, int n_rot, bool interleaved);

    // Query rows [i0, i1) (at most MRA_EXACT_ROWS) over the keys j with |i - j| <= window (window < 0: all), scores
    // scale*q_i.k_j - slope*|i - j|
    void (*window_attn)(const struct mra_attn_head * a, int i0, int i1, int window, float slope, void * scratch);

    // Attention in integers; its functions are NULL where the CPU does not gain by it.
    struct mra_int8_kernels int8;
};

// Scratch bytes one thread needs for linear (floats: of some weights; gate: with one), for block_sparse_attn and
// window_attn, for columns (n_k, m1, g, group at their largest); 64-byte aligned.
size_t mra_linear_scratch(int k, bool floats, bool gate);
size_t mra_block_sparse_attn_scratch(int d, int dv);
size_t mra_sorted_scratch(int d, int dv, int n_q, int n_k); // query_order, key_bias
size_t mra_columns_scratch(int d, int dv, int n_k, int g, int m1, int m2, int group);

extern const struct mra_kernels mra_kernels_ref;
extern const struct mra_kernels mra_kernels_base; // any x86-64 with SSE4.2, or what the compiler targets
extern const struct mra_kernels mra_kernels_v3;   // AVX2 + FMA + F16C
extern const struct mra_kernels mra_kernels_v4;   // AVX-512 F, BW, DQ, VL
extern const struct mra_kernels mra_kernels_neon;

// Dense layers and attention in integers (int8.h) of CPUs with dot products of bytes. All other kernels are those of
// v3, v4 and neon: the tables "v3-vnni", "v4-vnni", "neon-dot", "neon-i8mm" (with products of matrices of bytes).
extern const struct mra_dense_kernels mra_dense_v3_vnni, mra_dense_v4_vnni, mra_dense_neon_dot, mra_dense_neon_i8mm;

// The same with tiles of bfloat16, "v4-amx": x and the values of quantized weights are rounded to bfloat16 once, their
// products are exact, sums are floats. mra_dense_ref_bf16: its reference.
extern const struct mra_dense_kernels mra_dense_v4_amx, mra_dense_ref_bf16;

// The best table this CPU can run, or the one MRA_ISA names. NULL from by_name: unknown here, or not runnable on this
// CPU.
const struct mra_kernels * mra_kernels_get(void);
const struct mra_kernels * mra_kernels_by_name(const char * name);
void mra_kernels_set(const struct mra_kernels * k); // tests and benchmarks
