// attn_levels: the result of an attention from its levels alone, in double: a pair of level l has the weight
//     e^{scale q~.k~}    q~, k~: means over the cell of that level, the pair itself where it is exact,
// and where only exact pairs count (finest_only, also the sorted frame), softmax over them.
#include "harness.h"

struct test_case {
    const char * frame;
    double budget;
    bool finest_only;
    int n_q, n_k, length, n_head, n_head_kv, d; // length: valid ones, 0: all
    enum ggml_type kv;
    enum data_kind kind;
    int first_n, diag_n;
};

static const struct test_case cases[] = {
    { "exact", 1, false, 70, 70, 0, 2, 1, 32, GGML_TYPE_F32, DATA_NORMAL, 0, 0 },
    { "mra2", .25, false, 256, 256, 0, 2, 2, 32, GGML_TYPE_F32, DATA_WALK, 0, 0 },
    { "mra2", .25, false, 300, 300, 211, 2, 1, 64, GGML_TYPE_F32, DATA_WALK, 1, 1 },
    { "mra2s", .3, true, 200, 200, 0, 2, 2, 32, GGML_TYPE_F16, DATA_WALK, 0, 0 },
    { "16,4,1", .2, false, 150, 150, 131, 2, 2, 32, GGML_TYPE_F32, DATA_WALK, 0, 0 },
    { "64,16,4,1", .2, false, 301, 301, 0, 1, 1, 32, GGML_TYPE_F32, DATA_WALK, 0, 0 },
    { "columns", .125, false, 301, 301, 0, 2, 1, 32, GGML_TYPE_F32, DATA_WALK, 0, 0 },
    { "columns", .25, false, 256, 256, 97, 2, 2, 80, GGML_TYPE_F16, DATA_WALK, 0, 0 },
    { "columns", .125, false, 500, 500, 0, 1, 1, 32, GGML_TYPE_F32, DATA_NORMAL, 1, 3 },
    { "columns", .02, false, 400, 400, 0, 1, 1, 64, GGML_TYPE_F32, DATA_WALK, 0, 0 },
    { "columns", .125, true, 301, 301, 0, 2, 2, 32, GGML_TYPE_F32, DATA_NORMAL, 0, 0 },
    { "sorted", .25, true, 400, 400, 0, 2, 1, 32, GGML_TYPE_F32, DATA_NORMAL, 0, 0 },
    { "sorted", .1, true, 700, 700, 521, 2, 2, 64, GGML_TYPE_F16, DATA_WALK, 0, 0 },
    { "sorted", .25, true, 2100, 2100, 0, 1, 1, 32, GGML_TYPE_F32, DATA_WALK, 0, 0 }, // a block with all keys
    { "sorted", .25, false, 200, 200, 0, 1, 1, 32, GGML_TYPE_F32, DATA_WALK, 0, 0 },  // exact
};

// mean over the block of `size` rows that holds row i, of n valid ones
static void block_mean(const float * x, int i, int size, int n, int d, double * to) {
    const int first = i / size * size, end = first + size < n ? first + size : n;
    for (int c = 0; c < d; c++) {
        to[c] = 0;
        for (int t = first; t < end; t++) to[c] += x[(int64_t) t * d + c] / (double) (end - first);
    }
}

// queries and keys of a cell of this level
static void shape_of(const struct mra_attn_params * p, int level, int n_k, int * h, int * g) {
    const int wide = p->budget < 1.0f / 32 || n_k >= 2048 ? 32 : 16;
    *h = level == MRA_LEVEL_EXACT ? 1 : p->frame == MRA_FRAME_SQUARE ? p->sizes[level] : 16;
    *g = level == MRA_LEVEL_EXACT ? 1 : p->frame == MRA_FRAME_SQUARE ? p->sizes[level] : level ? 1 : wide;
}

// row i of q, k, v of one head from its levels -> out [d]
static void row_from_levels(const struct mra_attn_params * p, const float * q, const float * k, const float * v, int i,
    int n, int d, const int8_t * levels, double * out) {
    double * w = malloc(sizeof(double) * (size_t) n);
    double qm[MRA_MAX_DIM], km[MRA_MAX_DIM], max = -INFINITY, sum = 0;
    for (int j = 0; j < n; j++) {
        int h, g;
        w[j] = -INFINITY;
        if (p->finest_only && levels[j] != MRA_LEVEL_EXACT) continue;
        shape_of(p, levels[j], n, &h, &g);
        block_mean(q, i, h, n, d, qm);
        block_mean(k, j, g, n, d, km);
        w[j] = 0;
        for (int c = 0; c < d; c++) w[j] += qm[c] * km[c] / sqrt(d);
        max = fmax(max, w[j]);
    }
    for (int c = 0; c < d; c++) out[c] = 0;
    for (int j = 0; j < n; j++) {
        const double e = w[j] == -INFINITY ? 0 : exp(w[j] - max);
        sum += e;
        for (int c = 0; c < d; c++) out[c] += e * v[(int64_t) j * d + c];
    }
    for (int c = 0; c < d && sum > 0; c++) out[c] /= sum;
    free(w);
}

static struct mra_attn_params params_of(const struct test_case * t) {
    struct mra_attn_params p = mra_attn_params_default();
    struct mra_error err;
    p.budget = (float) t->budget;
    CHECK(mra_attn_params_parse(&p, t->frame, &err) == MRA_OK, "%s", err.msg);
    p.finest_only = t->finest_only;
    p.first_n = t->first_n;
    p.diag_n = t->diag_n;
    p.n_threads = 2;
    return p;
}

// rows 0, step, ... of the result against what their levels say; *n_exact: pairs
static double worst_row(const struct test_case * t, const struct mra_attn_params * p, const float * const x[3],
    const float * out, const int8_t * levels, int step, int64_t * n_exact) {
    const int n = t->length ? t->length : t->n_k, n_rows = (t->n_q + step - 1) / step;
    double worst = 0, want[MRA_MAX_DIM];
    *n_exact = 0;
    for (int h = 0; h < t->n_head; h++)
        for (int r = 0; r < n_rows; r++) {
            const int8_t * row = levels + ((int64_t) h * n_rows + r) * t->n_k;
            const int i = r * step, kv = h / (t->n_head / t->n_head_kv);
            for (int j = 0; j < t->n_k; j++) {
                CHECK(row[j] == 0 || (i < n && j < n), "%s: padding has a level", t->frame);
                *n_exact += row[j] == MRA_LEVEL_EXACT;
            }
            if (i >= n) continue;
            row_from_levels(p, x[0] + (int64_t) h * t->n_q * t->d, x[1] + (int64_t) kv * t->n_k * t->d,
                x[2] + (int64_t) kv * t->n_k * t->d, i, n, t->d, row, want);
            for (int c = 0; c < t->d; c++) {
                const double e = fabs(out[((int64_t) i * t->n_head + h) * t->d + c] - want[c]);
                worst = e <= worst ? worst : e;
            }
        }
    return worst;
}

static void run(const struct test_case * t, int step) {
    const struct mra_attn_params p = params_of(t);
    struct graph g = graph_new();
    struct mra_error err = { 0 };
    float * x[3];
    struct ggml_tensor * in[3];
    for (int i = 0; i < 3; i++) {
        const int n_head = i ? t->n_head_kv : t->n_head;
        const enum ggml_type type = i ? t->kv : GGML_TYPE_F32;
        x[i] = data_new(t->kind, (int64_t) n_head * t->n_k, t->d, 7 + (uint64_t) i);
        for (int64_t k = 0; k < (int64_t) n_head * t->n_k * t->d && type == GGML_TYPE_F16; k++)
            x[i][k] = ggml_fp16_to_fp32(ggml_fp32_to_fp16(x[i][k]));
        in[i] = graph_heads(&g, type, t->d, t->n_k, n_head, 1, x[i], 1);
    }
    const int32_t length = t->length;
    struct ggml_tensor * lengths = length ? graph_input(&g, GGML_TYPE_I32, 1, 1, 1, 1, &length) : NULL;
    struct ggml_tensor * o = ggml_mra_attn(g.ctx, in[0], in[1], in[2], lengths, &p, &err);
    struct ggml_tensor * l = o ? ggml_mra_attn_levels(g.ctx, o, step, &err) : NULL;
    CHECK(l != NULL, "%s: %s", t->frame, err.msg);
    if (l) {
        CHECK(l->ne[0] == t->n_k && l->ne[1] == (t->n_q + step - 1) / step && l->ne[2] == t->n_head, "shape");
        float * out = graph_run(&g, o, 2);
        int8_t * levels = graph_run(&g, l, 3);
        int64_t n_exact;
        const double e = worst_row(t, &p, (const float * const *) x, out, levels, step, &n_exact);
        CHECK(e < 2e-4, "%s, budget %g, n %d, step %d: %.1e off", t->frame, t->budget, t->n_q, step, e);
        CHECK(n_exact > 0, "%s: no pair is exact", t->frame);
        int8_t * again = graph_run(&g, l, 1);
        CHECK(memcmp(levels, again, ggml_nbytes(l)) == 0, "%s: levels depend on the threads", t->frame);
        free(out);
        free(levels);
        free(again);
    }
    for (int i = 0; i < 3; i++) free(x[i]);
    graph_free(&g);
}

static void refused(void) {
    struct graph g = graph_new();
    struct mra_error err = { 0 };
    float * x = data_new(DATA_NORMAL, 64, 32, 1);
    const struct mra_attn_params p = mra_attn_params_exact();
    const int32_t starts[2] = { 0, 64 };
    struct ggml_tensor *q = graph_heads(&g, GGML_TYPE_F32, 32, 64, 1, 1, x, 0),
                       *s = graph_input(&g, GGML_TYPE_I32, 2, 1, 1, 1, starts),
                       *o = ggml_mra_attn(g.ctx, q, q, q, NULL, &p, NULL),
                       *packed = ggml_mra_attn_packed(g.ctx, q, q, q, s, 64, &p, NULL);
    CHECK(!ggml_mra_attn_levels(g.ctx, NULL, 1, &err) && err.code == MRA_ERR_ARG, "levels of nothing");
    CHECK(!ggml_mra_attn_levels(g.ctx, q, 1, &err) && err.code == MRA_ERR_ARG, "levels of q");
    CHECK(!ggml_mra_attn_levels(g.ctx, o, 0, &err) && err.code == MRA_ERR_ARG, "step 0");
    CHECK(!ggml_mra_attn_levels(g.ctx, packed, 1, &err) && err.code == MRA_ERR_UNSUPPORTED, "levels of packed ones");
    free(x);
    graph_free(&g);
}

int main(void) {
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) run(&cases[i], i % 3 ? 7 : 1 + (cases[i].n_q > 400));
    refused();
    return summary("attn-levels");
}
