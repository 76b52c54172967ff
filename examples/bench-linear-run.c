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

// w [k, n] = float weights, row by row in the type
static bool fill_weights(struct ggml_tensor * w, uint64_t * s) {
    const int64_t k = w->ne[0];
    float * row = malloc((size_t) k * sizeof(*row));
    const float scale = 1 / sqrtf((float) k);
    for (int64_t i = 0; row && i < w->ne[1]; i++) {
        for (int64_t c = 0; c < k; c++) row[c] = scale * noise(s);
        if (w->type == GGML_TYPE_F32) memcpy((char *) w->data + (size_t) i * w->nb[1], row, w->nb[1]);
        else ggml_quantize_chunk(w->type, row, (char *) w->data + (size_t) i * w->nb[1], 0, 1, k, NULL);
    }
    free(row);
    return row != NULL;
}

enum mra_status linear_data_new(struct linear_data * d, int64_t m, int64_t k, int64_t n, enum ggml_type type,
    const struct linear_form * form, uint64_t seed, struct mra_error * err) {
    *d = (struct linear_data) { .m = m, .k = k, .n = n, .type = type, .fused = form->fused, .ffn = form->ffn };
    const double bytes = 4.0 *
        ((double) m * (double) (k + 3 * n) + 4.0 * (double) k * (double) n); // x, three results, copies of the weights
    if (bytes > .7 * memory_available()) return mra_fail(err, MRA_ERR_MEMORY, "%.1f GB do not fit", bytes / 1e9);
    d->ctx = ggml_init((struct ggml_init_params) { .mem_size = 5 * ggml_tensor_overhead(), .no_alloc = true });
    if (!d->ctx) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    d->x = ggml_new_tensor_2d(d->ctx, GGML_TYPE_F32, k, m);
    d->w = ggml_new_tensor_2d(d->ctx, type, k, n);
    d->bias = ggml_new_tensor_1d(d->ctx, GGML_TYPE_F32, n);
    d->down = d->ffn ? ggml_new_tensor_2d(d->ctx, type, n, k) : NULL;
    d->buf = ggml_backend_alloc_ctx_tensors_from_buft(d->ctx, ggml_backend_cpu_buffer_type());
    if (!d->buf || !fill_weights(d->w, &seed) || (d->ffn && !fill_weights(d->down, &seed))) {
        linear_data_free(d);
        return mra_fail(err, MRA_ERR_MEMORY, "no memory for the inputs");
    }
    float *x = d->x->data, *b = d->bias->data;
    for (int64_t i = 0; i < m * k; i++) x[i] = noise(&seed) * (form->outliers && i % k % 64 == 7 ? 16 : 1);
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
    if (d->fused || d->ffn) y = ggml_gelu_erf(ctx, ggml_add(ctx, y, d->bias));
    return d->ffn ? ggml_mul_mat(ctx, d->down, y) : y;
}

static struct ggml_tensor * build_ours(
    struct ggml_context * ctx, const struct linear_data * d, int n_threads, struct mra_error * err) {
    const struct mra_dense w = { d->w, d->fused || d->ffn ? d->bias : NULL };
    const struct mra_ffn f = { .up = { w }, .n_up = 1, .act = MRA_GLU_GELU, .down = { d->down, NULL } };
    return d->ffn ? ggml_mra_ffn(ctx, d->x, &f, NULL, n_threads, err)
                  : ggml_mra_linear(ctx, d->x, &w, 1, d->fused, NULL, n_threads, err);
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
    struct ggml_tensor * w = which != LINEAR_REPACKED ? d->w : d->ffn ? NULL : repack(g, e, d);
    *has = w != NULL;
    if (!w) return MRA_OK;
    enum mra_status st = graph_begin(&g->g, err);
    if (st != MRA_OK) {
        linear_graph_free(g);
        return st;
    }
    g->g.out = which == LINEAR_OURS ? build_ours(g->g.ctx, d, e->n_threads, err) : build_ggml(g->g.ctx, d, w);
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

// y [N_SAMPLE][n] = x [N_SAMPLE][k] times w, in double, from the weights as they dequantize; with bias (or NULL) and
// GELU
static bool product(double * y, const double * x, const struct ggml_tensor * w, const struct ggml_tensor * bias) {
    const int64_t k = w->ne[0], n = w->ne[1];
    float * row = malloc((size_t) k * sizeof(*row));
    for (int64_t j = 0; row && j < n; j++) {
        const void * from = (const char *) w->data + (size_t) j * w->nb[1];
        if (w->type == GGML_TYPE_F32) memcpy(row, from, (size_t) k * sizeof(*row));
        else ggml_get_type_traits(w->type)->to_float(from, row, k);
        for (int i = 0; i < N_SAMPLE; i++) {
            double s = 0;
            for (int64_t c = 0; c < k; c++) s += x[i * k + c] * row[c];
            if (bias) {
                s += (double) ((const float *) bias->data)[j];
                s *= .5 * (1 + erf(s * sqrt(.5)));
            }
            y[i * n + j] = s;
        }
    }
    free(row);
    return row != NULL;
}

// the sampled rows of the result, malloc'ed; NULL: no memory
static double * wanted(const struct linear_data * d) {
    double *x = malloc((size_t) (N_SAMPLE * d->k) * sizeof(*x)), *y = malloc((size_t) (N_SAMPLE * d->n) * sizeof(*y));
    for (int64_t i = 0; x && i < N_SAMPLE * d->k; i++)
        x[i] = (double) ((const float *) d->x->data)[sample_row(d, (int) (i / d->k)) * d->k + i % d->k];
    bool ok = x && y && product(y, x, d->w, d->fused || d->ffn ? d->bias : NULL);
    if (ok && d->ffn) ok = product(x, y, d->down, NULL);
    double * r = !ok ? NULL : d->ffn ? x : y;
    if (r != x) free(x);
    if (r != y) free(y);
    return r;
}

enum mra_status linear_check(const struct linear_graph * g, const struct engine * e, const struct linear_data * d,
    const char * name, double * error, struct mra_error * err) {
    memset(g->g.out->data, 0xff, ggml_nbytes(g->g.out)); // NaN: what is not written is seen
    if (graph_run(&g->g, e) < 0) return mra_fail(err, MRA_ERR_BACKEND, "ggml failed to compute a graph");
    const int64_t n = g->g.out->ne[0];
    const float * y = g->g.out->data;
    for (int64_t i = 0; i < d->m * n; i++)
        if (!isfinite(y[i]))
            return mra_fail(err, MRA_ERR_BACKEND, "%s: value %lld is %g", name, (long long) i, (double) y[i]);
    double *want = wanted(d), sum = 0, norm = 0;
    if (!want) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    for (int64_t i = 0; i < N_SAMPLE * n; i++) {
        const double diff = (double) y[sample_row(d, (int) (i / n)) * n + i % n] - want[i];
        sum += diff * diff;
        norm += want[i] * want[i];
    }
    free(want);
    *error = sqrt(sum / norm);
    // x in float, in half precision, or in 8 bits per block
    const double tol = d->type == GGML_TYPE_F32 ? 1e-5 : d->type == GGML_TYPE_F16 ? 1e-3 : 4e-2;
    return *error <= tol ? MRA_OK
                         : mra_fail(err, MRA_ERR_BACKEND, "%s is off by %.2g (allowed %.0e)", name, *error, tol);
}
