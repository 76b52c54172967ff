// attn: out_i = sum_j e^{p_ij} v_j / sum_j e^{p_ij} with cells of the frame for e^{p_ij}. Frames exact and columns are
// one node over a pack node, and sorted one over a pack and a query_order node. A square frame is made of the other
// operators, level by level:
//   pool q, k, v -> block_score -> topk_blocks -> coarse_state, each level's list the parents of the next;
//   block_sparse_attn at the end
#include "checks.h"
#include "op-pack.h"

#include <math.h>

enum { MAX_SHARES = 1024 }; // heads that may have shares: their order is on the stack

static enum mra_status check_packed(const struct ggml_tensor * q, const struct ggml_tensor * k,
    const struct ggml_tensor * starts, int64_t max_len, const struct mra_attn_params * params, struct mra_error * err) {
    if (params->frame == MRA_FRAME_SQUARE)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "packed sequences: frames are exact, columns and sorted");
    return mra_check_starts(q, k, starts, max_len, err);
}

static enum mra_status check_shares(
    const struct ggml_tensor * q, const struct mra_attn_params * params, struct mra_error * err) {
    const struct ggml_tensor * t = params->shares;
    if (!t) return MRA_OK;
    if (params->frame != MRA_FRAME_SORTED)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "shares of heads are for the sorted frame");
    if (q->ne[2] > MAX_SHARES) return mra_fail(err, MRA_ERR_UNSUPPORTED, "shares of more than %d heads", MAX_SHARES);
    const enum mra_status st = mra_check_f32("shares", t, err);
    return st == MRA_OK ? mra_check_shape("shares", t, q->ne[2], 1, 1, 1, err) : st;
}

static float scale_of(const struct mra_attn_params * a, const struct ggml_tensor * q) {
    return a->scale > 0 ? a->scale : 1 / sqrtf((float) q->ne[0]);
}

// frames exact, columns and sorted; starts: lengths holds the starts of n_seq packed sequences
static struct ggml_tensor * fused(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, bool starts, int64_t n_seq, int64_t max_len,
    const struct mra_attn_params * a, struct mra_error * err) {
    struct mra_node p = { .kind = MRA_KIND_ATTN,
        .flags = (uint8_t) ((starts ? MRA_FLAG_STARTS : 0) | (a->finest_only ? MRA_FLAG_FINEST_ONLY : 0)) };
    p.u.attn = (struct mra_attn_node) {
        .frame = (uint8_t) a->frame,
        .block = (uint8_t) a->block,
        .first_n = (uint16_t) a->first_n,
        .diag_n = (uint16_t) a->diag_n,
        .slots = (uint16_t) mra_slots(a->n_threads),
        .m1 = a->counts[0],
        .m2 = a->counts[0] < 0 ? -1 : a->counts[1],
        .scale = scale_of(a, q),
        .budget = a->budget,
        .max_len = (int32_t) max_len,
        .int8 = (uint8_t) (mra_attn_type_runs(a->type) == MRA_ATTN_INT8 ? mra_kernels_get()->int8.bytes : 0) & 15,
        .shares = a->shares != NULL,
        .n_all = (int16_t) (a->counts[0] < 0 || a->counts[2] < 0 ? -1 : mra_min(a->counts[2], INT16_MAX)),
    };
    p.u.attn.int8_all = p.u.attn.int8 && a->frame != MRA_FRAME_EXACT && mra_kernels_get()->int8.scores;
    struct ggml_tensor * pack = mra_pack_new(ctx, q, k, v, lengths, starts, &p.u.attn, n_seq, err);
    if (!pack) return NULL;
    struct mra_sources src = { .fixed = { q, k, v, pack },
        .optional = { [MRA_SRC_LENGTHS] = lengths, [MRA_SRC_SHARES] = a->shares } };
    if (a->frame == MRA_FRAME_SORTED) {
        src.fixed[4] = mra_query_order_new(ctx, q, k, v, lengths, a->shares, starts, &p.u.attn, n_seq, err);
        if (!src.fixed[4]) return NULL;
    }
    const int64_t ne[4] = { v->ne[0], q->ne[2], q->ne[1], q->ne[3] };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

// which cells of level i are refined; priors act on the coarsest level only
static struct mra_topk_blocks_node topk_of(const struct mra_attn_params * a, int i) {
    struct mra_topk_blocks_node p = {
        .rule = (uint8_t) a->rule,
        .level_index = (uint8_t) i,
        .first_n = (uint16_t) (i ? 0 : a->first_n),
        .diag_n = (uint16_t) (i ? 0 : a->diag_n),
    };
    if (a->counts[0] >= 0) {
        p.take.count = a->counts[i];
        return p;
    }
    p.take.budget = a->budget;
    for (int t = 0; t < 4 && a->sizes[t] > 1; t++) p.sizes[t] = (uint8_t) a->sizes[t];
    return p;
}

// What one level hands to the next.
struct level_state {
    struct ggml_tensor * list;  // cells refined, NULL: all
    struct ggml_tensor * state; // of the rows, NULL: nothing so far
};

// One level of size a->sizes[i]: replaces ls by what this level hands on; false on error. counts: of mra_plan_square.
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
    const struct mra_topk_blocks_node topk = topk_of(a, i);
    const int64_t cap = a->rule == MRA_RULE_ROW ? counts[i] * mra_blocks(q->ne[1], s) : counts[i];
    struct ggml_tensor * list = mra_topk_blocks_new(ctx, scores, ls->list, lengths, &l, cap, topk, a->n_threads, err);
    if (!list) return false;
    if (a->finest_only) ls->state = mra_dropped_state_new(ctx, scores, ls->list, list, v, ls->state, lengths, &l, err);
    else {
        struct ggml_tensor * vp = ggml_mra_pool(ctx, v, lengths, s, MRA_POOL_MEAN, true, err);
        ls->state = vp ? ggml_mra_coarse_state(ctx, scores, ls->list, list, vp, ls->state, lengths, l, err) : NULL;
    }
    ls->list = list;
    return ls->state != NULL;
}

static struct ggml_tensor * square(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, const struct mra_attn_params * a, struct mra_error * err) {
    const float scale = scale_of(a, q);
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
    if (mra_check_qkv(q, k, v, err) || mra_check_lengths(lengths, q->ne[3], err) || mra_check_params(params, err) ||
        check_shares(q, params, err))
        return NULL;
    if (params->frame == MRA_FRAME_SQUARE) return square(ctx, q, k, v, lengths, params, err);
    return fused(ctx, q, k, v, lengths, false, k->ne[3], k->ne[1], params, err);
}

struct ggml_tensor * ggml_mra_attn_packed(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * starts, int64_t max_len, const struct mra_attn_params * params,
    struct mra_error * err) {
    if (mra_check_qkv(q, k, v, err) || mra_check_params(params, err) || check_shares(q, params, err) ||
        check_packed(q, k, starts, max_len, params, err))
        return NULL;
    return fused(ctx, q, k, v, starts, true, starts->ne[0] - 1, max_len, params, err);
}

static int items_of(const struct mra_attn_head * a, bool exact) {
    const int rows = exact ? MRA_EXACT_ROWS : a->group * MRA_QUERY_BLOCK;
    const int n = a->n_k > 0 ? mra_div_up(a->n_q, rows) : 0;
    return n > 0 ? n : 1; // one item at least: it clears the padding
}

// item i of a head
static void run_item(const struct mra_attn_head * a, bool exact, int i, int64_t n_rows, void * scratch) {
    if (i == 0) mra_zero_rows(a, a->n_k > 0 ? a->n_q : 0, n_rows);
    if (a->n_k == 0 || a->n_q == 0) return;
    const int first = i * MRA_EXACT_ROWS, end = mra_min(first + MRA_EXACT_ROWS, a->n_q);
    if (exact && a->int8) mra_int8_attn_rows(mra_kernels_get(), a, &a->int8_pack, first, end, scratch);
    else if (exact) mra_kernels_get()->block_sparse_attn(a, first, end, NULL, 0, 0, NULL, scratch);
    else mra_kernels_get()->columns(a, i * a->group, scratch);
}

// The heads, those that keep the most keys first: the last items, which some threads wait for, are then small ones.
static void sort_heads(const struct ggml_tensor * shares, uint16_t * heads, int n) {
    const float * share = shares->data;
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && share[heads[at - 1]] < share[i]; at--) heads[at] = heads[at - 1];
        heads[at] = (uint16_t) i;
    }
}

// Work items in order of sequence, head, query block; threads take them from a counter.
void mra_compute_attn(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    (void) nth;
    struct mra_job j;
    struct ggml_tensor again;
    if (!mra_job_of(&j, dst, p, ith, &again)) return;
    uint16_t heads[MAX_SHARES];
    if (j.shares) sort_heads(j.shares, heads, (int) j.q->ne[2]);
    int64_t first = 0, take = mra_job_take(&j);
    for (int64_t s = 0; s < j.n_seq; s++)
        for (int64_t h = 0; h < j.q->ne[2]; h++) {
            int64_t n_rows;
            bool exact;
            const struct mra_attn_head a = mra_job_head(&j, s, j.shares ? heads[h] : h, &n_rows, &exact);
            const int n = items_of(&a, exact);
            for (; take < first + n; take = mra_job_take(&j))
                run_item(&a, exact, (int) (take - first), n_rows, mra_job_slot(&j, ith));
            first += n;
        }
}
