// ffn: y = down(act(up x)) + residual, or down(act(gate x)*(up x)) + residual, as two linear nodes. Where the kernels
// multiply bytes, the first one writes the bytes that the second would make of its floats.
#include "checks.h"

static enum mra_status check(const struct mra_ffn * f, struct mra_error * err) {
    if (!f || !f->up[0].w || !f->down.w) return mra_fail(err, MRA_ERR_ARG, "weights are NULL");
    if (f->n_up < 1 || f->n_up > 2 || (f->n_up == 2 && !f->gated))
        return mra_fail(err, MRA_ERR_ARG, "%d weights of a feed-forward part", f->n_up);
    if (f->act < MRA_GLU_GELU || f->act > MRA_GLU_SILU) return mra_fail(err, MRA_ERR_ARG, "activation %d", f->act);
    if (!f->gated && f->act != MRA_GLU_GELU)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "without a gate the activation is GELU, not %d", f->act);
    return MRA_OK;
}

struct ggml_tensor * ggml_mra_ffn(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_ffn * f,
    struct ggml_tensor * residual, int n_threads, struct mra_error * err) {
    if (check(f, err)) return NULL;
    const int64_t n = f->down.w->ne[0];
    const struct mra_linear_node of = { .gelu = !f->gated,
        .gated = f->gated,
        .act = (uint8_t) f->act,
        .bytes = mra_kernels_get()->dense.bytes && ggml_is_quantized(f->down.w->type) && n % 32 == 0 };
    const int64_t n_up = f->up[0].w->ne[1] / (f->gated && f->n_up == 1 ? 2 : 1);
    if (n_up != n) return mra_fail(err, MRA_ERR_SHAPE, "up has %lld columns, down %lld rows", LL(n_up), LL(n)), NULL;
    struct ggml_tensor * y = mra_linear_new(ctx, x, f->up, f->n_up, NULL, of, n_threads, err);
    return y ? ggml_mra_linear(ctx, y, &f->down, 1, false, residual, n_threads, err) : NULL;
}
