// mra-calibrate --plan: how many keys each head needs.
#pragma once

#include "common/stream.h"

struct plan_target {
    const char * out; // NULL: no plan is wanted. *.gguf: a copy of the model with the plan in it
    double cosine;    // mean over the texts; 0: the budget is given
    double error;     // of attention, the same
    float budget;
};

struct plan_texts { // what the plan is found on
    struct mra_seq * seqs;
    int n, cap;
};

// Keeps the tokens of a record. Ends the program without memory.
void plan_add(struct stream * s, struct plan_texts * t, const struct item * it);
void plan_texts_free(struct plan_texts * t);
// Finds the plan and writes it; ends the program with a message where that fails.
void plan_find(struct stream * s, const struct plan_texts * t, const struct plan_target * target);
