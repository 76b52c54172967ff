// query_order: which queries of a head are alike, and what its keys weigh in the choice of keys: everything that the
// sorted frame computes once per head before any attention (kernels.h: struct mra_sorted). Results of all heads lie in
// one node (struct mra_order_layout), scratch memory of its threads, or of a device (device-pack.h), behind them.
#include "checks.h"
#include "device-pack.h"
#include "op-pack.h"

#include <math.h>

enum { ALIGN = 64 };

static struct mra_order_layout layout_of(const struct ggml_tensor * q, const struct ggml_tensor * k, int64_t n_seq) {
    return mra_order_layout_of((int) q->ne[0], q->ne[1], k->ne[1], q->ne[2], q->ne[3], n_seq);
}

// bytes of one thread's scratch memory
static size_t slot_size(const struct mra_attn_node * a, const struct ggml_tensor * q, const struct ggml_tensor * k,
    const struct ggml_tensor * v, bool starts) {
    const int n_q = starts ? a->max_len : (int) q->ne[1], n_k = starts ? a->max_len : (int) k->ne[1];
    return MRA_ROUND_UP(mra_sorted_scratch((int) k->ne[0], (int) v->ne[0], n_q, n_k), ALIGN);
}

struct ggml_tensor * mra_query_order_new(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, struct ggml_tensor * shares, bool starts,
    const struct mra_attn_node * attn, int64_t n_seq, struct mra_error * err) {
    struct mra_node p = { .kind = MRA_KIND_QUERY_ORDER, .flags = starts ? MRA_FLAG_STARTS : 0 };
    p.u.attn = *attn;
    if (p.u.attn.slots > q->ne[2] * n_seq) p.u.attn.slots = (uint16_t) (q->ne[2] * n_seq); // a thread has whole heads
    const int64_t slots = (int64_t) (p.u.attn.slots * slot_size(attn, q, k, v, starts) + ALIGN);
    const struct mra_order_layout l = layout_of(q, k, n_seq);
    const int64_t cpu = l.words + slots / (int64_t) sizeof(int32_t),
                  device = mra_device_order_of(
                      &l, attn, starts, (int) v->ne[0], q->ne[1], k->ne[1], q->ne[2], k->ne[2], k->ne[3], n_seq)
                               .words;
    const struct mra_sources src = { .fixed = { q, k, v },
        .optional = { [MRA_SRC_LENGTHS] = lengths, [MRA_SRC_SHARES] = shares } };
    const int64_t ne[4] = { cpu > device ? cpu : device, 1, 1, 1 };
    return mra_node_new(ctx, GGML_TYPE_I32, ne, &src, p, err);
}

struct ggml_tensor * ggml_mra_query_order(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, float scale, int n_threads, struct mra_error * err) {
    if (mra_check_qkv(q, k, v, err) || mra_check_lengths(lengths, q->ne[3], err)) return NULL;
    if (!(scale >= 0) || !isfinite(scale) || n_threads < 0) {
        mra_fail(err, MRA_ERR_ARG, "scale or n_threads is out of range");
        return NULL;
    }
    const struct mra_attn_node attn = {
        .frame = MRA_FRAME_SORTED,
        .slots = (uint16_t) mra_slots(n_threads),
        .scale = scale > 0 ? scale : 1 / sqrtf((float) q->ne[0]),
        .max_len = (int32_t) k->ne[1], // m1 = m2 = 0: never exact, so that every sequence gets its order
    };
    struct ggml_tensor * t = mra_query_order_new(ctx, q, k, v, lengths, NULL, false, &attn, q->ne[3], err);
    if (!t) return NULL;
    const size_t word = sizeof(int32_t), row = q->ne[1] * word;
    return ggml_view_3d(
        ctx, t, q->ne[1], q->ne[2], q->ne[3], row, row * q->ne[2], layout_of(q, k, q->ne[3]).order * word);
}

void mra_sorted_head(const struct mra_job * j, int64_t s, int64_t head, int64_t first, struct mra_attn_head * a) {
    const struct ggml_tensor * q = j->q;
    const struct mra_order_layout l = layout_of(q, j->k, j->n_seq);
    const int64_t batch = j->starts ? 0 : s, at = batch * q->ne[2] + head,
                  block = head * l.n_b + (batch * q->ne[1] + first) / MRA_QUERY_BLOCK + s,
                  of_seq = (s * q->ne[2] + head) * l.dim;
    int32_t * w = j->order->data;
    float * f = j->order->data;
    a->sorted = (struct mra_sorted) {
        .order = w + l.order + at * q->ne[1] + first,
        .key_bias = f + l.key_bias + at * j->k->ne[1] + first,
        .q_mean = f + l.q_mean + block * l.dim,
        .spread = f + l.spread + block,
        .all_keys = w + l.all_keys + block,
        .q_var = f + l.q_var + of_seq,
        .k_mean = f + l.k_mean + of_seq,
    };
    a->n_all = mra_attn_all_keys(&j->attn, a->n_q);
}

// A thread with scratch memory has every slots-th head of all sequences.
void mra_compute_query_order(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct mra_job j = mra_job_of_order(dst, p);
    const int slots = mra_min(j.attn.slots, nth);
    if (ith >= slots) return;
    char * scratch = (char *) dst->data + layout_of(j.q, j.k, j.n_seq).words * sizeof(int32_t);
    scratch = (char *) MRA_ROUND_UP((uintptr_t) scratch, ALIGN) + ith * slot_size(&j.attn, j.q, j.k, j.v, j.starts);
    for (int64_t t = ith; t < j.n_seq * j.q->ne[2]; t += slots) {
        int64_t n_rows;
        bool exact;
        const struct mra_attn_head a = mra_job_head(&j, t / j.q->ne[2], t % j.q->ne[2], &n_rows, &exact);
        if (!a.sorted.order) continue; // exact: nobody asks for its order
        mra_kernels_get()->query_order(&a, false, scratch);
        mra_kernels_get()->key_bias(&a, scratch);
        for (int64_t i = a.n_q; i < n_rows; i++) a.sorted.order[i] = -1;
    }
}
