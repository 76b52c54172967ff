// mra-bench attn: the problem, the contenders, their validation and their times.
#pragma once

#include "bench-graph.h"

#include "ggml-mra.h"

extern const char bench_attn_name[]; // the program, in messages

// ---- options (bench-attn-options.c) ----------------------------------------------------------------------------

enum { ATTN_LIST = 32 };

struct attn_options {
    int64_t n[ATTN_LIST];
    double budgets[ATTN_LIST];
    const char * frames[ATTN_LIST];
    enum mra_attn_type types[2];
    int n_n, n_budgets, n_frames, n_types;
    int64_t heads, kv_heads, dim;
    int threads, reps;
    bool f16, isa, json, matmul;
    const char *qkv, *guard_path;
    uint64_t seed;
    double max_seconds;
};

struct npy;
void attn_options_parse(struct attn_options * o, int argc, char ** argv); // exits on a wrong one
void attn_options_qkv(struct attn_options * o, struct npy * a); // reads --qkv, which gives heads, dim and n; may exit

// ---- inputs (bench-data.c) -------------------------------------------------------------------------------------

// Q, K, V as an encoder's graph has them: [dim, heads, n], of which attention sees permuted views. Everybody gets the
// same ones.
struct attn_data {
    int64_t n, heads, kv_heads, dim;
    struct ggml_context * ctx;
    ggml_backend_buffer_t buf;
    struct ggml_tensor *q, *k, *v, *k16, *v16; // F32 and F16 copies
};

enum mra_status data_new(
    struct attn_data * d, int64_t n, int64_t heads, int64_t kv_heads, int64_t dim, struct mra_error * err);
void data_generate(struct attn_data * d, uint64_t seed);
void data_from_npy(struct attn_data * d, const struct npy * a); // [3, heads, >= n, dim]
// The first n tokens of the first kv head and its queries; q and k rounded to a grid on which scores are exact in
// float, so that every kernel makes the same choices
enum mra_status data_small(struct attn_data * d, const struct attn_data * from, int64_t n, struct mra_error * err);
void data_free(struct attn_data * d);

// ---- contenders (bench-attn-run.c) -----------------------------------------------------------------------------

enum contender { OURS, FLOATS, FLASH, FLASH_F16, MATMUL, N_CONTENDERS };

// OURS follows p and f16; FLOATS: the same in floats, where p is in integers. n_q: queries, the first of the n tokens.
enum mra_status graph_new(struct bench_graph * g, const struct engine * e, const struct attn_data * d,
    enum contender which, int64_t n_q, const struct mra_attn_params * p, bool f16, struct mra_error * err);

// Seconds that a contender is going to take, from a run over a few of its queries; infinite if memory does not suffice.
// Only to decide what to skip.
double estimate(const struct engine * e, const struct attn_data * d, enum contender which,
    const struct mra_attn_params * p, bool f16);

// ---- validation (bench-check.c) --------------------------------------------------------------------------------

// The kernels in use against the scalar reference on a cut of the problem
enum mra_status check_reference(const struct engine * e, const struct attn_data * d, const struct mra_attn_params * p,
    bool f16, struct mra_error * err);

// What that cannot see, columns over many keys: the first rows of the computed output, which depend on no other rows,
// against the reference
enum mra_status check_first_rows(const struct bench_graph * ours, const struct engine * e, const struct attn_data * d,
    const struct mra_attn_params * p, bool f16, struct mra_error * err);

// The computed output of `ours`: finite everywhere; *rel_error against exact attention in double on a sample of
// queries; exact attention also against ggml's flash attention (flash may be NULL: too large to run).
enum mra_status check_output(const struct bench_graph * ours, const struct bench_graph * flash,
    const struct attn_data * d, const struct mra_attn_params * p, bool f16, double * rel_error, struct mra_error * err);

// ---- rows (bench-attn-output.c) and the guard (bench-guard.c) --------------------------------------------------

struct attn_row {
    int64_t n, heads, kv_heads, dim;
    const char *frame, *kv, *isa, *peak_isa; // peak_isa: the level of mra-bench peak whose rate is `peak`
    enum mra_attn_type type;
    const char * numbers; // that the kernels multiply for it
    double budget, work;
    int threads;
    struct timing time[N_CONTENDERS];         // ms NAN: skipped
    double gflops, peak, peak_share, speedup; // NAN where unknown
    double rel_error, scratch_mb;
};

void attn_header_print(const struct attn_options * o, int argc, char ** argv);
void attn_row_print(const struct attn_row * r, bool json);

struct guard {
    struct cJSON * rows;
    const char * path;
    int n_compared, n_slower;
};

enum mra_status guard_read(struct guard * g, const char * path, struct mra_error * err);
void guard_check(struct guard * g, const struct attn_row * r, const char * program); // says on stderr what got slower
bool guard_end(struct guard * g, const char * program); // true: nothing got slower, and something was compared
