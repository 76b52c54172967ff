// Dense layers and layer norm: every kernel table against the scalar reference, the reference against ggml's own
// product, threads and batches bit for bit.
#include "harness.h"

#include <sys/mman.h>
#include <unistd.h>

static const struct mra_kernels * tables[12];
static int n_tables;

struct linear_case {
    const char * name;
    int m, k, n[3];
    enum ggml_type type[3];
    bool bias, gelu, res;
    float outlier;
};
#define F32  GGML_TYPE_F32
#define F16  GGML_TYPE_F16
#define Q8_0 GGML_TYPE_Q8_0
static const struct linear_case cases[] = {
    { "one value", 1, 32, { 1 }, { F32 }, false, false, false, 0 },
    { "one row f16", 1, 768, { 33 }, { F16 }, true, false, false, 0 },
    { "one row q8", 1, 768, { 64 }, { Q8_0 }, true, false, false, 0 },
    { "short k", 7, 96, { 40 }, { Q8_0 }, true, true, false, 0 },
    { "odd blocks", 13, 352, { 70 }, { Q8_0 }, false, false, true, 0 },
    { "prime rows", 211, 768, { 96 }, { Q8_0 }, true, true, true, 0 },
    { "many rows q4_0", 400, 288, { 100 }, { GGML_TYPE_Q4_0 }, true, false, true, 0 },
    { "two bands", 1100, 544, { 40 }, { Q8_0 }, true, false, true, 0 },
    { "bands of long rows", 430, 4096, { 33 }, { Q8_0 }, true, true, false, 0 },
    { "f32 rows", 197, 160, { 129 }, { F32 }, true, true, true, 0 },
    { "f16 rows", 205, 512, { 31 }, { F16 }, true, true, false, 0 },
    { "q, k, v", 50, 384, { 96, 96, 64 }, { Q8_0, Q8_0, F16 }, true, false, false, 0 },
    { "three types", 30, 256, { 33, 1, 200 }, { F32, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K }, false, false, false, 0 },
    { "q5_0", 29, 320, { 65 }, { GGML_TYPE_Q5_0 }, true, false, false, 0 },
    { "q4_K long", 20, 1536, { 48 }, { GGML_TYPE_Q4_K }, true, false, false, 0 },
    { "long k", 10, 4096, { 32 }, { Q8_0 }, true, false, false, 0 },
    { "outlier", 60, 768, { 64 }, { Q8_0 }, false, false, false, 60 },
    { "few rows q8", 2, 1536, { 64 }, { Q8_0 }, true, false, true, 0 },
    { "few rows q4_0", 3, 544, { 45 }, { GGML_TYPE_Q4_0 }, true, false, false, 0 },
    { "few rows q4_K", 5, 768, { 95 }, { GGML_TYPE_Q4_K }, true, true, true, 0 },
    { "few rows f16", 9, 224, { 77 }, { F16 }, true, false, true, 0 },
    { "many rows q4_K", 311, 512, { 70 }, { GGML_TYPE_Q4_K }, true, false, true, 0 },
    { "more k than a tile takes", 20, 4384, { 40 }, { Q8_0 }, true, false, true, 0 },
    { "too large for caches", 1400, 32, { 3008 }, { Q8_0 }, true, false, true, 0 },
    { "zero x", 10, 256, { 64 }, { Q8_0 }, true, true, false, -1 },
};

struct data {
    float *x, *w[3], *b[3], *res;
    int n;
};

static struct data data_of(const struct linear_case * c) {
    struct data d = { .x = data_new(DATA_NORMAL, c->m, c->k, 1) };
    for (int i = 0; i < 3 && c->n[i]; i++) {
        d.w[i] = data_new(DATA_NORMAL, c->n[i], c->k, 2 + i);
        d.b[i] = data_new(DATA_NORMAL, 1, c->n[i], 5 + i);
        for (int64_t j = 0; j < (int64_t) c->n[i] * c->k; j++)
            d.w[i][j] *= 0.05f * (1 + 3 * (j / 32 % 5 == 0)); // blocks of different scales
        d.n += c->n[i];
    }
    d.res = data_new(DATA_NORMAL, c->m, d.n, 9);
    for (int i = 0; i < c->m; i++) {
        if (c->outlier > 0) d.x[(int64_t) i * c->k + 77] *= c->outlier;
        for (int j = 0; c->outlier < 0 && j < c->k; j++) d.x[(int64_t) i * c->k + j] = 0;
    }
    return d;
}

static void data_free(struct data * d) {
    for (int i = 0; i < 3; i++) {
        free(d->w[i]);
        free(d->b[i]);
    }
    free(d->x);
    free(d->res);
}

// rows [i0, i1) of the result; ggml: by ggml's own operators
static float * run(const struct linear_case * c, const struct data * d, int i0, int i1, int n_threads, bool by_ggml) {
    struct graph g = graph_new();
    struct mra_error err = { 0 };
    struct mra_dense w[3];
    int n_w = 0;
    struct ggml_tensor *x = graph_input(&g, F32, c->k, i1 - i0, 1, 1, d->x + (int64_t) i0 * c->k), *o = NULL;
    struct ggml_tensor * res = c->res ? graph_input(&g, F32, d->n, i1 - i0, 1, 1, d->res + (int64_t) i0 * d->n) : NULL;
    for (; n_w < 3 && c->n[n_w]; n_w++) {
        w[n_w] = (struct mra_dense) { graph_weights(&g, c->type[n_w], c->k, c->n[n_w], d->w[n_w]),
            c->bias ? graph_input(&g, F32, c->n[n_w], 1, 1, 1, d->b[n_w]) : NULL };
    }
    if (by_ggml) {
        for (int i = 0; i < n_w; i++) {
            struct ggml_tensor * t = ggml_mul_mat(g.ctx, w[i].w, x);
            if (w[i].b) t = ggml_add(g.ctx, t, w[i].b);
            o = o ? ggml_concat(g.ctx, o, t, 0) : t;
        }
        if (c->gelu) o = ggml_gelu_erf(g.ctx, o);
        if (res) o = ggml_add(g.ctx, o, res);
    } else {
        o = ggml_mra_linear(g.ctx, x, w, n_w, c->gelu, res, 3, &err);
        CHECK(o, "%s: %s", c->name, err.msg);
    }
    float * r = graph_run(&g, o, n_threads);
    graph_free(&g);
    return r;
}

static bool has_bytes(const struct mra_kernels * k) { return strchr(k->name, '-') && !strstr(k->name, "amx"); }
static bool has_tiles(const struct mra_kernels * k) { return strstr(k->name, "amx"); }

// what a table may be off by: floats; bfloat16; 12 bits x 13 bits; 8 bits x 8 bits
static double tolerance(const struct linear_case * c, const struct mra_kernels * k) {
    bool floats = true;
    for (int i = 0; i < 3 && c->n[i]; i++) floats = floats && (c->type[i] == F32 || c->type[i] == F16);
    return floats ? 2e-6 : has_tiles(k) ? 3e-3 : has_bytes(k) ? 1.2e-2 : c->outlier > 0 ? 2e-3 : 1e-3;
}

// and as a multiple of ggml's own error: bytes keep the integers of Q8_0, Q4_0 and Q4_K; others are rounded once more
static double ratio(const struct linear_case * c, const struct mra_kernels * k) {
    bool kept = true;
    for (int i = 0; i < 3 && c->n[i]; i++)
        kept = kept &&
            (c->type[i] == Q8_0 || c->type[i] == GGML_TYPE_Q4_0 || c->type[i] == GGML_TYPE_Q4_K || c->type[i] == F16);
    return has_tiles(k) ? 0.6 : !has_bytes(k) ? 0.25 : kept ? 1.05 : 1.5;
}

// tiles against their own reference, which rounds as they do
static void test_tiles(const struct linear_case * c, const struct data * d, const struct mra_kernels * k) {
    struct mra_kernels ref = mra_kernels_ref;
    const int64_t n_out = (int64_t) c->m * d->n;
    ref.dense = mra_dense_ref_bf16;
    mra_kernels_set(&ref);
    float * want = run(c, d, 0, c->m, 1, false);
    mra_kernels_set(k);
    float * a = run(c, d, 0, c->m, 2, false);
    const double e = relative_error(a, want, n_out);
    CHECK(e <= 2e-6, "%s: %s differs from the reference in bfloat16 by %.2e", c->name, k->name, e);
    const struct mra_kernels * plain = plain_tiles();
    if (plain && plain != k) {
        mra_kernels_set(plain);
        float * b = run(c, d, 0, c->m, 1, false);
        CHECK(
            memcmp(a, b, n_out * sizeof(float)) == 0, "%s: %s and tiles in plain C give other bits", c->name, k->name);
        free(b);
    }
    free(a);
    free(want);
}

static void test_linear(const struct linear_case * c) {
    struct data d = data_of(c);
    const int64_t n_out = (int64_t) c->m * d.n;
    mra_kernels_set(&mra_kernels_ref);
    float *ref = run(c, &d, 0, c->m, 1, false), *by = run(c, &d, 0, c->m, 2, true);
    const double ggml = relative_error(by, ref, n_out);
    CHECK(ggml < 2e-2 || c->outlier > 0, "%s: the reference is not what ggml computes: %.1e", c->name, ggml);
    for (int t = 1; t < n_tables; t++) {
        mra_kernels_set(tables[t]);
        float * a = run(c, &d, 0, c->m, 1, false);
        const double e = relative_error(a, ref, n_out), tol = tolerance(c, tables[t]);
        CHECK(e <= tol, "%s: %s differs from the reference by %.2e", c->name, tables[t]->name, e);
        CHECK(tol <= 2e-6 || c->outlier < 0 || e <= ratio(c, tables[t]) * ggml,
            "%s: %s has error %.2e, ggml's product %.2e", c->name, tables[t]->name, e, ggml);
        for (int threads = 2; threads <= 4; threads++) {
            float * b = run(c, &d, 0, c->m, threads, false);
            CHECK(memcmp(a, b, n_out * sizeof(float)) == 0, "%s: %s: %d threads give other bits than 1", c->name,
                tables[t]->name, threads);
            free(b);
        }
        const int i0 = c->m / 3, i1 = i0 + 1 + c->m / 5; // these rows alone
        float * part = run(c, &d, i0, i1, 2, false);
        CHECK(memcmp(a + (int64_t) i0 * d.n, part, (int64_t) (i1 - i0) * d.n * sizeof(float)) == 0,
            "%s: %s: rows depend on those beside them", c->name, tables[t]->name);
        free(part);
        for (int rows = 1; rows < 13 && rows < c->m; rows++) { // tiles of every height
            part = run(c, &d, c->m - rows, c->m, 1, false);
            CHECK(memcmp(a + (int64_t) (c->m - rows) * d.n, part, (int64_t) rows * d.n * sizeof(float)) == 0,
                "%s: %s: the last %d rows alone give other bits", c->name, tables[t]->name, rows);
            free(part);
        }
        free(a);
        if (has_tiles(tables[t])) test_tiles(c, &d, tables[t]);
    }
    free(ref);
    free(by);
    data_free(&d);
}

// x as a view with gaps between its rows, result against the same rows without gaps
static void test_strides(void) {
    const int k = 128, m = 20, n = 64;
    float *x = data_new(DATA_NORMAL, m, 3 * k, 1), *w = data_new(DATA_NORMAL, n, k, 2),
          *plain = malloc(sizeof(float) * m * k), *r[2];
    for (int i = 0; i < m; i++) memcpy(plain + i * k, x + i * 3 * k + k, sizeof(float) * k);
    for (int t = 0; t < 2; t++) {
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        struct ggml_tensor * in = t ? graph_input(&g, F32, k, m, 1, 1, plain) : graph_input(&g, F32, 3 * k, m, 1, 1, x);
        if (!t) in = ggml_view_2d(g.ctx, in, k, m, in->nb[1], k * sizeof(float));
        const struct mra_dense d = { graph_weights(&g, Q8_0, k, n, w), NULL };
        r[t] = graph_run(&g, ggml_mra_linear(g.ctx, in, &d, 1, false, NULL, 0, &err), 2);
        graph_free(&g);
    }
    CHECK(memcmp(r[0], r[1], sizeof(float) * m * n) == 0, "rows with gaps between them");
    free(x);
    free(w);
    free(plain);
    free(r[0]);
    free(r[1]);
}

// NaN in one row of x, or in one column of the weights: there and nowhere else
static void test_nan(enum ggml_type type, bool in_x) {
    const int k = 320, m = 15, n = 70, row = 7, col = 41;
    float *x = data_new(DATA_NORMAL, m, k, 1), *w = data_new(DATA_NORMAL, n, k, 2);
    if (in_x) x[row * k + 300] = NAN;
    for (int t = 0; t < n_tables; t++) {
        mra_kernels_set(tables[t]);
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        const struct mra_dense d = { graph_weights(&g, type, k, n, w), NULL };
        if (!in_x) { // a scale of Q8_0, a value of F16
            const uint16_t nan = 0x7e00;
            memcpy((char *) g.in[g.n_in - 1].data + col * ggml_row_size(type, k) + ggml_row_size(type, 288), &nan, 2);
        }
        float * y = graph_run(
            &g, ggml_mra_linear(g.ctx, graph_input(&g, F32, k, m, 1, 1, x), &d, 1, false, NULL, 1, &err), 1);
        int wrong = 0;
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) wrong += (isfinite(y[i * n + j]) != 0) == (in_x ? i == row : j == col);
        CHECK(
            wrong == 0, "NaN in %s, %s: %s: %d values", in_x ? "x" : "w", ggml_type_name(type), tables[t]->name, wrong);
        free(y);
        graph_free(&g);
    }
    free(x);
    free(w);
}

// weights that end where memory ends, as those of a mapped file may: nothing behind them is read
static void test_edge(enum ggml_type type, enum mra_weight_type kind) {
    const int k = 256, m = 5, n = 33;
    const size_t row = ggml_row_size(type, k), page = (size_t) sysconf(_SC_PAGESIZE),
                 room = MRA_ROUND_UP(row * n, page);
    char *mem = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = mem + room;
    CHECK(mem != MAP_FAILED && mprotect(end, page, PROT_NONE) == 0, "no guarded memory");
    float *x = data_new(DATA_NORMAL, m, k, 1), *f = data_new(DATA_NORMAL, n, k, 2), y[2][5 * 33];
    if (type == F16) ggml_fp32_to_fp16_row(f, (ggml_fp16_t *) (end - row * n), (int64_t) k * n);
    else ggml_quantize_chunk(type, f, end - row * n, 0, n, k, NULL);
    const struct mra_weights w = { end - row * n, row, row, kind, ggml_get_type_traits(type)->to_float, NULL, n, 0 };
    struct mra_linear a = { .x = (const char *) x,
        .stride_x = k * sizeof(float),
        .stride_y = n * sizeof(float),
        .k = k,
        .floats = type == F16,
        .integers = type != F16 };
    void * scratch = aligned_alloc(64, MRA_ROUND_UP(mra_linear_scratch(k, true, false), 64));
    for (int t = 0; t < n_tables; t++) {
        a.y = (char *) y[t > 0];
        tables[t]->dense.linear_x(&a, 0, m, scratch);
        tables[t]->dense.linear(&a, &w, 0, m, 0, n, scratch);
        CHECK(relative_error(y[t > 0], y[0], (int64_t) m * n) < 2e-2, "at the end of memory: %s", tables[t]->name);
    }
    free(x);
    free(f);
    free(scratch);
    munmap(mem, room + page);
}

static void test_norm(int n, int m) {
    float *x = data_new(DATA_NORMAL, m, n, 1), *w = data_new(DATA_NORMAL, 1, n, 2), *b = data_new(DATA_NORMAL, 1, n, 3);
    for (int64_t i = 0; i < (int64_t) n * m; i++) x[i] = 3 * x[i] + 100; // a mean far from 0
    float * ref = NULL;
    for (int t = -1; t < n_tables; t++) {
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        struct ggml_tensor *xt = graph_input(&g, F32, n, m, 1, 1, x), *wt = graph_input(&g, F32, n, 1, 1, 1, w),
                           *bt = graph_input(&g, F32, n, 1, 1, 1, b), *o;
        mra_kernels_set(t < 0 ? &mra_kernels_ref : tables[t]);
        o = t < 0 ? ggml_add(g.ctx, ggml_mul(g.ctx, ggml_norm(g.ctx, xt, 1e-5f), wt), bt)
                  : ggml_mra_norm(g.ctx, xt, wt, bt, 1e-5f, &err);
        CHECK(o, "norm: %s", err.msg);
        float * a = graph_run(&g, o, 2);
        const double e = ref ? max_error(a, ref, (int64_t) n * m) : 0;
        CHECK(e <= 2e-5, "norm of %d: %s differs from ggml's by %.1e", n, tables[t < 0 ? 0 : t]->name, e);
        if (ref) free(a);
        else ref = a;
        graph_free(&g);
    }
    free(x);
    free(w);
    free(b);
    free(ref);
}

int main(void) {
    n_tables = dense_tables(tables, 12);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) test_linear(&cases[i]);
    mra_kernels_set(NULL);
    test_strides();
    for (int in_x = 0; in_x < 2; in_x++) {
        test_nan(Q8_0, in_x);
        test_nan(F16, in_x);
    }
    test_edge(Q8_0, MRA_W_Q8_0);
    test_edge(GGML_TYPE_Q4_0, MRA_W_Q4_0);
    test_edge(GGML_TYPE_Q4_K, MRA_W_Q4_K);
    test_edge(GGML_TYPE_Q4_K, MRA_W_ANY);
    test_edge(F16, MRA_W_F16);
    mra_kernels_set(NULL);
    test_norm(768, 33);
    test_norm(1, 2);
    test_norm(37, 5);
    return summary("test-linear");
}
