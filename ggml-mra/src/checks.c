// Checks that several builders share.
#include "checks.h"

enum mra_status mra_check_lengths(const struct ggml_tensor * lengths, int64_t n_batch, struct mra_error * err) {
    if (!lengths) return MRA_OK;
    if (lengths->type != GGML_TYPE_I32)
        return mra_fail(err, MRA_ERR_SHAPE, "lengths are %s, not i32", ggml_type_name(lengths->type));
    const bool list = lengths->ne[0] == n_batch && lengths->ne[1] == 1,
               pair = lengths->ne[0] == 2 && lengths->ne[1] == n_batch;
    if ((!list && !pair) || lengths->ne[2] != 1 || lengths->ne[3] != 1) {
        return mra_fail(err, MRA_ERR_SHAPE, "lengths have shape [%lld, %lld], not [%lld] or [2, %lld]",
            LL(lengths->ne[0]), LL(lengths->ne[1]), LL(n_batch), LL(n_batch));
    }
    return MRA_OK;
}

enum mra_status mra_check_heads(int64_t n_q, const char * name, int64_t n_kv, struct mra_error * err) {
    if (n_kv > 0 && n_q % n_kv == 0) return MRA_OK;
    return mra_fail(err, MRA_ERR_SHAPE, "%lld heads of q are no multiple of %lld heads of %s", LL(n_q), LL(n_kv), name);
}

static enum mra_status check_rows(const char * name, const struct ggml_tensor * t, bool f16, struct mra_error * err) {
    if (!t) return mra_fail(err, MRA_ERR_ARG, "%s is NULL", name);
    if (t->type != GGML_TYPE_F32 && !(f16 && t->type == GGML_TYPE_F16)) {
        return mra_fail(err, MRA_ERR_SHAPE, "%s is %s, not f32%s", name, ggml_type_name(t->type), f16 ? " or f16" : "");
    }
    if (t->nb[0] != ggml_type_size(t->type)) return mra_fail(err, MRA_ERR_SHAPE, "%s: rows are not contiguous", name);
    if (t->ne[0] % 8 || t->ne[0] < 8 || t->ne[0] > MRA_MAX_DIM) {
        return mra_fail(
            err, MRA_ERR_SHAPE, "%s: head size %lld is no multiple of 8 in 8..%d", name, LL(t->ne[0]), MRA_MAX_DIM);
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
        return mra_fail(err, MRA_ERR_SHAPE, "head size of q is %lld, of k %lld", LL(q->ne[0]), LL(k->ne[0]));
    if (k->ne[1] != v->ne[1])
        return mra_fail(err, MRA_ERR_SHAPE, "k has %lld tokens, v %lld", LL(k->ne[1]), LL(v->ne[1]));
    if (k->ne[2] != v->ne[2])
        return mra_fail(err, MRA_ERR_SHAPE, "k has %lld heads, v %lld", LL(k->ne[2]), LL(v->ne[2]));
    if ((st = mra_check_heads(q->ne[2], "k", k->ne[2], err))) return st;
    if (q->ne[3] != k->ne[3] || q->ne[3] != v->ne[3])
        return mra_fail(err, MRA_ERR_SHAPE, "batch sizes of q, k, v differ");
    return MRA_OK;
}

enum mra_status mra_check_f32(const char * name, const struct ggml_tensor * t, struct mra_error * err) {
    if (!t) return mra_fail(err, MRA_ERR_ARG, "%s is NULL", name);
    if (t->type != GGML_TYPE_F32)
        return mra_fail(err, MRA_ERR_SHAPE, "%s is %s, not f32", name, ggml_type_name(t->type));
    if (t->nb[0] != sizeof(float)) return mra_fail(err, MRA_ERR_SHAPE, "%s: rows are not contiguous", name);
    return MRA_OK;
}

enum mra_status mra_check_shape(const char * name, const struct ggml_tensor * t, int64_t ne0, int64_t ne1, int64_t ne2,
    int64_t ne3, struct mra_error * err) {
    if (t->ne[0] == ne0 && t->ne[1] == ne1 && t->ne[2] == ne2 && t->ne[3] == ne3) return MRA_OK;
    return mra_fail(err, MRA_ERR_SHAPE, "%s has shape [%lld, %lld, %lld, %lld], not [%lld, %lld, %lld, %lld]", name,
        LL(t->ne[0]), LL(t->ne[1]), LL(t->ne[2]), LL(t->ne[3]), LL(ne0), LL(ne1), LL(ne2), LL(ne3));
}

enum mra_status mra_check_level(const struct mra_level * l, struct mra_error * err) {
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

struct mra_cell_level mra_cell_level_of(const struct mra_level * l) {
    return (struct mra_cell_level) {
        .n_q = (int32_t) l->n_q,
        .n_k = (int32_t) l->n_k,
        .h = (uint8_t) l->h,
        .g = (uint8_t) l->g,
        .parent_h = (uint8_t) l->parent_h,
        .parent_g = (uint8_t) l->parent_g,
    };
}

enum mra_status mra_check_list(const char * name, const struct ggml_tensor * t, int64_t n_q, int h, int64_t n_head,
    int64_t n_batch, int64_t * cap, struct mra_error * err) {
    if (!t) return mra_fail(err, MRA_ERR_ARG, "%s is NULL", name);
    *cap = t->ne[0] - mra_blocks(n_q, h) - 1;
    if (t->type != GGML_TYPE_I32 || t->nb[0] != sizeof(int32_t) || *cap < 1 || t->ne[1] != n_head ||
        t->ne[2] != n_batch || t->ne[3] != 1) {
        return mra_fail(err, MRA_ERR_SHAPE, "%s is no cell list of %lld rows, %lld heads, %lld sequences", name,
            LL(mra_blocks(n_q, h)), LL(n_head), LL(n_batch));
    }
    return MRA_OK;
}

enum mra_status mra_check_parents(const struct ggml_tensor * parents, const struct mra_level * l, int64_t n_head,
    int64_t n_batch, int64_t * cap, struct mra_error * err) {
    *cap = 0;
    if (!parents && !l->parent_h) return MRA_OK;
    if (!parents || !l->parent_h)
        return mra_fail(err, MRA_ERR_ARG, "parents and level.parent_h must both be given or neither");
    return mra_check_list("parents", parents, l->n_q, l->parent_h, n_head, n_batch, cap, err);
}

enum mra_status mra_check_scores(
    const struct ggml_tensor * s, const struct mra_level * l, int64_t cap, struct mra_error * err) {
    if (cap)
        return mra_check_shape(
            "scores", s, (int64_t) (l->parent_h / l->h) * (l->parent_g / l->g), cap, s->ne[2], s->ne[3], err);
    return mra_check_shape("scores", s, mra_blocks(l->n_k, l->g), mra_blocks(l->n_q, l->h), s->ne[2], s->ne[3], err);
}

enum mra_status mra_check_even_rows(const char * name, const struct ggml_tensor * t, struct mra_error * err) {
    if (t->type != GGML_TYPE_F32)
        return mra_fail(err, MRA_ERR_SHAPE, "%s is %s, not f32", name, ggml_type_name(t->type));
    if (t->nb[0] != sizeof(float) || (t->ne[2] > 1 && t->nb[2] != t->ne[1] * t->nb[1]) ||
        (t->ne[3] > 1 && t->nb[3] != t->ne[2] * t->nb[2])) {
        return mra_fail(err, MRA_ERR_SHAPE, "%s: rows are not contiguous or not evenly apart", name);
    }
    return MRA_OK;
}

enum mra_status mra_check_vector(const char * name, const struct ggml_tensor * t, int64_t n, struct mra_error * err) {
    if (t->type == GGML_TYPE_F32 && t->ne[0] == n && ggml_nelements(t) == n && ggml_is_contiguous(t)) return MRA_OK;
    return mra_fail(err, MRA_ERR_SHAPE, "%s must be f32 [%lld]", name, LL(n));
}

enum mra_status mra_check_starts(const struct ggml_tensor * q, const struct ggml_tensor * k,
    const struct ggml_tensor * starts, int64_t max_len, struct mra_error * err) {
    if (q->ne[3] != 1 || q->ne[1] != k->ne[1])
        return mra_fail(err, MRA_ERR_SHAPE, "packed sequences: q, k, v must hold the same tokens and no batch");
    if (!starts || starts->type != GGML_TYPE_I32 || !ggml_is_contiguous(starts) || starts->ne[0] < 2 ||
        ggml_nelements(starts) != starts->ne[0])
        return mra_fail(err, MRA_ERR_SHAPE, "packed sequences: starts must be i32 [n_seq + 1]");
    if (max_len < 1 || max_len > q->ne[1])
        return mra_fail(err, MRA_ERR_ARG, "max_len %lld is not in 1..%lld", LL(max_len), LL(q->ne[1]));
    return MRA_OK;
}
