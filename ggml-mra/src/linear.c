// Dense layers and layer norms as nodes. A dense layer's work items are blocks of rows x groups of columns. Each block
// has a counter, and each thread a block to begin with, so that it seldom has to prepare another one's rows; results do
// not depend on who takes what.
#include "node.h"

#include <stdatomic.h>

// The scratch node's memory: the counters, then a slot for each thread that may take part.
static size_t slot_bytes(int64_t k, bool floats) { return MRA_ROUND_UP(mra_linear_scratch((int) k, floats), 64) + 64; }

// rows of a work item, in equal shares of whole tiles
static int rows_per_item(int64_t m) {
    const int64_t n = (m + MRA_LINEAR_ROWS - 1) / MRA_LINEAR_ROWS;
    return n ? (int) MRA_ROUND_UP((m + n - 1) / n, 24) : MRA_LINEAR_ROWS;
}

static int blocks_of(int64_t m) {
    const int rows = rows_per_item(m);
    return (int) ((m + rows - 1) / rows);
}
static size_t counter_bytes(int64_t m) { return MRA_ROUND_UP(sizeof(atomic_int) * (size_t) blocks_of(m), 64); }

static bool is_float(enum ggml_type type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_F16; }

static struct mra_weights weights_of(const struct ggml_tensor * w, const struct ggml_tensor * bias, int64_t first) {
    struct mra_weights r = { .data = w->data,
        .stride = w->nb[1],
        .row_bytes = ggml_row_size(w->type, w->ne[0]),
        .type = MRA_W_ANY,
        .n = (int) w->ne[1],
        .first = (int) first };
    if (w->type == GGML_TYPE_F32) r.type = MRA_W_F32;
    if (w->type == GGML_TYPE_F16) r.type = MRA_W_F16;
    if (w->type == GGML_TYPE_Q8_0) r.type = MRA_W_Q8_0;
    if (w->type == GGML_TYPE_Q4_0) r.type = MRA_W_Q4_0;
    if (w->type == GGML_TYPE_Q4_K) r.type = MRA_W_Q4_K;
    r.to_float = ggml_get_type_traits(w->type)->to_float;
    r.bias = bias ? bias->data : NULL;
    return r;
}

void mra_compute_scratch(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    (void) p;
    (void) nth;
    if (ith == 0) memset(dst->data, 0, counter_bytes(ggml_nrows(dst->src[0])));
}

// rows [i0, i1): n_group groups of up to `cols` columns, of the first weights, then of the next
static void run_block(const struct mra_linear * a, const struct mra_weights * w, atomic_int * counter, int n_group,
    int cols, int i0, int i1, void * scratch) {
    const struct mra_dense_kernels * kern = &mra_kernels_get()->dense;
    bool prepared = false;
    for (int g; (g = atomic_fetch_add(counter, 1)) < n_group; prepared = true) {
        const struct mra_weights * v = w;
        for (; g >= (v->n + cols - 1) / cols; v++) g -= (v->n + cols - 1) / cols;
        if (!prepared) kern->linear_x(a, i0, i1, scratch);
        kern->linear(a, v, i0, i1, g * cols, v->n - g * cols < cols ? v->n : (g + 1) * cols, scratch);
    }
}

void mra_compute_linear(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const int n_w = p->u.linear.n_w;
    const struct ggml_tensor *x = dst->src[0],
                             *mem = dst->src[1], *const *bias = (const struct ggml_tensor *const *) dst->src + 2 + n_w;
    struct mra_weights w[MRA_LINEAR_WEIGHTS];
    struct mra_linear a = { .x = x->data,
        .y = dst->data,
        .stride_x = x->nb[1],
        .stride_y = dst->nb[1],
        .k = (int) x->ne[0],
        .gelu = p->u.linear.gelu };
    int64_t n_group = 0, first = 0;
    int n_bias = 0;
    for (int i = 0; i < n_w; i++) {
        const struct ggml_tensor * t = dst->src[2 + i];
        w[i] = weights_of(t, p->u.linear.bias >> i & 1 ? bias[n_bias++] : NULL, first);
        first += t->ne[1];
        *(is_float(t->type) ? &a.floats : &a.integers) = true;
    }
    if (p->u.linear.res) {
        a.res = bias[n_bias]->data;
        a.stride_res = bias[n_bias]->nb[1];
    }
    const int m = (int) ggml_nrows(x), rows = rows_per_item(m), n_block = blocks_of(m);
    const size_t slot = slot_bytes(a.k, a.floats), header = counter_bytes(m);
    if ((size_t) ith >= (ggml_nbytes(mem) - header) / slot) return;
    char * scratch = (char *) mem->data + header + (size_t) ith * slot;
    scratch += (64 - (uintptr_t) scratch % 64) % 64;

    const int64_t split = (16 * nth + n_block - 1) /
        n_block; // groups of columns per block: at least 16 items for a thread
    const int cols = (int) MRA_ROUND_UP((first + split - 1) / split, MRA_LINEAR_COLS);
    for (int i = 0; i < n_w; i++) n_group += (w[i].n + cols - 1) / cols;
    for (int t = 0; t < n_block; t++) {
        const int b = (int) ((t + (int64_t) ith * n_block / nth) % n_block);
        run_block(&a, w, (atomic_int *) mem->data + b, (int) n_group, cols, b * rows,
            (b + 1) * rows < m ? (b + 1) * rows : m, scratch);
    }
}

static enum mra_status check_rows(const char * name, const struct ggml_tensor * t, struct mra_error * err) {
    if (t->type != GGML_TYPE_F32)
        return mra_fail(err, MRA_ERR_SHAPE, "%s is %s, not f32", name, ggml_type_name(t->type));
    // one stride from row to row
    if (t->nb[0] != sizeof(float) || (t->ne[2] > 1 && t->nb[2] != t->ne[1] * t->nb[1]) ||
        (t->ne[3] > 1 && t->nb[3] != t->ne[2] * t->nb[2])) {
        return mra_fail(err, MRA_ERR_SHAPE, "%s: rows are not contiguous or not evenly apart", name);
    }
    return MRA_OK;
}

static enum mra_status check_vector(
    const char * name, const struct ggml_tensor * t, int64_t n, struct mra_error * err) {
    if (t->type == GGML_TYPE_F32 && t->ne[0] == n && ggml_nelements(t) == n && ggml_is_contiguous(t)) return MRA_OK;
    return mra_fail(err, MRA_ERR_SHAPE, "%s must be f32 [%lld]", name, (long long) n);
}

static enum mra_status check_weights(const struct ggml_tensor * x, const struct mra_dense * w, int n_w, int64_t * n,
    bool * floats, struct mra_error * err) {
    if (n_w < 1 || n_w > MRA_LINEAR_WEIGHTS)
        return mra_fail(err, MRA_ERR_ARG, "%d weights are not 1..%d", n_w, MRA_LINEAR_WEIGHTS);
    for (int i = 0; i < n_w; i++) {
        const struct ggml_tensor * t = w[i].w;
        if (!t) return mra_fail(err, MRA_ERR_ARG, "weights are NULL");
        if (t->type != GGML_TYPE_F32 && !ggml_get_type_traits(t->type)->to_float)
            return mra_fail(err, MRA_ERR_UNSUPPORTED, "weights are %s", ggml_type_name(t->type));
        if (t->ne[0] != x->ne[0] || t->ne[2] != 1 || t->ne[3] != 1 || t->nb[0] != ggml_type_size(t->type)) {
            return mra_fail(err, MRA_ERR_SHAPE, "weights are [%lld, %lld], x has rows of %lld", (long long) t->ne[0],
                (long long) t->ne[1], (long long) x->ne[0]);
        }
        const enum mra_status st = w[i].b ? check_vector("bias", w[i].b, t->ne[1], err) : MRA_OK;
        if (st) return st;
        *n += t->ne[1];
        *floats |= is_float(t->type);
    }
    return MRA_OK;
}

struct ggml_tensor * ggml_mra_linear(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_dense * w,
    int n_w, bool gelu, struct ggml_tensor * residual, int n_threads, struct mra_error * err) {
    if (!x) {
        mra_fail(err, MRA_ERR_ARG, "x is NULL");
        return NULL;
    }
    struct mra_node p = { .kind = MRA_KIND_LINEAR };
    int64_t n = 0;
    bool floats = false;
    if (check_rows("x", x, err) || check_weights(x, w, n_w, &n, &floats, err)) return NULL;
    if (x->ne[0] % 32) {
        mra_fail(err, MRA_ERR_SHAPE, "rows of %lld values are no multiple of 32", (long long) x->ne[0]);
        return NULL;
    }
    if (ggml_nrows(x) > INT32_MAX / 2 || n > INT32_MAX / 2) {
        mra_fail(err, MRA_ERR_SHAPE, "x or weights have too many rows");
        return NULL;
    }
    if (residual &&
        (check_rows("residual", residual, err) || residual->ne[0] != n || ggml_nrows(residual) != ggml_nrows(x))) {
        mra_fail(err, MRA_ERR_SHAPE, "the residual is not of the result's shape");
        return NULL;
    }
    p.u.linear.n_w = (uint8_t) n_w;
    p.u.linear.gelu = gelu;
    p.u.linear.res = residual != NULL;
    struct ggml_tensor * src[2 * MRA_LINEAR_WEIGHTS + 3] = { x };
    for (int i = 0; i < n_w; i++) {
        src[2 + i] = w[i].w;
        src[2 + n_w + i] = w[i].b;
        p.u.linear.bias |= (uint8_t) ((w[i].b != NULL) << i);
    }
    src[2 + 2 * n_w] = residual;
    const int64_t bytes = (int64_t) counter_bytes(ggml_nrows(x)) +
        mra_slots(n_threads) * (int64_t) slot_bytes(x->ne[0], floats);
    src[1] = mra_node_new(ctx, GGML_TYPE_I8, bytes, 1, 1, 1, (struct ggml_tensor *[]) { x }, 1,
        (struct mra_node) { .kind = MRA_KIND_SCRATCH }, "mra_scratch", err);
    if (!src[1]) return NULL;
    return mra_node_new(ctx, GGML_TYPE_F32, n, x->ne[1], x->ne[2], x->ne[3], src, 3 + 2 * n_w, p, "mra_linear", err);
}

void mra_compute_norm(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct ggml_tensor * x = dst->src[0];
    const int64_t m = ggml_nrows(x);
    for (int64_t i = m * ith / nth; i < m * (ith + 1) / nth; i++) {
        mra_kernels_get()->norm((float *) ((char *) dst->data + i * dst->nb[1]),
            (const float *) ((const char *) x->data + i * x->nb[1]), dst->src[1]->data, dst->src[2]->data,
            (int) x->ne[0], p->u.norm.eps);
    }
}

struct ggml_tensor * ggml_mra_norm(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * w,
    struct ggml_tensor * b, float eps, struct mra_error * err) {
    if (!x || !w || !b) {
        mra_fail(err, MRA_ERR_ARG, "x, w or b is NULL");
        return NULL;
    }
    if (check_rows("x", x, err) || check_vector("w", w, x->ne[0], err) || check_vector("b", b, x->ne[0], err))
        return NULL;
    struct mra_node p = { .kind = MRA_KIND_NORM };
    p.u.norm.eps = eps;
    return mra_node_new(ctx, GGML_TYPE_F32, x->ne[0], x->ne[1], x->ne[2], x->ne[3],
        (struct ggml_tensor *[]) { x, w, b }, 3, p, "mra_norm", err);
}
