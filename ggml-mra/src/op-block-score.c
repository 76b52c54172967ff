// block_score: log mu of cells, scale * q.k of the blocks' means, or the bound scale * sum_c max(q_c kmin_c, q_c
// kmax_c)
#include "checks.h"

#include <math.h>

// *cap: of the parents, 0 without
static enum mra_status check(const struct ggml_tensor * q, const struct ggml_tensor * k,
    const struct ggml_tensor * k_max, const struct ggml_tensor * parents, const struct ggml_tensor * lengths,
    const struct mra_level * l, float scale, int64_t * cap, struct mra_error * err) {
    enum mra_status st;
    if ((st = mra_check_f32("q", q, err)) || (st = mra_check_f32("k", k, err)) ||
        (k_max && (st = mra_check_f32("k_max", k_max, err))) || (st = mra_check_level(l, err)) ||
        (st = mra_check_shape("q", q, q->ne[0], mra_blocks(l->n_q, l->h), q->ne[2], q->ne[3], err)) ||
        (st = mra_check_shape("k", k, q->ne[0], mra_blocks(l->n_k, l->g), k->ne[2], q->ne[3], err)) ||
        (st = mra_check_heads(q->ne[2], "k", k->ne[2], err)))
        return st;
    if (!isfinite(scale)) return mra_fail(err, MRA_ERR_ARG, "scale is not finite");
    if (k_max && parents) return mra_fail(err, MRA_ERR_ARG, "the bound takes no parents");
    if (k_max && (!ggml_are_same_shape(k, k_max) || !ggml_are_same_stride(k, k_max)))
        return mra_fail(err, MRA_ERR_SHAPE, "k and k_max differ in shape");
    if ((st = mra_check_parents(parents, l, q->ne[2], q->ne[3], cap, err))) return st;
    return mra_check_lengths(lengths, q->ne[3], err);
}

struct ggml_tensor * ggml_mra_block_score(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * k_max, struct ggml_tensor * parents, struct ggml_tensor * lengths, struct mra_level level,
    float scale, struct mra_error * err) {
    int64_t cap;
    if (check(q, k, k_max, parents, lengths, &level, scale, &cap, err)) return NULL;
    struct mra_node p = { .kind = MRA_KIND_BLOCK_SCORE };
    p.u.block_score = (struct mra_block_score_node) { .level = mra_cell_level_of(&level), .scale = scale };
    const struct mra_sources src = { .fixed = { q, k },
        .optional = { [MRA_SRC_K_MAX] = k_max, [MRA_SRC_PARENTS] = parents, [MRA_SRC_LENGTHS] = lengths } };
    const int64_t children = (int64_t) (level.parent_h / level.h) * (level.parent_g / level.g);
    const int64_t ne[4] = { cap ? children : k->ne[1], cap ? cap : q->ne[1], q->ne[2], q->ne[3] };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

static void fill_inf(float * x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = -INFINITY;
}

// One head of one sequence: mean queries and keys of its blocks, F32.
struct score_head {
    const float *q, *k, *k_max; // k_max NULL: no bound
    size_t ldq, ldk;
    int d;
    float scale;
    struct mra_len len;
    float * out;
    size_t ld_out;
};

// all cells of row x
static void score_row(const struct score_head * a, const struct mra_cell_level * l, int x) {
    const int n = (int64_t) x * l->h < a->len.n_q ? mra_div_up(a->len.n_k, l->g) : 0;
    float * out = a->out + x * a->ld_out;
    if (n)
        mra_kernels_get()->block_score(
            out, a->ld_out, a->q + x * a->ldq, a->ldq, 1, a->k, a->k_max, a->ldk, n, a->d, a->scale);
    fill_inf(out + n, mra_level_cols(l) - n);
}

// the children of the cells that row x of the parents lists
static void score_children(
    const struct score_head * a, const struct mra_cell_level * l, const struct mra_cell_list * parents, int x) {
    const int rows = mra_child_rows(l), cols = mra_child_cols(l), x0 = x * rows;
    const int n_q = mra_min(rows, mra_div_up(a->len.n_q, l->h) - x0);
    const struct mra_cell_span entries = mra_list_row(parents, x);
    const struct mra_cell_row row = mra_cell_row_of(l, parents, x0, a->len, NULL, 0);
    for (int e = 0; e < entries.end - entries.first; e++) {
        struct mra_cell_run run;
        float * out = a->out + (entries.first + e) * a->ld_out;
        fill_inf(out, (int64_t) rows * cols);
        if (n_q > 0 && e < row.n_run && mra_cell_run_at(&row, e, &run))
            mra_kernels_get()->block_score(out, cols, a->q + x0 * a->ldq, a->ldq, n_q, a->k + run.first * a->ldk, NULL,
                a->ldk, run.n, a->d, a->scale);
    }
}

// Each thread has an equal share of the rows of cells, or of the parents' rows, of all heads.
void mra_compute_block_score(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor *q = dst->src[0], *k = dst->src[1], *k_max = mra_source(dst, p, MRA_SRC_K_MAX),
                             *parents = mra_source(dst, p, MRA_SRC_PARENTS),
                             *lengths = mra_source(dst, p, MRA_SRC_LENGTHS);
    const struct mra_cell_level * l = &p->u.block_score.level;
    const int n_row = parents ? mra_parent_rows(l) : mra_level_rows(l);
    const int64_t n = n_row * q->ne[2] * q->ne[3];
    for (int64_t t = n * ith / nth; t < n * (ith + 1) / nth; t++) {
        const int64_t b = t / (n_row * q->ne[2]), h = t / n_row % q->ne[2], hk = h / (q->ne[2] / k->ne[2]);
        const struct score_head a = {
            .q = mra_row(q, 0, h, b),
            .k = mra_row(k, 0, hk, b),
            .k_max = k_max ? mra_row(k_max, 0, hk, b) : NULL,
            .ldq = q->nb[1] / sizeof(float),
            .ldk = k->nb[1] / sizeof(float),
            .d = (int) q->ne[0],
            .scale = p->u.block_score.scale,
            .len = mra_lengths(lengths, q->ne[3], b, l->n_q, l->n_k),
            .out = mra_row(dst, 0, h, b),
            .ld_out = dst->nb[1] / sizeof(float),
        };
        const struct mra_cell_list list = mra_list_of(parents, n_row, h, b);
        if (parents) score_children(&a, l, &list, (int) (t % n_row));
        else score_row(&a, l, (int) (t % n_row));
    }
}
