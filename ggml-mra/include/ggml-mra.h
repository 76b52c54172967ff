// ggml-mra: multi-resolution (MRA) self-attention as ggml operators.
//
//     struct mra_attn_params p = mra_attn_params_default();       // columns frame, 1/8 of exact attention's work
//     struct ggml_tensor * o   = ggml_mra_attn(ctx, q, k, v, NULL, &p, &err);
//     if (!o) { fprintf(stderr, "%s\n", err.msg); ... }           // wrong shapes never abort
//     ggml_build_forward_expand(graph, o);                        // then compute as any other ggml graph
//
// Attention of one head is out_i = sum_j exp(p_ij) v_j / sum_j exp(p_ij), p_ij = scale * q_i.k_j. A *frame* covers the
// n_q x n_k score matrix with *cells* of h queries x g keys. A cell that is refined is split into cells of the next
// level, down to 1 x 1 (exact scores); one that is not contributes g' * exp(scale * q~.k~) * v~ to each of its rows,
// where q~, k~, v~ are the means over the cell's valid tokens and g' the number of its valid keys (Zeng et al., ICML
// 2022, Alg. 1 and 2).
//
// Every builder returns an ordinary ggml node (GGML_OP_CUSTOM, ggml's threads, no allocation while computing), or NULL
// with a reason in err. Results do not depend on the number of threads and repeat bit for bit.
//
// Shapes are given as ggml's ne[], fastest first; n_batch is ne[3]. Rows (ne[0]) must be contiguous; any other
// stride is fine, so permuted views can be used as they are. Types: F32, for k and v also F16.
//
// Pointers. err may be NULL in every call. ctx and all tensors must be given, except those whose comment says that they
// may be NULL; what is missing is refused with an error. A node reads its sources when it is computed; nothing else is
// kept, so params, levels and arrays of weights may go after the call.
//
// Memory is that of the nodes, allocated by ggml with the graph: the result, and for some operators a second node whose
// size is given at the builder. Below, D and DV are d and dv rounded up to 16, es is 2 for F16 and 4 for F32, and
// n_threads counts the threads that may take part.
#pragma once

#include "ggml.h"
#include "mra-error.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MRA_MAX_LEVELS 5   // cell sizes in a square frame
#define MRA_MAX_SIZE   128 // largest cell height or width
#define MRA_MAX_DIM    256 // largest head size

// Lengths. `lengths` may be NULL (every token is valid), or I32 [n_batch]: the number of valid keys of each sequence -
// and of valid queries too where n_q == n_k - or I32 [2, n_batch]: {queries, keys}. What lies behind is padding: never
// read, and its output rows are zero.

// ---- the whole attention ---------------------------------------------------------------------------------------

// Which frame when:
//   exact    up to some hundred tokens, where nothing is gained by less work; and wherever the result must be that of
//            softmax attention.
//   sorted   longer sequences, of a model that was trained with softmax attention. Closest to exact at equal work: its
//            query blocks are queries that are alike. A budget of 1/4 is a good start, 1/8 from some thousand tokens
//            on; what a budget costs in closeness depends on the model, so measure it. Exact up to 256 keys.
//   columns  the same with blocks of neighbouring queries: cheaper to start with, for priors, and for devices.
//   square   a model that was trained with MRA-2 (mra_attn_params_checkpoint), or to compare with the paper.
enum mra_frame {
    MRA_FRAME_EXACT,   // every cell refined: softmax attention
    MRA_FRAME_COLUMNS, // {16 x G, 16 x 1, 1 x 1}: query blocks choose single keys. The default
    MRA_FRAME_SQUARE,  // {s0 x s0, s1 x s1, ..., 1 x 1}: the paper's. {32, 1} is MRA-2
    MRA_FRAME_SORTED,  // columns over query blocks that are alike, with centred keys and a choice by expected error
};

// which cells of a level are refined
enum mra_rule {
    MRA_RULE_ROW,    // the best of each row of cells
    MRA_RULE_MU,     // the largest mu of the head (the paper)
    MRA_RULE_ROWMAX, // the largest log mu minus its row's maximum, over the head (the authors' code; better than MU)
};

// What scores and weighted values are computed in.
enum mra_attn_type {
    MRA_ATTN_FLOAT, // F32. The default
    MRA_ATTN_INT8,  // small integers, frames exact and columns: bytes where the CPU has dot products of bytes, about 3
                    // times as fast at a relative error of 1 % or less; 12 bits with AVX2, faster than floats at .03 %.
                    // Rows of queries whose scores would be too far off are computed in floats. Nodes on other kernels
                    // (mra_attn_type_runs) and on other devices compute in floats, or in what the device has
};

struct mra_attn_params {
    enum mra_frame frame;
    enum mra_attn_type type;
    float scale;                // 0: 1/sqrt(head size)
    float budget;               // work as a fraction of exact attention's, all levels and scores counted, 0 < w <= 1
    int counts[MRA_MAX_LEVELS]; // instead of the budget where counts[0] >= 0: cells refined at each level, per row of
                                // cells (RULE_ROW, columns) or per head. columns: {key blocks, single keys}; sorted:
                                // {key blocks, single keys, query blocks that use all keys (-1: one in 128)}
    int sizes[MRA_MAX_LEVELS];  // square: s0 > s1 > ... > 1, each a divisor of the one before, then 1; 0-filled
    enum mra_rule rule;         // square
    int block;                  // columns, sorted: G = 16 or 32; 0: 16, from 2048 keys on 32
    int first_n;      // not sorted: refined before all others: the first first_n block columns (square: and rows) ...
    int diag_n;       // ... and blocks at most diag_n/2 off the diagonal; they count towards the budget
    bool finest_only; // drop what is not refined to 1 x 1 (MRA-2-s)
    int n_threads;    // threads that may take part, 0: as many as this machine has; sizes the scratch memory
    // sorted: F32 [n_head], how many keys each head keeps, as a multiple of what the budget gives. Where that and the
    // columns are no less work than exact attention, the head is exact. Read when the node is computed; what is no
    // number >= 0 counts as 1. NULL: 1. Nodes with shares run on the CPU
    struct ggml_tensor * shares;
};

struct mra_attn_params mra_attn_params_default(void); // columns, budget 1/8
struct mra_attn_params mra_attn_params_exact(void);
struct mra_attn_params mra_attn_params_mra2(float budget);  // {32, 1}, RULE_ROWMAX
struct mra_attn_params mra_attn_params_mra2s(float budget); // the same, finest level only

// What a checkpoint trained with the authors' code (or Hugging Face's MraModel) expects: MRA-2 with the budget fixed at
// (max_pos/32)*block_per_row cells per head whatever the length, and its priors.
struct mra_attn_params mra_attn_params_checkpoint(
    int max_pos, int block_per_row, int first_n, int diag_n, bool finest_only);

// name: exact | columns | sorted | mra2 | mra2s | sizes such as 16,4,1. Keeps budget, type and n_threads of p; p is not
// changed where the name is refused.
enum mra_status mra_attn_params_parse(struct mra_attn_params * p, const char * name, struct mra_error * err);

// What the CPU kernels in use (mra_isa) compute such a node in: MRA_ATTN_FLOAT where they have no integers.
enum mra_attn_type mra_attn_type_runs(enum mra_attn_type type);
const char * mra_attn_type_name(enum mra_attn_type type); // "float", "int8"; NULL: unknown
// The numbers that they multiply for it: "float", or for MRA_ATTN_INT8 what the CPU has, "int8", "int16", "bf16"
const char * mra_attn_numbers(enum mra_attn_type type);

// Work of these settings as a fraction of exact attention's (4 n_q n_k d flops): cells scored at every level, the
// bound, and the exact pairs; of sorted also the order, biases and means, counted for a head size of 64. A sorted
// budget is planned for as many queries as keys. Negative if p is NULL or not valid.
double mra_attn_work(const struct mra_attn_params * p, int64_t n_q, int64_t n_k);
// Mean over the heads, whose shares are given here (p->shares is not read); NULL: mra_attn_work.
double mra_attn_work_shares(
    const struct mra_attn_params * p, int64_t n_q, int64_t n_k, const float * shares, int n_head);

// q [d, n_q, n_head, n_batch], k [d, n_k, n_head_kv, n_batch], v [dv, n_k, n_head_kv, n_batch] -> F32 [dv, n_head, n_q,
// n_batch], the layout of ggml_flash_attn_ext. d and dv are multiples of 8 from 8 to 256, n_head a multiple of
// n_head_kv. lengths may be NULL.
// Memory of exact, columns and sorted, beside the result: a node of about
//     n_head_kv * n_batch * n_k * (copy + stat + ints) + n_threads * scratch   bytes, where
//     copy    (D + DV)*es where rows of k or v have to be copied: d or dv is no multiple of 16, or rows do not lie end
//             to end (in the exact frame that matters from 1025 keys on, in int8 never); else 0
//     stat    columns, sorted: D*es + (3*D + DV)/4; exact: 0
//     ints    int8 where the CPU has kernels for it: 17 + D + DV, or 17 + 2*(D + DV) with 12 bits; else 0
//     scratch exact: 16 KB + 320*D + 512*DV. columns: this and group * (12*D + 4*DV + 8*n_k/G + 4*m1*(G + 1) + 4*m2),
//             m1 blocks being expanded and m2 keys kept; group: 8 to 64 query blocks, more than 8 only as long as their
//             logits, 4*m1*G bytes each, take at most 512 KB. int8: at least 136 KB (exact), 136 KB more (columns).
//             sorted: as columns, and 4*m1*G + 4*n_k/G
// or more where a device's layout of the same data is larger: its copies are F16. sorted has another node, see
// ggml_mra_query_order.
// A square frame has the nodes of its operators: at every level the pooled q, k, v, the scores of all cells, the list,
// the state.
struct ggml_tensor * ggml_mra_attn(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, const struct mra_attn_params * params,
    struct mra_error * err);

// The same attention for sequences laid end to end, without padding: q, k, v have ne[3] = 1 and hold the tokens of all
// sequences; starts I32 [n_seq + 1] gives the first token of each, ascending, then the end. Every sequence attends to
// itself. The budget is scaled to each sequence's length. max_len bounds the length of a sequence (scratch memory is
// sized by it). Frames: exact, columns and sorted. Memory: as above, all tokens counting as one sequence's, with about
// 512 bytes and 32 tokens' stat more for every head of every sequence. Rows of tokens that belong to no sequence are
// not written.
struct ggml_tensor * ggml_mra_attn_packed(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * starts, int64_t max_len, const struct mra_attn_params * params,
    struct mra_error * err);

// ---- the operators it is made of -------------------------------------------------------------------------------
// n_bq = ceil(n_q/h) and n_bk = ceil(n_k/g) count blocks; the last one may be partial.

enum mra_pool { MRA_POOL_MEAN, MRA_POOL_MIN, MRA_POOL_MAX };

// x [d, n, n_head, n_batch] -> F32 [d, ceil(n/block), n_head, n_batch]: over the valid tokens of each block; 0 where
// there is none. keys: use the key lengths of `lengths` (matters for its [2, n_batch] form only). lengths may be NULL.
// Memory: the result.
struct ggml_tensor * ggml_mra_pool(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * lengths,
    int block, enum mra_pool pool, bool keys, struct mra_error * err);

// x F32 [d, n], spans I32 [2, n_span]: {first row, number of rows} of each -> F32 [d, n_span]: mean, sum over
// sqrt(number) or maximum of its rows, summed in double; 0 where a span has none. Rows behind the last one do not
// count. NaN in a row gives NaN in its channel. Memory: the result.
enum mra_span_pool { MRA_SPAN_MEAN, MRA_SPAN_MEAN_SQRT, MRA_SPAN_MAX };
struct ggml_tensor * ggml_mra_span_pool(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * spans,
    enum mra_span_pool pool, struct mra_error * err);

// A level: cells of h queries x g keys. What each op needs to know of the level it works on.
struct mra_level {
    int64_t n_q, n_k;       // tokens
    int h, g;               // cell shape
    int parent_h, parent_g; // shape of the level above, multiples of h and g; 0 at the coarsest level
};

// Cell list: I32 [n_bq + 1 + cap, n_head, n_batch]. The first n_bq + 1 entries are offsets: the cells of block row x
// are entries [off[x], off[x+1]) of what follows, as key block indices in ascending order. Lists are data and need not
// be valid: what lies outside of the list or of the level is ignored, and so is what follows an index that does not
// ascend, so that a wrong list gives a wrong result in its own rows and does no other harm.

// q [d, n_bq, n_head, n_batch], k [d, n_bk, n_head_kv, n_batch], means of the blocks, F32.
// parents NULL: all cells -> F32 [n_bk, n_bq, n_head, n_batch]; else the children of a cell list of the level above,
// one row per listed cell -> F32 [(parent_g/g) * (parent_h/h), cap, n_head, n_batch], key index fastest. Value: log mu
// = scale * q.k, -inf for cells without a valid query or key. With k_max (then k holds the minima, and parents is
// NULL): the bound sum_c max(q_c kmin_c, q_c kmax_c) * scale. k_max, parents and lengths may be NULL. Memory: the
// result.
struct ggml_tensor * ggml_mra_block_score(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * k_max, struct ggml_tensor * parents, struct ggml_tensor * lengths, struct mra_level level,
    float scale, struct mra_error * err);

// The count best cells by `rule` (count per row of cells, or per head), ties to the lower row, then the lower column.
// -> cell list with cap = count, or count * n_bq with MRA_RULE_ROW (less where there are fewer cells). -inf is never
// chosen. parents and lengths may be NULL. The result is a view of a node of
//     4 * (n_head*n_batch * (n_bq + 17 + cap) + n_threads * (keys + 64))   bytes,
// keys being n_bk with MRA_RULE_ROW, else all cells of a head; n_threads: as many as the machine has.
struct ggml_tensor * ggml_mra_topk_blocks(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * lengths, struct mra_level level, enum mra_rule rule, int count,
    int first_n, int diag_n, struct mra_error * err);

// What a level's unrefined cells contribute, as a softmax state F32 [dv + 2, n_bq, n_head, n_batch]: the weighted sum
// of values, then the maximum of the scores, then the sum of weights, both relative to that maximum. scores, parents:
// as given to topk_blocks; refined: its result; v [dv, n_bk, n_head_kv, n_batch]: mean values of the blocks. state: the
// state of the level above, which the rows inherit. parents, state (as at the coarsest level) and lengths may be NULL.
// Memory: the result.
struct ggml_tensor * ggml_mra_coarse_state(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * refined, struct ggml_tensor * v, struct ggml_tensor * state,
    struct ggml_tensor * lengths, struct mra_level level, struct mra_error * err);

// Exact attention of each block row of h queries over the listed blocks of g keys, going on from `state` (or from
// nothing, NULL). q, k, v as for ggml_mra_attn; cells: a cell list of this level -> F32 [dv, n_head, n_q, n_batch]. A
// row with nothing gives 0. scale 0: 1/sqrt(d). n_threads as in struct mra_attn_params. state and lengths may be NULL.
// Memory, beside the result: as for ggml_mra_attn with the exact frame.
struct ggml_tensor * ggml_mra_block_sparse_attn(struct ggml_context * ctx, struct ggml_tensor * q,
    struct ggml_tensor * k, struct ggml_tensor * v, struct ggml_tensor * cells, struct ggml_tensor * state,
    struct ggml_tensor * lengths, int h, int g, float scale, int n_threads, struct mra_error * err);

// The order of the queries that the sorted frame uses, head by head -> I32 [n_q, n_head, n_batch]: a permutation of the
// valid queries, then -1. 16 in a row are a query block: a leaf of a balanced tree, whose nodes send the half of their
// queries with the smallest q.z to the left, ties to the lower index, where z is about the direction in which the
// scores of the node's queries differ most, from a sample of them and of the keys. A leaf is ascending. Not the same on
// every CPU: where two q.z are equal within rounding, either may be first. q, k, v, lengths, n_threads as for
// ggml_mra_attn; scale 0: 1/sqrt(d). The result is a view of a node that also has, for the attention behind it, the
// blocks' mean queries, what they differ by, and a bias of every key, about the logarithm of the error made where its
// scores are left to the mean query:
//     4 * n_head * (n_batch * (n_q * (1 + D/16) + n_k) + 2*D) + threads * 4 * n * (D + 3)   bytes or somewhat more,
// n: the larger of n_q and n_k, threads: n_threads or n_head*n_batch, whichever is less.
struct ggml_tensor * ggml_mra_query_order(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, float scale, int n_threads, struct mra_error * err);

// ---- how large the error is ------------------------------------------------------------------------------------

// Exact attention for n_rows sampled queries of each head of each sequence (all of them where there are no more),
// beside `out`, what another attention gave for q, k and v: for a sampled row e = |exact - out|^2 and r = |exact|^2 ->
// F64 [MRA_ATTN_ERROR_SUMS, n_head, n_batch], all 0 where there are no valid queries or keys. NaN in a sampled row
// gives NaN. The n_q valid queries are cut into n_rows strata of about equal size and one of each is taken, a choice
// that depends on n_q, n_rows and the head alone. Strata are in the order of the text, or of the queries of the sorted
// frame where `out` is such a node (no view of it). q, k, v, lengths, n_threads as for ggml_mra_attn, out as it gives
// it, from any frame; scale 0: 1/sqrt(d). On the CPU only. The cost is n_rows/n_q of exact attention's. Memory, beside
// the result: as for ggml_mra_window_attn.
enum mra_attn_error_sum {
    MRA_ATTN_ERROR_ALL,  // valid queries
    MRA_ATTN_ERROR_ROWS, // sampled queries; what follows are sums over them
    MRA_ATTN_ERROR_E,
    MRA_ATTN_ERROR_R,
    MRA_ATTN_ERROR_EE, // e*e
    MRA_ATTN_ERROR_ER, // e*r
    MRA_ATTN_ERROR_RR, // r*r
    MRA_ATTN_ERROR_SUMS
};
struct ggml_tensor * ggml_mra_attn_error(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * out, struct ggml_tensor * lengths, int n_rows, float scale,
    int n_threads, struct mra_error * err);
// of packed sequences, as ggml_mra_attn_packed has them -> F64 [MRA_ATTN_ERROR_SUMS, n_head, n_seq]
struct ggml_tensor * ggml_mra_attn_error_packed(struct ggml_context * ctx, struct ggml_tensor * q,
    struct ggml_tensor * k, struct ggml_tensor * v, struct ggml_tensor * out, struct ggml_tensor * starts,
    int64_t max_len, int n_rows, float scale, int n_threads, struct mra_error * err);

// The relative error ||out - exact|| / ||exact|| of the rows of these sums, which may be added up over heads, and an
// interval for that of all rows: the standard error of the ratio of means, as a factor, MRA_ATTN_ERROR_WIDTH times.
// The interval knows the rows that were sampled: a few rows with errors far above all others may be missed.
#define MRA_ATTN_ERROR_WIDTH 2.5
struct mra_attn_error {
    double error, low, high; // 0 where the sums are 0; all rows sampled: low = high = error
};
struct mra_attn_error mra_attn_error_of(const double * sums); // [MRA_ATTN_ERROR_SUMS]

// ---- which pairs are exact -------------------------------------------------------------------------------------

// Of an attention node, `out` as ggml_mra_attn gave it (no view): for queries 0, step, 2*step, ... and each key, how
// often the cell that holds both was refined -> I8 [n_k, ceil(n_q/step), n_head, n_batch]: 0 where the coarsest cell
// was used, MRA_LEVEL_EXACT where the pair's own score was. Levels are those of the frame: square s0, s1, ...; columns
// and sorted 0: block of keys, 1: single key with the mean query. 0 in padding. Of columns and sorted the choice is
// made again: where two scores are equal within rounding, the other one may be named. Attention and levels must both be
// computed on the CPU. To look at an attention, not on the way to a result. Memory, beside the result: for each CPU
// about 1.2 times k as F32, for one head.
#define MRA_LEVEL_EXACT 100
struct ggml_tensor * ggml_mra_attn_levels(
    struct ggml_context * ctx, struct ggml_tensor * out, int step, struct mra_error * err);

// ---- what an encoder has around its attention (linear: on the CPU) --------------------------------------------

#define MRA_LINEAR_WEIGHTS 3

struct mra_dense {
    struct ggml_tensor *w, *b;
}; // w [k, n] of any type ggml can turn into floats; b F32 [n] or NULL

// act(W x + b) + residual, act(x) = x Phi(x) if gelu, else x: x F32 [k, m...], up to three W side by side -> F32 [n0 +
// n1 + n2, m...]; residual: the result's shape, or NULL. k is a multiple of 32. F32 and F16 weights are multiplied as
// floats. Quantized weights are read where they lie, without a copy, and multiplied as integers: 12 bits, x 13, with a
// scale for every 256 of them (relative error 4e-4); where the CPU has dot products of bytes 8 bits, with a scale for
// every 32 (5e-3, as ggml's own product has). A row's result does not depend on the rows beside it. residual and every
// b may be NULL; n_threads as in struct mra_attn_params. Memory, beside the result: a node of n_threads slots of about
// 0.3 MB + 2.3*v bytes, 6.3*v where some weights are floats, v: 1008*k or 0.9 million, whichever is less.
struct ggml_tensor * ggml_mra_linear(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_dense * w,
    int n_w, bool gelu, struct ggml_tensor * residual, int n_threads, struct mra_error * err);

enum mra_glu {
    MRA_GLU_GELU,
    MRA_GLU_GELU_TANH,
    MRA_GLU_RELU,
    MRA_GLU_SILU
}; // x Phi(x), its tanh form, max(0, x), x/(1 + e^-x)

// A gated activation in one node: act(W0 x + b0)*(W1 x + b1), with W0 (the gate) and W1 [k, n] each (n_w 2), or both in
// one [k, 2n], the gate first (n_w 1) -> F32 [n, m...]. All else as ggml_mra_linear, and equal in every bit to
// ggml_mra_glu behind it. The weights are all floats or all quantized. Memory: as ggml_mra_linear, + 131 KB or less in
// each slot.
struct ggml_tensor * ggml_mra_linear_glu(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_dense * w,
    int n_w, enum mra_glu act, int n_threads, struct mra_error * err);

// The feed-forward part of a layer: down(gelu(up x)) + residual, or gated down(act(gate x)*(up x)) + residual.
struct mra_ffn {
    struct mra_dense up[2]; // up; gated also: gate and up (n_up 2), or both in one, the gate first (n_up 1)
    int n_up;
    bool gated;
    enum mra_glu act; // GELU where there is no gate
    struct mra_dense down;
};
// Two linear nodes, x F32 [k, m...] -> F32 [n of down, m...]. Where this CPU has dot products of bytes and down is
// quantized, what is between them is rows of bytes: the 8 bits and scales that the second node would make of floats, so
// results are those of ggml_mra_linear (or ggml_mra_linear_glu) twice, in every bit. No other operator reads such rows
// (I8 [5/4 n_up, m...]), so they are not for other uses; and a graph that has them is to be computed with the kernels
// it was built for: others leave these nodes to the reference kernels. Memory, beside the result: these rows, or F32
// [n_up, m...], and as ggml_mra_linear twice.
struct ggml_tensor * ggml_mra_ffn(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_ffn * ffn,
    struct ggml_tensor * residual, int n_threads, struct mra_error * err);

// (x - mean)/sqrt(var + eps)*w + b over the rows of x F32 [n, m...]; w, b F32 [n], b may be NULL. Memory: the result.
struct ggml_tensor * ggml_mra_norm(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * w,
    struct ggml_tensor * b, float eps, struct mra_error * err);
// x/sqrt(mean of x^2 + eps)*w, likewise
struct ggml_tensor * ggml_mra_rms_norm(
    struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * w, float eps, struct mra_error * err);

// A gated activation: x F32 [2n, m...] -> F32 [n, m...], act(x_c)*x_{n+c}. Memory: the result.
struct ggml_tensor * ggml_mra_glu(
    struct ggml_context * ctx, struct ggml_tensor * x, enum mra_glu act, struct mra_error * err);

// Rotary positions. The table: cos and sin of scale*position*base^(-2c/n_rot), c < n_rot/2, for each of positions
// I32 [n] -> F32 [n_rot, n]. It serves all layers with that base. Memory: the result.
struct ggml_tensor * ggml_mra_rope_table(struct ggml_context * ctx, struct ggml_tensor * positions, int n_rot,
    float base, float scale, struct mra_error * err);
// Turns the first n_head heads of d channels of every row of x F32 [>= d*n_head, n], in place, by row i of the table:
// pair c is channels (c, n_rot/2 + c) of a head (NeoX), or (2c, 2c + 1) if interleaved; the rest of the head stays. So
// one call serves q and k of a fused tensor. The result is a view of x.
struct ggml_tensor * ggml_mra_rope(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * table, int d,
    int n_head, bool interleaved, struct mra_error * err);

// Attention within a window, and with ALiBi: exact, p_ij = scale*q_i.k_j - slope*|i - j|, of packed sequences as in
// ggml_mra_attn_packed; head h of n_head = 2^a has the slope 2^(-max_bias*(h + 1)/n_head) (of other numbers: as ALiBi's
// authors do). The cost is that of 2*window + 64 keys for each query. With ALiBi far keys are left out where |q||k|
// shows that all of them together weigh less than 2^-24 of what is left; not where a key or a value is not finite, and
// not on a GPU.
struct mra_window_params {
    int window;     // keys with |i - j| <= window; -1: all
    float max_bias; // ALiBi's, usually 8; 0: no bias
    float scale;    // 0: 1/sqrt(head size)
    int n_threads;  // as in struct mra_attn_params
    // as in struct mra_attn_params; small numbers only without ALiBi and up to a window of 512
    enum mra_attn_type type;
};
// Memory, beside the result: as for ggml_mra_attn with the exact frame; rows are copied only where d or dv is no
// multiple of 16.
struct ggml_tensor * ggml_mra_window_attn(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * starts, int64_t max_len, const struct mra_window_params * params,
    struct mra_error * err);

// ---- about a graph ---------------------------------------------------------------------------------------------

// Was t made by this library? t may be NULL.
bool ggml_mra_is_node(const struct ggml_tensor * t);
// "pool", "block-score", ...; NULL where t is NULL or no node of this library
const char * ggml_mra_op_name(const struct ggml_tensor * t);
// The CPU kernels in use: "v4-amx", "v4-vnni", "v4", "v3-vnni", "v3", "base", "neon-i8mm", "neon-dot", "neon" or "ref".
// The best that this CPU runs, unless the environment variable MRA_ISA names another one that it runs.
const char * mra_isa(void);

#ifdef __cplusplus
}
#endif
