// window_attn: out_i = sum_j e^{p_ij} v_j / sum_j e^{p_ij}, p_ij = scale q_i.k_j - slope_h |i - j|, over the keys j of
// the query's sequence with |i - j| <= window
#include "checks.h"
#include "op-pack.h"

#include <math.h>

static enum mra_status check(const struct mra_window_params * p, struct mra_error * err) {
    if (!p) return mra_fail(err, MRA_ERR_ARG, "settings are NULL");
    if (p->window < -1) return mra_fail(err, MRA_ERR_ARG, "window %d is not -1 or more", p->window);
    if (!(p->scale >= 0) || !isfinite(p->scale) || !(p->max_bias >= 0) || !isfinite(p->max_bias) || p->n_threads < 0)
        return mra_fail(err, MRA_ERR_ARG, "scale, max_bias or n_threads is out of range");
    return MRA_OK;
}

// where the kernels have them, and no bias grows with the distance
static bool in_integers(const struct mra_window_params * p) {
    return mra_attn_type_runs(p->type) == MRA_ATTN_INT8 && mra_kernels_get()->int8.window_attn && p->max_bias == 0 &&
        p->window >= 0 && p->window <= MRA_MAX_WINDOW;
}

struct ggml_tensor * ggml_mra_window_attn(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * starts, int64_t max_len, const struct mra_window_params * params,
    struct mra_error * err) {
    if (mra_check_qkv(q, k, v, err) || check(params, err) || mra_check_starts(q, k, starts, max_len, err)) return NULL;
    const struct mra_attn_node attn = { .frame = MRA_FRAME_NEAR,
        .slots = (uint16_t) mra_slots(params->n_threads),
        .max_len = (int32_t) max_len,
        .int8 = in_integers(params) ? (uint8_t) mra_kernels_get()->int8.bytes : 0 };
    struct ggml_tensor * pack = mra_pack_new(ctx, q, k, v, starts, true, &attn, starts->ne[0] - 1, err);
    if (!pack) return NULL;
    struct mra_node p = { .kind = MRA_KIND_WINDOW_ATTN, .flags = MRA_FLAG_STARTS };
    p.u.window_attn = (struct mra_window_attn_node) {
        .scale = params->scale > 0 ? params->scale : 1 / sqrtf((float) q->ne[0]),
        .max_bias = params->max_bias,
        .window = params->window,
    };
    const struct mra_sources src = { .fixed = { q, k, v, pack }, .optional = { [MRA_SRC_LENGTHS] = starts } };
    const int64_t ne[4] = { v->ne[0], q->ne[2], q->ne[1], 1 };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

// ALiBi's slope of a head: 2^(-max_bias (h + 1)/m) of the first m heads, m the largest power of two up to n_head; the
// others have those of 2m heads that lie between
static float slope_of(float max_bias, int64_t h, int64_t n_head) {
    if (max_bias == 0) return 0;
    int64_t m = 1;
    while (2 * m <= n_head) m *= 2;
    const double e = h < m ? (double) (h + 1) / (double) m : (double) (2 * (h - m) + 1) / (double) (2 * m);
    return (float) exp2(-(double) max_bias * e);
}

// Work items are MRA_EXACT_ROWS queries, in order of sequence and head; threads take them from a counter.
void mra_compute_window_attn(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    (void) nth;
    struct mra_job j;
    struct ggml_tensor again;
    if (!mra_job_of(&j, dst, p, ith, &again)) return;
    const struct mra_window_attn_node * w = &p->u.window_attn;
    int64_t first = 0, take = mra_job_take(&j);
    for (int64_t s = 0; s < j.n_seq; s++)
        for (int64_t h = 0; h < j.q->ne[2]; h++) {
            int64_t n_rows;
            bool exact;
            struct mra_attn_head a = mra_job_head(&j, s, h, &n_rows, &exact);
            a.scale = w->scale;
            const int n = mra_div_up(a.n_q, MRA_EXACT_ROWS);
            const float slope = slope_of(w->max_bias, h, j.q->ne[2]);
            for (; take < first + n; take = mra_job_take(&j)) {
                const int i = (int) (take - first) * MRA_EXACT_ROWS;
                const int end = mra_min(i + MRA_EXACT_ROWS, a.n_q);
                const struct mra_kernels * k = mra_kernels_get();
                void * slot = mra_job_slot(&j, ith);
                if (a.int8 && a.int8->window_attn) mra_int8_window_rows(k, &a, &a.int8_pack, i, end, w->window, slot);
                else k->window_attn(&a, i, end, w->window, slope, slot);
            }
            first += n;
        }
}
