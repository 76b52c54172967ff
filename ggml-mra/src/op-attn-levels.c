// attn_levels: level_ij = how often the cell with query i and key j was refined on the way to an attention's result, or
// MRA_LEVEL_EXACT where the pair's own score was used. Of columns and sorted the choice is made again, by its formula:
// expand the m1 best key blocks by the bound (+ bias), keep the m2 best of their keys by q~.k_j (+ bias). Of square
// frames it is read from the cell lists.
#include "checks.h"
#include "op-pack.h"

enum { H = MRA_QUERY_BLOCK, SLACK = 16 }; // SLACK: what topk_blocks may write behind its entries

// floats of one thread's memory: keys as floats, minima, maxima and means of key blocks, scores, chosen ones, a query
static int64_t scratch_of(const struct ggml_tensor * k) {
    const int64_t n = k->ne[1], n_b = mra_div_up((int) n, MRA_KEY_BLOCK);
    return (n + 3 * n_b) * k->ne[0] + 2 * (n + SLACK) + 2 * (n_b + SLACK) + k->ne[0];
}

static int64_t rows_of(const struct ggml_tensor * q, int step) { return (q->ne[1] + step - 1) / step; }

// byte of the node where that memory begins: behind the result
static int64_t scratch_at(const struct ggml_tensor * q, const struct ggml_tensor * k, int step) {
    return MRA_ROUND_UP(k->ne[1] * rows_of(q, step) * q->ne[2] * q->ne[3], 64);
}

// the cell lists of a square frame, finest first; returns how many, 0: `cells` is no list of ggml_mra_attn
static int lists_of(struct ggml_tensor * cells, struct ggml_tensor ** lists) {
    int n = 0;
    while (cells && n < MRA_MAX_LEVELS - 1) {
        const struct ggml_tensor * node = cells->view_src;
        const struct mra_node p = mra_node_get(node);
        if (p.kind != MRA_KIND_TOPK_BLOCKS) return 0;
        lists[n++] = cells;
        cells = mra_source(node, &p, MRA_SRC_PARENTS);
    }
    return cells ? 0 : n;
}

struct ggml_tensor * ggml_mra_attn_levels(
    struct ggml_context * ctx, struct ggml_tensor * out, int step, struct mra_error * err) {
    const struct mra_node of = mra_node_get(out);
    struct mra_sources src = { .fixed = { out } };
    struct mra_node p = { .kind = MRA_KIND_ATTN_LEVELS };
    const bool square = of.kind == MRA_KIND_BLOCK_SPARSE_ATTN;
    if (step < 1) return mra_fail(err, MRA_ERR_ARG, "step = %d: every step-th query is looked at", step), NULL;
    if (of.flags & MRA_FLAG_STARTS)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "levels of packed sequences: give them one by one"), NULL;
    if (square ? !lists_of(out->src[4], src.fixed + 1) : of.kind != MRA_KIND_ATTN)
        return mra_fail(err, MRA_ERR_ARG, "out is not what ggml_mra_attn gave"), NULL;
    for (int i = 0; i < 5 && !square; i++) src.fixed[i + 1] = i < of.n_fixed ? out->src[i] : NULL;
    src.optional[MRA_SRC_LENGTHS] = mra_source(out, &of, MRA_SRC_LENGTHS);
    const struct ggml_tensor *q = out->src[0], *k = out->src[1];
    const int64_t n_rows = rows_of(q, step);
    p.u.attn_levels = (struct mra_attn_levels_node) { .step = step, .slots = (uint16_t) mra_slots(0) };
    const int64_t n_scratch = square ? 0 : p.u.attn_levels.slots * scratch_of(k) * (int64_t) sizeof(float),
                  ne[4] = { scratch_at(q, k, step) + n_scratch, 1, 1, 1 };
    struct ggml_tensor * t = mra_node_new(ctx, GGML_TYPE_I8, ne, &src, p, err);
    if (!t) return NULL;
    const size_t head = (size_t) (k->ne[1] * n_rows);
    return ggml_view_4d(
        ctx, t, k->ne[1], n_rows, q->ne[2], q->ne[3], (size_t) k->ne[1], head, head * (size_t) q->ne[2], 0);
}

// ---- columns and sorted ----

struct chooser { // of a head, in a thread's memory; n_b key blocks
    const struct mra_attn_head * a;
    int n_b;
    float *keys, *lo, *hi, *mean; // [n_k][d], [n_b][d]
    float *key_score, *block_score, *q_mean;
    int32_t *key_idx, *block_idx;
    int block; // query block that key_idx is of, -1: none yet
    int n_kept;
};

static struct chooser chooser_of(const struct mra_attn_head * a, float * mem) {
    struct chooser c = { .a = a, .n_b = mra_div_up(a->n_k, a->g), .block = -1 };
    const struct mra_kernels * fn = mra_kernels_get();
    float ** const to[] = { &c.keys, &c.lo, &c.hi, &c.mean };
    for (int i = 0; i < 4; i++) {
        *to[i] = mem;
        mem += (int64_t) (i ? c.n_b : a->n_k) * a->d;
    }
    c.key_score = mem;
    c.key_idx = (int32_t *) (c.key_score + a->n_k + SLACK);
    c.block_score = (float *) (c.key_idx + a->n_k + SLACK);
    c.block_idx = (int32_t *) (c.block_score + c.n_b + SLACK);
    c.q_mean = (float *) (c.block_idx + c.n_b + SLACK);
    fn->pool(c.keys, a->k, a->d, a->n_k, 1, MRA_POOL_MEAN, 0, a->n_k);
    fn->pool(c.lo, a->k, a->d, a->n_k, a->g, MRA_POOL_MIN, 0, c.n_b);
    fn->pool(c.hi, a->k, a->d, a->n_k, a->g, MRA_POOL_MAX, 0, c.n_b);
    fn->pool(c.mean, a->k, a->d, a->n_k, a->g, MRA_POOL_MEAN, 0, c.n_b);
    return c;
}

// which key blocks query block x expands: block_idx; returns how many
static int expand(struct chooser * c, int x, const float * q) {
    const struct mra_attn_head * a = c->a;
    const float * bias = a->sorted.order ? a->sorted.key_bias : NULL;
    mra_kernels_get()->block_score(c->block_score, 0, q, 0, 1, a->bound ? c->lo : c->mean, a->bound ? c->hi : NULL,
        (size_t) a->d, c->n_b, a->d, 1);
    for (int y = 0; y < c->n_b; y++) {
        float top = bias ? bias[y * a->g] : 0;
        for (int j = y * a->g; bias && j < mra_min((y + 1) * a->g, a->n_k); j++) top = bias[j] > top ? bias[j] : top;
        c->block_score[y] += top;
        if (a->first_n || a->diag_n) c->block_score[y] = mra_named_key(c->block_score[y], mra_columns_named(a, x, y));
    }
    if (a->m1 < c->n_b) return mra_kernels_get()->topk_blocks(c->block_idx, c->block_score, c->n_b, a->m1);
    for (int y = 0; y < c->n_b; y++) c->block_idx[y] = y;
    return c->n_b;
}

// levels of query block x for each key
static void choose(struct chooser * c, int x, int8_t * level) {
    const struct mra_attn_head * a = c->a;
    const float *bias = a->sorted.order ? a->sorted.key_bias : NULL, *q = c->q_mean;
    memset(level, 0, (size_t) a->n_k);
    if (bias) q = a->sorted.q_mean + (int64_t) x * MRA_ROUND_UP(a->d, MRA_PAD);
    else mra_kernels_get()->pool(c->q_mean, a->q, a->d, a->n_q, H, MRA_POOL_MEAN, x, x + 1);
    const int n = expand(c, x, q);
    int m = 0;
    for (int e = 0; e < n; e++) {
        const int j0 = c->block_idx[e] * a->g, w = mra_min(a->g, a->n_k - j0);
        float * s = c->key_score + m;
        mra_kernels_get()->block_score(s, 0, q, 0, 1, c->keys + (int64_t) j0 * a->d, NULL, (size_t) a->d, w, a->d, 1);
        for (int j = 0; j < w; j++) {
            if (bias) s[j] += bias[j0 + j];
            level[j0 + j] = 1;
        }
        m += w;
    }
    const int kept = mra_kernels_get()->topk_blocks(c->key_idx, c->key_score, m, a->m2);
    for (int i = 0; i < kept; i++) { // every block but the last has g keys
        const int e = c->key_idx[i] / a->g;
        level[c->block_idx[e] * a->g + c->key_idx[i] % a->g] = MRA_LEVEL_EXACT;
    }
}

// place of query i in the order of the sorted frame
static int place_of(const struct mra_attn_head * a, int i) {
    for (int t = 0; t < a->n_q && a->sorted.order; t++)
        if (a->sorted.order[t] == i) return t;
    return i;
}

// rows of a head of columns or sorted: every step-th query; to: rows ld bytes apart
static void levels_of_head(const struct mra_attn_head * a, bool exact, int step, int8_t * to, int64_t ld, float * mem) {
    struct chooser c = { 0 };
    if (!exact) c = chooser_of(a, mem);
    for (int i = 0; i < a->n_q; i += step, to += ld) {
        const int x = exact ? 0 : place_of(a, i) / H;
        if (exact || (a->sorted.order && a->sorted.all_keys[x])) memset(to, MRA_LEVEL_EXACT, (size_t) a->n_k);
        else choose(&c, x, to);
    }
}

// ---- square frames ----

// a list's cells of h x h become `value`, for query i
static void mark(const struct ggml_tensor * list, int64_t head, int64_t batch, int i, int n_k, int value, int8_t * to) {
    const struct mra_node p = mra_node_get(list->view_src);
    const struct mra_cell_level * l = &p.u.topk_blocks.level;
    const struct mra_cell_list c = mra_list_of(list, mra_level_rows(l), head, batch);
    const struct mra_cell_span s = mra_list_row(&c, i / l->h);
    for (int e = s.first; e < s.end; e++) {
        const int j0 = mra_list_columns(&c)[e] * l->g;
        if (j0 >= 0 && j0 < n_k) memset(to + j0, value, (size_t) mra_min(l->g, n_k - j0));
    }
}

static void levels_of_square(
    const struct ggml_tensor * dst, const struct mra_node * p, int64_t head, int64_t batch, int8_t * to, int64_t ld) {
    const struct ggml_tensor *out = dst->src[0], *q = out->src[0], *k = out->src[1];
    const struct mra_len len = mra_lengths(mra_source(dst, p, MRA_SRC_LENGTHS), k->ne[3], batch, q->ne[1], k->ne[1]);
    const int n_list = p->n_fixed - 1;
    for (int i = 0; i < len.n_q; i += p->u.attn_levels.step, to += ld)
        for (int l = 0; l < n_list; l++) // from the coarsest
            mark(dst->src[n_list - l], head, batch, i, len.n_k, l + 1 < n_list ? l + 1 : MRA_LEVEL_EXACT, to);
}

// A thread has every nth-th head.
void mra_compute_attn_levels(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    struct ggml_tensor * out = dst->src[0];
    const struct mra_node of = mra_node_get(out);
    const struct ggml_tensor *q = out->src[0], *k = out->src[1];
    const int step = p->u.attn_levels.step;
    const int64_t ld = k->ne[1], n_rows = rows_of(q, step), n_head = q->ne[2];
    const int n_slots = mra_min(nth, p->u.attn_levels.slots);
    float * mem = (float *) ((char *) dst->data + scratch_at(q, k, step)) + ith * scratch_of(k);
    struct mra_job j;
    struct ggml_tensor again;
    for (int64_t t = ith; t < n_head * q->ne[3] && ith < n_slots; t += n_slots) {
        int8_t * to = (int8_t *) dst->data + t * n_rows * ld;
        memset(to, 0, (size_t) (n_rows * ld));
        if (of.kind == MRA_KIND_BLOCK_SPARSE_ATTN) {
            levels_of_square(dst, p, t % n_head, t / n_head, to, ld);
            continue;
        }
        int64_t n;
        bool exact;
        if (!mra_job_of(&j, out, &of, 0, &again)) return;
        const struct mra_attn_head a = mra_job_head(&j, t / n_head, t % n_head, &n, &exact);
        if (a.n_k > 0) levels_of_head(&a, exact, step, to, ld, mem);
    }
}
