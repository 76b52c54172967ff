// linear: y = act(W x + b) + residual for every row of x, up to three W side by side, or with two of them, or the
// halves of one, y = act(W0 x + b0)*(W1 x + b1). y may be rows of bytes, which only another linear reads. Work items
// are bands of rows x strips of columns. Each band has a counter of strips taken, and each thread a band to begin with,
// so that it seldom has to prepare another one's rows. Results do not depend on who takes what.
#include "checks.h"

#include <stdatomic.h>

enum {
    ALIGN = 64,
    K_MULTIPLE = 32,       // rows of x are a multiple of this
    TILE_ROWS = 12,        // a multiple of the rows that most kernels compute at once
    LEAST_ROWS = 12,       // of a band
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

static size_t counters_of(int64_t m) {
    return MRA_ROUND_UP(sizeof(atomic_int) * (size_t) mra_blocks(m, LEAST_ROWS), ALIGN);
}

// m rows of k values. Bytes do not depend on the kernels that run.
static struct linear_layout layout_of(
    const struct mra_dense_kernels * kern, int64_t m, int64_t k, bool floats, bool gated, int slots) {
    const int tile = kern->rows ? kern->rows : TILE_ROWS, most = mra_linear_rows((int) k) / tile * tile,
              wanted = (int) (kern->values / k) / tile * tile, max = wanted && wanted < most ? wanted : most;
    const int64_t n = mra_blocks(m, max);
    struct linear_layout l;
    l.rows = n ? (int) MRA_ROUND_UP(mra_blocks(m, n), tile) : max;
    l.n_band = (int) mra_blocks(m, l.rows);
    l.counters = counters_of(m);
    l.slot = MRA_ROUND_UP(mra_linear_scratch((int) k, floats, gated), ALIGN) + ALIGN;
    l.bytes = l.counters + slots * l.slot;
    return l;
}

// *n: columns of all weights; *floats: are some of them floats?
static enum mra_status check_weights(
    int64_t k, const struct mra_dense * w, int n_w, int64_t * n, bool * floats, struct mra_error * err) {
    if (!w) return mra_fail(err, MRA_ERR_ARG, "weights are NULL");
    if (n_w < 1 || n_w > MRA_LINEAR_WEIGHTS)
        return mra_fail(err, MRA_ERR_ARG, "%d weights are not 1..%d", n_w, MRA_LINEAR_WEIGHTS);
    for (int i = 0; i < n_w; i++) {
        const struct ggml_tensor * t = w[i].w;
        if (!t) return mra_fail(err, MRA_ERR_ARG, "weights are NULL");
        if (t->type != GGML_TYPE_F32 && !ggml_get_type_traits(t->type)->to_float)
            return mra_fail(err, MRA_ERR_UNSUPPORTED, "weights are %s", ggml_type_name(t->type));
        if (t->ne[0] != k || t->ne[2] != 1 || t->ne[3] != 1 || t->nb[0] != ggml_type_size(t->type)) {
            return mra_fail(
                err, MRA_ERR_SHAPE, "weights are [%lld, %lld], x has rows of %lld", LL(t->ne[0]), LL(t->ne[1]), LL(k));
        }
        const enum mra_status st = w[i].b ? mra_check_vector("bias", w[i].b, t->ne[1], err) : MRA_OK;
        if (st) return st;
        *n += t->ne[1];
        *floats |= is_float(t->type);
    }
    return MRA_OK;
}

// rows of bytes that a linear node made, not a view of them
static bool is_bytes(const struct ggml_tensor * x) {
    const struct mra_node p = mra_node_get(x);
    return p.kind == MRA_KIND_LINEAR && p.u.linear.bytes;
}
static int64_t byte_row(int64_t n) { return n / K_MULTIPLE * (int64_t) sizeof(struct mra_byte_group); }
static int64_t values_of(const struct ggml_tensor * x) {
    return is_bytes(x) ? x->ne[0] / (int64_t) sizeof(struct mra_byte_group) * K_MULTIPLE : x->ne[0];
}

static enum mra_status check(const struct ggml_tensor * x, const struct mra_dense * w, int n_w,
    const struct ggml_tensor * residual, int64_t * n, bool * floats, struct mra_error * err) {
    enum mra_status st;
    if (!x) return mra_fail(err, MRA_ERR_ARG, "x is NULL");
    if ((!is_bytes(x) && (st = mra_check_even_rows("x", x, err))) ||
        (st = check_weights(values_of(x), w, n_w, n, floats, err)))
        return st;
    if (is_bytes(x) && *floats) return mra_fail(err, MRA_ERR_UNSUPPORTED, "x are rows of bytes, weights are floats");
    if (values_of(x) % K_MULTIPLE)
        return mra_fail(err, MRA_ERR_SHAPE, "rows of %lld values are no multiple of %d", LL(x->ne[0]), K_MULTIPLE);
    if (ggml_nrows(x) > INT32_MAX / 2 || *n > INT32_MAX / 2)
        return mra_fail(err, MRA_ERR_SHAPE, "x or weights have too many rows");
    if (residual &&
        (mra_check_even_rows("residual", residual, err) || residual->ne[0] != *n ||
            ggml_nrows(residual) != ggml_nrows(x)))
        return mra_fail(err, MRA_ERR_SHAPE, "the residual is not of the result's shape");
    return MRA_OK;
}

// n: columns of all weights
static enum mra_status check_gated(const struct mra_dense * w, int n_w, int64_t n, struct mra_error * err) {
    if (n_w > 2) return mra_fail(err, MRA_ERR_ARG, "%d weights of a gated activation", n_w);
    if (n % 2 || (n_w == 2 && w[0].w->ne[1] != w[1].w->ne[1])) {
        return mra_fail(err, MRA_ERR_SHAPE, "%lld columns of weights are no two halves", LL(n));
    }
    if (n_w == 2 && is_float(w[0].w->type) != is_float(w[1].w->type)) {
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "a gate of %s for weights of %s", ggml_type_name(w[0].w->type),
            ggml_type_name(w[1].w->type));
    }
    return MRA_OK;
}

struct ggml_tensor * mra_linear_new(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_dense * w,
    int n_w, struct ggml_tensor * residual, struct mra_linear_node of, int n_threads, struct mra_error * err) {
    int64_t n = 0;
    bool floats = false;
    if (check(x, w, n_w, residual, &n, &floats, err) || (of.gated && check_gated(w, n_w, n, err))) return NULL;
    struct mra_node p = { .kind = MRA_KIND_LINEAR, .u.linear = of };
    p.u.linear.n_w = (uint8_t) n_w;
    p.u.linear.slots = (uint16_t) mra_slots(n_threads);
    const struct linear_layout layout = layout_of(
        &mra_kernels_get()->dense, ggml_nrows(x), values_of(x), floats, of.gated, p.u.linear.slots);
    const struct mra_sources of_scratch = { .fixed = { x } };
    struct mra_sources src = { .fixed = { x }, .optional = { [MRA_SRC_RESIDUAL] = residual } };
    src.fixed[1] = mra_node_new(ctx, GGML_TYPE_I8, (const int64_t[4]) { (int64_t) layout.bytes, 1, 1, 1 }, &of_scratch,
        (struct mra_node) { .kind = MRA_KIND_SCRATCH }, err);
    if (!src.fixed[1]) return NULL;
    for (int i = 0; i < n_w; i++) {
        src.fixed[2 + i] = w[i].w;
        src.optional[MRA_SRC_BIAS + i] = w[i].b;
    }
    if (of.gated) n /= 2;
    const int64_t ne[4] = { of.bytes ? byte_row(n) : n, x->ne[1], x->ne[2], x->ne[3] };
    return mra_node_new(ctx, of.bytes ? GGML_TYPE_I8 : GGML_TYPE_F32, ne, &src, p, err);
}

struct ggml_tensor * ggml_mra_linear(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_dense * w,
    int n_w, bool gelu, struct ggml_tensor * residual, int n_threads, struct mra_error * err) {
    return mra_linear_new(ctx, x, w, n_w, residual, (struct mra_linear_node) { .gelu = gelu }, n_threads, err);
}

struct ggml_tensor * ggml_mra_linear_glu(struct ggml_context * ctx, struct ggml_tensor * x, const struct mra_dense * w,
    int n_w, enum mra_glu act, int n_threads, struct mra_error * err) {
    const struct mra_linear_node of = { .gated = true, .act = (uint8_t) act };
    if (act < MRA_GLU_GELU || act > MRA_GLU_SILU) return mra_fail(err, MRA_ERR_ARG, "activation %d", act), NULL;
    return mra_linear_new(ctx, x, w, n_w, NULL, of, n_threads, err);
}

// sets the counters to 0, before every run of the linear node behind it
void mra_compute_scratch(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    (void) p;
    (void) nth;
    const struct ggml_tensor * x = dst->src[0];
    if (ith == 0) memset(dst->data, 0, counters_of(ggml_nrows(x)));
}

// rows [from, from + n) of a tensor
static struct mra_weights part_of(struct mra_weights w, int64_t from, int64_t n) {
    w.data += (size_t) from * w.stride;
    if (w.bias) w.bias += from;
    w.n = (int) n;
    return w;
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
    struct mra_weights w[MRA_LINEAR_WEIGHTS], gate;
    int n_w;
    int m, cols; // rows of x; columns of a strip
    int n_strip; // of all weights, those of the first come first
};

static void fill_job(struct linear_job * j, const struct ggml_tensor * dst, const struct mra_node * p) {
    const struct ggml_tensor *x = dst->src[0], *residual = mra_source(dst, p, MRA_SRC_RESIDUAL);
    const struct mra_linear_node * of = &p->u.linear;
    *j = (struct linear_job) { .n_w = of->n_w, .m = (int) ggml_nrows(x) };
    j->a = (struct mra_linear) { .x = x->data,
        .y = dst->data,
        .stride_x = x->nb[1],
        .stride_y = dst->nb[1],
        .k = (int) values_of(x),
        .gelu = of->gelu,
        .x_bytes = is_bytes(x),
        .y_bytes = of->bytes,
        .act = of->act,
        .stream = !of->bytes && ggml_nbytes(dst) >= LARGE_OUT };
    if (residual) {
        j->a.res = residual->data;
        j->a.stride_res = residual->nb[1];
    }
    int64_t first = 0;
    for (int i = 0; i < j->n_w; i++) {
        const struct ggml_tensor * t = dst->src[2 + i];
        j->w[i] = weights_of(t, mra_source(dst, p, MRA_SRC_BIAS + i), of->gated ? 0 : first);
        first += t->ne[1];
        *(is_float(t->type) ? &j->a.floats : &j->a.integers) = true;
    }
    if (!of->gated) return;
    j->gate = part_of(j->w[0], 0, first / 2);
    j->w[0] = of->n_w == 2 ? j->w[1] : part_of(j->w[0], first / 2, first / 2);
    j->n_w = 1;
    j->a.gate = &j->gate;
}

// The kernels in use, but for rows of bytes that they do not know: the graph was built for others, which have the same
// results as the reference but for rounding.
static const struct mra_dense_kernels * kernels_for(const struct mra_linear * a) {
    const struct mra_dense_kernels * kern = &mra_kernels_get()->dense;
    return kern->bytes || !(a->x_bytes || a->y_bytes) ? kern : &mra_kernels_ref.dense;
}

// cuts the columns into strips, so that nth threads have enough items
static void cut_strips(struct linear_job * j, int n_band, int nth) {
    int64_t n_cols = 0;
    for (int i = 0; i < j->n_w; i++) n_cols += j->w[i].n;
    const int64_t per_band = mra_blocks(ITEMS_PER_THREAD * nth, n_band);
    j->cols = (int) MRA_ROUND_UP(mra_blocks(n_cols, per_band), MRA_LINEAR_COLS);
    for (int i = 0; i < j->n_w; i++) j->n_strip += mra_div_up(j->w[i].n, j->cols);
}

// rows [i0, i1): the strips that no other thread has taken
static void run_band(const struct mra_dense_kernels * kern, const struct linear_job * j, atomic_int * counter, int i0,
    int i1, void * scratch) {
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
    struct linear_job j;
    fill_job(&j, dst, p);
    const struct mra_dense_kernels * kern = kernels_for(&j.a);
    const struct linear_layout l = layout_of(kern, j.m, j.a.k, j.a.floats, p->u.linear.gated, p->u.linear.slots);
    cut_strips(&j, l.n_band, nth);
    atomic_int * counters = dst->src[1]->data;
    char * scratch = (char *) MRA_ROUND_UP((uintptr_t) dst->src[1]->data + l.counters + ith * l.slot, ALIGN);
    for (int t = 0; t < l.n_band; t++) {
        const int b = (int) ((t + (int64_t) ith * l.n_band / nth) % l.n_band);
        run_band(kern, &j, counters + b, b * l.rows, mra_min((b + 1) * l.rows, j.m), scratch);
    }
}
