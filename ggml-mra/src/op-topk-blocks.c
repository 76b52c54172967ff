// topk_blocks: list = the `count` best cells, of each row of cells or of the head; ties to the lower row, then column
#include "checks.h"

#include <math.h>

enum { MAX_PRIOR = UINT16_MAX, MAX_CELLS = INT32_MAX - 4 * MRA_TOPK_SLACK };

// *cap: cells a list shall have room for; cut to those there are
static enum mra_status check_node(const struct ggml_tensor * scores, const struct ggml_tensor * parents,
    const struct ggml_tensor * lengths, const struct mra_level * l, int64_t * cap, struct mra_error * err) {
    enum mra_status st;
    int64_t parent_cap;
    if ((st = mra_check_f32("scores", scores, err)) || (st = mra_check_level(l, err)) ||
        (st = mra_check_parents(parents, l, scores->ne[2], scores->ne[3], &parent_cap, err)) ||
        (st = mra_check_scores(scores, l, parent_cap, err)) || (st = mra_check_lengths(lengths, scores->ne[3], err)))
        return st;
    const int64_t cells = scores->ne[0] * scores->ne[1];
    if (cells > MAX_CELLS) return mra_fail(err, MRA_ERR_SHAPE, "%lld cells in a head are too many", LL(cells));
    if (*cap > cells) *cap = cells;
    if (*cap < 1) *cap = 1;
    return MRA_OK;
}

static enum mra_status check_choice(
    const struct mra_level * l, enum mra_rule rule, int count, int first_n, int diag_n, struct mra_error * err) {
    if (count < 0) return mra_fail(err, MRA_ERR_ARG, "count %d is negative", count);
    if ((unsigned) rule > MRA_RULE_ROWMAX) return mra_fail(err, MRA_ERR_ARG, "unknown rule %d", (int) rule);
    if (first_n < 0 || first_n > MAX_PRIOR || diag_n < 0 || diag_n > MAX_PRIOR)
        return mra_fail(err, MRA_ERR_ARG, "priors are not in 0..%d", MAX_PRIOR);
    return mra_check_level(l, err);
}

struct ggml_tensor * mra_topk_blocks_new(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * lengths, const struct mra_level * level, int64_t cap,
    struct mra_topk_blocks_node topk, int n_threads, struct mra_error * err) {
    if (check_node(scores, parents, lengths, level, &cap, err)) return NULL;
    const int64_t n_list = scores->ne[2] * scores->ne[3];
    topk.level = mra_cell_level_of(level);
    topk.cap = (int32_t) cap;
    topk.slots = (uint16_t) (mra_slots(n_threads) < n_list ? mra_slots(n_threads) : n_list);
    const struct mra_topk_layout layout = mra_topk_layout_of(&topk, n_list, scores->ne[0] * scores->ne[1]);
    struct mra_node p = { .kind = MRA_KIND_TOPK_BLOCKS };
    p.u.topk_blocks = topk;
    const struct mra_sources src = { .fixed = { scores },
        .optional = { [MRA_SRC_PARENTS] = parents, [MRA_SRC_LENGTHS] = lengths } };
    struct ggml_tensor * t = mra_node_new(
        ctx, GGML_TYPE_I32, (const int64_t[4]) { layout.words, 1, 1, 1 }, &src, p, err);
    if (!t) return NULL;
    return ggml_view_3d(ctx, t, layout.list, scores->ne[2], scores->ne[3], layout.stride * sizeof(int32_t),
        layout.stride * scores->ne[2] * sizeof(int32_t), 0);
}

struct ggml_tensor * ggml_mra_topk_blocks(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * lengths, struct mra_level level, enum mra_rule rule, int count,
    int first_n, int diag_n, struct mra_error * err) {
    if (check_choice(&level, rule, count, first_n, diag_n, err)) return NULL;
    const struct mra_topk_blocks_node topk = {
        .rule = (uint8_t) rule,
        .take.count = count,
        .first_n = (uint16_t) first_n,
        .diag_n = (uint16_t) diag_n,
    };
    const int64_t cap = rule == MRA_RULE_ROW ? count * mra_blocks(level.n_q, level.h) : count;
    return mra_topk_blocks_new(ctx, scores, parents, lengths, &level, cap, topk, 0, err);
}

// One head of one sequence.
struct topk_head {
    const struct mra_topk_blocks_node * p;
    struct mra_cell_list parents;
    struct mra_len len;
    const float * scores;
    int64_t ld; // of scores
    float * keys;
    int64_t n_key; // room for sort keys
};

static struct mra_cell_row row_of(const struct topk_head * a, int x) {
    return mra_cell_row_of(&a->p->level, &a->parents, x, a->len, a->scores, a->ld);
}

// Sort keys of row x into keys[room]; returns how many. Cells that more priors name come first, then those with the
// higher score; rule ROWMAX subtracts the row's maximum.
static int row_keys(const struct topk_head * a, int x, float * keys, int64_t room) {
    const int first_n = a->p->first_n, diag_n = a->p->diag_n;
    const struct mra_cell_row row = row_of(a, x);
    struct mra_cell_run r;
    float max = 0;
    int n = 0;
    if (a->p->rule == MRA_RULE_ROWMAX) {
        max = -INFINITY;
        for (int e = 0; e < row.n_run; e++)
            if (mra_cell_run_at(&row, e, &r))
                for (int i = 0; i < r.n; i++) max = r.scores[i] > max ? r.scores[i] : max;
    }
    for (int e = 0; e < row.n_run; e++) {
        if (!mra_cell_run_at(&row, e, &r)) continue;
        for (int i = 0; i < r.n && n < room; i++) {
            const int named = mra_square_priors(first_n, diag_n, x, r.first + i);
            keys[n++] = first_n || diag_n ? mra_named_key(r.scores[i] - max, named) : r.scores[i] - max;
        }
    }
    return n;
}

// Replaces positions pos[0..n) among the cells of row x, counted from *first, by block columns. Returns how many were
// in this row; *first: behind its last cell.
static int to_columns(const struct topk_head * a, int x, int32_t * pos, int n, int * first) {
    const struct mra_cell_row row = row_of(a, x);
    struct mra_cell_run r;
    int done = 0;
    for (int e = 0; e < row.n_run; e++) {
        if (!mra_cell_run_at(&row, e, &r)) continue;
        for (; done < n && pos[done] < *first + r.n; done++) pos[done] += r.first - *first;
        *first += r.n;
    }
    return done;
}

// the best `count` cells of each row
static void topk_rows(const struct topk_head * a, int64_t count, int32_t * list) {
    const int n_row = mra_level_rows(&a->p->level);
    int32_t * id = list + n_row + 1;
    int n_out = 0;
    for (int x = 0; x < n_row; x++) {
        list[x] = n_out;
        if ((int64_t) x * a->p->level.h >= a->len.n_q) continue;
        const int64_t m = count < a->p->cap - n_out ? count : a->p->cap - n_out;
        const int n_key = row_keys(a, x, a->keys, a->n_key);
        const int n = mra_kernels_get()->topk_blocks(id + n_out, a->keys, n_key, (int) m);
        int first = 0;
        to_columns(a, x, id + n_out, n, &first);
        n_out += n;
    }
    list[n_row] = n_out;
}

// the best `count` cells of the head
static void topk_all(const struct topk_head * a, int64_t count, int32_t * list) {
    const int n_row = mra_level_rows(&a->p->level), n_valid = mra_div_up(a->len.n_q, a->p->level.h);
    int32_t * id = list + n_row + 1;
    int n_key = 0, n_out = 0, first = 0;
    for (int x = 0; x < n_valid; x++) n_key += row_keys(a, x, a->keys + n_key, a->n_key - n_key);
    const int n = mra_kernels_get()->topk_blocks(id, a->keys, n_key, (int) (count < a->p->cap ? count : a->p->cap));
    for (int x = 0; x < n_row; x++) {
        list[x] = n_out;
        if (x < n_valid) n_out += to_columns(a, x, id + n_out, n - n_out, &first);
    }
    list[n_row] = n_out;
}

// A thread with sort keys has every slots-th head.
void mra_compute_topk_blocks(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct mra_topk_blocks_node * topk = &p->u.topk_blocks;
    const struct ggml_tensor *scores = dst->src[0], *parents = mra_source(dst, p, MRA_SRC_PARENTS),
                             *lengths = mra_source(dst, p, MRA_SRC_LENGTHS);
    const int slots = mra_min(topk->slots, nth), n_parent_row = parents ? mra_parent_rows(&topk->level) : 0;
    const int64_t n_list = scores->ne[2] * scores->ne[3];
    const struct mra_topk_layout layout = mra_topk_layout_of(topk, n_list, scores->ne[0] * scores->ne[1]);
    if (ith >= slots) return;
    for (int64_t t = ith; t < n_list; t += slots) {
        const int64_t b = t / scores->ne[2], h = t % scores->ne[2];
        const struct topk_head a = {
            .p = topk,
            .parents = mra_list_of(parents, n_parent_row, h, b),
            .len = mra_lengths(lengths, scores->ne[3], b, topk->level.n_q, topk->level.n_k),
            .scores = mra_row(scores, 0, h, b),
            .ld = (int64_t) (scores->nb[1] / sizeof(float)),
            .keys = (float *) dst->data + layout.keys + ith * layout.room,
            .n_key = layout.n_key,
        };
        int32_t * list = (int32_t *) dst->data + t * layout.stride;
        const int64_t count = mra_topk_count(topk, a.len);
        if (topk->rule == MRA_RULE_ROW) topk_rows(&a, count, list);
        else topk_all(&a, count, list);
    }
}
