// Each operator on every kernel table against the scalar reference, and against the same thing said with ggml's own
// ops.
#include "harness.h"

static const struct mra_kernels * tables[8];
static int n_tables;

struct op_case {
    const char * name;
    enum data_kind kind;
    int n, d, n_head, n_batch, block, layout;
    enum ggml_type type;
    int len[2];
};
static const struct op_case pool_cases[] = {
    { "1", DATA_NORMAL, 1, 64, 1, 1, 32, 0, GGML_TYPE_F32, { 0 } },
    { "31", DATA_NORMAL, 31, 64, 2, 1, 32, 0, GGML_TYPE_F32, { 0 } },
    { "32", DATA_NORMAL, 32, 32, 2, 1, 32, 1, GGML_TYPE_F32, { 0 } },
    { "33", DATA_NORMAL, 33, 80, 2, 1, 32, 1, GGML_TYPE_F16, { 0 } },
    { "prime", DATA_NORMAL, 127, 128, 3, 2, 16, 1, GGML_TYPE_F32, { 127, 50 } },
    { "all padded", DATA_NORMAL, 64, 16, 1, 2, 16, 0, GGML_TYPE_F32, { 0, 64 } },
    { "d=8", DATA_NORMAL, 40, 8, 1, 1, 4, 2, GGML_TYPE_F16, { 0 } },
    { "d=520", DATA_NORMAL, 19, 520, 1, 1, 8, 0, GGML_TYPE_F32, { 0 } },
    { "huge", DATA_HUGE, 64, 24, 1, 1, 32, 0, GGML_TYPE_F32, { 0 } },
};

static struct ggml_tensor * lengths_of(struct graph * g, const struct op_case * c) {
    return c->len[0] || c->len[1] ? graph_input(g, GGML_TYPE_I32, c->n_batch, 1, 1, 1, c->len) : NULL;
}
static int valid(const struct op_case * c, int b) { return c->len[0] || c->len[1] ? c->len[b] : c->n; }

// mean by ggml: the averaging matrix times x
static float * pool_by_mul_mat(const struct op_case * c, const float * x) {
    const int nb = (c->n + c->block - 1) / c->block;
    float * m = calloc((size_t) c->n * nb * c->n_batch, sizeof(float));
    for (int b = 0; b < c->n_batch; b++)
        for (int t = 0; t < valid(c, b); t++) {
            const int y = t / c->block, end = (y + 1) * c->block < valid(c, b) ? (y + 1) * c->block : valid(c, b);
            m[((int64_t) b * nb + y) * c->n + t] = 1.0f / (end - y * c->block);
        }
    struct graph g = graph_new();
    struct ggml_tensor * xt = ggml_cont(g.ctx,
        ggml_permute(g.ctx, graph_heads(&g, GGML_TYPE_F32, c->d, c->n, c->n_head, c->n_batch, x, 0), 1, 0, 2, 3));
    struct ggml_tensor * mt = ggml_repeat_4d(
        g.ctx, graph_input(&g, GGML_TYPE_F32, c->n, nb, 1, c->n_batch, m), c->n, nb, c->n_head, c->n_batch);
    float * r = graph_run(&g, ggml_mul_mat(g.ctx, xt, mt), 2); // [d, nb, head, batch]
    graph_free(&g);
    free(m);
    return r;
}

static void test_pool(const struct op_case * c) {
    const int64_t n_out = (int64_t) c->d * ((c->n + c->block - 1) / c->block) * c->n_head * c->n_batch;
    float * x = data_new(c->kind, (int64_t) c->n * c->n_head * c->n_batch, c->d, 7);
    for (int kind = 0; kind < 3; kind++) {
        float * ref = NULL;
        for (int t = 0; t < n_tables; t++) {
            mra_kernels_set(tables[t]);
            struct graph g = graph_new();
            struct mra_error err = { 0 };
            struct ggml_tensor * o = ggml_mra_pool(g.ctx,
                graph_heads(&g, c->type, c->d, c->n, c->n_head, c->n_batch, x, c->layout), lengths_of(&g, c), c->block,
                kind, true, &err);
            CHECK(o, "pool %s: %s", c->name, err.msg);
            float * a = graph_run(&g, o, 1 + t);
            if (!ref) ref = a;
            const double e = max_error(a, ref, n_out);
            CHECK(e <= (kind ? 0 : 2e-6), "pool %s kind %d: %s differs from the reference by %.1e", c->name, kind,
                tables[t]->name, e);
            if (a != ref) free(a);
            graph_free(&g);
        }
        if (kind == 0) {
            float * by = pool_by_mul_mat(c, x);
            const double e = max_error(ref, by, n_out);
            CHECK(e <= (c->type == GGML_TYPE_F16 ? 2e-3 : 1e-5), "pool %s: differs from mul_mat by %.1e", c->name, e);
            free(by);
        }
        free(ref);
    }
    free(x);
}

// log mu == mul_mat; the bound == the sum over channels of max, and it bounds every key's score
static void test_score(const struct op_case * c) {
    const int h = c->block, nb = (c->n + h - 1) / h, nh = c->n_head;
    const struct mra_level l = { c->n, c->n, h, h, 0, 0 };
    const int64_t n_out = (int64_t) nb * nb * nh * c->n_batch;
    float *q = data_new(c->kind, (int64_t) c->n * nh * c->n_batch, c->d, 8),
          *k = data_new(c->kind, (int64_t) c->n * c->n_batch, c->d, 9), *ref[2] = { 0 };
    for (int t = 0; t < n_tables; t++)
        for (int bound = 0; bound < 2; bound++) {
            mra_kernels_set(tables[t]);
            struct graph g = graph_new();
            struct mra_error err = { 0 };
            struct ggml_tensor * len = lengths_of(&g, c);
            struct ggml_tensor * kt = graph_heads(&g, c->type, c->d, c->n, 1, c->n_batch, k, c->layout);
            struct ggml_tensor * qp = ggml_mra_pool(g.ctx,
                graph_heads(&g, GGML_TYPE_F32, c->d, c->n, nh, c->n_batch, q, c->layout), len, h, MRA_POOL_MEAN, false,
                &err);
            struct ggml_tensor * kp = ggml_mra_pool(
                g.ctx, kt, len, h, bound ? MRA_POOL_MIN : MRA_POOL_MEAN, true, &err);
            struct ggml_tensor * kx = bound ? ggml_mra_pool(g.ctx, kt, len, h, MRA_POOL_MAX, true, &err) : NULL;
            struct ggml_tensor * o = ggml_mra_block_score(g.ctx, qp, kp, kx, NULL, len, l, .25f, &err);
            CHECK(o, "score %s: %s", c->name, err.msg);
            float * a = graph_run(&g, o, 2);
            for (int64_t i = 0; i < n_out; i++) {
                const int b = (int) (i / ((int64_t) nb * nb * nh)), x = (int) (i / nb % nb), y = (int) (i % nb);
                const bool live = x * h < valid(c, b) && y * h < valid(c, b);
                if (live == (a[i] == -INFINITY)) {
                    CHECK(false, "score %s: cell %d,%d of sequence %d is %g", c->name, x, y, b, (double) a[i]);
                    break;
                }
                if (!live) a[i] = 0;
            }
            if (!ref[bound]) ref[bound] = a;
            const double e = max_error(a, ref[bound], n_out);
            CHECK(e <= 5e-6, "score %s bound %d: %s differs from the reference by %.1e", c->name, bound,
                tables[t]->name, e);
            if (a != ref[bound]) free(a);
            if (t == 0 && !bound) {
                float * by = graph_run(&g, ggml_scale(g.ctx, ggml_mul_mat(g.ctx, kp, qp), .25f), 2);
                for (int64_t i = 0; i < n_out; i++)
                    if (ref[0][i] == 0) by[i] = 0;
                const double d = max_error(ref[0], by, n_out);
                CHECK(d <= 1e-5, "score %s: differs from mul_mat by %.1e", c->name, d);
                free(by);
            }
            graph_free(&g);
        }
    for (int64_t i = 0; i < n_out; i++)
        if (ref[1][i] < ref[0][i] - 1e-3 * (1 + fabsf(ref[0][i]))) {
            CHECK(false, "score %s: the bound is below log mu", c->name);
            break;
        }
    free(ref[0]);
    free(ref[1]);
    free(q);
    free(k);
}

// select against the reference, and against a sort by ggml
static void test_select(int count) {
    uint64_t s = 11;
    for (int i = 0; i < count; i++) {
        const int n = rng_int(&s, 1, 700), m = rng_int(&s, 0, n + 2), kind = rng_int(&s, 0, 6);
        float x[768], y[768];
        int32_t want[800], got[800];
        for (int j = 0; j < n; j++) {
            const float v = rng_normal(&s);
            switch (kind) {
                case 0: x[j] = v; break;
                case 1: x[j] = rintf(v); break; // ties
                case 2: x[j] = v * 1e30f; break;
                case 3: x[j] = rng_int(&s, 0, 2) ? v : -INFINITY; break;
                case 4: x[j] = rng_int(&s, 0, 9) ? v : NAN; break;
                case 5: x[j] = v * v * v * v * v * (rng_int(&s, 0, 30) ? 1 : 1e6f); break; // nothing like normal
                case 6: x[j] = 3; break;
            }
        }
        memcpy(y, x, sizeof(x));
        const int n_want = mra_kernels_ref.topk_blocks(want, y, n, m);
        for (int t = 1; t < n_tables; t++) {
            memcpy(y, x, sizeof(x));
            const int n_got = tables[t]->topk_blocks(got, y, n, m);
            CHECK(n_got == n_want && memcmp(got, want, n_want * sizeof(int32_t)) == 0,
                "select %d of %d, kind %d: %s differs from the reference", m, n, kind, tables[t]->name);
        }
        if (kind == 0 && m > 0 && m < n && i % 40 == 0) {
            struct graph g = graph_new();
            int32_t * order = graph_run(
                &g, ggml_argsort(g.ctx, graph_input(&g, GGML_TYPE_F32, n, 1, 1, 1, x), GGML_SORT_ORDER_DESC), 1);
            bool all = true;
            for (int j = 0; j < m; j++) {
                bool found = false;
                for (int t = 0; t < n_want; t++) found |= want[t] == order[j];
                all &= found;
            }
            CHECK(all && n_want == m, "select %d of %d: not the set ggml_argsort gives", m, n);
            free(order);
            graph_free(&g);
        }
    }
}

// topk_blocks as a list: checked by hand on a 4 x 4 grid of cells
static void list_is(
    const char * name, enum mra_rule rule, int count, int first_n, int diag_n, int len, const char * want) {
    // rows: the best cells are (3,0) 9, (0,3) 8, (0,0) 7, (0,1) 7, (1,1) 5, ...; row 2 is all ties
    static const float grid[16] = { 7, 7, 1, 8, 0, 5, 4, 1, 2, 2, 2, 2, 9, 3, 0, 0 };
    for (int t = 0; t < n_tables; t++) {
        mra_kernels_set(tables[t]);
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        const struct mra_level l = { 16, 16, 4, 4, 0, 0 };
        const int32_t lens[1] = { len };
        struct ggml_tensor * o = ggml_mra_topk_blocks(g.ctx, graph_input(&g, GGML_TYPE_F32, 4, 4, 1, 1, grid), NULL,
            graph_input(&g, GGML_TYPE_I32, 1, 1, 1, 1, lens), l, rule, count, first_n, diag_n, &err);
        int32_t * a = graph_run(&g, o, 2);
        char got[256] = "";
        for (int x = 0, at = 0; a && x < 4; x++) {
            for (int e = a[x]; e < a[x + 1]; e++) at += snprintf(got + at, sizeof(got) - at, "%d", a[5 + e]);
            at += snprintf(got + at, sizeof(got) - at, "|");
        }
        CHECK(strcmp(got, want) == 0, "topk %s: %s gives %s, not %s", name, tables[t]->name, a ? got : err.msg, want);
        free(a);
        graph_free(&g);
    }
}
static void test_topk(void) {
    list_is("mu 1", MRA_RULE_MU, 1, 0, 0, 16, "|||0|");
    list_is("mu 3, tie", MRA_RULE_MU, 3, 0, 0, 16, "03|||0|");
    list_is("mu all", MRA_RULE_MU, 99, 0, 0, 16, "0123|0123|0123|0123|");
    list_is("mu 0", MRA_RULE_MU, 0, 0, 0, 16, "||||");
    list_is("rowmax 4", MRA_RULE_ROWMAX, 4, 0, 0, 16,
        "3|1|01||"); // four rows have maximum 0, row 2 four times: lower cells first
    list_is("row 2", MRA_RULE_ROW, 2, 0, 0, 16, "03|12|01|01|");
    list_is("row 1, diag", MRA_RULE_ROW, 1, 0, 1, 16, "0|1|2|3|");
    list_is("mu 4, diag", MRA_RULE_MU, 4, 0, 1, 16, "0|1|2|3|");
    list_is("mu 7, first", MRA_RULE_MU, 7, 1, 0, 16, "0123|0|0|0|");
    list_is("mu 2, both", MRA_RULE_MU, 2, 1, 1, 16,
        "0|||0|"); // (0,0) is named three times; of those named once (3,0) is best
    list_is("row 2, len 9", MRA_RULE_ROW, 2, 0, 0, 9, "01|12|01||");
    list_is("mu 3, len 8", MRA_RULE_MU, 3, 0, 0, 8, "01|1|||");
    list_is("mu, len 0", MRA_RULE_MU, 3, 0, 0, 0, "||||");
}

// Lists of many rows of cells, above 128 of which several thread blocks of a device share: every table's are the
// reference's. Scores are few different numbers; parents: over the children of every third cell of a coarser level.
static void test_topk_rows(int rows, enum mra_rule rule, int count, int first_n, int diag_n, int len, bool parents) {
    enum { COLS = 20, MOST = 300 };
    const int cells = rows * COLS;
    const struct mra_level l = { rows * 2 - 1, COLS * 2, 2, 2, parents ? 4 : 0, parents ? 4 : 0 };
    int32_t list[MOST / 2 + 1 + MOST * COLS / 4] = { 0 }, n = 0, lens[2] = { len, 30 };
    for (int i = 0; i < cells / 4; i++) {
        if (i % 3 == 0) list[rows / 2 + 1 + n++] = i % (COLS / 2);
        list[i / (COLS / 2) + 1] = n;
    }
    float * scores = data_new(DATA_TIES, rows, COLS, 31);
    int32_t * want = NULL;
    for (int t = 0; t < n_tables; t++) {
        mra_kernels_set(tables[t]);
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        struct ggml_tensor * p = parents ? graph_input(&g, GGML_TYPE_I32, rows / 2 + 1 + cells / 4, 1, 1, 1, list)
                                         : NULL;
        const int64_t ne[2] = { parents ? 4 : COLS, parents ? cells / 4 : rows };
        struct ggml_tensor * o = ggml_mra_topk_blocks(g.ctx, graph_input(&g, GGML_TYPE_F32, ne[0], ne[1], 1, 1, scores),
            p, len < 0 ? NULL : graph_input(&g, GGML_TYPE_I32, 2, 1, 1, 1, lens), l, rule, count, first_n, diag_n,
            &err);
        CHECK(o, "topk of %d rows: %s", rows, err.msg);
        int32_t * a = graph_run(&g, o, 2);
        if (!want) want = a;
        CHECK(a && memcmp(a, want, (size_t) (rows + 1 + want[rows]) * sizeof(*a)) == 0 && want[rows] <= cells,
            "topk of %d rows, rule %d, %d cells, length %d: %s differs from %s", rows, rule, count, len,
            tables[t]->name, tables[0]->name);
        if (a != want) free(a);
        graph_free(&g);
    }
    free(want);
    free(scores);
}

// block_sparse_attn == flash attention with -inf outside the listed cells; scale 0: that of the head size
static void test_block_sparse_attn(int n, int d, int h, int g_, int n_head, enum ggml_type type, float scale) {
    uint64_t s = (uint64_t) n * d * h;
    const int nq = (n + h - 1) / h, nk = (n + g_ - 1) / g_, rows = MRA_ROUND_UP(n, 64);
    float *q = data_new(DATA_NORMAL, (int64_t) n * n_head, d, 21), *k = data_new(DATA_NORMAL, n, d, 22),
          *v = data_new(DATA_NORMAL, n, d, 23);
    const int64_t list = nq + 1 + nq * nk;
    int32_t * cells = calloc(list * n_head, sizeof(int32_t));
    ggml_fp16_t * mask = malloc((int64_t) rows * n * n_head * sizeof(*mask));
    for (int64_t i = 0; i < (int64_t) rows * n * n_head; i++) mask[i] = ggml_fp32_to_fp16(-INFINITY);
    for (int hd = 0; hd < n_head; hd++)
        for (int x = 0, e = 0; x < nq; x++) {
            int32_t * l = cells + hd * list;
            for (int y = 0; y < nk; y++)
                if (rng_int(&s, 0, 2) == 0 || y == x % nk) {
                    l[nq + 1 + e++] = y;
                    for (int i = x * h; i < (x + 1) * h && i < n; i++)
                        for (int j = y * g_; j < (y + 1) * g_ && j < n; j++)
                            mask[((int64_t) hd * rows + i) * n + j] = 0;
                }
            l[x + 1] = e;
        }
    struct graph gr = graph_new();
    struct ggml_tensor *qt = graph_heads(&gr, GGML_TYPE_F32, d, n, n_head, 1, q, 1),
                       *kt = graph_heads(&gr, type, d, n, 1, 1, k, 0), *vt = graph_heads(&gr, type, d, n, 1, 1, v, 0);
    struct ggml_tensor * f = ggml_flash_attn_ext(gr.ctx, qt, kt, vt,
        graph_input(&gr, GGML_TYPE_F16, n, rows, n_head, 1, mask), scale != 0 ? scale : 1 / sqrtf((float) d), 0, 0);
    float * want = graph_run(&gr, f, 2);
    struct ggml_tensor * ct = graph_input(&gr, GGML_TYPE_I32, list, n_head, 1, 1, cells);
    for (int t = 0; t < n_tables; t++) {
        mra_kernels_set(tables[t]);
        struct mra_error err = { 0 };
        struct ggml_tensor * o = ggml_mra_block_sparse_attn(gr.ctx, qt, kt, vt, ct, NULL, NULL, h, g_, scale, 2, &err);
        CHECK(o, "block_sparse_attn: %s", err.msg);
        float * a = graph_run(&gr, o, 2);
        const double e = max_error(a, want, (int64_t) n * d * n_head);
        CHECK(e <= attn_tolerance(tables[t], type == GGML_TYPE_F16 ? 2e-3 : 1e-5),
            "block_sparse_attn n=%d d=%d cells %dx%d: %s differs from masked flash attention by %.1e", n, d, h, g_,
            tables[t]->name, e);
        free(a);
    }
    free(want);
    free(q);
    free(k);
    free(v);
    free(cells);
    free(mask);
    graph_free(&gr);
}

// nothing refined == attention of the pooled rows, repeated, with the counts in the weights
static void test_coarse(int n, int s) {
    const int nb = (n + s - 1) / s, d = 32, dv = 24;
    const struct mra_level l = { n, n, s, s, 0, 0 };
    float *q = data_new(DATA_WALK, n, d, 31), *k = data_new(DATA_WALK, n, d, 32), *v = data_new(DATA_WALK, n, dv, 33);
    for (int t = 0; t < n_tables; t++) {
        mra_kernels_set(tables[t]);
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        struct ggml_tensor *qt = graph_heads(&g, GGML_TYPE_F32, d, n, 1, 1, q, 0),
                           *kt = graph_heads(&g, GGML_TYPE_F32, d, n, 1, 1, k, 0),
                           *vt = graph_heads(&g, GGML_TYPE_F32, dv, n, 1, 1, v, 0);
        struct ggml_tensor *qp = ggml_mra_pool(g.ctx, qt, NULL, s, MRA_POOL_MEAN, false, &err),
                           *kp = ggml_mra_pool(g.ctx, kt, NULL, s, MRA_POOL_MEAN, true, &err);
        struct ggml_tensor * vp = ggml_mra_pool(g.ctx, vt, NULL, s, MRA_POOL_MEAN, true, &err);
        struct ggml_tensor * sc = ggml_mra_block_score(g.ctx, qp, kp, NULL, NULL, NULL, l, .3f, &err);
        struct ggml_tensor * none = ggml_mra_topk_blocks(g.ctx, sc, NULL, NULL, l, MRA_RULE_MU, 0, 0, 0, &err);
        struct ggml_tensor * st = ggml_mra_coarse_state(g.ctx, sc, NULL, none, vp, NULL, NULL, l, &err);
        float * a = graph_run(&g, ggml_mra_block_sparse_attn(g.ctx, qt, kt, vt, none, st, NULL, s, s, .3f, 2, &err), 2);
        // softmax(scores + log count) vp by ggml, then every row of a block the same
        float * bias = malloc(nb * sizeof(float));
        for (int y = 0; y < nb; y++) bias[y] = logf((float) ((y + 1) * s < n ? s : n - y * s));
        struct ggml_tensor * w = ggml_soft_max(
            g.ctx, ggml_add(g.ctx, sc, graph_input(&g, GGML_TYPE_F32, nb, 1, 1, 1, bias)));
        float * by = graph_run(&g, ggml_mul_mat(g.ctx, ggml_cont(g.ctx, ggml_transpose(g.ctx, vp)), w), 2); // [dv, nb]
        float * want = malloc((int64_t) n * dv * sizeof(float));
        for (int i = 0; i < n; i++) memcpy(want + i * dv, by + i / s * dv, dv * sizeof(float));
        const double e = max_error(a, want, (int64_t) n * dv);
        CHECK(e <= attn_tolerance(tables[t], 1e-5), "coarse n=%d s=%d: %s differs from ggml's soft_max by %.1e", n, s,
            tables[t]->name, e);
        free(a);
        free(by);
        free(want);
        free(bias);
        graph_free(&g);
    }
    free(q);
    free(k);
    free(v);
}

// The order of queries: valid ones once each, 16 in a row ascending, then -1; the same bits with any number of threads
// and beside any other sequence.
static void test_query_order(int n, int n_k, int d, enum ggml_type type, const int32_t * len) {
    enum { N_HEAD = 4, N_KV = 2, N_BATCH = 3 };
    float *q = data_new(DATA_WALK, (int64_t) n * N_HEAD * N_BATCH, d, 41),
          *k = data_new(DATA_WALK, (int64_t) n_k * N_KV * N_BATCH, d, 42);
    for (int t = 0; t < n_tables; t++) {
        mra_kernels_set(tables[t]);
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        struct ggml_tensor *qt = graph_heads(&g, GGML_TYPE_F32, d, n, N_HEAD, N_BATCH, q, 1),
                           *kt = graph_heads(&g, type, d, n_k, N_KV, N_BATCH, k, 1),
                           *lt = graph_input(&g, GGML_TYPE_I32, 2, N_BATCH, 1, 1, len);
        struct ggml_tensor * o = ggml_mra_query_order(g.ctx, qt, kt, kt, lt, 0, 3, &err);
        CHECK(o && strcmp(ggml_mra_op_name(o->view_src), "query-order") == 0, "query-order: %s", err.msg);
        int32_t *one = graph_run(&g, o, 1), *three = graph_run(&g, o, 3);
        CHECK(one && three && memcmp(one, three, sizeof(int32_t) * n * N_HEAD * N_BATCH) == 0,
            "query-order n=%d: %s: 3 threads give another order than 1", n, tables[t]->name);
        int n_wrong = 0, n_moved = 0;
        for (int h = 0; one && h < N_HEAD * N_BATCH; h++) {
            const int32_t * order = one + (int64_t) h * n;
            const int n_q = len[h / N_HEAD * 2];
            bool * seen = calloc(n, sizeof(bool));
            for (int i = 0; i < n; i++) {
                const int at = order[i];
                n_wrong += i < n_q ? at < 0 || at >= n_q || seen[at] : at != -1;
                if (i < n_q && at >= 0 && at < n_q) seen[at] = true;
                n_wrong += i < n_q && i % 16 && order[i - 1] >= at;
                n_moved += i < n_q && at != i;
            }
            free(seen);
        }
        CHECK(n_wrong == 0 && n_moved > n, "query-order n=%d d=%d: %s: %d entries wrong, %d of other rows", n, d,
            tables[t]->name, n_wrong, n_moved);
        free(one);
        free(three);
        graph_free(&g);
    }
    free(q);
    free(k);
}

// usage: test-ops [selections]
int main(int argc, char ** argv) {
    n_tables = kernel_tables(tables, 8);
    for (size_t i = 0; i < sizeof(pool_cases) / sizeof(pool_cases[0]); i++) {
        test_pool(&pool_cases[i]);
        test_score(&pool_cases[i]);
    }
    test_select(argc > 1 ? atoi(argv[1]) : 4000);
    test_topk();
    for (int i = 0; i < 6; i++) {
        const enum mra_rule rule = (enum mra_rule)(i / 2);
        const int rows = i % 2 ? 300 : 100, count = rule == MRA_RULE_ROW ? 7 : rows * 3;
        test_topk_rows(rows, rule, count, 0, 0, -1, false);
        test_topk_rows(rows, rule, count, 0, 0, rows + 101, false);
        test_topk_rows(rows, rule, count, 0, 0, 0, false);
        test_topk_rows(rows, rule, 0, 0, 0, -1, false);
        test_topk_rows(rows, rule, count, 2, 3, -1, false);
        test_topk_rows(rows, rule, count, 0, 1, -1, true);
    }
    test_block_sparse_attn(64, 64, 32, 32, 2, GGML_TYPE_F32, 0);
    test_block_sparse_attn(211, 64, 32, 32, 2, GGML_TYPE_F32, 0);
    test_block_sparse_attn(211, 80, 16, 1, 2, GGML_TYPE_F32, 0);
    test_block_sparse_attn(150, 128, 4, 4, 1, GGML_TYPE_F16, 0);
    test_block_sparse_attn(300, 32, 16, 16, 3, GGML_TYPE_F32, 0);
    test_block_sparse_attn(257, 64, 128, 128, 1, GGML_TYPE_F32, 0);
    test_block_sparse_attn(97, 40, 1, 8, 1, GGML_TYPE_F32, 0);
    test_block_sparse_attn(97, 64, 32, 32, 2, GGML_TYPE_F32, -.2f);
    test_coarse(128, 32);
    test_coarse(211, 32);
    test_coarse(33, 16);
    test_coarse(5, 4);
    test_coarse(700, 2);
    test_query_order(150, 150, 64, GGML_TYPE_F32, (const int32_t[]) { 150, 150, 97, 97, 0, 0 });
    test_query_order(211, 90, 40, GGML_TYPE_F16, (const int32_t[]) { 1, 90, 211, 90, 130, 50 });
    kernels_best();
    return summary("test-ops");
}
