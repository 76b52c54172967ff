// What every test here needs: seeded data, a graph on the CPU backend, a comparison in which NaN is infinitely wrong.
#pragma once

#include "ggml-mra.h"
#include "../examples/common/compare.h"
#include "../ggml-mra/src/kernels.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- data ----

enum data_kind {
    DATA_NORMAL, // standard normal
    DATA_GRID,   // multiples of 1/8: dot products are exact in F32, so selections agree to the last cell
    DATA_TIES,   // -1, 0, 1: mostly ties
    DATA_CONST,  // all ones: nothing but ties
    DATA_WALK,   // neighbouring tokens are alike, as in text
    DATA_HUGE,   // scores of +-1e4
};

uint64_t rng_next(uint64_t * s);
float rng_uniform(uint64_t * s); // [0, 1)
float rng_normal(uint64_t * s);
int rng_int(uint64_t * s, int lo, int hi); // lo..hi

// n_row rows of d values; malloc'ed
float * data_new(enum data_kind kind, int64_t n_row, int64_t d, uint64_t seed);

// ---- graphs ----

struct graph {
    struct ggml_context * ctx;
    struct {
        struct ggml_tensor * t;
        void * data;
    } in[32];
    int n_in;
};

struct graph graph_new(void);
void graph_free(struct graph * g);
struct ggml_tensor * graph_input(struct graph * g, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2,
    int64_t ne3, const void * data); // copies data
// [k, n] of any type from floats
struct ggml_tensor * graph_weights(struct graph * g, enum ggml_type type, int k, int n, const float * w);

// x [n_batch][n_head][n][d] as a tensor [d, n, n_head, n_batch]; layout 0: contiguous, 1: a view of [d, n_head, n,
// n_batch], as a dense layer gives it; 2: the same with two other tensors' rows between (fused QKV); 3: contiguous, but
// behind 4 elements of something else
struct ggml_tensor * graph_heads(struct graph * g, enum ggml_type type, int64_t d, int64_t n, int64_t n_head,
    int64_t n_batch, const float * x, int layout);

// computes out with n_threads; its elements (contiguous, F32 or I32), malloc'ed; NULL if out is NULL
void * graph_run(struct graph * g, struct ggml_tensor * out, int n_threads);
bool node_compute(ggml_backend_t cpu, struct ggml_tensor * t); // one node, whose sources are computed

// ---- verdicts ----

// max |a - b| / max(1, max |b|); infinite for NaN or Inf in a
double max_error(const float * a, const float * b, int64_t n);
// of rows that both have (no NaN), the largest difference relative to the largest |b|; infinite if only one has a row
double max_difference(const float * a, const float * b, int64_t n);

extern int n_checks, n_failed;
// counts; prints the line on failure. what: printf arguments
#define CHECK(ok, ...) \
    do { \
        n_checks++; \
        if (!(ok)) { \
            n_failed++; \
            printf("FAIL %s:%d: ", __FILE__, __LINE__); \
            printf(__VA_ARGS__); \
            printf("\n"); \
            check_failed(); \
        } \
    } while (0)
void check_failed(void);        // ends the program where MRA_FAIL_FAST is set
int summary(const char * name); // prints, returns the exit code

// Targets to test, each a kernel table: {ref, base, v3, v4, neon} as far as this CPU runs them; the ones it lacks are
// printed as skipped, once. Without AVX-512 the code of v4 is run all the same, in AVX2 halves. With the CUDA kernels
// linked in, {ref, CUDA on the host}.
int kernel_tables(const struct mra_kernels ** out, int max);
// k, but with the order of queries that `order` finds, and the rest of query_order for it by k. Splits are
// discontinuous: orders that differ where projections are equal within rounding are not k's fault. Valid until the next
// call.
const struct mra_kernels * kernels_with_order(const struct mra_kernels * k, const struct mra_kernels * order);
// k, but with all that `order` computes before any attention of the sorted frame: integers hang on the last bit of it.
// Valid until the next call.
const struct mra_kernels * kernels_with_means(const struct mra_kernels * k, const struct mra_kernels * order);
void kernels_best(void);  // what users get: the best of the CPU, or CUDA on the host
bool target_is_cpu(void); // its drivers compute nodes
// tol, or what a target that multiplies in F16 may differ by
double attn_tolerance(const struct mra_kernels * k, double tol);
// the same, and those that differ from them in dense layers and integer attention only; of the CPU
int dense_tables(const struct mra_kernels ** out, int max);
// the kernels of v4-amx with tiles in plain C, one of these where the CPU has no tiles; NULL: not of this architecture
const struct mra_kernels * plain_tiles(void);
// the kernels with products of matrices of bytes, one of these, in plain C where the CPU is of another architecture;
// dots: those with dot products that give the same bits. NULL: the CPU has none
const struct mra_kernels * matrix_kernels(const struct mra_kernels ** dots);
// Those of them that compute attention in integers, and for each the reference with the same integers. With the CUDA
// kernels linked in: CUDA, which has none, and the reference in floats.
int int8_tables(const struct mra_kernels ** out, const struct mra_kernels ** ref, int max);
// what the integers of k may be off by, relative to floats: `bytes`; .4 of it in bfloat16, a tenth with 12 bits
double int8_tolerance(const struct mra_kernels * k, double bytes);

// Kernels of attention in integers for a target that is a device: there the CPU must compute nothing. MRA_TEST_CUDA
// only
void int8_pack_nowhere(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, int j1);
uint32_t int8_attn_nowhere(const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1,
    const int32_t * idx, int n_idx, const float * state, void * scratch);
uint32_t int8_window_nowhere(
    const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1, int window, void * scratch);
