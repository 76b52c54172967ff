// mra-inspect: what its parts share.
#pragma once

#include "common/attn-graph.h"
#include "common/program.h"

#include <stdio.h>

// A head: its score matrix as a picture of side x side pixels, and its numbers. A pixel is a byte: the weight of exact
// attention there (0..63, see shade_of) + 64 * the share of its pairs that are computed exactly (0: none .. 3: all).
struct inspect_head {
    uint8_t * pixels; // [side][side], owned; NULL: this layer attends within a window or with ALiBi
    double error;     // ||out - exact|| / ||exact||
    double kept;      // weight of exact attention on the pairs that are computed exactly, mean over queries
    double exact;     // share of those pairs
    double entropy;
};

struct inspect {
    int n, n_layer, n_head, side, n_sampled, step, n_threads;
    struct inspect_head * heads; // [n_layer][n_head]
    double * received;           // [n] weight of each token as a key, 1: the average; sums over heads first
    int n_received;              // rows of weights in it
    struct mra_error err;
};

// inspect-heads.c: bytes of pictures decide their size; on_attention: user is struct inspect
bool inspect_begin(struct inspect * x, const struct mra_model_info * info, int n, int n_threads);
void inspect_layer(void * user, const struct mra_attention_input * in);
void inspect_free(struct inspect * x);

// inspect-page.c: the page; false: could not be written
bool inspect_page(FILE * f, const struct inspect * x, const struct stream * s, const struct item * it,
    const struct mra_stats * stats, const struct mra_attention_choice * choice);
