// rope-table: cos and sin of scale*position*base^(-2c/n_rot), c < n_rot/2; rope: pairs of channels of the first heads
// of each row turned by those angles, in place
#include "checks.h"

#include <math.h>

static enum mra_status check_table(
    const struct ggml_tensor * positions, int n_rot, float base, float scale, struct mra_error * err) {
    if (!positions) return mra_fail(err, MRA_ERR_ARG, "positions are NULL");
    if (positions->type != GGML_TYPE_I32 || !ggml_is_contiguous(positions) ||
        ggml_nelements(positions) != positions->ne[0])
        return mra_fail(err, MRA_ERR_SHAPE, "positions must be i32 [n]");
    if (n_rot < 2 || n_rot > MRA_MAX_DIM || n_rot % 2)
        return mra_fail(err, MRA_ERR_ARG, "%d channels that turn are not an even number in 2..%d", n_rot, MRA_MAX_DIM);
    if (!(base > 0) || !isfinite(base) || !isfinite(scale))
        return mra_fail(err, MRA_ERR_ARG, "base %g or scale %g is out of range", (double) base, (double) scale);
    return MRA_OK;
}

struct ggml_tensor * ggml_mra_rope_table(struct ggml_context * ctx, struct ggml_tensor * positions, int n_rot,
    float base, float scale, struct mra_error * err) {
    if (check_table(positions, n_rot, base, scale, err)) return NULL;
    struct mra_node p = { .kind = MRA_KIND_ROPE_TABLE };
    p.u.rope_table = (struct mra_rope_table_node) { .base = base, .scale = scale };
    const struct mra_sources src = { .fixed = { positions } };
    const int64_t ne[4] = { n_rot, positions->ne[0], 1, 1 };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

// Each thread has an equal share of the tokens. In double: a float holds the angle of a late position to 1e-3 only.
void mra_compute_rope_table(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const int32_t * positions = dst->src[0]->data;
    const int64_t n = dst->ne[1], r = dst->ne[0] / 2;
    double freq[MRA_MAX_DIM / 2];
    for (int64_t c = 0; c < r; c++)
        freq[c] = (double) p->u.rope_table.scale * pow((double) p->u.rope_table.base, (double) -c / (double) r);
    for (int64_t i = n * ith / nth; i < n * (ith + 1) / nth; i++) {
        float * row = mra_row(dst, i, 0, 0);
        for (int64_t c = 0; c < r; c++) {
            row[c] = (float) cos(positions[i] * freq[c]);
            row[r + c] = (float) sin(positions[i] * freq[c]);
        }
    }
}

static enum mra_status check_rope(
    const struct ggml_tensor * x, const struct ggml_tensor * table, int d, int n_head, struct mra_error * err) {
    enum mra_status st;
    if (!x || !table) return mra_fail(err, MRA_ERR_ARG, "x or the table is NULL");
    if ((st = mra_check_even_rows("x", x, err)) || (st = mra_check_f32("table", table, err))) return st;
    if (d < 1 || n_head < 1 || (int64_t) d * n_head > x->ne[0])
        return mra_fail(err, MRA_ERR_SHAPE, "%d heads of %d channels do not fit rows of %lld", n_head, d, LL(x->ne[0]));
    if (table->ne[0] > d || table->ne[0] % 2)
        return mra_fail(err, MRA_ERR_SHAPE, "the table turns %lld of %d channels", LL(table->ne[0]), d);
    return mra_check_shape("table", table, table->ne[0], ggml_nrows(x), 1, 1, err);
}

struct ggml_tensor * ggml_mra_rope(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * table, int d,
    int n_head, bool interleaved, struct mra_error * err) {
    if (check_rope(x, table, d, n_head, err)) return NULL;
    struct mra_node p = { .kind = MRA_KIND_ROPE };
    p.u.rope = (struct mra_rope_node) { .d = d, .n_head = n_head, .interleaved = interleaved };
    const struct mra_sources src = { .fixed = { x, table } };
    return mra_node_inplace(ctx, &src, p, err);
}

// Each thread has an equal share of the rows.
void mra_compute_rope(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor * table = dst->src[1];
    const struct mra_rope_node * r = &p->u.rope;
    const int64_t m = ggml_nrows(dst);
    for (int64_t i = m * ith / nth; i < m * (ith + 1) / nth; i++)
        mra_kernels_get()->rope(
            mra_row(dst, i, 0, 0), mra_row(table, i, 0, 0), r->n_head, r->d, (int) table->ne[0], r->interleaved);
}
