// Heads of attention in integers that its tests compute: normal ones and hard ones.
#pragma once

#include "harness.h"

enum kind {
    NORMAL,
    Q_OUTLIER, // a channel 50 times as large
    K_OUTLIER,
    V_OUTLIER,
    HUGE_SCORE, // of one key
    EQUAL_KEYS,
    ZERO_VALUES, // every third row
    NO_VALUES,   // all of them 0
    ZERO_QUERY,
    TINY_SINK, // most of the weight on a key with almost no value
    LARGE_V,   // 1e30
    HUGE_ROWS, // three rows of q
    HUGE_ALL,  // scores of +-1e4: for floats
    ALIGNED,   // each query is a key, 10 times as large: some for floats, though no weight is small
    BAD_Q,     // NaN in a row of q
    BAD_K,
    BAD_V, // infinite
    N_KINDS
};
extern const char * const kind_names[N_KINDS];

// left: rows that the guard must leave to floats; error: what bytes may be off by
struct int8_case {
    enum kind kind;
    int n_q, n_k, d, dv;
    bool f16;
    int left;
    double error;
};
// rows of a tensor in which others' rows lie between; owned
struct rows {
    float * x; // [n][d], what the kernels see
    void * mem;
    struct mra_rows rows;
};

// one head: its rows, float copies for the float kernel, and the result
struct head {
    struct rows q, k, v;
    struct mra_attn_head a;
};
struct head head_new(const float * q, const float * k, const float * v, int n_q, int n_k, int d, int dv, bool f16);
struct head head_of(const struct int8_case * c); // made up
void head_free(struct head * h);

struct packed {
    void * mem;
    struct mra_int8_pack p;
};
// gather: for lists of keys; packed in pieces of `step` keys. p.mem is the caller's
struct packed packed_new(const struct mra_int8_kernels * k, const struct mra_attn_head * a, bool gather, int step);

void * memory(size_t bytes); // aligned, not zeros

// relative error where the exact result is a number; infinite where only one of them is
double error_of(const float * a, const float * exact, int64_t n);
