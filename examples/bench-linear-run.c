// Inputs, contenders and validation of mra-bench linear.
#include "bench-linear.h"

#include "ggml-mra.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- inputs ----------------------------------------------------------------------------------------------------

static float uniform(uint64_t * s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (float) (*s >> 40) / 16777216.0f;
}
// about normal, deviation 1
static float noise(uint64_t * s) {
    float sum = -2;
    for (int i = 0; i < 4; i++) sum += uniform(s);
    return 1.7320508f * sum;
}

// w = float weights, row by row in the type
static bool fill_weights(struct linear_data * d, uint64_t * s) {
    float * row = malloc((size_t) d->k * sizeof(*row));
    const float scale = 1 / sqrtf((float) d->k);
    for (int64_t i = 0; row && i < d->n; i++) {
        for (int64_t c = 0; c < d->k; c++) row[c] = scale * noise(s);
        if (d->type == GGML_TYPE_F32) memcpy((char *) d->w->data + (size_t) i * d->w->nb[1], row, d->w->nb[1]);
        else ggml_quantize_chunk(d->type, row, (char *) d->w->data + (size_t) i * d->w->nb[1], 0, 1, d->k, NULL);
    }
    free(row);
    return row != NULL;
}

enum mra_status linear_data_new(struct linear_data * d, int64_t m, int64_t k, int64_t n, enum ggml_type type,
    bool fused, bool outliers, uint64_t seed, struct mra_error * err) {
    *d = (struct linear_data) { .m = m, .k = k, .n = n, .type = type, .fused = fused };
    const double bytes = 4.0 *
        ((double) m * (double) (k + 3 * n) +
            3.0 * (double) k * (double) n); // x, three results, three copies of the weights
    if (bytes > .7 * memory_available()) return mra_fail(err, MRA_ERR_MEMORY, "%.1f GB do not fit", bytes / 1e9);
    d->ctx = ggml_init((struct ggml_init_params) { .mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true });
    if (!d->ctx) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    d->x = ggml_new_tensor_2d(d->ctx, GGML_TYPE_F32, k, m);
    d->w = ggml_new_tensor_2d(d->ctx, type, k, n);
    d->bias = ggml_new_tensor_1d(d->ctx, GGML_TYPE_F32, n);
    d->buf = ggml_backend_alloc_ctx_tensors_from_buft(d->ctx, ggml_backend_cpu_buffer_type());
    if (!d->buf || !fill_weights(d, &seed)) {
        linear_data_free(d);
        return mra_fail(err, MRA_ERR_MEMORY, "no memory for the inputs");
    }
    float *x = d->x->data, *b = d->bias->data;
    for (int64_t i = 0; i < m * k; i++) x[i] = noise(&seed) * (outliers && i % k % 64 == 7 ? 16 : 1);
    for (int64_t i = 0; i < n; i++) b[i] = .1f * noise(&seed);
    return MRA_OK;
}
void linear_data_free(struct linear_data * d) {
    ggml_backend_buffer_free(d->buf);
    if (d->ctx) ggml_free(d->ctx);
    memset(d, 0, sizeof(*d));
}

// ---- contenders ------------------------------------------------------------------------------------------------

static struct ggml_tensor * build_ggml(
    struct ggml_context * ctx, const struct linear_data * d, struct ggml_tensor * w) {
    struct ggml_tensor * y = ggml_mul_mat(ctx, w, d->x);
    return d->fused ? ggml_gelu_erf(ctx, ggml_add(ctx, y, d->bias)) : y;
}

// the weights in a buffer type that the CPU device has for products of their type and shape; NULL: it has none
static struct ggml_tensor * repack(struct linear_graph * g, const struct engine * e, const struct linear_data * d) {
    ggml_backend_dev_t dev = ggml_backend_get_device(e->cpu);
    ggml_backend_dev_get_extra_bufts_t get = (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(dev), "ggml_backend_dev_get_extra_bufts");
    for (ggml_backend_buffer_type_t * buft = get ? get(dev) : NULL; buft && *buft; buft++) {
        g->ctx = ggml_init((struct ggml_init_params) { .mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true });
        if (!g->ctx) return NULL;
        struct ggml_tensor *w = ggml_new_tensor_2d(g->ctx, d->type, d->k, d->n), *y = ggml_mul_mat(g->ctx, w, d->x);
        g->buf = ggml_backend_buft_alloc_buffer(*buft, 0); // enough to ask
        w->buffer = g->buf;
        const bool can = g->buf && ggml_backend_dev_supports_op(dev, y);
        ggml_backend_buffer_free(g->buf);
        w->buffer = NULL;
        g->buf = can ? ggml_backend_buft_alloc_buffer(*buft, ggml_backend_buft_get_alloc_size(*buft, w)) : NULL;
        if (g->buf &&
            ggml_backend_tensor_alloc(g->buf, w, ggml_backend_buffer_get_base(g->buf)) == GGML_STATUS_SUCCESS) {
            ggml_backend_tensor_set(w, d->w->data, 0, ggml_nbytes(w));
            return w;
        }
        ggml_backend_buffer_free(g->buf);
        ggml_free(g->ctx);
        g->buf = NULL;
        g->ctx = NULL;
    }
    return NULL;
}

enum mra_status linear_graph_new(struct linear_graph * g, const struct engine * e, const struct linear_data * d,
    enum linear_contender which, bool * has, struct mra_error * err) {
    memset(g, 0, sizeof(*g));
    struct ggml_tensor * w = which == LINEAR_REPACKED ? repack(g, e, d) : d->w;
    *has = w != NULL;
    if (!w) return MRA_OK;
    enum mra_status st = graph_begin(&g->g, err);
    if (st != MRA_OK) {
        linear_graph_free(g);
        return st;
    }
    const struct mra_dense ours = { d->w, d->fused ? d->bias : NULL };
    g->g.out = which == LINEAR_OURS ? ggml_mra_linear(g->g.ctx, d->x, &ours, 1, d->fused, NULL, e->n_threads, err)
                                    : build_ggml(g->g.ctx, d, w);
    st = g->g.out ? graph_allocate(&g->g, e, "a dense layer", err) : MRA_ERR_ARG;
    if (st != MRA_OK) linear_graph_free(g);
    return st;
}
void linear_graph_free(struct linear_graph * g) {
    graph_free(&g->g);
    ggml_backend_buffer_free(g->buf);
    if (g->ctx) ggml_free(g->ctx);
    memset(g, 0, sizeof(*g));
}

// ---- validation ------------------------------------------------------------------------------------------------

enum { N_SAMPLE = 16 };

// the i-th of N_SAMPLE rows, the first and the last among them
static int64_t sample_row(const struct linear_data * d, int i) {
    return (int64_t) ((double) i * (double) (d->m - 1) / (N_SAMPLE - 1));
}

// squares of y - want and of want over output j of the sampled rows; w: dequantized row j
static void add_column(
    const struct linear_data * d, const float * y, int64_t j, const float * w, double * e, double * m) {
    for (int i = 0; i < N_SAMPLE; i++) {
        const int64_t at = sample_row(d, i);
        const float * x = (const float *) d->x->data + at * d->k;
        double want = 0;
        for (int64_t c = 0; c < d->k; c++) want += (double) x[c] * w[c];
        if (d->fused) {
            want += (double) ((const float *) d->bias->data)[j];
            want *= .5 * (1 + erf(want * sqrt(.5)));
        }
        const double diff = (double) y[at * d->n + j] - want;
        *e += diff * diff;
        *m += want * want;
    }
}

enum mra_status linear_check(const struct linear_graph * g, const struct engine * e, const struct linear_data * d,
    const char * name, double * error, struct mra_error * err) {
    memset(g->g.out->data, 0xff, ggml_nbytes(g->g.out)); // NaN: what is not written is seen
    if (graph_run(&g->g, e) < 0) return mra_fail(err, MRA_ERR_BACKEND, "ggml failed to compute a graph");
    const float * y = g->g.out->data;
    for (int64_t i = 0; i < d->m * d->n; i++)
        if (!isfinite(y[i]))
            return mra_fail(err, MRA_ERR_BACKEND, "%s: value %lld is %g", name, (long long) i, (double) y[i]);
    const struct ggml_type_traits * t = ggml_get_type_traits(d->type);
    float * w = malloc((size_t) d->k * sizeof(*w));
    if (!w) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    double sum = 0, norm = 0;
    for (int64_t j = 0; j < d->n; j++) {
        const void * row = (const char *) d->w->data + (size_t) j * d->w->nb[1];
        if (d->type == GGML_TYPE_F32) memcpy(w, row, (size_t) d->k * sizeof(*w));
        else t->to_float(row, w, d->k);
        add_column(d, y, j, w, &sum, &norm);
    }
    free(w);
    *error = sqrt(sum / norm);
    // x in float, in half precision, or in 8 bits per block
    const double tol = d->type == GGML_TYPE_F32 ? 1e-5 : d->type == GGML_TYPE_F16 ? 1e-3 : 4e-2;
    return *error <= tol ? MRA_OK
                         : mra_fail(err, MRA_ERR_BACKEND, "%s is off by %.2g (allowed %.0e)", name, *error, tol);
}
