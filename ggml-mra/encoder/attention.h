// Which attention a sequence gets: of the model, of the settings and of its length, never of its neighbours.
#pragma once

#include "model.h"

// What a sequence of n_tokens uses that is not exact. Only the budget depends on n_tokens.
struct mra_attn_params mra_attention_approximate(
    const struct mra_model * m, const struct mra_context_params * p, int n_tokens);
// What is exact: the same scale and threads.
struct mra_attn_params mra_attention_exact(const struct mra_model * m, const struct mra_context_params * p);
// What the heads of these settings follow; NULL: all alike.
const struct mra_plan * mra_attention_plan(
    const struct mra_model * m, const struct mra_context_params * p, const struct mra_attn_params * attn);
// Whether the budget is sought by the error it makes (max_error), step by step. Steps count from 0; the last is exact
// attention in floats.
bool mra_attention_seeks(const struct mra_model * m, const struct mra_context_params * p);
struct mra_attn_params mra_attention_step(
    const struct mra_model * m, const struct mra_context_params * p, int n_tokens, int step);
// the step behind `step`, which made the error e; `step` itself: it is small enough, or there is no other
int mra_attention_next_step(const struct mra_context_params * p, int step, struct mra_attn_error e);
bool mra_attention_is_exact(const struct mra_model * m, const struct mra_context_params * p, int n_tokens);
