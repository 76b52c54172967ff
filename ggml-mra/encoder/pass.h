// One pass of mra_encode: a few sequences, end to end, through one graph.
#pragma once

#include "context.h"

// A request, as long as it lasts.
struct mra_job {
    struct mra_context * ctx;
    const struct mra_seq * seqs; // [n_seq]
    int n_seq;
    const struct mra_output * want;
    enum mra_pooling pooling; // not DEFAULT
    enum mra_head_kind head;  // behind the layers
    enum mra_head_kind later; // computed of pooled rows when all of them are there; NONE: nothing is
    int64_t n_cols;           // of the passes' rows
    int64_t n_dims;           // that are kept of them
    int * order;              // [n_order] sequences in the order they are computed, exact ones first
    int n_order, n_exact;
    int64_t * first_row; // [n_seq] TOKENS: row of the result of each sequence's first token
    int32_t * start;     // [n_seq] first token within the pass, -1: not in it
};

// The head alone: rows : [n_rows][n_embd] -> out : [n_rows][n_cols].
enum mra_status mra_pass_head(struct mra_context * ctx, enum mra_head_kind head, const float * rows, int64_t n_rows,
    float * out, int64_t n_cols, struct mra_error * err);

// Whether a pass computes attention of this kind for all its sequences side by side, padded to the longest one.
bool mra_pass_pads(const struct mra_context * ctx, const struct mra_attn_params * attn);

// Computes sequences order[a .. b) with one kind of attention; their rows go to ctx->out.
enum mra_status mra_pass_run(
    struct mra_job * j, int a, int b, const struct mra_attn_params * attn, struct mra_error * err);
