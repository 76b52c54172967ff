// linear: y = act(W x + b) + residual for every row of x, up to three W side by side.
// Work items are bands of rows x strips of columns. Each band has a counter of strips taken, and each thread a band to
// begin with, so that it seldom has to prepare another one's rows. Results do not depend on who takes what.
#include "checks.h"

#include <stdatomic.h>

enum {
    ALIGN = 64,
    K_MULTIPLE = 32,       // rows of x are a multiple of this
    TILE_ROWS = 42,        // a multiple of the rows that most kernels compute at once,
    LEAST_ROWS = 32,       // and the least of any
    ITEMS_PER_THREAD = 16, // at least, so that threads end at about the same time
    LARGE_OUT = 1 << 24,   // bytes of y that are read after others have taken their place in most caches
};

static bool is_float(enum ggml_type type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_F16; }

// The scratch node's memory: a counter for each band, then a slot for each thread that may take part.
struct linear_layout {
    int rows, n_band; // rows of a band, in equal shares of whole tiles
    size_t counters;  // bytes
    size_t slot;      // bytes, with what it takes to align one
    size_t bytes;
};

// m rows of k values. Bytes do not depend on the kernels that run.
static struct linear_layout layout_of(int64_t m, int64_t k, bool floats, int slots) {
    const struct mra_dense_kernels * kern = &mra_kernels_get()->dense;
    const int tile = kern->rows ? kern->rows : TILE_ROWS, most = mra_linear_rows((int) k) / tile * tile,
              wanted = (int) (kern->values / k) / tile * tile, max = wanted && wanted < most ? wanted : most;
    const int64_t n = mra_blocks(m, max);
    struct linear_layout l;
    l.rows = n ? (int) MRA_ROUND_UP(mra_blocks(m, n), tile) : max;
    l.n_band = (int) mra_blocks(m, l.rows);
    l.counters = MRA_ROUND_UP(sizeof(atomic_int) * (size_t) mra_blocks(m, LEAST_ROWS), ALIGN);
    l.slot = MRA_ROUND_UP(mra_linear_scratch((int) k, floats), ALIGN) + ALIGN;
    l.bytes = l.counters + slots * l.slot;
    return l;
}

// *n: columns of all weights; *floats: are some of them floats?
static enum mra_status check_weights(const struct ggml_tensor * x, const struct mra_dense * w, int n_w, int64_t * n,
    bool * floats, struct mra_error * err) {
    if (!w) return mra_fail(err, MRA_ERR_ARG, "weights are NULL");
    if (n_w < 1 || n_w > MRA_LINEAR_WEIGHTS)
        return mra_fail(err, MRA_ERR_ARG, "%d weights are not 1..%d", n_w, MRA_LINEAR_WEIGHTS);
    for (int i = 0; i < n_w; i++) {
        const struct ggml_tensor * t = w[i].w;
        if (!t) return mra_fail(err, MRA_ERR_ARG, "weights are NULL");
        if (t->type != GGML_TYPE_F32 && !ggml_get_type_traits(t->type)->to_float)
            return mra_fail(err, MRA_ERR_UNSUPPORTED, "weights are %s", ggml_type_name(t->type));
        if (t->ne[0] != x->ne[0] || t->ne[2] != 1 || t->ne[3] != 1 || t->nb[0] != ggml_type_size(t->type)) {
            return mra_fail(err, MRA_ERR_SHAPE, "weights are [%lld, %lld], x has rows of %lld", LL(t->ne[0]),
                LL(t->ne[1]), LL(x->ne[0]));
        }
        const enum mra_status st = w[i].b ? mra_check_vector("bias", w[i].b, t->ne[1], err) : MRA_OK;
        if (st) return st;
        *n += t->ne[1];
        *floats |= is_float(t->type);
    }
    return MRA_OK;
}

static enum mra_status check(const struct ggml_tensor * x, const struct mra_dense * w, int n_w,
    const struct ggml_tensor * residual, int64_t * n, bool * floats, struct mra_error * err) {
    enum mra_status st;
    if (!x) return mra_fail(err, MRA_ERR_ARG, "x is NULL");
    if ((st = mra_check_even_rows("x", x, err)) || (st = check_weights(x, w, n_w, n, floats, err))) return st;
    if (x->ne[0] % K_MULTIPLE)
        return mra_fail(err, MRA_ERR_SHAPE, "rows of %lld values are no multiple of %d", LL(x->ne[0]), K_MULTIPLE);
    if (ggml_nrows(x) > INT32_MAX / 2 || *n > INT32_MAX / 2)
        return mra_fail(err, MRA_ERR_SHAPE, "x or weights have too many rows");
    if (residual &&
        (mra_check_even_rows("residual", residual, err) || residual->ne[0] != *n ||
            ggml_nrows(residual) != ggml_nrows(x)))
        return mra_fail(err, MRA_ERR_SHAPE, "the residual is not of the result's shape");
    return MRA_OK;
}

struct ggml_tensor * ggml_mra_linear(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_dense * w,
    int n_w, bool gelu, struct ggml_tensor * residual, int n_threads, struct mra_error * err) {
    int64_t n = 0;
    bool floats = false;
    if (check(x, w, n_w, residual, &n, &floats, err)) return NULL;
    struct mra_node p = { .kind = MRA_KIND_LINEAR };
    p.u.linear =
        (struct mra_linear_node) { .n_w = (uint8_t) n_w, .gelu = gelu, .slots = (uint16_t) mra_slots(n_threads) };
    const struct linear_layout layout = layout_of(ggml_nrows(x), x->ne[0], floats, p.u.linear.slots);
    const struct mra_sources of_scratch = { .fixed = { x } };
    struct mra_sources src = { .fixed = { x }, .optional = { [MRA_SRC_RESIDUAL] = residual } };
    src.fixed[1] = mra_node_new(ctx, GGML_TYPE_I8, (const int64_t[4]) { (int64_t) layout.bytes, 1, 1, 1 }, &of_scratch,
        (struct mra_node) { .kind = MRA_KIND_SCRATCH }, err);
    if (!src.fixed[1]) return NULL;
    for (int i = 0; i < n_w; i++) {
        src.fixed[2 + i] = w[i].w;
        src.optional[MRA_SRC_BIAS + i] = w[i].b;
    }
    return mra_node_new(ctx, GGML_TYPE_F32, (const int64_t[4]) { n, x->ne[1], x->ne[2], x->ne[3] }, &src, p, err);
}

// sets the counters to 0, before every run of the linear node behind it
void mra_compute_scratch(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    (void) p;
    (void) nth;
    const struct ggml_tensor * x = dst->src[0];
    if (ith == 0) memset(dst->data, 0, layout_of(ggml_nrows(x), x->ne[0], true, 0).counters);
}

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

// What all threads of a linear node know.
struct linear_job {
    struct mra_linear a;
    struct mra_weights w[MRA_LINEAR_WEIGHTS];
    int n_w;
    int m, cols; // rows of x; columns of a strip
    int n_strip; // of all weights, those of the first come first
};

static struct linear_job job_of(const struct ggml_tensor * dst, const struct mra_node * p) {
    const struct ggml_tensor *x = dst->src[0], *residual = mra_source(dst, p, MRA_SRC_RESIDUAL);
    struct linear_job j = { .n_w = p->u.linear.n_w, .m = (int) ggml_nrows(x) };
    j.a = (struct mra_linear) { .x = x->data,
        .y = dst->data,
        .stride_x = x->nb[1],
        .stride_y = dst->nb[1],
        .k = (int) x->ne[0],
        .gelu = p->u.linear.gelu,
        .stream = ggml_nbytes(dst) >= LARGE_OUT };
    if (residual) {
        j.a.res = residual->data;
        j.a.stride_res = residual->nb[1];
    }
    int64_t first = 0;
    for (int i = 0; i < j.n_w; i++) {
        const struct ggml_tensor * t = dst->src[2 + i];
        j.w[i] = weights_of(t, mra_source(dst, p, MRA_SRC_BIAS + i), first);
        first += t->ne[1];
        *(is_float(t->type) ? &j.a.floats : &j.a.integers) = true;
    }
    return j;
}

// cuts the columns into strips, so that nth threads have enough items
static void cut_strips(struct linear_job * j, int64_t n_cols, int n_band, int nth) {
    const int64_t per_band = mra_blocks(ITEMS_PER_THREAD * nth, n_band);
    j->cols = (int) MRA_ROUND_UP(mra_blocks(n_cols, per_band), MRA_LINEAR_COLS);
    for (int i = 0; i < j->n_w; i++) j->n_strip += mra_div_up(j->w[i].n, j->cols);
}

// rows [i0, i1): the strips that no other thread has taken
static void run_band(const struct linear_job * j, atomic_int * counter, int i0, int i1, void * scratch) {
    const struct mra_dense_kernels * kern = &mra_kernels_get()->dense;
    bool prepared = false;
    for (int s; (s = atomic_fetch_add(counter, 1)) < j->n_strip; prepared = true) {
        const struct mra_weights * w = j->w;
        for (; s >= mra_div_up(w->n, j->cols); w++) s -= mra_div_up(w->n, j->cols);
        if (!prepared) kern->linear_x(&j->a, i0, i1, scratch);
        kern->linear(&j->a, w, i0, i1, s * j->cols, w->n - s * j->cols < j->cols ? w->n : (s + 1) * j->cols, scratch);
    }
}

void mra_compute_linear(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    if (ith >= p->u.linear.slots || ggml_nelements(dst) == 0) return;
    struct linear_job j = job_of(dst, p);
    const struct linear_layout l = layout_of(j.m, j.a.k, j.a.floats, p->u.linear.slots);
    cut_strips(&j, dst->ne[0], l.n_band, nth);
    atomic_int * counters = dst->src[1]->data;
    char * scratch = (char *) MRA_ROUND_UP((uintptr_t) dst->src[1]->data + l.counters + ith * l.slot, ALIGN);
    for (int t = 0; t < l.n_band; t++) {
        const int b = (int) ((t + (int64_t) ith * l.n_band / nth) % l.n_band);
        run_band(&j, counters + b, b * l.rows, mra_min((b + 1) * l.rows, j.m), scratch);
    }
}
