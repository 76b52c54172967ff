// glu: y = act(first half of x)*second half, over every row of x
#include "checks.h"

_Static_assert((int) MRA_GLU_GELU == MRA_GLU_ACT_GELU && (int) MRA_GLU_GELU_TANH == MRA_GLU_ACT_GELU_TANH &&
        (int) MRA_GLU_RELU == MRA_GLU_ACT_RELU && (int) MRA_GLU_SILU == MRA_GLU_ACT_SILU,
    "the kernels' activations are those of ggml-mra.h");

static enum mra_status check(const struct ggml_tensor * x, enum mra_glu act, struct mra_error * err) {
    if (!x) return mra_fail(err, MRA_ERR_ARG, "x is NULL");
    if (act < MRA_GLU_GELU || act > MRA_GLU_SILU) return mra_fail(err, MRA_ERR_ARG, "activation %d", act);
    if (x->ne[0] % 2) return mra_fail(err, MRA_ERR_SHAPE, "rows of %lld values have no halves", LL(x->ne[0]));
    return mra_check_even_rows("x", x, err);
}

struct ggml_tensor * ggml_mra_glu(
    struct ggml_context * ctx, struct ggml_tensor * x, enum mra_glu act, struct mra_error * err) {
    if (check(x, act, err)) return NULL;
    struct mra_node p = { .kind = MRA_KIND_GLU };
    p.u.glu.act = (uint8_t) act;
    const struct mra_sources src = { .fixed = { x } };
    const int64_t ne[4] = { x->ne[0] / 2, x->ne[1], x->ne[2], x->ne[3] };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

// Each thread has an equal share of the rows.
void mra_compute_glu(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor * x = dst->src[0];
    const int64_t m = ggml_nrows(x), n = dst->ne[0];
    for (int64_t i = m * ith / nth; i < m * (ith + 1) / nth; i++) {
        const float * row = mra_row(x, i, 0, 0);
        mra_kernels_get()->glu(mra_row(dst, i, 0, 0), row, row + n, (int) n, p->u.glu.act);
    }
}
