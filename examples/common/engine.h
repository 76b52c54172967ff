// The model that a program works with, and its contexts.
#pragma once

#include "options.h"

struct engine {
    const char * program;
    struct mra_model * model;
    struct mra_model_info info;
    struct mra_context_params params;
    struct mra_context * ctx;
    struct mra_context * exact; // --verify, else NULL
    struct mra_plan * plan;     // --plan FILE, else NULL
    int limit;                  // tokens of a pass
    double load_ms;
    bool said_approximate;
};

// Loads the model; ends the program with a message where that fails.
void engine_open(struct engine * e, const char * program, const struct options * o);
// Makes the contexts; the same.
void engine_start(struct engine * e, const struct options * o);
void engine_close(struct engine * e);

// Which attention a text of these passes gets: of the pass with the least exact one.
struct mra_attention_choice engine_attention(const struct engine * e, const struct mra_seq * seqs, int n_seq);
// One line on stderr, the first time a text gets an approximation that was not asked for.
void engine_say_approximate(struct engine * e, const struct mra_attention_choice * c);
// Work of one sequence, in billions of operations; attn_work: mra_attention_choice's.
double engine_gflop(const struct mra_model_info * info, int n_tokens, double attn_work);
