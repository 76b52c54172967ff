// block_sparse_attn: out_i = (state + sum_j e^{scale q_i.k_j} v_j) / (the same with v = 1), j over the listed key
// blocks
#include "checks.h"
#include "op-pack.h"

#include <math.h>

static enum mra_status check(const struct ggml_tensor * q, const struct ggml_tensor * k, const struct ggml_tensor * v,
    const struct ggml_tensor * cells, const struct ggml_tensor * state, const struct ggml_tensor * lengths, int h,
    int g, float scale, int n_threads, struct mra_error * err) {
    enum mra_status st;
    int64_t cap;
    if ((st = mra_check_qkv(q, k, v, err)) || (st = mra_check_lengths(lengths, q->ne[3], err))) return st;
    const struct mra_level l = { q->ne[1], k->ne[1], h, g, 0, 0 };
    if ((st = mra_check_level(&l, err)) ||
        (st = mra_check_list("cells", cells, q->ne[1], h, q->ne[2], q->ne[3], &cap, err)))
        return st;
    if (!isfinite(scale) || n_threads < 0) return mra_fail(err, MRA_ERR_ARG, "scale or n_threads is out of range");
    if (!state) return MRA_OK;
    if ((st = mra_check_f32("state", state, err))) return st;
    return mra_check_shape("state", state, v->ne[0] + 2, mra_blocks(q->ne[1], h), q->ne[2], q->ne[3], err);
}

struct ggml_tensor * ggml_mra_block_sparse_attn(struct ggml_context * ctx, struct ggml_tensor * q,
    struct ggml_tensor * k, struct ggml_tensor * v, struct ggml_tensor * cells, struct ggml_tensor * state,
    struct ggml_tensor * lengths, int h, int g, float scale, int n_threads, struct mra_error * err) {
    if (check(q, k, v, cells, state, lengths, h, g, scale, n_threads, err)) return NULL;
    const struct mra_attn_node attn = {
        .frame = MRA_FRAME_EXACT, .slots = (uint16_t) mra_slots(n_threads), .max_len = (int32_t) k->ne[1]
    };
    struct ggml_tensor * pack = mra_pack_new(ctx, NULL, k, v, lengths, false, &attn, k->ne[3], err);
    if (!pack) return NULL;
    struct mra_node p = { .kind = MRA_KIND_BLOCK_SPARSE_ATTN };
    p.u.block_sparse_attn = (struct mra_block_sparse_attn_node) {
        .h = (uint8_t) h, .g = (uint8_t) g, .scale = scale != 0 ? scale : 1 / sqrtf((float) q->ne[0])
    };
    const struct mra_sources src = { .fixed = { q, k, v, pack, cells },
        .optional = { [MRA_SRC_STATE] = state, [MRA_SRC_LENGTHS] = lengths } };
    const int64_t ne[4] = { v->ne[0], q->ne[2], q->ne[1], q->ne[3] };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

// how many of id[n] ascend and begin before key n_k: those the kernel can trust
static int valid_columns(const int32_t * id, int n, int g, int n_k) {
    int i = 0;
    while (i < n && id[i] >= 0 && (int64_t) id[i] * g < n_k && (i == 0 || id[i] > id[i - 1])) i++;
    return i;
}

// block row x of a head; end: behind its last row, valid or not
static void attend_row(const struct mra_attn_head * a, const struct mra_block_sparse_attn_node * p,
    const struct mra_cell_list * cells, int x, int64_t end, const float * state, void * scratch) {
    const int first = x * p->h, valid = mra_min(first + p->h, a->n_q);
    mra_zero_rows(a, first > valid ? first : valid, end);
    if (first >= valid) return;
    const struct mra_cell_span s = mra_list_row(cells, x);
    const int32_t * id = mra_list_columns(cells) + s.first;
    const int n = valid_columns(id, s.end - s.first, p->g, a->n_k);
    for (int i = first; i < valid; i += MRA_EXACT_ROWS)
        mra_kernels_get()->block_sparse_attn(a, i, mra_min(i + MRA_EXACT_ROWS, valid), id, n, p->g, state, scratch);
}

// Work items are block rows, in order of sequence and head; threads take them from a counter.
void mra_compute_block_sparse_attn(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    (void) nth;
    struct mra_job j;
    struct ggml_tensor again;
    if (!mra_job_of(&j, dst, p, ith, &again)) return;
    const struct mra_block_sparse_attn_node * bsa = &p->u.block_sparse_attn;
    const struct ggml_tensor *cells = dst->src[4], *state = mra_source(dst, p, MRA_SRC_STATE);
    const int n_row = (int) mra_blocks(j.q->ne[1], bsa->h);
    int64_t first = 0, take = mra_job_take(&j);
    for (int64_t s = 0; s < j.n_seq; s++)
        for (int64_t head = 0; head < j.q->ne[2]; head++, first += n_row) {
            if (take >= first + n_row) continue;
            int64_t n_rows;
            bool exact;
            struct mra_attn_head a = mra_job_head(&j, s, head, &n_rows, &exact);
            a.scale = bsa->scale;
            const struct mra_cell_list list = mra_list_of(cells, n_row, head, s);
            for (; take < first + n_row; take = mra_job_take(&j)) {
                const int x = (int) (take - first);
                const int64_t end = (int64_t) (x + 1) * bsa->h < n_rows ? (int64_t) (x + 1) * bsa->h : n_rows;
                attend_row(&a, bsa, &list, x, end, state ? mra_row(state, x, head, s) : NULL, mra_job_slot(&j, ith));
            }
        }
}
