// Making nodes, and the checks that all builders share.
#include "node.h"

static const char * const kind_name[MRA_KIND_COUNT] = {
    NULL,
    "pool",
    "block-score",
    "topk-blocks",
    "coarse-state",
    "pack",
    "block-sparse-attn",
    "attn",
    "scratch",
    "linear",
    "norm",
};

struct ggml_tensor * mra_node_new(struct ggml_context * ctx, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2,
    int64_t ne3, struct ggml_tensor ** src, int n_src, struct mra_node p, const char * name, struct mra_error * err) {
    struct ggml_tensor * used[GGML_MAX_SRC];
    int n = 0;
    for (int i = 0; i < n_src; i++)
        if (src[i]) used[n++] = src[i];
    const size_t bytes = ggml_get_no_alloc(ctx) ? 0 : ggml_row_size(type, ne0) * ne1 * ne2 * ne3;
    if (ggml_get_mem_size(ctx) - ggml_used_mem(ctx) < bytes + 2 * ggml_tensor_overhead()) { // ggml itself would abort
        mra_fail(err, MRA_ERR_MEMORY, "%s: the ggml context is full (%zu of %zu bytes used)", name, ggml_used_mem(ctx),
            ggml_get_mem_size(ctx));
        return NULL;
    }
    struct ggml_tensor * t = ggml_custom_4d(
        ctx, type, ne0, ne1, ne2, ne3, used, n, mra_compute, GGML_N_TASKS_MAX, NULL);
    p.magic = MRA_MAGIC;
    memcpy((char *) t->op_params + MRA_PARAMS_OFFS, &p, sizeof(p));
    return ggml_set_name(t, name);
}

bool ggml_mra_is_node(const struct ggml_tensor * t) { return mra_node_get(t).kind != MRA_KIND_NONE; }
const char * ggml_mra_op_name(const struct ggml_tensor * t) { return kind_name[mra_node_get(t).kind]; }
const char * mra_isa(void) { return mra_kernels_get()->name; }

struct mra_len mra_lengths(const struct ggml_tensor * lengths, int64_t n_batch, int64_t b, int64_t n_q, int64_t n_k) {
    const bool pairs = lengths && lengths->ne[0] == 2 && lengths->ne[1] == n_batch;
    return mra_len_at(lengths ? lengths->data : NULL, pairs, lengths ? lengths->nb[0] : 0, lengths ? lengths->nb[1] : 0,
        b, (int) n_q, (int) n_k);
}

enum mra_status mra_check_lengths(const struct ggml_tensor * lengths, int64_t n_batch, struct mra_error * err) {
    if (!lengths) return MRA_OK;
    if (lengths->type != GGML_TYPE_I32)
        return mra_fail(err, MRA_ERR_SHAPE, "lengths are %s, not i32", ggml_type_name(lengths->type));
    const bool list = lengths->ne[0] == n_batch && lengths->ne[1] == 1,
               pair = lengths->ne[0] == 2 && lengths->ne[1] == n_batch;
    if ((!list && !pair) || lengths->ne[2] != 1 || lengths->ne[3] != 1) {
        return mra_fail(err, MRA_ERR_SHAPE, "lengths have shape [%lld, %lld], not [%lld] or [2, %lld]",
            (long long) lengths->ne[0], (long long) lengths->ne[1], (long long) n_batch, (long long) n_batch);
    }
    return MRA_OK;
}

static enum mra_status check_rows(const char * name, const struct ggml_tensor * t, bool f16, struct mra_error * err) {
    if (!t) return mra_fail(err, MRA_ERR_ARG, "%s is NULL", name);
    if (t->type != GGML_TYPE_F32 && !(f16 && t->type == GGML_TYPE_F16)) {
        return mra_fail(err, MRA_ERR_SHAPE, "%s is %s, not f32%s", name, ggml_type_name(t->type), f16 ? " or f16" : "");
    }
    if (t->nb[0] != ggml_type_size(t->type)) return mra_fail(err, MRA_ERR_SHAPE, "%s: rows are not contiguous", name);
    if (t->ne[0] % 8 || t->ne[0] < 8 || t->ne[0] > MRA_MAX_DIM) {
        return mra_fail(err, MRA_ERR_SHAPE, "%s: head size %lld is no multiple of 8 in 8..%d", name,
            (long long) t->ne[0], MRA_MAX_DIM);
    }
    if (t->ne[1] < 1 || t->ne[1] > INT32_MAX / 2 || t->ne[2] < 1 || t->ne[3] < 1)
        return mra_fail(err, MRA_ERR_SHAPE, "%s: bad shape", name);
    return MRA_OK;
}

enum mra_status mra_check_qkv(
    const struct ggml_tensor * q, const struct ggml_tensor * k, const struct ggml_tensor * v, struct mra_error * err) {
    enum mra_status st;
    if ((st = check_rows("q", q, false, err)) || (st = check_rows("k", k, true, err)) ||
        (st = check_rows("v", v, true, err)))
        return st;
    if (k->type != v->type)
        return mra_fail(err, MRA_ERR_SHAPE, "k is %s but v is %s", ggml_type_name(k->type), ggml_type_name(v->type));
    if (q->ne[0] != k->ne[0])
        return mra_fail(
            err, MRA_ERR_SHAPE, "head size of q is %lld, of k %lld", (long long) q->ne[0], (long long) k->ne[0]);
    if (k->ne[1] != v->ne[1])
        return mra_fail(err, MRA_ERR_SHAPE, "k has %lld tokens, v %lld", (long long) k->ne[1], (long long) v->ne[1]);
    if (k->ne[2] != v->ne[2])
        return mra_fail(err, MRA_ERR_SHAPE, "k has %lld heads, v %lld", (long long) k->ne[2], (long long) v->ne[2]);
    if (q->ne[2] % k->ne[2])
        return mra_fail(err, MRA_ERR_SHAPE, "%lld heads of q are no multiple of %lld heads of k", (long long) q->ne[2],
            (long long) k->ne[2]);
    if (q->ne[3] != k->ne[3] || q->ne[3] != v->ne[3])
        return mra_fail(err, MRA_ERR_SHAPE, "batch sizes of q, k, v differ");
    return MRA_OK;
}
