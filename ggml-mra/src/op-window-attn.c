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
        .max_len = (int32_t) max_len,
    };
    const struct mra_sources src = { .fixed = { q, k, v, pack }, .optional = { [MRA_SRC_LENGTHS] = starts } };
    const int64_t ne[4] = { v->ne[0], q->ne[2], q->ne[1], 1 };
    return mra_node_new(ctx, GGML_TYPE_F32, ne, &src, p, err);
}

static float slope_of(float max_bias, int64_t h, int64_t n_head) {
    return max_bias == 0 ? 0 : (float) exp2(-(double) max_bias * (double) mra_alibi_exponent(h, n_head));
}

// What bounds the scores of a head's keys: their mean, which softmax does not see, and the largest |k_j - mean|^2; NaN
// where a key or a value is not finite, which may not be left out.
struct keys {
    float mean[MRA_MAX_DIM], radius2;
};

static const float * row_of(struct mra_rows x, int i, int d, float * tmp) {
    const char * row = x.data + (int64_t) i * (int64_t) x.stride;
    if (x.type == MRA_F32) return (const float *) row;
    ggml_fp16_to_fp32_row((const ggml_fp16_t *) row, tmp, d);
    return tmp;
}

// d is a multiple of 8
static float dot(const float * a, const float * b, int d) {
    float part[8] = { 0 };
    for (int c = 0; c < d; c += 8)
        for (int i = 0; i < 8; i++) part[i] += a[c + i] * b[c + i];
    return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

static struct keys keys_of(const struct mra_attn_head * a) {
    struct keys k = { .radius2 = 0 };
    float tmp[MRA_MAX_DIM];
    for (int j = 0; j < a->n_k; j++) {
        const float * x = row_of(a->k, j, a->d, tmp);
        for (int c = 0; c < a->d; c++) k.mean[c] += x[c];
    }
    for (int c = 0; c < a->d; c++) k.mean[c] /= (float) a->n_k;
    for (int j = 0; j < a->n_k; j++) {
        const float * x = row_of(a->k, j, a->d, tmp);
        for (int c = 0; c < a->d; c++) tmp[c] = x[c] - k.mean[c];
        const float r = dot(tmp, tmp, a->d);
        if (isnan(r) || r > k.radius2) k.radius2 = r;
        const float * v = row_of(a->v, j, a->dv, tmp);
        if (!isfinite(dot(v, v, a->dv))) k.radius2 = NAN;
        if (isnan(k.radius2)) break;
    }
    return k;
}

// A window beyond which all keys together weigh less than 2^-24 of any of the rows [i0, i1): p_ij - p_ii is at most
// spread_i - slope |i - j|, spread_i = scale (|q_i| max_j |k_j - mean| - q_i.(k_i - mean)), and the terms of both sides
// are geometric series. -1: all keys count.
static int reach_of(const struct mra_attn_head * a, const struct keys * k, int i0, int i1, float slope) {
    float most = 0, tmp[2][MRA_MAX_DIM];
    for (int i = i0; i < i1; i++) {
        const float *q = row_of(a->q, i, a->d, tmp[0]), *own = row_of(a->k, i, a->d, tmp[1]);
        for (int c = 0; c < a->d; c++) tmp[1][c] = own[c] - k->mean[c];
        const float spread = a->scale * (sqrtf(dot(q, q, a->d) * k->radius2) - dot(q, tmp[1], a->d));
        if (!(spread <= most)) most = spread;
        if (isnan(most)) return -1;
    }
    const float reach = (most + logf(0x1p25f / -expm1f(-slope))) / slope;
    return reach < (float) a->n_k ? (int) reach + 1 : -1;
}

// of two windows, -1 being none
static int nearer(int a, int b) { return a < 0 || (b >= 0 && b < a) ? b : a; }

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
            struct keys keys;
            bool known = false;
            for (; take < first + n; take = mra_job_take(&j)) {
                const int i = (int) (take - first) * MRA_EXACT_ROWS;
                const int end = mra_min(i + MRA_EXACT_ROWS, a.n_q);
                const struct mra_kernels * k = mra_kernels_get();
                void * slot = mra_job_slot(&j, ith);
                if (slope > 0 && !known) keys = keys_of(&a);
                known = true;
                const int reach = slope > 0 ? reach_of(&a, &keys, i, end, slope) : -1;
                if (a.int8 && a.int8->window_attn) mra_int8_window_rows(k, &a, &a.int8_pack, i, end, w->window, slot);
                else k->window_attn(&a, i, end, nearer(w->window, reach), slope, slot);
            }
            first += n;
        }
}
