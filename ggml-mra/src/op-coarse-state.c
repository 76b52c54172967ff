// coarse_state: (o, max, sum) += sum over a row's unrefined cells of g' e^{score} (v~, -, 1), g' being the valid keys
#include "checks.h"

#include <math.h>

static enum mra_status check(const struct ggml_tensor * scores, const struct ggml_tensor * parents,
    const struct ggml_tensor * refined, const struct ggml_tensor * v, const struct ggml_tensor * state,
    const struct ggml_tensor * lengths, const struct mra_level * l, struct mra_error * err) {
    enum mra_status st;
    int64_t cap, refined_cap;
    if ((st = mra_check_f32("scores", scores, err)) || (st = mra_check_f32("v", v, err)) ||
        (state && (st = mra_check_f32("state", state, err))) || (st = mra_check_level(l, err)))
        return st;
    const int64_t n_head = scores->ne[2], n_batch = scores->ne[3];
    if ((st = mra_check_parents(parents, l, n_head, n_batch, &cap, err)) ||
        (st = mra_check_scores(scores, l, cap, err)) ||
        (st = mra_check_list("refined", refined, l->n_q, l->h, n_head, n_batch, &refined_cap, err)) ||
        (st = mra_check_lengths(lengths, n_batch, err)) ||
        (st = mra_check_shape("v", v, v->ne[0], mra_blocks(l->n_k, l->g), v->ne[2], n_batch, err)) ||
        (st = mra_check_heads(n_head, "v", v->ne[2], err)))
        return st;
    if (state && !parents) return mra_fail(err, MRA_ERR_ARG, "the coarsest level inherits no state");
    if (!state) return MRA_OK;
    return mra_check_shape("state", state, v->ne[0] + 2, mra_blocks(l->n_q, l->parent_h), n_head, n_batch, err);
}

static struct ggml_tensor * node_new(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * refined, struct ggml_tensor * v, struct ggml_tensor * state,
    struct ggml_tensor * lengths, const struct mra_level * level, uint8_t flags, struct mra_error * err) {
    struct mra_node p = { .kind = MRA_KIND_COARSE_STATE, .flags = flags };
    p.u.coarse_state.level = mra_cell_level_of(level);
    const struct mra_sources src = { .fixed = { scores, refined, v },
        .optional = { [MRA_SRC_PARENTS] = parents, [MRA_SRC_STATE] = state, [MRA_SRC_LENGTHS] = lengths } };
    const int64_t ne[4] = { v->ne[0] + 2, mra_blocks(level->n_q, level->h), scores->ne[2], scores->ne[3] };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

struct ggml_tensor * ggml_mra_coarse_state(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * refined, struct ggml_tensor * v, struct ggml_tensor * state,
    struct ggml_tensor * lengths, struct mra_level level, struct mra_error * err) {
    if (check(scores, parents, refined, v, state, lengths, &level, err)) return NULL;
    return node_new(ctx, scores, parents, refined, v, state, lengths, &level, 0, err);
}

struct ggml_tensor * mra_dropped_state_new(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * refined, struct ggml_tensor * v, struct ggml_tensor * state,
    struct ggml_tensor * lengths, const struct mra_level * level, struct mra_error * err) {
    return node_new(ctx, scores, parents, refined, v, state, lengths, level, MRA_FLAG_FINEST_ONLY, err);
}

// The cells of a row that are not refined, one after the other. {.row, .refined, .n_refined}: before the first.
struct unrefined {
    const struct mra_cell_row * row;
    const int32_t * refined; // [n_refined] columns, ascending
    int n_refined;
    int n_passed; // of refined
    int e, i;     // the next run of the row, the next cell of the current one
    struct mra_cell_run run;
};

static bool next_unrefined(struct unrefined * u, int * col, float * score) {
    for (;;) {
        if (u->i == u->run.n) { // the next run, which may be empty
            do {
                if (u->e == u->row->n_run) return false;
            } while (!mra_cell_run_at(u->row, u->e++, &u->run));
            u->i = 0;
            continue;
        }
        *col = u->run.first + u->i;
        *score = u->run.scores[u->i++];
        while (u->n_passed < u->n_refined && u->refined[u->n_passed] < *col) u->n_passed++;
        if (u->n_passed == u->n_refined || u->refined[u->n_passed] != *col) return true;
    }
}

// Cells count for nothing where they are dropped, but not if one has a score of NaN or +inf: the row is then NaN.
static void dropped_row(float * o, int dv, struct unrefined u) {
    int col;
    float score;
    while (next_unrefined(&u, &col, &score)) {
        if (score < INFINITY) continue;
        for (int c = 0; c < dv + 2; c++) o[c] = NAN;
        return;
    }
}

// Adds cells of a row to the state o[dv], max, sum. g: keys of a cell; v: mean values of the key blocks, ldv floats
// apart.
static void coarse_row(float * o, int dv, struct unrefined u, const float * v, size_t ldv, int g, int n_k) {
    enum { N = 256 }; // cells at a time
    float s[N], w[N];
    int32_t y[N];
    int n = 0;
    while (next_unrefined(&u, &y[n], &s[n])) {
        w[n] = (float) mra_min(g, n_k - y[n] * g);
        if (++n == N) {
            mra_kernels_get()->coarse_state(o, o + dv, o + dv + 1, s, w, y, n, v, ldv, dv);
            n = 0;
        }
    }
    if (n) mra_kernels_get()->coarse_state(o, o + dv, o + dv + 1, s, w, y, n, v, ldv, dv);
}

// Each thread has an equal share of the rows of cells of all heads.
void mra_compute_coarse_state(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor *scores = dst->src[0], *refined = dst->src[1], *v = dst->src[2],
                             *parents = mra_source(dst, p, MRA_SRC_PARENTS), *state = mra_source(dst, p, MRA_SRC_STATE),
                             *lengths = mra_source(dst, p, MRA_SRC_LENGTHS);
    const struct mra_cell_level * l = &p->u.coarse_state.level;
    const int dv = (int) v->ne[0], n_row = mra_level_rows(l), n_parent_row = parents ? mra_parent_rows(l) : 0;
    const int64_t n = n_row * dst->ne[2] * dst->ne[3];
    for (int64_t t = n * ith / nth; t < n * (ith + 1) / nth; t++) {
        const int64_t b = t / (n_row * dst->ne[2]), h = t / n_row % dst->ne[2];
        const int x = (int) (t % n_row);
        const struct mra_len len = mra_lengths(lengths, scores->ne[3], b, l->n_q, l->n_k);
        float * o = mra_row(dst, x, h, b);
        memset(o, 0, (dv + 2) * sizeof(float));
        o[dv] = -INFINITY;
        if ((int64_t) x * l->h >= len.n_q) continue;
        if (state) memcpy(o, mra_row(state, x / mra_child_rows(l), h, b), (dv + 2) * sizeof(float));
        const struct mra_cell_list from = mra_list_of(parents, n_parent_row, h, b),
                                   to = mra_list_of(refined, n_row, h, b);
        const struct mra_cell_span taken = mra_list_row(&to, x);
        const struct mra_cell_row row = mra_cell_row_of(
            l, &from, x, len, mra_row(scores, 0, h, b), (int64_t) (scores->nb[1] / sizeof(float)));
        const struct unrefined cells = {
            .row = &row, .refined = mra_list_columns(&to) + taken.first, .n_refined = taken.end - taken.first
        };
        if (p->flags & MRA_FLAG_FINEST_ONLY) dropped_row(o, dv, cells);
        else
            coarse_row(o, dv, cells, mra_row(v, 0, h / (scores->ne[2] / v->ne[2]), b), v->nb[1] / sizeof(float), l->g,
                len.n_k);
    }
}
