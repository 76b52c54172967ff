// attn_error: sums over sampled rows against exact attention in double, for every frame, lengths, packed sequences,
// grouped heads and F16; and how near the estimate is to the error of all rows, on real heads and on made-up ones.
// usage: test-attn-error QKV.npy
#include "harness.h"
#include "../examples/common/npy.h"

enum { MAX_SEQ = 4 };

struct test_case {
    const char * frame;
    int n_seq, n[MAX_SEQ];
    bool packed;
    int n_head, n_head_kv, d, dv, rows;
    enum ggml_type kv;
    enum data_kind kind;
};

static const struct test_case cases[] = {
    { "columns", 1, { 300 }, true, 2, 2, 32, 32, 1 << 20, GGML_TYPE_F32, DATA_WALK },
    { "columns", 3, { 1, 97, 301 }, true, 4, 2, 64, 32, 1 << 20, GGML_TYPE_F32, DATA_NORMAL },
    { "sorted", 3, { 33, 300, 521 }, true, 2, 1, 32, 32, 1 << 20, GGML_TYPE_F32, DATA_NORMAL },
    { "sorted", 2, { 400, 0 }, false, 2, 2, 80, 24, 1 << 20, GGML_TYPE_F16, DATA_WALK },
    { "columns", 2, { 200, 31 }, false, 2, 1, 64, 64, 1 << 20, GGML_TYPE_F16, DATA_HUGE },
    { "mra2", 2, { 211, 64 }, false, 2, 2, 32, 32, 1 << 20, GGML_TYPE_F32, DATA_WALK },
    { "exact", 1, { 131 }, true, 2, 2, 32, 32, 1 << 20, GGML_TYPE_F32, DATA_NORMAL },
    // fewer rows than there are: whose sums are not those of all, but those of rows that are there
    { "columns", 2, { 300, 90 }, true, 3, 3, 32, 32, 40, GGML_TYPE_F32, DATA_WALK },
    { "sorted", 2, { 301, 600 }, true, 2, 2, 64, 64, 64, GGML_TYPE_F32, DATA_NORMAL },
};

// exact attention of query i of head h of sequence s; rows of q, k, v : [n_head][n][d] of that sequence
static void exact_row(const float * q, const float * k, const float * v, int n_k, int d, int dv, double * out) {
    double max = -INFINITY, sum = 0;
    double * p = malloc(sizeof(double) * (size_t) n_k);
    for (int j = 0; j < n_k; j++) {
        double s = 0;
        for (int c = 0; c < d; c++) s += (double) q[c] * k[(size_t) j * d + c];
        p[j] = s / sqrt((double) (float) d);
        max = fmax(max, p[j]);
    }
    for (int c = 0; c < dv; c++) out[c] = 0;
    for (int j = 0; j < n_k; j++) {
        const double w = exp(p[j] - max);
        sum += w;
        for (int c = 0; c < dv; c++) out[c] += w * v[(size_t) j * dv + c];
    }
    for (int c = 0; c < dv; c++) out[c] /= sum;
    free(p);
}

struct data {
    float *q, *k, *v;
    int n;              // tokens of a head: all sequences packed, or the longest
    int first[MAX_SEQ]; // row of a sequence's first token, of its batch's rows
};

static void to_f16(float * x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = ggml_fp16_to_fp32(ggml_fp32_to_fp16(x[i]));
}

static struct data data_of(const struct test_case * c) {
    struct data x = { 0 };
    for (int s = 0; s < c->n_seq; s++) {
        x.first[s] = c->packed ? x.n : 0;
        if (c->packed) x.n += c->n[s];
        else if (c->n[s] > x.n) x.n = c->n[s];
    }
    const int64_t batch = c->packed ? 1 : c->n_seq, rows = batch * x.n;
    x.q = data_new(c->kind, rows * c->n_head, c->d, 1);
    x.k = data_new(c->kind, rows * c->n_head_kv, c->d, 2);
    x.v = data_new(DATA_NORMAL, rows * c->n_head_kv, c->dv, 3);
    if (c->kv == GGML_TYPE_F16) {
        to_f16(x.k, (size_t) (rows * c->n_head_kv * c->d));
        to_f16(x.v, (size_t) (rows * c->n_head_kv * c->dv));
    }
    return x;
}

static void data_free(struct data * x) {
    free(x->q);
    free(x->k);
    free(x->v);
}

// what both nodes read: lengths or starts
static struct ggml_tensor * lengths_of(struct graph * g, const struct test_case * c, const struct data * x) {
    int32_t at[MAX_SEQ + 1];
    for (int s = 0; s < c->n_seq; s++) at[s] = c->packed ? x->first[s] : c->n[s];
    at[c->n_seq] = x->n;
    return graph_input(g, GGML_TYPE_I32, c->n_seq + (c->packed ? 1 : 0), 1, 1, 1, at);
}

static struct ggml_tensor * attention(struct graph * g, const struct test_case * c, const struct data * x, bool error,
    int rows, struct ggml_tensor ** o) {
    struct mra_error err = { 0 };
    const int batch = c->packed ? 1 : c->n_seq;
    struct ggml_tensor *q = graph_heads(g, GGML_TYPE_F32, c->d, x->n, c->n_head, batch, x->q, 2),
                       *k = graph_heads(g, c->kv, c->d, x->n, c->n_head_kv, batch, x->k, 1),
                       *v = graph_heads(g, c->kv, c->dv, x->n, c->n_head_kv, batch, x->v, 1),
                       *lengths = lengths_of(g, c, x);
    struct mra_attn_params p = mra_attn_params_default();
    CHECK(mra_attn_params_parse(&p, c->frame, &err) == MRA_OK, "%s: %s", c->frame, err.msg);
    *o = c->packed ? ggml_mra_attn_packed(g->ctx, q, k, v, lengths, x->n, &p, &err)
                   : ggml_mra_attn(g->ctx, q, k, v, lengths, &p, &err);
    CHECK(*o, "%s: %s", c->frame, err.msg);
    if (!*o || !error) return *o;
    struct ggml_tensor * e = c->packed
        ? ggml_mra_attn_error_packed(g->ctx, q, k, v, *o, lengths, x->n, rows, 0, 0, &err)
        : ggml_mra_attn_error(g->ctx, q, k, v, *o, lengths, rows, 0, 0, &err);
    CHECK(e, "%s: %s", c->frame, err.msg);
    return e;
}

static bool near(double a, double b, double tol) { return fabs(a - b) <= tol * fabs(b) + 1e-9; }

// the sums of all rows in double, from what the attention node gave -> want[s][h][MRA_ATTN_ERROR_SUMS]
static void all_rows(const struct test_case * c, const struct data * x, const float * out, double * want) {
    double exact[MRA_MAX_DIM];
    for (int s = 0; s < c->n_seq; s++)
        for (int h = 0; h < c->n_head; h++, want += MRA_ATTN_ERROR_SUMS) {
            const int kv = h / (c->n_head / c->n_head_kv), batch = c->packed ? 0 : s, first = x->first[s];
            const size_t hq = ((size_t) batch * c->n_head + h) * x->n + first,
                         hk = ((size_t) batch * c->n_head_kv + kv) * x->n + first;
            memset(want, 0, MRA_ATTN_ERROR_SUMS * sizeof(double));
            want[MRA_ATTN_ERROR_ALL] = want[MRA_ATTN_ERROR_ROWS] = c->n[s];
            for (int i = 0; i < c->n[s]; i++) {
                exact_row(x->q + (hq + i) * c->d, x->k + hk * c->d, x->v + hk * c->dv, c->n[s], c->d, c->dv, exact);
                const float * o = out + (((size_t) batch * x->n + first + i) * c->n_head + h) * c->dv;
                double e = 0, r = 0;
                for (int t = 0; t < c->dv; t++) {
                    e += (exact[t] - o[t]) * (exact[t] - o[t]);
                    r += exact[t] * exact[t];
                }
                const double add[] = { 0, 0, e, r, e * e, e * r, r * r };
                for (int t = 2; t < MRA_ATTN_ERROR_SUMS; t++) want[t] += add[t];
            }
        }
}

static void check_head(const struct test_case * c, const char * level, const double * got, const double * want) {
    const int n = (int) want[MRA_ATTN_ERROR_ALL];
    CHECK(got[MRA_ATTN_ERROR_ALL] == n && got[MRA_ATTN_ERROR_ROWS] == (n < c->rows ? n : c->rows),
        "%s %s: %g of %g rows", level, c->frame, got[MRA_ATTN_ERROR_ROWS], got[MRA_ATTN_ERROR_ALL]);
    if (n <= c->rows) {
        const bool rounding = want[MRA_ATTN_ERROR_E] < 1e-7 * want[MRA_ATTN_ERROR_R]; // exact but for that
        for (int t = MRA_ATTN_ERROR_E; t < MRA_ATTN_ERROR_SUMS; t++) {
            const bool has_e = t != MRA_ATTN_ERROR_R && t != MRA_ATTN_ERROR_RR;
            if (rounding && has_e)
                CHECK(got[t] <= 1e-6 * want[MRA_ATTN_ERROR_RR] + 1e-9, "%s %s: %g", level, c->frame, got[t]);
            else CHECK(near(got[t], want[t], 2e-3), "%s %s: sum %d is %g, not %g", level, c->frame, t, got[t], want[t]);
        }
        const struct mra_attn_error e = mra_attn_error_of(got);
        CHECK(e.low == e.error && e.high == e.error, "%s: all rows: %g to %g", c->frame, e.low, e.high);
        return;
    }
    const double share = (double) c->rows / n, estimate = sqrt(got[MRA_ATTN_ERROR_E] / got[MRA_ATTN_ERROR_R]),
                 truth = sqrt(want[MRA_ATTN_ERROR_E] / want[MRA_ATTN_ERROR_R]);
    CHECK(got[MRA_ATTN_ERROR_R] < want[MRA_ATTN_ERROR_R] &&
            near(got[MRA_ATTN_ERROR_R], share * want[MRA_ATTN_ERROR_R], .5),
        "%s %s: r %g of %g", level, c->frame, got[MRA_ATTN_ERROR_R], want[MRA_ATTN_ERROR_R]);
    CHECK(near(estimate, truth, .35), "%s %s: estimate %g, error %g", level, c->frame, estimate, truth);
}

static void test_case_on(const struct test_case * c, const struct mra_kernels * level) {
    mra_kernels_set(level);
    struct data x = data_of(c);
    struct graph g = graph_new();
    struct ggml_tensor * o;
    float * out = graph_run(&g, attention(&g, c, &x, false, 0, &o), 2);
    const size_t n = (size_t) c->n_seq * c->n_head * MRA_ATTN_ERROR_SUMS;
    double *want = malloc(n * sizeof(double)), *first = NULL;
    all_rows(c, &x, out, want);
    for (int n_threads = 1; n_threads <= (level == mra_kernels_by_name("ref") ? 1 : 2); n_threads++) {
        struct graph again = graph_new();
        double * got = graph_run(&again, attention(&again, c, &x, true, c->rows, &o), n_threads);
        for (int i = 0; n_threads == 1 && i < c->n_seq * c->n_head; i++)
            check_head(c, level->name, got + i * MRA_ATTN_ERROR_SUMS, want + i * MRA_ATTN_ERROR_SUMS);
        CHECK(!first || memcmp(first, got, n * sizeof(double)) == 0, "%s: %d threads", c->frame, n_threads);
        if (first) free(got);
        else first = got;
        graph_free(&again);
    }
    free(first);
    free(want);
    free(out);
    graph_free(&g);
    data_free(&x);
}

// ---- how near the estimate is ----

struct tally {
    int heads, near, inside;
};

// heads of x of n tokens: the estimate of `rows` rows beside the error of all
static void compare(
    const char * frame, float budget, const struct data * x, int n_head, int d, int rows, struct tally * t) {
    double * sums[2];
    for (int i = 0; i < 2; i++) {
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        struct ggml_tensor *q = graph_heads(&g, GGML_TYPE_F32, d, x->n, n_head, 1, x->q, 0),
                           *k = graph_heads(&g, GGML_TYPE_F32, d, x->n, n_head, 1, x->k, 0),
                           *v = graph_heads(&g, GGML_TYPE_F32, d, x->n, n_head, 1, x->v, 0);
        struct mra_attn_params p = mra_attn_params_default();
        p.budget = budget;
        mra_attn_params_parse(&p, frame, NULL);
        struct ggml_tensor * o = ggml_mra_attn(g.ctx, q, k, v, NULL, &p, &err);
        sums[i] = graph_run(&g, ggml_mra_attn_error(g.ctx, q, k, v, o, NULL, i ? 1 << 20 : rows, 0, 0, &err), 2);
        graph_free(&g);
    }
    for (int h = 0; h < n_head; h++) {
        const struct mra_attn_error e = mra_attn_error_of(sums[0] + h * MRA_ATTN_ERROR_SUMS),
                                    truth = mra_attn_error_of(sums[1] + h * MRA_ATTN_ERROR_SUMS);
        t->heads++;
        t->near += fabs(e.error - truth.error) <= .2 * truth.error;
        t->inside += e.low <= truth.error && truth.error <= e.high;
    }
    free(sums[0]);
    free(sums[1]);
}

static void test_real(const char * path) {
    struct mra_error err;
    struct npy a = { 0 };
    CHECK(npy_read(&a, path, &err) == MRA_OK, "%s", err.msg);
    if (a.n != 3 * 4 * 512 * 32) return;
    const int n_head = 4, n = 512, d = 32;
    const size_t one = (size_t) n_head * n * d;
    struct data x = { .q = (float *) a.data, .k = (float *) a.data + one, .v = (float *) a.data + 2 * one, .n = n };
    struct tally t = { 0 };
    static const char * const frames[] = { "columns", "sorted", "mra2", "16,4,1" };
    for (int f = 0; f < 4; f++)
        for (int b = 2; b <= 8; b *= 2) compare(frames[f], 1.0f / (float) b, &x, n_head, d, 128, &t);
    printf(
        "real heads, 128 of %d rows: %d of %d within 20 %%, %d inside their interval\n", n, t.near, t.heads, t.inside);
    CHECK(t.near >= .95 * t.heads, "only %d of %d heads within 20 %%", t.near, t.heads);
    CHECK(t.inside >= .9 * t.heads, "only %d of %d inside", t.inside, t.heads);
    npy_free(&a);
}

// queries of which one in 50 has scores ten times as large as the others: its rows carry most of the error
static void test_adversarial(void) {
    enum { N = 1024, D = 32, N_HEAD = 8 };
    struct data x = { .q = data_new(DATA_NORMAL, N * N_HEAD, D, 5),
        .k = data_new(DATA_NORMAL, N * N_HEAD, D, 6),
        .v = data_new(DATA_NORMAL, N * N_HEAD, D, 7),
        .n = N };
    for (int i = 0; i < N * N_HEAD; i++)
        for (int c = 0; c < D; c++) x.q[i * D + c] *= i % 50 == 7 ? 5 : .5f;
    struct tally t = { 0 };
    compare("columns", .25f, &x, N_HEAD, D, 256, &t);
    compare("sorted", .25f, &x, N_HEAD, D, 256, &t);
    printf("one row in 50 far off, 256 of %d rows: %d of %d within 20 %%, %d inside their interval\n", N, t.near,
        t.heads, t.inside);
    CHECK(t.inside >= .6 * t.heads, "only %d of %d inside", t.inside, t.heads);
    data_free(&x);
}

static void test_refused(void) {
    struct graph g = graph_new();
    struct mra_error err = { 0 };
    float x[32 * 4 * 2] = { 0 };
    struct ggml_tensor *q = graph_heads(&g, GGML_TYPE_F32, 32, 4, 2, 1, x, 0),
                       *o = graph_input(&g, GGML_TYPE_F32, 32, 2, 4, 1, x),
                       *wrong = graph_input(&g, GGML_TYPE_F32, 32, 4, 2, 1, x);
    CHECK(!ggml_mra_attn_error(g.ctx, q, q, q, wrong, NULL, 4, 0, 0, &err) && strstr(err.msg, "out"), "%s", err.msg);
    CHECK(!ggml_mra_attn_error(g.ctx, q, q, q, NULL, NULL, 4, 0, 0, &err) && strstr(err.msg, "out"), "%s", err.msg);
    CHECK(!ggml_mra_attn_error(g.ctx, q, q, q, o, NULL, 0, 0, 0, &err) && strstr(err.msg, "n_rows"), "%s", err.msg);
    CHECK(!ggml_mra_attn_error(g.ctx, q, q, q, o, NULL, 4, NAN, 0, &err) && strstr(err.msg, "scale"), "%s", err.msg);
    CHECK(!ggml_mra_attn_error_packed(g.ctx, q, q, q, o, NULL, 4, 4, 0, 0, &err), "no starts");
    CHECK(ggml_mra_attn_error(g.ctx, q, q, q, o, NULL, 4, 0, 0, &err) != NULL, "%s", err.msg);
    graph_free(&g);
}

int main(int argc, char ** argv) {
    const struct mra_kernels * tables[16];
    const int n = kernel_tables(tables, 16);
    for (int i = 0; i < n; i++)
        for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) test_case_on(&cases[c], tables[i]);
    kernels_best();
    test_refused();
    if (argc > 1) test_real(argv[1]);
    test_adversarial();
    return summary("test-attn-error");
}
