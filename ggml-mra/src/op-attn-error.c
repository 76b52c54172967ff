// attn_error: for sampled query rows i of a head, e_i = |exact_i - out_i|^2 and r_i = |exact_i|^2, where out is what an
// approximate attention gave and exact_i = sum_j e^{p_ij} v_j / sum_j e^{p_ij}. The result is their sums and second
// moments, from which sqrt(sum e / sum r) estimates the relative error of the head.
#include "checks.h"
#include "op-pack.h"

#include <math.h>

enum { ROWS = 32 }; // sampled rows computed at a time: queries and results lie on the stack

static enum mra_status check(const struct ggml_tensor * q, const struct ggml_tensor * v, const struct ggml_tensor * out,
    int n_rows, float scale, int n_threads, struct mra_error * err) {
    const enum mra_status st = mra_check_f32("out", out, err);
    if (st != MRA_OK) return st;
    if (n_rows < 1) return mra_fail(err, MRA_ERR_ARG, "n_rows = %d: at least one row is needed", n_rows);
    if (!(scale >= 0) || !isfinite(scale) || n_threads < 0)
        return mra_fail(err, MRA_ERR_ARG, "scale or n_threads is out of range");
    return mra_check_shape("out", out, v->ne[0], q->ne[2], q->ne[1], q->ne[3], err);
}

// The order of the queries where `out` is a node of the sorted frame, else NULL. Rows of a query block have errors of
// about one size, so that rows taken evenly from that order say more than rows taken evenly from the text.
static struct ggml_tensor * order_of(const struct ggml_tensor * out) {
    const struct mra_node p = mra_node_get(out);
    return p.kind == MRA_KIND_ATTN && p.u.attn.frame == MRA_PLAN_SORTED ? out->src[4] : NULL;
}

// starts: lengths holds the starts of n_seq packed sequences
static struct ggml_tensor * build(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * out, struct ggml_tensor * lengths, bool starts, int64_t n_seq,
    int64_t max_len, int n_rows, float scale, int n_threads, struct mra_error * err) {
    const struct mra_attn_node attn = {
        .frame = MRA_FRAME_NEAR, .slots = (uint16_t) mra_slots(n_threads), .max_len = (int32_t) max_len
    };
    struct ggml_tensor * pack = mra_pack_new(ctx, q, k, v, lengths, starts, &attn, n_seq, err);
    if (!pack) return NULL;
    struct mra_node p = { .kind = MRA_KIND_ATTN_ERROR, .flags = starts ? MRA_FLAG_STARTS : 0 };
    p.u.attn_error = (struct mra_attn_error_node) { .scale = scale > 0 ? scale : 1 / sqrtf((float) q->ne[0]),
        .n_rows = n_rows };
    struct ggml_tensor *order = order_of(out), *shares = NULL;
    if (order) {
        const struct mra_node of_out = mra_node_get(out);
        const struct mra_attn_node sorted = of_out.u.attn;
        shares = mra_source(out, &of_out, MRA_SRC_SHARES);
        p.u.attn_error.budget = sorted.budget;
        p.u.attn_error.m1 = sorted.m1;
        p.u.attn_error.m2 = sorted.m2;
        p.u.attn_error.block = sorted.block;
        p.u.attn_error.int8 = sorted.int8;
    }
    const struct mra_sources src = { .fixed = { q, k, v, pack, out, order },
        .optional = { [MRA_SRC_LENGTHS] = lengths, [MRA_SRC_SHARES] = shares } };
    const int64_t ne[4] = { MRA_ATTN_ERROR_SUMS, q->ne[2], n_seq, 1 };
    return mra_node_new(ctx, GGML_TYPE_F64, ne, &src, p, err);
}

struct ggml_tensor * ggml_mra_attn_error(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * out, struct ggml_tensor * lengths, int n_rows, float scale,
    int n_threads, struct mra_error * err) {
    if (mra_check_qkv(q, k, v, err) || mra_check_lengths(lengths, q->ne[3], err) ||
        check(q, v, out, n_rows, scale, n_threads, err))
        return NULL;
    return build(ctx, q, k, v, out, lengths, false, k->ne[3], k->ne[1], n_rows, scale, n_threads, err);
}

struct ggml_tensor * ggml_mra_attn_error_packed(struct ggml_context * ctx, struct ggml_tensor * q,
    struct ggml_tensor * k, struct ggml_tensor * v, struct ggml_tensor * out, struct ggml_tensor * starts,
    int64_t max_len, int n_rows, float scale, int n_threads, struct mra_error * err) {
    if (mra_check_qkv(q, k, v, err) || check(q, v, out, n_rows, scale, n_threads, err) ||
        mra_check_starts(q, k, starts, max_len, err))
        return NULL;
    return build(ctx, q, k, v, out, starts, true, starts->ne[0] - 1, max_len, n_rows, scale, n_threads, err);
}

// a number below n, of the numbers a and b alone: everyone samples the same rows
static int pick(uint32_t a, uint32_t b, int n) {
    uint32_t x = (a + 1) * 0x9e3779b9u ^ (b + 1) * 0x85ebca6bu;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return (int) ((uint64_t) (x ^ x >> 16) * (uint64_t) n >> 32);
}

// Which query is sampled from stratum t of m: the n_q queries, in the order of the text or of the sorted frame, are cut
// into m strata of about equal size, and one of each is taken.
static int sampled(const struct mra_attn_head * a, int64_t head, int t, int m) {
    const int first = (int) ((int64_t) t * a->n_q / m), end = (int) ((int64_t) (t + 1) * a->n_q / m);
    return (int) mra_query_at(a, first + pick((uint32_t) head, (uint32_t) t, end - first));
}

static void add_row(double * sums, const float * exact, const float * out, int dv) {
    double e = 0, r = 0;
    for (int c = 0; c < dv; c++) {
        const double d = (double) exact[c] - out[c];
        e += d * d;
        r += (double) exact[c] * exact[c];
    }
    sums[MRA_ATTN_ERROR_E] += e;
    sums[MRA_ATTN_ERROR_R] += r;
    sums[MRA_ATTN_ERROR_EE] += e * e;
    sums[MRA_ATTN_ERROR_ER] += e * r;
    sums[MRA_ATTN_ERROR_RR] += r * r;
}

// a->out: what is compared
static void measure(const struct mra_attn_head * a, int64_t head, int n_rows, double * sums, void * scratch) {
    float q[ROWS * MRA_MAX_DIM], exact[ROWS * MRA_MAX_DIM];
    int rows[ROWS];
    struct mra_attn_head some = *a;
    some.q = (struct mra_rows) { (const char *) q, sizeof(float) * a->d, MRA_F32 };
    some.sorted.order = NULL;
    some.out = exact;
    some.ld_out = (size_t) a->dv;
    const int m = a->n_k > 0 ? mra_min(n_rows, a->n_q) : 0;
    memset(sums, 0, MRA_ATTN_ERROR_SUMS * sizeof(*sums));
    sums[MRA_ATTN_ERROR_ALL] = a->n_k > 0 ? a->n_q : 0;
    sums[MRA_ATTN_ERROR_ROWS] = m;
    for (int t0 = 0; t0 < m; t0 += ROWS) {
        some.n_q = mra_min(ROWS, m - t0);
        for (int i = 0; i < some.n_q; i++) {
            rows[i] = sampled(a, head, t0 + i, m);
            memcpy(q + i * a->d, a->q.data + rows[i] * a->q.stride, sizeof(float) * a->d);
        }
        mra_kernels_get()->block_sparse_attn(&some, 0, some.n_q, NULL, 0, 0, NULL, scratch);
        for (int i = 0; i < some.n_q; i++) add_row(sums, exact + i * a->dv, a->out + rows[i] * a->ld_out, a->dv);
    }
}

// the order of the queries of head `head` of sequence s in a query_order node
static int32_t * order_at(const struct mra_job * j, const struct ggml_tensor * node, int64_t s, int64_t head,
    const struct mra_attn_head * a) {
    struct mra_job of_order = *j;
    struct mra_attn_head one = *a;
    of_order.order = node;
    const int64_t first = j->starts ? (a->q.data - mra_rows_of(j->q, 0, head, 0).data) / (int64_t) j->q->nb[1] : 0;
    mra_sorted_head(&of_order, s, head, first, &one);
    return one.sorted.order;
}

// A work item is a head of a sequence; threads take them from a counter.
void mra_compute_attn_error(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    (void) nth;
    struct mra_job j;
    struct ggml_tensor again;
    if (!mra_job_of(&j, dst, p, ith, &again)) return;
    j.dst = dst->src[4]; // so that a.out is what is compared
    const struct mra_attn_error_node * e = &p->u.attn_error;
    const struct mra_attn_node sorted = {
        .frame = MRA_FRAME_SORTED, .budget = e->budget, .m1 = e->m1, .m2 = e->m2, .block = e->block, .int8 = e->int8
    };
    const struct ggml_tensor * shares = mra_source(dst, p, MRA_SRC_SHARES);
    const int64_t n_head = j.q->ne[2];
    for (int64_t t = mra_job_take(&j); t < j.n_seq * n_head; t = mra_job_take(&j)) {
        int64_t n_rows;
        bool exact;
        struct mra_attn_head a = mra_job_head(&j, t / n_head, t % n_head, &n_rows, &exact);
        a.scale = e->scale;
        if (p->n_fixed > 5 && a.n_k > 0 && !mra_head_plan(&sorted, shares, t % n_head, a.n_k).exact)
            a.sorted.order = order_at(&j, dst->src[5], t / n_head, t % n_head, &a);
        measure(&a, t % n_head, e->n_rows, (double *) dst->data + t * MRA_ATTN_ERROR_SUMS, mra_job_slot(&j, ith));
    }
}

struct mra_attn_error mra_attn_error_of(const double * s) {
    const double m = s[MRA_ATTN_ERROR_ROWS], e = s[MRA_ATTN_ERROR_E], r = s[MRA_ATTN_ERROR_R];
    struct mra_attn_error x = { 0 };
    if (!(m > 0) || e == 0) return x;
    if (!(r > 0) || !isfinite(e)) {
        x.error = x.low = x.high = isnan(e) || isnan(r) ? NAN : INFINITY;
        return x;
    }
    const double ratio = e / r,
                 z2 = s[MRA_ATTN_ERROR_EE] - 2 * ratio * s[MRA_ATTN_ERROR_ER] + ratio * ratio * s[MRA_ATTN_ERROR_RR],
                 left = 1 - m / s[MRA_ATTN_ERROR_ALL]; // of the rows, those that were not looked at
    // of log ratio, relative: the rows' e - ratio*r have the mean 0
    const double deviation = m > 1 ? sqrt(fmax(0, z2) * fmax(0, left) * m / (m - 1)) / e : left > 0 ? INFINITY : 0;
    x.error = sqrt(ratio);
    x.low = x.error * exp(-MRA_ATTN_ERROR_WIDTH / 2 * deviation);
    x.high = x.error * exp(MRA_ATTN_ERROR_WIDTH / 2 * deviation);
    return x;
}
