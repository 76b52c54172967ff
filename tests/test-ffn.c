// Gated activations in one node and the feed-forward part: every bit is that of the nodes they stand for; rows of bytes
// against the reference, threads and batches bit for bit, NaN.
#include "harness.h"

#include "../ggml-mra/src/node.h"

static const struct mra_kernels * tables[12];
static int n_tables;

#define F32  GGML_TYPE_F32
#define F16  GGML_TYPE_F16
#define Q8_0 GGML_TYPE_Q8_0
#define Q4_0 GGML_TYPE_Q4_0
#define Q4_K GGML_TYPE_Q4_K

enum gate { NO_GATE, APART, FUSED };
struct ffn_case {
    const char * name;
    int m, k, n, n_out;
    enum gate gate;
    enum mra_glu act;
    enum ggml_type up, down;
    bool bias, res;
};
static const struct ffn_case cases[] = {
    { "one row", 1, 64, 96, 33, NO_GATE, MRA_GLU_GELU, Q8_0, Q8_0, true, true },
    { "few rows q4_0", 5, 96, 160, 40, NO_GATE, MRA_GLU_GELU, Q8_0, Q4_0, true, true },
    { "few rows q4_K", 4, 256, 256, 64, NO_GATE, MRA_GLU_GELU, Q4_K, Q4_K, true, false },
    { "prime rows", 211, 128, 288, 96, NO_GATE, MRA_GLU_GELU, Q8_0, Q8_0, true, true },
    { "q4_K", 97, 256, 512, 70, NO_GATE, MRA_GLU_GELU, Q4_K, Q4_K, false, true },
    { "two bands", 1100, 64, 128, 64, NO_GATE, MRA_GLU_GELU, Q8_0, Q8_0, true, false },
    { "long rows", 310, 64, 3072, 33, NO_GATE, MRA_GLU_GELU, Q8_0, Q8_0, true, true },
    { "floats before bytes", 60, 160, 192, 64, NO_GATE, MRA_GLU_GELU, F16, Q8_0, true, true },
    { "floats behind", 60, 160, 192, 64, NO_GATE, MRA_GLU_GELU, Q8_0, F16, true, true },
    { "floats", 20, 96, 96, 40, NO_GATE, MRA_GLU_GELU, F32, F32, true, true },
    { "gelu gate", 50, 128, 320, 96, APART, MRA_GLU_GELU, Q8_0, Q8_0, true, true },
    { "tanh gate", 14, 96, 160, 40, APART, MRA_GLU_GELU_TANH, Q8_0, Q4_0, false, false },
    { "relu gate", 3, 64, 96, 40, APART, MRA_GLU_RELU, Q4_0, Q8_0, true, true },
    { "silu gate", 211, 96, 160, 33, APART, MRA_GLU_SILU, Q8_0, Q8_0, true, true },
    { "silu gate, one row", 1, 256, 96, 33, APART, MRA_GLU_SILU, Q4_K, Q8_0, true, true },
    { "fused", 70, 128, 288, 96, FUSED, MRA_GLU_GELU, Q8_0, Q8_0, true, true },
    { "fused, few rows", 6, 96, 96, 64, FUSED, MRA_GLU_SILU, Q8_0, Q8_0, true, false },
    { "fused, many rows", 1030, 32, 64, 32, FUSED, MRA_GLU_GELU_TANH, Q8_0, Q8_0, false, true },
    { "gate of floats", 40, 160, 96, 64, APART, MRA_GLU_SILU, F16, Q8_0, true, true },
    { "fused floats", 25, 160, 64, 40, FUSED, MRA_GLU_RELU, F32, F16, true, true },
};

struct data {
    float *x, *up[2], *b[2], *down, *b_down, *res;
};
static struct data data_of(const struct ffn_case * c) {
    struct data d = { .x = data_new(DATA_NORMAL, c->m, c->k, 1),
        .down = data_new(DATA_NORMAL, c->n_out, c->n, 6),
        .b_down = data_new(DATA_NORMAL, 1, c->n_out, 7),
        .res = data_new(DATA_NORMAL, c->m, c->n_out, 8) };
    for (int i = 0; i < 2; i++) {
        d.up[i] = data_new(DATA_NORMAL, c->n * (c->gate == FUSED ? 2 : 1), c->k, 2 + i);
        d.b[i] = data_new(DATA_NORMAL, 1, 2 * c->n, 4 + i);
        for (int64_t j = 0; j < (int64_t) c->n * c->k; j++) d.up[i][j] *= .1f * (1 + 3 * (j / 32 % 5 == 0));
    }
    return d;
}
static void data_free(struct data * d) {
    for (int i = 0; i < 2; i++) {
        free(d->up[i]);
        free(d->b[i]);
    }
    free(d->x);
    free(d->down);
    free(d->b_down);
    free(d->res);
}

static struct mra_dense dense(struct graph * g, enum ggml_type type, int k, int n, const float * w, const float * b) {
    struct ggml_tensor * t = graph_weights(g, type, k, n, w);
    return (struct mra_dense) { t, b ? graph_input(g, F32, n, 1, 1, 1, b) : NULL };
}

// FFN: one call; TWO: down behind ggml_mra_linear or ggml_mra_linear_glu; THREE: the gated activation by itself, too.
// INNER, INNER_TWO: what is before down, gate and all in one node or not
enum form { FFN, TWO, THREE, INNER, INNER_TWO };
static struct ggml_tensor * build(
    struct graph * g, const struct ffn_case * c, const struct data * d, int i0, int i1, enum form form) {
    struct mra_error err = { 0 };
    struct mra_ffn f = { .n_up = c->gate == APART ? 2 : 1, .gated = c->gate != NO_GATE, .act = c->act };
    for (int i = 0; i < f.n_up; i++)
        f.up[i] = dense(g, c->up, c->k, c->n * (c->gate == FUSED ? 2 : 1), d->up[i], c->bias ? d->b[i] : NULL);
    f.down = dense(g, c->down, c->n, c->n_out, d->down, c->bias ? d->b_down : NULL);
    struct ggml_tensor *x = graph_input(g, F32, c->k, i1 - i0, 1, 1, d->x + (int64_t) i0 * c->k), *y;
    struct ggml_tensor * res = c->res ? graph_input(g, F32, c->n_out, i1 - i0, 1, 1, d->res + (int64_t) i0 * c->n_out)
                                      : NULL;
    const bool apart = form == THREE || form == INNER_TWO;
    if (form == FFN) y = ggml_mra_ffn(g->ctx, x, &f, res, 3, &err);
    else if (!f.gated) y = ggml_mra_linear(g->ctx, x, f.up, 1, true, NULL, 3, &err);
    else if (!apart) y = ggml_mra_linear_glu(g->ctx, x, f.up, f.n_up, f.act, 3, &err);
    else y = ggml_mra_glu(g->ctx, ggml_mra_linear(g->ctx, x, f.up, f.n_up, false, NULL, 3, &err), f.act, &err);
    if (form == TWO || form == THREE) y = ggml_mra_linear(g->ctx, y, &f.down, 1, false, res, 3, &err);
    CHECK(y, "%s: %s", c->name, err.msg);
    return y;
}

// by: the kernels that compute what those in use have built, NULL: the same
static float * run(const struct ffn_case * c, const struct data * d, int i0, int i1, enum form form, int n_threads,
    const struct mra_kernels * by) {
    struct graph g = graph_new();
    const struct mra_kernels * in_use = mra_kernels_get();
    struct ggml_tensor * y = build(&g, c, d, i0, i1, form);
    if (by) mra_kernels_set(by);
    float * r = graph_run(&g, y, n_threads);
    mra_kernels_set(in_use);
    graph_free(&g);
    return r;
}

static bool same(const float * a, const float * b, int64_t n) { return memcmp(a, b, (size_t) n * sizeof(float)) == 0; }

// its rows are bytes exactly where the kernels read bytes and down is quantized
static void test_form(const struct ffn_case * c, const struct data * d, const struct mra_kernels * k) {
    struct graph g = graph_new();
    const struct ggml_tensor * y = build(&g, c, d, 0, c->m, FFN);
    const bool bytes = k->dense.bytes && ggml_is_quantized(c->down);
    CHECK(y && (y->src[0]->type == GGML_TYPE_I8) == bytes, "%s: %s: rows between are %s", c->name, k->name,
        y ? ggml_type_name(y->src[0]->type) : "");
    graph_free(&g);
}

static void test_equal(const struct ffn_case * c, const struct data * d, const struct mra_kernels * k) {
    const int64_t n = (int64_t) c->m * c->n_out;
    float * one = run(c, d, 0, c->m, FFN, 1, NULL);
    for (enum form form = TWO; form <= (c->gate ? THREE : TWO); form++) {
        float * apart = run(c, d, 0, c->m, form, 2, NULL);
        CHECK(same(one, apart, n), "%s: %s: other bits than %d nodes", c->name, k->name, form + 1);
        free(apart);
    }
    for (int threads = 2; threads <= 4; threads++) {
        float * b = run(c, d, 0, c->m, FFN, threads, NULL);
        CHECK(same(one, b, n), "%s: %s: %d threads give other bits than 1", c->name, k->name, threads);
        free(b);
    }
    for (int rows = 1; rows < 15 && rows < c->m; rows++) {
        float * part = run(c, d, c->m - rows, c->m, FFN, 1, NULL);
        CHECK(same(one + n - (int64_t) rows * c->n_out, part, (int64_t) rows * c->n_out),
            "%s: %s: the last %d rows alone give other bits", c->name, k->name, rows);
        free(part);
    }
    free(one);
}

// Against the reference: of what is before down, and of bytes, which the reference rounds and multiplies alike. Where
// `up` is rounded, too, it is not the bytes that make the difference.
static void test_reference(const struct ffn_case * c, const struct data * d, const struct mra_kernels * k) {
    const int64_t n = (int64_t) c->m * c->n_out, n_in = (int64_t) c->m * c->n;
    const bool floats = !ggml_is_quantized(c->up), tiles = strstr(k->name, "amx"), small = strchr(k->name, '-');
    const double tol = floats ? 3e-6 : tiles ? 6e-3 : small ? 2.5e-2 : 2e-3;
    float *a = run(c, d, 0, c->m, INNER, 2, NULL), *want = run(c, d, 0, c->m, INNER, 2, &mra_kernels_ref);
    const double e = relative_error(a, want, n_in);
    CHECK(e <= tol, "%s: %s: before down off by %.1e", c->name, k->name, e);
    free(a);
    free(want);
    a = run(c, d, 0, c->m, FFN, 2, NULL);
    want = run(c, d, 0, c->m, FFN, 2, &mra_kernels_ref);
    const double e2 = relative_error(a, want, n);
    if (k->dense.bytes && !tiles && floats) {
        float * base = run(c, d, 0, c->m, FFN, 2, &mra_kernels_base);
        CHECK(
            !ggml_is_quantized(c->down) || same(base, want, n), "%s: base does not leave rows of bytes alone", c->name);
        free(base);
    }
    CHECK(e2 <= (floats && k->dense.bytes            ? 5e-4
                        : ggml_is_quantized(c->down) ? 3e-2
                                                     : tol),
        "%s: %s: off by %.1e from the reference's bytes", c->name, k->name, e2);
    free(want);
    mra_kernels_set(&mra_kernels_ref);
    want = run(c, d, 0, c->m, FFN, 1, NULL);
    mra_kernels_set(k);
    const double e3 = relative_error(a, want, n);
    CHECK(e3 <= 3e-2, "%s: %s: off by %.1e from floats", c->name, k->name, e3);
    free(a);
    free(want);
}

// NaN in one value of x, and an infinity in another row: in these rows and nowhere else
static void test_nan(enum gate gate) {
    const struct ffn_case c = { "NaN", 15, 320, 96, 40, gate, MRA_GLU_GELU, Q8_0, Q8_0, false, false };
    struct data d = data_of(&c);
    d.x[7 * c.k + 300] = NAN;
    d.x[11 * c.k + 5] = INFINITY;
    for (int t = 0; t < n_tables; t++) {
        mra_kernels_set(tables[t]);
        for (int by_ref = 0; by_ref < 2; by_ref++) {
            float * y = run(&c, &d, 0, c.m, FFN, 1, by_ref ? &mra_kernels_ref : NULL);
            int wrong = 0;
            for (int i = 0; i < c.m; i++)
                for (int j = 0; j < c.n_out; j++) wrong += isfinite(y[i * c.n_out + j]) == (i == 7 || i == 11);
            CHECK(wrong == 0, "NaN, gate %d: %s: %d values", gate, tables[t]->name, wrong);
            free(y);
        }
    }
    data_free(&d);
}

int main(void) {
    n_tables = dense_tables(tables, 12);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct data d = data_of(&cases[i]);
        for (int t = 0; t < n_tables; t++) {
            mra_kernels_set(tables[t]);
            test_form(&cases[i], &d, tables[t]);
            if (tables[t] == &mra_kernels_ref) continue;
            test_equal(&cases[i], &d, tables[t]);
            test_reference(&cases[i], &d, tables[t]);
        }
        data_free(&d);
    }
    for (enum gate gate = NO_GATE; gate <= FUSED; gate++) test_nan(gate);
    return summary("test-ffn");
}
