// pool: dst[b][c] = mean, minimum or maximum of x[t][c] over the valid rows t of block b
#include "checks.h"

_Static_assert((int) MRA_POOL_MEAN == MRA_POOL_KIND_MEAN && (int) MRA_POOL_MIN == MRA_POOL_KIND_MIN &&
        (int) MRA_POOL_MAX == MRA_POOL_KIND_MAX,
    "kernels.h says the same as ggml-mra.h");

static enum mra_status check(const struct ggml_tensor * x, const struct ggml_tensor * lengths, int block,
    enum mra_pool pool, struct mra_error * err) {
    if (!x) return mra_fail(err, MRA_ERR_ARG, "x is NULL");
    if (x->type != GGML_TYPE_F32 && x->type != GGML_TYPE_F16)
        return mra_fail(err, MRA_ERR_SHAPE, "x is %s, not f32 or f16", ggml_type_name(x->type));
    if (x->nb[0] != ggml_type_size(x->type)) return mra_fail(err, MRA_ERR_SHAPE, "x: rows are not contiguous");
    if (block < 1 || block > MRA_MAX_SIZE)
        return mra_fail(err, MRA_ERR_ARG, "block %d is not in 1..%d", block, MRA_MAX_SIZE);
    if ((unsigned) pool > MRA_POOL_MAX) return mra_fail(err, MRA_ERR_ARG, "unknown pooling %d", (int) pool);
    if (x->ne[1] > INT32_MAX / 2) return mra_fail(err, MRA_ERR_SHAPE, "x has too many rows");
    return mra_check_lengths(lengths, x->ne[3], err);
}

struct ggml_tensor * ggml_mra_pool(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * lengths,
    int block, enum mra_pool pool, bool keys, struct mra_error * err) {
    if (check(x, lengths, block, pool, err)) return NULL;
    struct mra_node p = { .kind = MRA_KIND_POOL, .flags = keys ? MRA_FLAG_KEYS : 0 };
    p.u.pool = (struct mra_pool_node) { .block = block, .kind = pool };
    const struct mra_sources src = { .fixed = { x }, .optional = { [MRA_SRC_LENGTHS] = lengths } };
    const int64_t ne[4] = { x->ne[0], mra_blocks(x->ne[1], block), x->ne[2], x->ne[3] };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

// Each thread has an equal share of the blocks of all heads.
void mra_compute_pool(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor *x = dst->src[0], *lengths = mra_source(dst, p, MRA_SRC_LENGTHS);
    const int64_t n = dst->ne[1] * dst->ne[2] * dst->ne[3], first = n * ith / nth, end = n * (ith + 1) / nth;
    for (int64_t t = first; t < end;) {
        const int64_t b = t / (dst->ne[1] * dst->ne[2]), h = t / dst->ne[1] % dst->ne[2], b0 = t % dst->ne[1];
        const int64_t b1 = dst->ne[1] - b0 < end - t ? dst->ne[1] : b0 + end - t;
        const struct mra_len len = mra_lengths(lengths, x->ne[3], b, x->ne[1], x->ne[1]);
        mra_kernels_get()->pool(mra_row(dst, b0, h, b), mra_rows_of(x, 0, h, b), (int) x->ne[0],
            p->flags & MRA_FLAG_KEYS ? len.n_k : len.n_q, p->u.pool.block, p->u.pool.kind, (int) b0, (int) b1);
        t += b1 - b0;
    }
}
