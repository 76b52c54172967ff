// Validation before any timing: kernels against the scalar reference, output against exact attention in double and
// ggml's.
#include "bench-attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 512 }; // tokens that the scalar reference computes whole

// out[dim] = exact attention of query i of head h; score: room for n
static void exact_row(const struct attn_data * d, int64_t h, int64_t i, double * score, double * out) {
    const int64_t g = h / (d->heads / d->kv_heads), step = d->kv_heads * d->dim;
    const float * q = (const float *) d->q->data + (i * d->heads + h) * d->dim;
    const float *k = (const float *) d->k->data + g * d->dim, *v = (const float *) d->v->data + g * d->dim;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < d->n; j++) {
        double dot = 0;
        for (int64_t c = 0; c < d->dim; c++) dot += (double) q[c] * k[j * step + c];
        score[j] = dot / sqrt((double) d->dim);
        max = fmax(max, score[j]);
    }
    for (int64_t c = 0; c < d->dim; c++) out[c] = 0;
    for (int64_t j = 0; j < d->n; j++) {
        const double w = exp(score[j] - max);
        sum += w;
        for (int64_t c = 0; c < d->dim; c++) out[c] += w * v[j * step + c];
    }
    for (int64_t c = 0; c < d->dim; c++) out[c] /= sum;
}

// ||out - exact|| / ||exact|| over about 4e8 products' worth of queries, spread evenly over heads and positions
static double sampled_error(const float * got, const struct attn_data * d) {
    const int64_t all = d->n * d->heads, fit = (int64_t) 400000000 / (d->n * d->dim),
                  n = fit > all ? all
        : fit < 32              ? (all < 32 ? all : 32)
                                : fit;
    double *score = malloc((size_t) d->n * sizeof(*score)), *want = malloc((size_t) d->dim * sizeof(*want)), e = 0,
           m = 0;
    for (int64_t s = 0; score && want && s < n; s++) {
        const int64_t at = (int64_t) ((double) s * (double) all / (double) n), h = at / d->n, i = at % d->n;
        exact_row(d, h, i, score, want);
        for (int64_t c = 0; c < d->dim; c++) {
            const double x = (double) got[(i * d->heads + h) * d->dim + c] - want[c];
            e += x * x;
            m += want[c] * want[c];
        }
    }
    const bool ok = score && want;
    free(score);
    free(want);
    return ok && m > 0 ? sqrt(e / m) : INFINITY;
}

// The order of queries that the kernels find, and the rest of query_order by the reference: splits are discontinuous,
// and orders that differ where projections are equal within rounding are both right.
static const struct mra_kernels * of_order;
static void order_of_kernels(const struct mra_attn_head * a, bool given, void * scratch) {
    of_order->query_order(a, given, scratch);
    mra_kernels_ref.query_order(a, true, scratch);
}

// the reference of the kernels in use: with their order, and in integers the same ones
static const struct mra_kernels * reference_of(const struct mra_kernels * kern, enum mra_attn_type type) {
    static struct mra_kernels ref;
    ref = mra_kernels_ref;
    ref.query_order = order_of_kernels;
    of_order = kern;
    if (mra_attn_type_runs(type) == MRA_ATTN_INT8) ref.int8 = *mra_int8_reference(&kern->int8);
    return &ref;
}

// our node over n_q queries by kernels k; the caller frees g
static enum mra_status run_with(const struct mra_kernels * k, struct bench_graph * g, const struct engine * e,
    const struct attn_data * d, int64_t n_q, const struct mra_attn_params * p, bool f16, struct mra_error * err) {
    const struct mra_kernels * before = mra_kernels_get();
    mra_kernels_set(k);
    enum mra_status st = graph_new(g, e, d, OURS, n_q, p, f16, err);
    if (st == MRA_OK) memset(g->out->data, 0xff, ggml_nbytes(g->out)); // NaN: rows that are not written are seen
    if (st == MRA_OK && graph_run(g, e) < 0) st = mra_fail(err, MRA_ERR_BACKEND, "ggml failed to compute a graph");
    mra_kernels_set(before);
    return st;
}

enum mra_status check_reference(const struct engine * e, const struct attn_data * d, const struct mra_attn_params * p,
    bool f16, struct mra_error * err) {
    const struct mra_kernels * kern = mra_kernels_get();
    struct attn_data small = { 0 };
    struct bench_graph g = { 0 }, ref = { 0 };
    struct mra_attn_params sp = *p;
    const bool columns = sp.frame == MRA_FRAME_COLUMNS || sp.frame == MRA_FRAME_SORTED;
    if (columns && sp.block == 0 && d->n >= 2048) sp.block = 32; // what the large problem uses
    enum mra_status st = data_small(&small, d, d->n < SMALL ? d->n : SMALL, err);
    if (st == MRA_OK) st = run_with(reference_of(kern, p->type), &ref, e, &small, small.n, &sp, f16, err);
    if (st == MRA_OK) st = run_with(kern, &g, e, &small, small.n, &sp, f16, err);
    const double diff = st == MRA_OK ? relative_error(g.out->data, ref.out->data, ggml_nelements(g.out)) : 0,
                 tol = 2e-5;
    if (!(diff <= tol))
        st = mra_fail(err, MRA_ERR_BACKEND, "kernels %s differ from the reference by %.2g at n = %lld (allowed %.0e)",
            kern->name, diff, (long long) small.n, tol);
    graph_free(&g);
    graph_free(&ref);
    data_free(&small);
    return st;
}

// the kernels, but the first query blocks of every head, in the order of its frame, by the reference
enum { FIRST_ROWS = 64 };
static const struct mra_kernels * of_rest;
static void first_by_reference(const struct mra_attn_head * a, int x0, void * scratch) {
    of_rest->columns(a, x0, scratch);
    if (x0 > 0) return;
    struct mra_attn_head b = *a;
    b.group = FIRST_ROWS / MRA_QUERY_BLOCK;
    void * mem = NULL;
    if (a->int8) { // by the reference, too, which lays out its integers in its own way
        b.int8 = mra_int8_reference(a->int8);
        mem = aligned_alloc(64, MRA_ROUND_UP(mra_int8_pack_size(a->d, a->dv, a->n_k, b.int8->bytes), 64));
        if (!mem) abort();
        b.int8_pack = mra_int8_pack_at(mem, a->d, a->dv, a->n_k, b.int8->bytes, true);
        b.int8->pack(&b, &b.int8_pack, 0, a->n_k);
    }
    mra_kernels_ref.columns(&b, 0, scratch);
    free(mem);
}

static const struct mra_kernels * first_rows_of(const struct mra_kernels * kern) {
    static struct mra_kernels mixed;
    of_rest = kern;
    mixed = *kern;
    mixed.name = mra_kernels_ref.name;
    mixed.columns = first_by_reference;
    return &mixed;
}

enum mra_status check_first_rows(const struct bench_graph * ours, const struct engine * e, const struct attn_data * d,
    const struct mra_attn_params * p, bool f16, struct mra_error * err) {
    const bool sorted = p->frame == MRA_FRAME_SORTED;
    if ((p->frame != MRA_FRAME_COLUMNS && !sorted) || d->n <= SMALL) return MRA_OK;
    const struct mra_kernels * kern = mra_kernels_get();
    struct bench_graph g = { 0 };
    // the order of sorted queries depends on all of them
    const enum mra_status st = sorted ? run_with(first_rows_of(kern), &g, e, d, d->n, p, f16, err)
                                      : run_with(reference_of(kern, p->type), &g, e, d, FIRST_ROWS, p, f16, err);
    if (st != MRA_OK) {
        graph_free(&g);
        return st;
    }
    // in float and in double a score next to the threshold may fall on different sides, which exchanges two keys that
    // weigh about the same; in integers all behind them are rounded in other blocks, too
    const double share = sorted ? sqrt((double) FIRST_ROWS / (double) d->n) : 1,
                 diff = relative_error(ours->out->data, g.out->data, ggml_nelements(g.out)) / share,
                 tol = mra_attn_type_runs(p->type) == MRA_ATTN_INT8 ? 1e-2 : 2e-3;
    graph_free(&g);
    if (!(diff <= tol))
        return mra_fail(err, MRA_ERR_BACKEND,
            "kernels %s differ from the reference by %.2g in the first %lld rows (allowed %.0e)", kern->name, diff,
            (long long) FIRST_ROWS, tol);
    return MRA_OK;
}

enum mra_status check_output(const struct bench_graph * ours, const struct bench_graph * flash,
    const struct attn_data * d, const struct mra_attn_params * p, bool f16, double * rel_error,
    struct mra_error * err) {
    const float * got = ours->out->data;
    for (int64_t i = 0; i < ggml_nelements(ours->out); i++) {
        if (!isfinite(got[i]))
            return mra_fail(err, MRA_ERR_BACKEND, "output value %lld is %g", (long long) i, (double) got[i]);
    }
    *rel_error = sampled_error(got, d);
    if (!isfinite(*rel_error))
        return mra_fail(err, MRA_ERR_BACKEND, "no error against exact attention could be computed");
    if (mra_attn_work(p, d->n, d->n) < 1) return MRA_OK;
    // nothing is approximated; F16 rounds K and V to 11 bits, integers have 8
    const double tol = mra_attn_type_runs(p->type) == MRA_ATTN_INT8 ? 3e-2 : f16 ? 5e-3 : 1e-4;
    if (*rel_error > tol)
        return mra_fail(err, MRA_ERR_BACKEND, "exact attention is off by %.2g (allowed %.0e)", *rel_error, tol);
    if (!flash) return MRA_OK;
    const double diff = relative_error(got, flash->out->data, ggml_nelements(ours->out));
    if (!(diff <= tol))
        return mra_fail(err, MRA_ERR_BACKEND,
            "exact attention and ggml's flash attention differ by %.2g (allowed %.0e)", diff, tol);
    return MRA_OK;
}
