// norm: y = (x - mean)/sqrt(var + eps)*w + b over every row of x
#include "checks.h"

static enum mra_status check(
    const struct ggml_tensor * x, const struct ggml_tensor * w, const struct ggml_tensor * b, struct mra_error * err) {
    enum mra_status st;
    if (!x || !w || !b) return mra_fail(err, MRA_ERR_ARG, "x, w or b is NULL");
    if ((st = mra_check_even_rows("x", x, err)) || (st = mra_check_vector("w", w, x->ne[0], err))) return st;
    return mra_check_vector("b", b, x->ne[0], err);
}

struct ggml_tensor * ggml_mra_norm(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * w,
    struct ggml_tensor * b, float eps, struct mra_error * err) {
    if (check(x, w, b, err)) return NULL;
    struct mra_node p = { .kind = MRA_KIND_NORM };
    p.u.norm.eps = eps;
    const struct mra_sources src = { .fixed = { x, w, b } };
    return mra_node_new(ctx, GGML_TYPE_F32, x->ne, &src, p, err);
}

// Each thread has an equal share of the rows.
void mra_compute_norm(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor * x = dst->src[0];
    const int64_t m = ggml_nrows(x);
    for (int64_t i = m * ith / nth; i < m * (ith + 1) / nth; i++)
        mra_kernels_get()->norm(mra_row(dst, i, 0, 0), mra_row(x, i, 0, 0), dst->src[1]->data, dst->src[2]->data,
            (int) x->ne[0], p->u.norm.eps);
}
