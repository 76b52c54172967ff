// mra-bench linear: y = x W^T, with bias and GELU on request, or two such layers. The problem, the contenders and their
// validation.
#pragma once

#include "bench-graph.h"

// m rows of x, k channels, n outputs
struct linear_data {
    int64_t m, k, n;
    enum ggml_type type;
    bool fused; // y = gelu(x W^T + bias)
    bool ffn;   // and that times down: k outputs
    struct ggml_context * ctx;
    ggml_backend_buffer_t buf;
    struct ggml_tensor *x, *w, *bias, *down; // F32 [k, m], type [k, n], F32 [n], type [n, k] or NULL
};

// outliers: one channel of x in 64 is 16 times as large, as in trained encoders
struct linear_form {
    bool fused, ffn, outliers;
};
enum mra_status linear_data_new(struct linear_data * d, int64_t m, int64_t k, int64_t n, enum ggml_type type,
    const struct linear_form * form, uint64_t seed, struct mra_error * err);
void linear_data_free(struct linear_data * d);

// OURS: ggml-mra's operator; PLAIN: ggml's mul_mat, the weights as they are; REPACKED: in the buffer type ggml's CPU
// device has for them
enum linear_contender { LINEAR_OURS, LINEAR_PLAIN, LINEAR_REPACKED, N_LINEAR };

struct linear_graph {
    struct bench_graph g;
    struct ggml_context * ctx; // REPACKED: its weights
    ggml_backend_buffer_t buf;
};
// *has false: ggml does not repack this type or shape on this machine
enum mra_status linear_graph_new(struct linear_graph * g, const struct engine * e, const struct linear_data * d,
    enum linear_contender which, bool * has, struct mra_error * err);
void linear_graph_free(struct linear_graph * g);

// Runs g; *error = ||y - want||/||want|| on a sample of rows, want computed in double from the weights as they
// dequantize. Fails if that is more than the rounding of x to the type's accuracy explains, or if a value of y is not
// finite.
enum mra_status linear_check(const struct linear_graph * g, const struct engine * e, const struct linear_data * d,
    const char * name, double * error, struct mra_error * err);
