// Builders of the single operators: shapes are checked here, once, so that kernels can trust them.
#include "node.h"

#include <math.h>

#define LL(x) ((long long) (x))

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static enum mra_status check_f32(const char * name, const struct ggml_tensor * t, struct mra_error * err) {
    if (!t) return mra_fail(err, MRA_ERR_ARG, "%s is NULL", name);
    if (t->type != GGML_TYPE_F32)
        return mra_fail(err, MRA_ERR_SHAPE, "%s is %s, not f32", name, ggml_type_name(t->type));
    if (t->nb[0] != sizeof(float)) return mra_fail(err, MRA_ERR_SHAPE, "%s: rows are not contiguous", name);
    return MRA_OK;
}

static enum mra_status check_shape(const char * name, const struct ggml_tensor * t, int64_t ne0, int64_t ne1,
    int64_t ne2, int64_t ne3, struct mra_error * err) {
    if (t->ne[0] == ne0 && t->ne[1] == ne1 && t->ne[2] == ne2 && t->ne[3] == ne3) return MRA_OK;
    return mra_fail(err, MRA_ERR_SHAPE, "%s has shape [%lld, %lld, %lld, %lld], not [%lld, %lld, %lld, %lld]", name,
        LL(t->ne[0]), LL(t->ne[1]), LL(t->ne[2]), LL(t->ne[3]), LL(ne0), LL(ne1), LL(ne2), LL(ne3));
}

static enum mra_status check_level(const struct mra_level * l, struct mra_error * err) {
    if (l->h < 1 || l->h > MRA_MAX_SIZE || l->g < 1 || l->g > MRA_MAX_SIZE) {
        return mra_fail(err, MRA_ERR_ARG, "cells of %d x %d are not in 1..%d", l->h, l->g, MRA_MAX_SIZE);
    }
    if (l->n_q < 1 || l->n_k < 1 || l->n_q > INT32_MAX / 2 || l->n_k > INT32_MAX / 2)
        return mra_fail(err, MRA_ERR_ARG, "%lld queries and %lld keys", LL(l->n_q), LL(l->n_k));
    if ((l->parent_h || l->parent_g) &&
        (l->parent_h < l->h || l->parent_g < l->g || l->parent_h % l->h || l->parent_g % l->g ||
            l->parent_h > MRA_MAX_SIZE || l->parent_g > MRA_MAX_SIZE)) {
        return mra_fail(err, MRA_ERR_ARG, "cells of %d x %d do not tile their parents of %d x %d", l->h, l->g,
            l->parent_h, l->parent_g);
    }
    return MRA_OK;
}

static struct mra_node_shape shape_of(const struct mra_level * l) {
    return (struct mra_node_shape) { (uint8_t) l->h, (uint8_t) l->g, (uint8_t) l->parent_h, (uint8_t) l->parent_g };
}

// cell list of a level with n_q/h rows; *cap: its capacity
static enum mra_status check_cells(const char * name, const struct ggml_tensor * t, int64_t n_q, int h, int64_t n_head,
    int64_t n_batch, int64_t * cap, struct mra_error * err) {
    if (!t) return mra_fail(err, MRA_ERR_ARG, "%s is NULL", name);
    *cap = t->ne[0] - div_up(n_q, h) - 1;
    if (t->type != GGML_TYPE_I32 || t->nb[0] != sizeof(int32_t) || *cap < 1 || t->ne[1] != n_head ||
        t->ne[2] != n_batch || t->ne[3] != 1) {
        return mra_fail(err, MRA_ERR_SHAPE, "%s is no cell list of %lld rows, %lld heads, %lld sequences", name,
            LL(div_up(n_q, h)), LL(n_head), LL(n_batch));
    }
    return MRA_OK;
}

// parents and level must say the same: a list where there is a level above, none at the top
static enum mra_status check_parents(const struct ggml_tensor * parents, const struct mra_level * l, int64_t n_head,
    int64_t n_batch, int64_t * cap, struct mra_error * err) {
    *cap = 0;
    if (!parents && !l->parent_h) return MRA_OK;
    if (!parents || !l->parent_h)
        return mra_fail(err, MRA_ERR_ARG, "parents and level.parent_h must both be given or neither");
    return check_cells("parents", parents, l->n_q, l->parent_h, n_head, n_batch, cap, err);
}

static enum mra_status check_scores(
    const struct ggml_tensor * s, const struct mra_level * l, int64_t cap, struct mra_error * err) {
    if (cap)
        return check_shape(
            "scores", s, (int64_t) (l->parent_h / l->h) * (l->parent_g / l->g), cap, s->ne[2], s->ne[3], err);
    return check_shape("scores", s, div_up(l->n_k, l->g), div_up(l->n_q, l->h), s->ne[2], s->ne[3], err);
}

static uint8_t flag_if(bool yes, enum mra_flag flag) { return yes ? (uint8_t) flag : 0; }

struct ggml_tensor * ggml_mra_pool(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * lengths,
    int block, enum mra_pool pool, bool keys, struct mra_error * err) {
    if (!x) {
        mra_fail(err, MRA_ERR_ARG, "x is NULL");
        return NULL;
    }
    if (x->type != GGML_TYPE_F32 && x->type != GGML_TYPE_F16) {
        mra_fail(err, MRA_ERR_SHAPE, "x is %s, not f32 or f16", ggml_type_name(x->type));
        return NULL;
    }
    if (x->nb[0] != ggml_type_size(x->type)) {
        mra_fail(err, MRA_ERR_SHAPE, "x: rows are not contiguous");
        return NULL;
    }
    if (block < 1 || block > MRA_MAX_SIZE) {
        mra_fail(err, MRA_ERR_ARG, "block %d is not in 1..%d", block, MRA_MAX_SIZE);
        return NULL;
    }
    if ((unsigned) pool > MRA_POOL_MAX) {
        mra_fail(err, MRA_ERR_ARG, "unknown pooling %d", (int) pool);
        return NULL;
    }
    if (x->ne[1] > INT32_MAX / 2) {
        mra_fail(err, MRA_ERR_SHAPE, "x has too many rows");
        return NULL;
    }
    if (mra_check_lengths(lengths, x->ne[3], err)) return NULL;
    struct mra_node p = { .kind = MRA_KIND_POOL, .flags = flag_if(lengths, MRA_HAS_LENGTHS) | flag_if(keys, MRA_KEYS) };
    p.u.pool.block = block;
    p.u.pool.pool = pool;
    return mra_node_new(ctx, GGML_TYPE_F32, x->ne[0], div_up(x->ne[1], block), x->ne[2], x->ne[3],
        (struct ggml_tensor *[]) { x, lengths }, 2, p, "mra_pool", err);
}

struct ggml_tensor * ggml_mra_block_score(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * k_max, struct ggml_tensor * parents, struct ggml_tensor * lengths, struct mra_level l,
    float scale, struct mra_error * err) {
    int64_t cap;
    if (check_f32("q", q, err) || check_f32("k", k, err) || (k_max && check_f32("k_max", k_max, err)) ||
        check_level(&l, err))
        return NULL;
    if (check_shape("q", q, q->ne[0], div_up(l.n_q, l.h), q->ne[2], q->ne[3], err)) return NULL;
    if (check_shape("k", k, q->ne[0], div_up(l.n_k, l.g), k->ne[2], q->ne[3], err)) return NULL;
    if (q->ne[2] % k->ne[2]) {
        mra_fail(err, MRA_ERR_SHAPE, "%lld heads of q are no multiple of %lld heads of k", LL(q->ne[2]), LL(k->ne[2]));
        return NULL;
    }
    if (!isfinite(scale)) {
        mra_fail(err, MRA_ERR_ARG, "scale is not finite");
        return NULL;
    }
    if (k_max && parents) {
        mra_fail(err, MRA_ERR_ARG, "the bound takes no parents");
        return NULL;
    }
    if (k_max && (!ggml_are_same_shape(k, k_max) || !ggml_are_same_stride(k, k_max))) {
        mra_fail(err, MRA_ERR_SHAPE, "k and k_max differ in shape");
        return NULL;
    }
    if (check_parents(parents, &l, q->ne[2], q->ne[3], &cap, err) || mra_check_lengths(lengths, q->ne[3], err))
        return NULL;
    struct mra_node p = { .kind = MRA_KIND_BLOCK_SCORE,
        .flags = flag_if(lengths, MRA_HAS_LENGTHS) | flag_if(parents, MRA_HAS_PARENTS) |
            flag_if(k_max, MRA_HAS_K_MAX) };
    p.u.block_score.shape = shape_of(&l);
    p.u.block_score.scale = scale;
    p.u.block_score.n_q = (int32_t) l.n_q;
    p.u.block_score.n_k = (int32_t) l.n_k;
    const int64_t ne0 = cap ? (int64_t) (l.parent_h / l.h) * (l.parent_g / l.g) : k->ne[1];
    return mra_node_new(ctx, GGML_TYPE_F32, ne0, cap ? cap : q->ne[1], q->ne[2], q->ne[3],
        (struct ggml_tensor *[]) { q, k, k_max, parents, lengths }, 5, p, "mra_block_score", err);
}

struct ggml_tensor * mra_topk_blocks_node(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * lengths, const struct mra_level * l, int64_t cap,
    struct mra_node p, int n_threads, struct mra_error * err) {
    int64_t pcap;
    if (check_f32("scores", scores, err) || check_level(l, err)) return NULL;
    if (check_parents(parents, l, scores->ne[2], scores->ne[3], &pcap, err) || check_scores(scores, l, pcap, err) ||
        mra_check_lengths(lengths, scores->ne[3], err))
        return NULL;
    const int64_t rows = div_up(l->n_q, l->h), cells = scores->ne[0] * scores->ne[1],
                  n_task = scores->ne[2] * scores->ne[3];
    if (cells > INT32_MAX - 64) {
        mra_fail(err, MRA_ERR_SHAPE, "%lld cells in a head are too many", LL(cells));
        return NULL;
    }
    if (cap > cells) cap = cells;
    if (cap < 1) cap = 1;
    // behind the list, one slot of sort keys for every thread
    const int slots = mra_slots(n_threads) < n_task ? mra_slots(n_threads) : (int) n_task;
    const int64_t list = rows + 1 + cap, keys = mra_topk_blocks_keys(p.rule, cells, div_up(l->n_k, l->g)),
                  stride = list + MRA_TOPK_SLACK;
    p.kind = MRA_KIND_TOPK_BLOCKS;
    p.flags = flag_if(lengths, MRA_HAS_LENGTHS) | flag_if(parents, MRA_HAS_PARENTS);
    p.u.topk_blocks.shape = shape_of(l);
    p.u.topk_blocks.slots = slots;
    p.u.topk_blocks.n_q = (int32_t) l->n_q;
    p.u.topk_blocks.n_k = (int32_t) l->n_k;
    struct ggml_tensor * t = mra_node_new(ctx, GGML_TYPE_I32, stride * n_task + slots * keys, 1, 1, 1,
        (struct ggml_tensor *[]) { scores, parents, lengths }, 3, p, "mra_topk_blocks", err);
    if (!t) return NULL;
    return ggml_view_3d(ctx, t, list, scores->ne[2], scores->ne[3], stride * sizeof(int32_t),
        stride * scores->ne[2] * sizeof(int32_t), 0);
}

struct ggml_tensor * ggml_mra_topk_blocks(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * lengths, struct mra_level l, enum mra_rule rule, int count,
    int first_n, int diag_n, struct mra_error * err) {
    if (count < 0) {
        mra_fail(err, MRA_ERR_ARG, "count %d is negative", count);
        return NULL;
    }
    if ((unsigned) rule > MRA_RULE_ROWMAX) {
        mra_fail(err, MRA_ERR_ARG, "unknown rule %d", (int) rule);
        return NULL;
    }
    if (first_n < 0 || first_n > 65535 || diag_n < 0 || diag_n > 65535) {
        mra_fail(err, MRA_ERR_ARG, "priors are not in 0..65535");
        return NULL;
    }
    if (l.h < 1) {
        check_level(&l, err);
        return NULL;
    }
    struct mra_node p = { .rule = (uint8_t) rule };
    p.u.topk_blocks.count = count;
    p.u.topk_blocks.first_n = (uint16_t) first_n;
    p.u.topk_blocks.diag_n = (uint16_t) diag_n;
    return mra_topk_blocks_node(
        ctx, scores, parents, lengths, &l, rule == MRA_RULE_ROW ? count * div_up(l.n_q, l.h) : count, p, 0, err);
}

struct ggml_tensor * ggml_mra_coarse_state(struct ggml_context * ctx, struct ggml_tensor * scores,
    struct ggml_tensor * parents, struct ggml_tensor * refined, struct ggml_tensor * v, struct ggml_tensor * state,
    struct ggml_tensor * lengths, struct mra_level l, struct mra_error * err) {
    int64_t cap, rcap;
    if (check_f32("scores", scores, err) || check_f32("v", v, err) || (state && check_f32("state", state, err)) ||
        check_level(&l, err))
        return NULL;
    const int64_t n_head = scores->ne[2], n_batch = scores->ne[3];
    if (check_parents(parents, &l, n_head, n_batch, &cap, err) || check_scores(scores, &l, cap, err)) return NULL;
    if (check_cells("refined", refined, l.n_q, l.h, n_head, n_batch, &rcap, err) ||
        mra_check_lengths(lengths, n_batch, err))
        return NULL;
    if (check_shape("v", v, v->ne[0], div_up(l.n_k, l.g), v->ne[2], n_batch, err)) return NULL;
    if (n_head % v->ne[2]) {
        mra_fail(err, MRA_ERR_SHAPE, "%lld heads are no multiple of %lld heads of v", LL(n_head), LL(v->ne[2]));
        return NULL;
    }
    if (state && !parents) {
        mra_fail(err, MRA_ERR_ARG, "the coarsest level inherits no state");
        return NULL;
    }
    if (state && check_shape("state", state, v->ne[0] + 2, div_up(l.n_q, l.parent_h), n_head, n_batch, err))
        return NULL;
    struct mra_node p = { .kind = MRA_KIND_COARSE_STATE,
        .flags = flag_if(lengths, MRA_HAS_LENGTHS) | flag_if(parents, MRA_HAS_PARENTS) |
            flag_if(state, MRA_HAS_STATE) };
    p.u.coarse_state.shape = shape_of(&l);
    p.u.coarse_state.n_q = (int32_t) l.n_q;
    p.u.coarse_state.n_k = (int32_t) l.n_k;
    return mra_node_new(ctx, GGML_TYPE_F32, v->ne[0] + 2, div_up(l.n_q, l.h), n_head, n_batch,
        (struct ggml_tensor *[]) { scores, refined, v, parents, state, lengths }, 6, p, "mra_coarse_state", err);
}

struct ggml_tensor * ggml_mra_block_sparse_attn(struct ggml_context * ctx, struct ggml_tensor * q,
    struct ggml_tensor * k, struct ggml_tensor * v, struct ggml_tensor * cells, struct ggml_tensor * state,
    struct ggml_tensor * lengths, int h, int g, float scale, int n_threads, struct mra_error * err) {
    int64_t cap;
    if (mra_check_qkv(q, k, v, err) || mra_check_lengths(lengths, q->ne[3], err)) return NULL;
    const struct mra_level l = { q->ne[1], k->ne[1], h, g, 0, 0 };
    if (check_level(&l, err) || check_cells("cells", cells, q->ne[1], h, q->ne[2], q->ne[3], &cap, err)) return NULL;
    if (!isfinite(scale) || n_threads < 0) {
        mra_fail(err, MRA_ERR_ARG, "scale or n_threads is out of range");
        return NULL;
    }
    if (state &&
        (check_f32("state", state, err) ||
            check_shape("state", state, v->ne[0] + 2, div_up(q->ne[1], h), q->ne[2], q->ne[3], err)))
        return NULL;

    struct mra_node p = { .flags = flag_if(lengths, MRA_HAS_LENGTHS) };
    p.u.attn.frame = MRA_FRAME_EXACT;
    p.u.attn.slots = mra_slots(n_threads);
    struct ggml_tensor * pack = mra_pack_node(ctx, k, v, lengths, &p, k->ne[3], k->ne[1], err);
    if (!pack) return NULL;
    p = (struct mra_node) { .kind = MRA_KIND_BLOCK_SPARSE_ATTN,
        .flags = flag_if(lengths, MRA_HAS_LENGTHS) | flag_if(state, MRA_HAS_STATE) };
    p.u.block_sparse_attn.h = (uint8_t) h;
    p.u.block_sparse_attn.g = (uint8_t) g;
    p.u.block_sparse_attn.scale = scale != 0 ? scale : 1 / sqrtf((float) q->ne[0]);
    return mra_node_new(ctx, GGML_TYPE_F32, v->ne[0], q->ne[2], q->ne[1], q->ne[3],
        (struct ggml_tensor *[]) { q, k, v, pack, cells, state, lengths }, 7, p, "mra_block_sparse_attn", err);
}
