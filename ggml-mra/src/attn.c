// The attention nodes: exact and columns frames over the pack (attn), and listed cells (block-sparse-attn).
#include "node.h"

#include <string.h>

static int items_of(const struct mra_attn_head * a, bool exact) {
    const int rows = exact ? MRA_EXACT_ROWS : a->group * MRA_QUERY_BLOCK;
    const int n = a->n_k > 0 ? (a->n_q + rows - 1) / rows : 0;
    return n > 0 ? n : 1; // one item at least: it clears the padding
}

static void zero_rows(const struct mra_attn_head * a, int64_t first, int64_t end) {
    for (int64_t i = first; i < end; i++) memset(a->out + i * a->ld_out, 0, a->dv * sizeof(float));
}

// The pack of an attention node. Where it came from another device, thread 0 packs again and goes on alone: there is no
// barrier in a node.
static const struct ggml_tensor * own_pack(const struct ggml_tensor * dst, int ith, struct ggml_tensor * again) {
    if (!mra_pack_is_foreign(dst)) return dst->src[3];
    if (ith > 0) return NULL;
    *again = mra_pack_again(dst);
    mra_compute(again, 0, 1, NULL);
    return again;
}

// Work items in order of sequence, head, query block; threads take them from a counter.
void mra_compute_attn(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    (void) nth;
    struct ggml_tensor again;
    const struct ggml_tensor * pack = own_pack(dst, ith, &again);
    if (!pack) return;
    const struct mra_job j = mra_job_new(dst->src[0], dst->src[1], dst->src[2],
        p->flags & (MRA_HAS_LENGTHS | MRA_IS_STARTS) ? dst->src[4] : NULL, pack, dst);
    void * scratch = mra_job_slot(&j, ith);
    if (!scratch) return;
    const struct mra_kernels * kern = mra_kernels_get();
    int first = 0, take = mra_job_take(&j);
    for (int64_t s = 0; s < j.n_seq; s++)
        for (int64_t h = 0; h < j.q->ne[2]; h++) {
            int64_t n_rows;
            bool exact;
            const struct mra_attn_head a = mra_job_head(&j, s, h, &n_rows, &exact);
            const int n = items_of(&a, exact);
            for (; take < first + n; take = mra_job_take(&j)) {
                const int i = take - first;
                if (i == 0) zero_rows(&a, a.n_k > 0 ? a.n_q : 0, n_rows);
                if (a.n_k == 0 || a.n_q == 0) continue;
                if (exact) {
                    const int i0 = i * MRA_EXACT_ROWS;
                    kern->block_sparse_attn(
                        &a, i0, i0 + MRA_EXACT_ROWS < a.n_q ? i0 + MRA_EXACT_ROWS : a.n_q, NULL, 0, 0, NULL, scratch);
                } else {
                    kern->columns(&a, i * a.group, scratch);
                }
            }
            first += n;
        }
}

void mra_compute_block_sparse_attn(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    (void) nth;
    const struct ggml_tensor *cells = dst->src[4], *state = NULL, *lengths = NULL;
    int n_src = 5;
    if (p->flags & MRA_HAS_STATE) state = dst->src[n_src++];
    if (p->flags & MRA_HAS_LENGTHS) lengths = dst->src[n_src++];
    struct ggml_tensor again;
    const struct ggml_tensor * pack = own_pack(dst, ith, &again);
    if (!pack) return;
    const struct mra_job j = mra_job_new(dst->src[0], dst->src[1], dst->src[2], lengths, pack, dst);
    void * scratch = mra_job_slot(&j, ith);
    if (!scratch) return;
    const struct mra_kernels * kern = mra_kernels_get();
    const int h = p->u.block_sparse_attn.h, g = p->u.block_sparse_attn.g;
    const int64_t n_bq = (j.q->ne[1] + h - 1) / h;
    int first = 0, take = mra_job_take(&j);
    for (int64_t s = 0; s < j.n_seq; s++)
        for (int64_t head = 0; head < j.q->ne[2]; head++) {
            if (take >= first + n_bq) {
                first += (int) n_bq;
                continue;
            }
            int64_t n_rows;
            bool exact;
            struct mra_attn_head a = mra_job_head(&j, s, head, &n_rows, &exact);
            a.scale = p->u.block_sparse_attn.scale;
            const int32_t * list = (const int32_t *) ((const char *) cells->data + head * cells->nb[1] +
                s * cells->nb[2]);
            for (; take < first + n_bq; take = mra_job_take(&j)) {
                const int x = take - first, end = (x + 1) * h < a.n_q ? (x + 1) * h : a.n_q;
                const int64_t stop = (int64_t) (x + 1) * h < n_rows ? (int64_t) (x + 1) * h : n_rows;
                zero_rows(&a, x * h > end ? x * h : end, stop);
                const float * st = state ? (const float *) ((const char *) state->data + x * state->nb[1] +
                                               head * state->nb[2] + s * state->nb[3])
                                         : NULL;
                for (int i = x * h; i < end; i += MRA_EXACT_ROWS) {
                    kern->block_sparse_attn(&a, i, i + MRA_EXACT_ROWS < end ? i + MRA_EXACT_ROWS : end,
                        list + n_bq + 1 + list[x], list[x + 1] - list[x], g, st, scratch);
                }
            }
            first += (int) n_bq;
        }
}
