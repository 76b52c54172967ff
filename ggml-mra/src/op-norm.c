// norm: y = (x - mean)/sqrt(var + eps)*w + b over every row of x, or with 0 for the mean
#include "checks.h"

static struct ggml_tensor * build(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * w,
    struct ggml_tensor * b, float eps, bool rms, struct mra_error * err) {
    if (!x || !w) return mra_fail(err, MRA_ERR_ARG, "x or w is NULL"), NULL;
    if (mra_check_even_rows("x", x, err) || mra_check_vector("w", w, x->ne[0], err) ||
        (b && mra_check_vector("b", b, x->ne[0], err)))
        return NULL;
    struct mra_node p = { .kind = MRA_KIND_NORM };
    p.u.norm = (struct mra_norm_node) { .eps = eps, .rms = rms };
    const struct mra_sources src = { .fixed = { x, w }, .optional = { [MRA_SRC_BIAS] = b } };
    return mra_node_new(ctx, GGML_TYPE_F32, x->ne, &src, p, err);
}

struct ggml_tensor * ggml_mra_norm(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * w,
    struct ggml_tensor * b, float eps, struct mra_error * err) {
    return build(ctx, x, w, b, eps, false, err);
}

struct ggml_tensor * ggml_mra_rms_norm(
    struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * w, float eps, struct mra_error * err) {
    return build(ctx, x, w, NULL, eps, true, err);
}

// Each thread has an equal share of the rows.
void mra_compute_norm(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor *x = dst->src[0], *b = mra_source(dst, p, MRA_SRC_BIAS);
    const int64_t m = ggml_nrows(x);
    for (int64_t i = m * ith / nth; i < m * (ith + 1) / nth; i++)
        mra_kernels_get()->norm(mra_row(dst, i, 0, 0), mra_row(x, i, 0, 0), dst->src[1]->data, b ? b->data : NULL,
            (int) x->ne[0], p->u.norm.eps, p->u.norm.rms);
}
