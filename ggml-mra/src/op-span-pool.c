// span-pool: dst[s][c] = mean, sum/sqrt(n) or maximum of x[t][c] over the n tokens t of span s, summed in double
#include "checks.h"

#include <math.h>

_Static_assert((int) MRA_SPAN_MEAN == MRA_SPAN_KIND_MEAN && (int) MRA_SPAN_MEAN_SQRT == MRA_SPAN_KIND_MEAN_SQRT &&
        (int) MRA_SPAN_MAX == MRA_SPAN_KIND_MAX,
    "what nodes carry is what ggml-mra.h says");

enum { STRIP = 64 }; // channels that a thread sums at a time

static enum mra_status check(
    const struct ggml_tensor * x, const struct ggml_tensor * spans, enum mra_span_pool pool, struct mra_error * err) {
    if (!x || !spans) return mra_fail(err, MRA_ERR_ARG, "x or the spans are NULL");
    if ((unsigned) pool > MRA_SPAN_MAX) return mra_fail(err, MRA_ERR_ARG, "unknown pooling %d", (int) pool);
    const enum mra_status st = mra_check_f32("x", x, err);
    if (st != MRA_OK) return st;
    if (x->ne[2] != 1 || x->ne[3] != 1) return mra_fail(err, MRA_ERR_SHAPE, "x must be f32 [d, n]");
    if (x->ne[1] > INT32_MAX / 2) return mra_fail(err, MRA_ERR_SHAPE, "x has too many rows");
    if (spans->type != GGML_TYPE_I32 || !ggml_is_contiguous(spans) || spans->ne[0] != 2 || spans->ne[2] != 1 ||
        spans->ne[3] != 1)
        return mra_fail(err, MRA_ERR_SHAPE, "spans must be i32 [2, n]");
    return MRA_OK;
}

struct ggml_tensor * ggml_mra_span_pool(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * spans,
    enum mra_span_pool pool, struct mra_error * err) {
    if (check(x, spans, pool, err)) return NULL;
    struct mra_node p = { .kind = MRA_KIND_SPAN_POOL };
    p.u.span_pool.kind = (uint8_t) pool;
    const struct mra_sources src = { .fixed = { x, spans } };
    const int64_t ne[4] = { x->ne[0], spans->ne[1], 1, 1 };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

// NaN stays
static double larger(double a, float b) { return isnan(a) || a >= b ? a : b; }

// channels [c, c + n) of a span
static void pool_strip(float * dst, const struct ggml_tensor * x, struct mra_span_rows s, int64_t c, int n, int kind) {
    double sum[STRIP];
    for (int i = 0; i < n; i++) sum[i] = kind == MRA_SPAN_MAX ? -INFINITY : 0;
    for (int64_t t = s.first; t < s.first + s.n; t++) {
        const float * row = mra_row(x, t, 0, 0) + c;
        if (kind == MRA_SPAN_MAX)
            for (int i = 0; i < n; i++) sum[i] = larger(sum[i], row[i]);
        else
            for (int i = 0; i < n; i++) sum[i] += row[i];
    }
    const double scale = mra_span_scale(kind, s.n);
    for (int i = 0; i < n; i++) dst[i] = s.n > 0 ? (float) (sum[i] * scale) : 0;
}

// Each thread has an equal share of the strips of all spans.
void mra_compute_span_pool(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor * x = dst->src[0];
    const int32_t * spans = dst->src[1]->data;
    const int64_t d = dst->ne[0], n_strip = (d + STRIP - 1) / STRIP, n = n_strip * dst->ne[1];
    for (int64_t i = n * ith / nth; i < n * (ith + 1) / nth; i++) {
        const int64_t s = i / n_strip, c = i % n_strip * STRIP;
        pool_strip(mra_row(dst, s, 0, 0) + c, x, mra_span_rows_of(spans + 2 * s, x->ne[1]), c,
            (int) (d - c < STRIP ? d - c : STRIP), p->u.span_pool.kind);
    }
}
