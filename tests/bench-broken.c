// mra-bench linked with kernels that MRA_BENCH_BUG breaks: its validation must notice. See test-bench.c.
#include "../examples/bench.h"
#include "kernels.h"

#include "ggml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct mra_kernels * __real_mra_kernels_get(void);
const struct mra_kernels * __wrap_mra_kernels_get(void);

static struct mra_kernels broken;
static const struct mra_kernels * intact;

static bool bug(const char * name) {
    const char * s = getenv("MRA_BENCH_BUG");
    return s && strcmp(s, name) == 0;
}

// exact attention that misses the last key: always, or in problems larger than the reference check's; or that only the
// first thread does right
static void attend(const struct mra_attn_head * a, int i0, int i1, const int32_t * cells, int n_cell, int g,
    const float * state, void * scratch) {
    struct mra_attn_head b = *a;
    if ((bug("attend-misses-key") || (bug("attend-misses-key-of-many") && a->n_k > 512)) && !cells) b.n_k--;
    if (bug("attend-scale") || (bug("attend-by-thread") && gettid() != getpid())) b.scale *= 1.001f;
    intact->block_sparse_attn(&b, i0, i1, cells, n_cell, g, state, scratch);
}

// columns that keep one key less, that leave a row unwritten, that write NaN
static void columns(const struct mra_attn_head * a, int x0, void * scratch) {
    struct mra_attn_head b = *a;
    if ((bug("columns-keep-less") || (bug("columns-keep-less-of-many") && b.n_k > 512)) && b.m2 > 1) b.m2--;
    if (bug("columns-miss-row") && b.n_q > x0 * MRA_QUERY_BLOCK + 1) b.n_q--;
    intact->columns(&b, x0, scratch);
    if (bug("columns-nan") || (bug("columns-nan-of-more") && b.n_k == 100)) a->out[0] = NAN;
}

// integers with a scale that is not theirs
static uint32_t attend_int8(const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1,
    const int32_t * idx, int n_idx, const float * state, void * scratch) {
    struct mra_attn_head b = *a;
    if (bug("int8-scale") || (bug("int8-scale-of-many") && b.n_k > 512)) b.scale *= bug("int8-scale") ? 1.01f : 1.2f;
    return intact->int8.attn(&b, p, i0, i1, idx, n_idx, state, scratch);
}

// a dense layer that leaves a row unwritten, or the last 32 inputs out
static void linear_x(const struct mra_linear * a, int i0, int i1, void * scratch) {
    struct mra_linear b = *a;
    if (bug("linear-misses-input")) b.k -= 32;
    intact->dense.linear_x(&b, i0, i1, scratch);
}
static void linear(
    const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1, void * scratch) {
    struct mra_linear b = *a;
    struct mra_weights v = *w;
    if (bug("linear-misses-input")) b.k -= 32;
    v.row_bytes = w->row_bytes * (size_t) b.k / (size_t) a->k;
    intact->dense.linear(&b, &v, i0, i1 - (bug("linear-misses-row") ? 1 : 0), n0, n1, scratch);
}

const struct mra_kernels * __wrap_mra_kernels_get(void) {
    const struct mra_kernels * k = __real_mra_kernels_get();
    if (strcmp(k->name, mra_kernels_ref.name) == 0 || k == &broken) return k; // also a copy of the reference
    if (k != intact) {
        intact = k;
        broken = *k;
        broken.block_sparse_attn = attend;
        broken.columns = columns;
        broken.dense = (struct mra_dense_kernels) { .linear_x = linear_x, .linear = linear };
        if (k->int8.attn) broken.int8.attn = attend_int8;
    }
    return &broken;
}

// ggml's product, a little too large or not finite
struct ggml_tensor * __real_ggml_mul_mat(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b);
struct ggml_tensor * __wrap_ggml_mul_mat(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b);

struct ggml_tensor * __wrap_ggml_mul_mat(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    struct ggml_tensor * y = __real_ggml_mul_mat(ctx, a, b);
    return bug("mul-mat-scale") ? ggml_scale(ctx, y, 1.05f)
        : bug("mul-mat-inf")    ? ggml_exp(ctx, ggml_scale_bias(ctx, y, 0, 1000))
                                : y;
}

// a peak that is far too low
double __real_peak_fma(const struct peak_isa * isa, int n_threads, int n_runs);
double __wrap_peak_fma(const struct peak_isa * isa, int n_threads, int n_runs);
double __wrap_peak_fma(const struct peak_isa * isa, int n_threads, int n_runs) {
    const double rate = __real_peak_fma(isa, n_threads, n_runs);
    return bug("peak-low") ? rate / 1000 : rate;
}
