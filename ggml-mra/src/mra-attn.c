// ggml_mra_attn: the operators composed. exact and columns: pack -> attn. Square frames, level by level:
//   pool q, k, v -> block-score -> topk-blocks -> coarse-state, each level's list the parents of the next, ->
//   block-sparse-attn
#include "node.h"

#include <math.h>

static struct ggml_tensor * fused(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, bool packed, int64_t n_seq, int64_t max_len,
    const struct mra_attn_params * a, struct mra_error * err) {
    struct mra_node p = { .kind = MRA_KIND_ATTN,
        .flags = (uint8_t) ((packed           ? MRA_IS_STARTS
                                    : lengths ? MRA_HAS_LENGTHS
                                              : 0) |
            (a->sparse ? MRA_DROP : 0)) };
    p.u.attn.frame = (uint8_t) a->frame;
    p.u.attn.block = (uint8_t) a->block;
    p.u.attn.first_n = (uint16_t) a->first_n;
    p.u.attn.diag_n = (uint16_t) a->diag_n;
    p.u.attn.m1 = a->counts[0];
    p.u.attn.m2 = a->counts[0] < 0 ? -1 : a->counts[1];
    p.u.attn.scale = a->scale > 0 ? a->scale : 1 / sqrtf((float) q->ne[0]);
    p.u.attn.budget = a->budget;
    p.u.attn.slots = mra_slots(a->n_threads);
    p.u.attn.max_len = (int32_t) max_len;
    struct ggml_tensor * pack = mra_pack_node(ctx, k, v, lengths, &p, n_seq, max_len, err);
    if (!pack) return NULL;
    return mra_node_new(ctx, GGML_TYPE_F32, v->ne[0], q->ne[2], q->ne[1], q->ne[3],
        (struct ggml_tensor *[]) { q, k, v, pack, lengths }, 5, p, "mra_attn", err);
}

struct level_state {
    struct ggml_tensor *list, *state;
};

// one level: refines cells of `list` (NULL: all) from size s to the next; false on error
static bool refine(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k, struct ggml_tensor * v,
    struct ggml_tensor * lengths, const struct mra_attn_params * a, int i, const int64_t * counts, float scale,
    struct level_state * ls, struct mra_error * err) {
    const int s = a->sizes[i];
    const struct mra_level l = { q->ne[1], k->ne[1], s, s, i ? a->sizes[i - 1] : 0, i ? a->sizes[i - 1] : 0 };
    // lengths [n_batch] of keys say nothing of other queries
    const bool q_all = lengths && q->ne[1] != k->ne[1] && !(lengths->ne[0] == 2 && lengths->ne[1] == q->ne[3]);
    struct ggml_tensor * qp = ggml_mra_pool(ctx, q, q_all ? NULL : lengths, s, MRA_POOL_MEAN, false, err);
    struct ggml_tensor * kp = ggml_mra_pool(ctx, k, lengths, s, MRA_POOL_MEAN, true, err);
    if (!qp || !kp) return false;
    struct ggml_tensor * scores = ggml_mra_block_score(ctx, qp, kp, NULL, ls->list, lengths, l, scale, err);
    if (!scores) return false;
    struct mra_node p = { .rule = (uint8_t) a->rule, .level = (uint8_t) i };
    p.u.topk_blocks.count = a->counts[0] >= 0 ? a->counts[i] : -1;
    p.u.topk_blocks.budget = a->budget;
    p.u.topk_blocks.first_n = (uint16_t) (i ? 0 : a->first_n);
    p.u.topk_blocks.diag_n = (uint16_t) (i ? 0 : a->diag_n);
    for (int t = 0; t < 4 && a->sizes[t] > 1; t++) p.u.topk_blocks.sizes[t] = (uint8_t) a->sizes[t];
    const int64_t cap = a->rule == MRA_RULE_ROW ? counts[i] * ((q->ne[1] + s - 1) / s) : counts[i];
    struct ggml_tensor * list = mra_topk_blocks_node(ctx, scores, ls->list, lengths, &l, cap, p, a->n_threads, err);
    if (!list) return false;
    if (!a->sparse) {
        struct ggml_tensor * vp = ggml_mra_pool(ctx, v, lengths, s, MRA_POOL_MEAN, true, err);
        ls->state = vp ? ggml_mra_coarse_state(ctx, scores, ls->list, list, vp, ls->state, lengths, l, err) : NULL;
        if (!ls->state) return false;
    }
    ls->list = list;
    return true;
}

static struct ggml_tensor * square(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, const struct mra_attn_params * a, struct mra_error * err) {
    const float scale = a->scale > 0 ? a->scale : 1 / sqrtf((float) q->ne[0]);
    int64_t counts[MRA_MAX_LEVELS];
    mra_plan_square(a->sizes, a->counts, a->budget, a->rule, q->ne[1], k->ne[1], counts);
    struct level_state ls = { 0 };
    int i = 0;
    for (; i + 1 < MRA_MAX_LEVELS && a->sizes[i + 1] > 0; i++) {
        if (!refine(ctx, q, k, v, lengths, a, i, counts, scale, &ls, err)) return NULL;
    }
    return ggml_mra_block_sparse_attn(
        ctx, q, k, v, ls.list, ls.state, lengths, a->sizes[i - 1], a->sizes[i - 1], scale, a->n_threads, err);
}

struct ggml_tensor * ggml_mra_attn(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, const struct mra_attn_params * params,
    struct mra_error * err) {
    if (mra_check_qkv(q, k, v, err) || mra_check_lengths(lengths, q->ne[3], err) || mra_check_params(params, err))
        return NULL;
    if (params->frame == MRA_FRAME_SQUARE) return square(ctx, q, k, v, lengths, params, err);
    return fused(ctx, q, k, v, lengths, false, k->ne[3], k->ne[1], params, err);
}

struct ggml_tensor * ggml_mra_attn_packed(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * starts, int64_t max_len, const struct mra_attn_params * params,
    struct mra_error * err) {
    if (mra_check_qkv(q, k, v, err) || mra_check_params(params, err)) return NULL;
    if (params->frame == MRA_FRAME_SQUARE) {
        mra_fail(err, MRA_ERR_UNSUPPORTED, "packed sequences: frames are exact and columns");
        return NULL;
    }
    if (q->ne[3] != 1 || q->ne[1] != k->ne[1]) {
        mra_fail(err, MRA_ERR_SHAPE, "packed sequences: q, k, v must hold the same tokens and no batch");
        return NULL;
    }
    if (!starts || starts->type != GGML_TYPE_I32 || !ggml_is_contiguous(starts) || starts->ne[0] < 2 ||
        ggml_nelements(starts) != starts->ne[0]) {
        mra_fail(err, MRA_ERR_SHAPE, "packed sequences: starts must be i32 [n_seq + 1]");
        return NULL;
    }
    if (max_len < 1 || max_len > q->ne[1]) {
        mra_fail(err, MRA_ERR_ARG, "max_len %lld is not in 1..%lld", (long long) max_len, (long long) q->ne[1]);
        return NULL;
    }
    return fused(ctx, q, k, v, starts, true, starts->ne[0] - 1, max_len, params, err);
}
