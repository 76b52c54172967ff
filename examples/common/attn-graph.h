// Q, K and V of a layer, kept, and attention over them in a graph of its own on the CPU.
#pragma once

#include "mra-encoder.h"

struct qkv {
    int layer, n, n_head; // heads of k and v are repeated where there are fewer
    int d;                // a multiple of 8: behind a head's own channels there may be zeros
    float scale;
    float *q, *k, *v; // [n_head][n][d], in one piece that q owns
};

// false: no memory
bool qkv_copy(struct qkv * x, const struct mra_attention_input * in);
void qkv_free(struct qkv * x);

// softmax weights of query i of head h -> p [n]; returns their entropy, -sum p log p
double qkv_weights(const struct qkv * x, int h, int i, double * p);

struct attn_result {
    float * out;     // [n][n_head][d], owned
    int8_t * levels; // [n_head][ceil(n/step)][n] of ggml_mra_attn_levels, owned; NULL: step 0
    double ms;       // the shortest of `reps` runs
    double bytes;    // of the graph, beside q, k, v and the result
};
// Attention with p (its scale is x's); step: of the levels, 0: none.
enum mra_status attn_compute(const struct qkv * x, const struct mra_attn_params * p, int n_threads, int step, int reps,
    struct attn_result * r, struct mra_error * err);
void attn_result_free(struct attn_result * r);
