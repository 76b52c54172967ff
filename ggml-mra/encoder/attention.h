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
bool mra_attention_is_exact(const struct mra_model * m, const struct mra_context_params * p, int n_tokens);
