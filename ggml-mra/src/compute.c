// The single operators on the CPU: walks the tensors, splits the work by thread, calls the kernels.
#include "node.h"

#include <math.h>

void mra_compute(struct ggml_tensor * dst, int ith, int nth, void * userdata) {
    (void) userdata;
    static void (*const run[MRA_KIND_COUNT])(struct ggml_tensor *, const struct mra_node *, int, int) = {
        [MRA_KIND_POOL] = mra_compute_pool,
        [MRA_KIND_BLOCK_SCORE] = mra_compute_block_score,
        [MRA_KIND_TOPK_BLOCKS] = mra_compute_topk_blocks,
        [MRA_KIND_COARSE_STATE] = mra_compute_coarse_state,
        [MRA_KIND_PACK] = mra_compute_pack,
        [MRA_KIND_ATTN] = mra_compute_attn,
        [MRA_KIND_BLOCK_SPARSE_ATTN] = mra_compute_block_sparse_attn,
        [MRA_KIND_SCRATCH] = mra_compute_scratch,
        [MRA_KIND_LINEAR] = mra_compute_linear,
        [MRA_KIND_NORM] = mra_compute_norm,
    };
    const struct mra_node p = mra_node_get(dst);
    if (run[p.kind]) run[p.kind](dst, &p, ith, nth);
}

static const float * row_f32(const struct ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return (const float *) ((const char *) t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3]);
}

// the next optional source, if this node has the one that flag stands for
static const struct ggml_tensor * next_src(
    const struct ggml_tensor * dst, const struct mra_node * p, enum mra_flag flag, int * at) {
    return p->flags & flag ? dst->src[(*at)++] : NULL;
}

void mra_compute_pool(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor *x = dst->src[0], *lengths = p->flags & MRA_HAS_LENGTHS ? dst->src[1] : NULL;
    const int64_t n = dst->ne[1] * dst->ne[2] * dst->ne[3], first = n * ith / nth, end = n * (ith + 1) / nth;
    for (int64_t t = first; t < end;) {
        const int64_t b = t / (dst->ne[1] * dst->ne[2]), h = t / dst->ne[1] % dst->ne[2], b0 = t % dst->ne[1];
        const int64_t b1 = dst->ne[1] - b0 < end - t ? dst->ne[1] : b0 + end - t;
        const struct mra_len len = mra_lengths(lengths, x->ne[3], b, x->ne[1], x->ne[1]);
        const struct mra_rows rows = { (const char *) x->data + h * x->nb[2] + b * x->nb[3], x->nb[1],
            x->type == GGML_TYPE_F16 ? MRA_F16 : MRA_F32 };
        mra_kernels_get()->pool((float *) row_f32(dst, b0, h, b), rows, (int) x->ne[0],
            p->flags & MRA_KEYS ? len.n_k : len.n_q, p->u.pool.block, p->u.pool.pool, (int) b0, (int) b1);
        t += b1 - b0;
    }
}

// One head's view of a level: which cells there are.
struct cells {
    int h, g, rh, rg;        // cell shape; children per parent cell
    int rows, cols;          // valid block rows and columns
    int n_bq, n_bk;          // all of them
    const int32_t * parents; // list of the level above, or NULL: all cells
    int n_parent_row;
    const float * s; // scores of this head, contiguous
};

static struct cells cells_of(const struct mra_node_shape shape, int n_q, int n_k, struct mra_len len,
    const struct ggml_tensor * parents, const struct ggml_tensor * scores, int64_t head, int64_t b) {
    struct cells c = {
        .h = shape.h,
        .g = shape.g,
        .rows = mra_div_up(len.n_q, shape.h),
        .cols = mra_div_up(len.n_k, shape.g),
        .n_bq = mra_div_up(n_q, shape.h),
        .n_bk = mra_div_up(n_k, shape.g),
        .s = scores ? row_f32(scores, 0, head, b) : NULL,
    };
    if (parents) {
        c.rh = shape.ph / shape.h;
        c.rg = shape.pg / shape.g;
        c.n_parent_row = mra_div_up(n_q, shape.ph);
        c.parents = (const int32_t *) ((const char *) parents->data + head * parents->nb[1] + b * parents->nb[2]);
    }
    return c;
}

// Runs of neighbouring cells of row x, in ascending column order: call with *it = 0 until false.
struct run {
    int y, n;
    const float * s;
}; // columns [y, y + n), their scores
static bool next_run(const struct cells * c, int x, int * it, struct run * r) {
    if (!c->parents) {
        if (*it || c->cols == 0) return false;
        *it = 1;
        *r = (struct run) { 0, c->cols, c->s + (int64_t) x * c->n_bk };
        return true;
    }
    const int32_t *off = c->parents, *id = c->parents + c->n_parent_row + 1;
    const int e = off[x / c->rh] + (*it)++;
    if (e >= off[x / c->rh + 1] || id[e] * c->rg >= c->cols) return false;
    *r = (struct run) { id[e] * c->rg, mra_min(c->rg, c->cols - id[e] * c->rg),
        c->s + (int64_t) e * c->rh * c->rg + x % c->rh * c->rg };
    return true;
}

static void fill_inf(float * x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = -INFINITY;
}

// all cells of block row x
static void score_row(float * out, const struct cells * c, int x, const float * q, size_t ldq, const float * k,
    const float * k_max, size_t ldk, int d, float scale) {
    const int n = x < c->rows ? c->cols : 0;
    if (n) mra_kernels_get()->block_score(out, c->n_bk, q, ldq, 1, k, k_max, ldk, n, d, scale);
    fill_inf(out + n, c->n_bk - n);
}

// the children of the parents in parent row x
static void score_children(float * out, const struct cells * c, int x, const float * q, size_t ldq, const float * k,
    size_t ldk, int d, float scale) {
    const int32_t * id = c->parents + c->n_parent_row + 1;
    const int n_q = mra_min(c->rh, c->rows - x * c->rh);
    for (int e = c->parents[x]; e < c->parents[x + 1]; e++) {
        float * o = out + (int64_t) e * c->rh * c->rg;
        const int y = id[e] * c->rg, n = mra_min(c->rg, c->cols - y);
        fill_inf(o, (int64_t) c->rh * c->rg);
        if (n > 0 && n_q > 0)
            mra_kernels_get()->block_score(o, c->rg, q, ldq, n_q, k + y * ldk, NULL, ldk, n, d, scale);
    }
}

void mra_compute_block_score(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor *q = dst->src[0], *k = dst->src[1];
    int at = 2;
    const struct ggml_tensor *k_max = next_src(dst, p, MRA_HAS_K_MAX, &at),
                             *parents = next_src(dst, p, MRA_HAS_PARENTS, &at);
    const struct ggml_tensor * lengths = next_src(dst, p, MRA_HAS_LENGTHS, &at);
    const size_t ldq = q->nb[1] / sizeof(float), ldk = k->nb[1] / sizeof(float);
    const int n_q = p->u.block_score.n_q, n_k = p->u.block_score.n_k,
              n_row = parents ? mra_div_up(n_q, p->u.block_score.shape.ph) : (int) q->ne[1];
    const int64_t n = n_row * q->ne[2] * q->ne[3];
    for (int64_t t = n * ith / nth; t < n * (ith + 1) / nth; t++) {
        const int64_t b = t / (n_row * q->ne[2]), h = t / n_row % q->ne[2], hk = h / (q->ne[2] / k->ne[2]);
        const int x = (int) (t % n_row);
        const struct cells c = cells_of(
            p->u.block_score.shape, n_q, n_k, mra_lengths(lengths, q->ne[3], b, n_q, n_k), parents, NULL, h, b);
        const float * kd = row_f32(k, 0, hk, b);
        if (parents)
            score_children((float *) row_f32(dst, 0, h, b), &c, x, row_f32(q, (int64_t) x * c.rh, h, b), ldq, kd, ldk,
                (int) q->ne[0], p->u.block_score.scale);
        else
            score_row((float *) row_f32(dst, x, h, b), &c, x, row_f32(q, x, h, b), ldq, kd,
                k_max ? row_f32(k_max, 0, hk, b) : NULL, ldk, (int) q->ne[0], p->u.block_score.scale);
    }
}

// sort keys of row x: cells that more priors name first, then by score, less the row's maximum; returns how many
static int row_keys(float * keys, const struct cells * c, int x, const struct mra_node * p) {
    const int first_n = p->u.topk_blocks.first_n, diag_n = p->u.topk_blocks.diag_n;
    float max = 0;
    struct run r;
    int n = 0;
    if (p->rule == MRA_RULE_ROWMAX) {
        max = -INFINITY;
        for (int it = 0; next_run(c, x, &it, &r);)
            for (int i = 0; i < r.n; i++) max = r.s[i] > max ? r.s[i] : max;
    }
    for (int it = 0; next_run(c, x, &it, &r);)
        for (int i = 0; i < r.n; i++) {
            const int y = r.y + i, named = mra_square_priors(first_n, diag_n, x, y);
            keys[n++] = first_n || diag_n ? mra_named_key(r.s[i] - max, named) : r.s[i] - max;
        }
    return n;
}

// positions pos[0..n) among the cells of row x, counted from first -> block columns, in place; returns how many were in
// this row
static int to_columns(int32_t * pos, int n, const struct cells * c, int x, int first) {
    struct run r;
    int done = 0;
    for (int it = 0; next_run(c, x, &it, &r); first += r.n) {
        for (; done < n && pos[done] < first + r.n; done++) pos[done] += r.y - first;
    }
    return done;
}

static void topk_head(
    int32_t * list, int64_t cap, const struct cells * c, const struct mra_node * p, int64_t count, float * keys) {
    int32_t *off = list, *id = list + c->n_bq + 1;
    int n_out = 0, n_key = 0, first = 0;
    if (p->rule == MRA_RULE_ROW) {
        for (int x = 0; x < c->n_bq; x++) {
            off[x] = n_out;
            if (x >= c->rows) continue;
            const int64_t m = count < cap - n_out ? count : cap - n_out;
            const int n = mra_kernels_get()->topk_blocks(id + n_out, keys, row_keys(keys, c, x, p), (int) m);
            to_columns(id + n_out, n, c, x, 0);
            n_out += n;
        }
    } else {
        for (int x = 0; x < c->rows; x++) n_key += row_keys(keys + n_key, c, x, p);
        const int n = mra_kernels_get()->topk_blocks(id, keys, n_key, (int) (count < cap ? count : cap));
        for (int x = 0; x < c->n_bq; x++) {
            off[x] = n_out;
            if (x >= c->rows) continue;
            n_out += to_columns(id + n_out, n - n_out, c, x, first);
            struct run r;
            for (int it = 0; next_run(c, x, &it, &r);) first += r.n;
        }
    }
    off[c->n_bq] = n_out;
}

void mra_compute_topk_blocks(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor * scores = dst->src[0];
    int at = 1;
    const struct ggml_tensor *parents = next_src(dst, p, MRA_HAS_PARENTS, &at),
                             *lengths = next_src(dst, p, MRA_HAS_LENGTHS, &at);
    const int n_q = p->u.topk_blocks.n_q, n_k = p->u.topk_blocks.n_k,
              slots = p->u.topk_blocks.slots < nth ? p->u.topk_blocks.slots : nth;
    const int64_t n_task = scores->ne[2] * scores->ne[3], cells = scores->ne[0] * scores->ne[1];
    const int64_t n_keys = mra_topk_blocks_keys(p->rule, cells, mra_div_up(n_k, p->u.topk_blocks.shape.g)),
                  n_bq = mra_div_up(n_q, p->u.topk_blocks.shape.h);
    const int64_t stride = (dst->ne[0] - p->u.topk_blocks.slots * n_keys) / n_task;
    if (ith >= slots) return;
    float * keys = (float *) dst->data + stride * n_task + ith * n_keys;
    for (int64_t t = ith; t < n_task; t += slots) {
        const int64_t b = t / scores->ne[2], h = t % scores->ne[2];
        const struct mra_len len = mra_lengths(lengths, scores->ne[3], b, n_q, n_k);
        const struct cells c = cells_of(p->u.topk_blocks.shape, n_q, n_k, len, parents, scores, h, b);
        topk_head((int32_t *) dst->data + t * stride, stride - MRA_TOPK_SLACK - n_bq - 1, &c, p,
            mra_plan_topk_blocks(p, len), keys);
    }
}

// unrefined cells of row x into the state o[dv], max, sum
static void coarse_row(float * o, int dv, const struct cells * c, int x, const int32_t * refined, int n_refined,
    const float * v, size_t ldv, int n_k) {
    enum { N = 256 };
    float s[N], w[N];
    int32_t y[N];
    int n = 0, done = 0;
    struct run r;
    for (int it = 0; next_run(c, x, &it, &r);)
        for (int i = 0; i < r.n; i++) {
            const int col = r.y + i;
            while (done < n_refined && refined[done] < col) done++;
            if (done < n_refined && refined[done] == col) continue;
            s[n] = r.s[i];
            w[n] = (float) mra_min(c->g, n_k - col * c->g);
            y[n] = col;
            if (++n == N) {
                mra_kernels_get()->coarse_state(o, o + dv, o + dv + 1, s, w, y, n, v, ldv, dv);
                n = 0;
            }
        }
    if (n) mra_kernels_get()->coarse_state(o, o + dv, o + dv + 1, s, w, y, n, v, ldv, dv);
}

void mra_compute_coarse_state(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor *scores = dst->src[0], *refined = dst->src[1], *v = dst->src[2];
    int at = 3;
    const struct ggml_tensor *parents = next_src(dst, p, MRA_HAS_PARENTS, &at),
                             *state = next_src(dst, p, MRA_HAS_STATE, &at);
    const struct ggml_tensor * lengths = next_src(dst, p, MRA_HAS_LENGTHS, &at);
    const int n_q = p->u.coarse_state.n_q, n_k = p->u.coarse_state.n_k, dv = (int) v->ne[0];
    const int64_t n = dst->ne[1] * dst->ne[2] * dst->ne[3];
    for (int64_t t = n * ith / nth; t < n * (ith + 1) / nth; t++) {
        const int64_t b = t / (dst->ne[1] * dst->ne[2]), h = t / dst->ne[1] % dst->ne[2];
        const int x = (int) (t % dst->ne[1]);
        const struct mra_len len = mra_lengths(lengths, scores->ne[3], b, n_q, n_k);
        const struct cells c = cells_of(p->u.coarse_state.shape, n_q, n_k, len, parents, scores, h, b);
        float * o = (float *) row_f32(dst, x, h, b);
        memset(o, 0, (dv + 2) * sizeof(float));
        o[dv] = -INFINITY;
        if (x >= c.rows) continue;
        if (state) memcpy(o, row_f32(state, x / c.rh, h, b), (dv + 2) * sizeof(float));
        const int32_t * list = (const int32_t *) ((const char *) refined->data + h * refined->nb[1] +
            b * refined->nb[2]);
        coarse_row(o, dv, &c, x, list + c.n_bq + 1 + list[x], list[x + 1] - list[x],
            row_f32(v, 0, h / (scores->ne[2] / v->ne[2]), b), v->nb[1] / sizeof(float), len.n_k);
    }
}
