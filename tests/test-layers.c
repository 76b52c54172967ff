// What encoders have around and in the place of full attention: norms, gated activations, attention within a window
// and with ALiBi. Every kernel table against ggml's own operators; threads and batches bit for bit.
#include "harness.h"

static const struct mra_kernels * tables[12];
static int n_tables;

// ---- norm, glu ----

static struct ggml_tensor * ggml_gated(struct ggml_context * ctx, struct ggml_tensor * x, enum mra_glu act) {
    switch (act) {
        case MRA_GLU_GELU: return ggml_geglu_erf(ctx, x);
        case MRA_GLU_GELU_TANH: return ggml_geglu(ctx, x);
        case MRA_GLU_RELU: return ggml_reglu(ctx, x);
        default: return ggml_swiglu(ctx, x);
    }
}

static void test_rows(void) {
    static const int sizes[][2] = { { 2, 1 }, { 34, 5 }, { 384, 33 }, { 200, 70 } };
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        const int n = sizes[s][0], m = sizes[s][1];
        float *x = data_new(DATA_NORMAL, m, n, 1), *w = data_new(DATA_NORMAL, 1, n, 2),
              *b = data_new(DATA_NORMAL, 1, n, 3);
        for (int kind = 0; kind < 7; kind++) { // 4 gated activations; norm with and without bias; rms
            struct graph g = graph_new();
            struct mra_error err = { 0 };
            struct ggml_tensor *t = graph_input(&g, GGML_TYPE_F32, n, m, 1, 1, x),
                               *tw = graph_input(&g, GGML_TYPE_F32, n, 1, 1, 1, w),
                               *tb = graph_input(&g, GGML_TYPE_F32, n, 1, 1, 1, b);
            struct ggml_tensor *a, *r;
            if (kind < 4) {
                a = ggml_mra_glu(g.ctx, t, (enum mra_glu) kind, &err);
                r = ggml_gated(g.ctx, t, (enum mra_glu) kind);
            } else if (kind < 6) {
                a = ggml_mra_norm(g.ctx, t, tw, kind == 4 ? tb : NULL, 1e-5f, &err);
                r = ggml_mul(g.ctx, ggml_norm(g.ctx, t, 1e-5f), tw);
                if (kind == 4) r = ggml_add(g.ctx, r, tb);
            } else {
                a = ggml_mra_rms_norm(g.ctx, t, tw, 1e-5f, &err);
                r = ggml_mul(g.ctx, ggml_rms_norm(g.ctx, t, 1e-5f), tw);
            }
            const int64_t n_out = (int64_t) m * (kind < 4 ? n / 2 : n);
            kernels_best();
            float *want = graph_run(&g, r, 1), *one = graph_run(&g, a, 1), *three = graph_run(&g, a, 3);
            CHECK(
                a && one && memcmp(one, three, (size_t) n_out * 4) == 0, "rows kind %d [%d, %d]: threads", kind, n, m);
            free(one);
            free(three);
            for (int k = 0; k < n_tables; k++) {
                mra_kernels_set(tables[k]);
                float * got = graph_run(&g, a, 2);
                // ggml computes some activations from tables of F16
                const double e = got ? max_error(got, want, n_out) : INFINITY, tol = kind == 1 ? 2e-3 : 5e-6;
                CHECK(e <= tol, "rows kind %d [%d, %d] %s: %.1e", kind, n, m, tables[k]->name, e);
                free(got);
            }
            free(want);
            graph_free(&g);
        }
        free(x);
        free(w);
        free(b);
    }
}

// ---- attention within a window ----

struct window_case {
    int d, dv, n_head, n_head_kv, window;
    float max_bias;
    int layout;
    int lengths[4];
    enum ggml_type type; // of k and v
};
static const struct window_case window_cases[] = {
    { 64, 64, 2, 2, 64, 0, 2, { 1, 64, 65, 200 }, GGML_TYPE_F32 }, // below, at and above the window
    { 64, 64, 2, 1, 64, 0, 1, { 129, 128, 130 }, GGML_TYPE_F32 },  // both edges
    { 64, 64, 1, 1, 0, 0, 0, { 70, 3 }, GGML_TYPE_F32 },           // each sees itself
    { 24, 24, 3, 3, 5, 0, 2, { 100, 1, 17 }, GGML_TYPE_F32 },      // padded channels
    { 32, 48, 4, 2, 100, 8, 1, { 300, 31 }, GGML_TYPE_F32 },
    { 32, 32, 12, 12, -1, 8, 2, { 150, 90 }, GGML_TYPE_F32 }, // ALiBi alone, heads that are no power of two
    { 16, 16, 8, 8, -1, 0, 0, { 77 }, GGML_TYPE_F32 },
    { 64, 64, 2, 2, 1000, 0, 2, { 1100, 40 }, GGML_TYPE_F32 },
    { 64, 64, 2, 2, 64, 0, 1, { 31, 330, 33 }, GGML_TYPE_F16 },
    { 80, 80, 2, 1, 31, 0, 0, { 97, 64 }, GGML_TYPE_F16 },
    { 96, 72, 1, 1, 33, 4, 3, { 150 }, GGML_TYPE_F16 },
    { 128, 128, 2, 1, 65, 0, 2, { 200, 1 }, GGML_TYPE_F32 },
    { 256, 200, 1, 1, 20, 0, 1, { 90, 17 }, GGML_TYPE_F32 },
    { 64, 64, 1, 1, INT32_MAX, 0, 0, { 99, 100 }, GGML_TYPE_F32 },
    { 40, 24, 6, 3, 7, 8, 2, { 140, 15, 16 }, GGML_TYPE_F16 },
};

static float * data_of_type(enum ggml_type type, int64_t n_row, int64_t d, uint64_t seed) {
    float * x = data_new(DATA_NORMAL, n_row, d, seed);
    for (int64_t i = 0; type == GGML_TYPE_F16 && i < n_row * d; i++) x[i] = ggml_fp16_to_fp32(ggml_fp32_to_fp16(x[i]));
    return x;
}

// the mask of ggml's flash attention: 0, or -inf beyond the window; ALiBi: -|i - j|, times the slopes ggml has
static void fill_mask(ggml_fp16_t * mask, int n, int window, bool alibi) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            const int dist = abs(i - j);
            const float m = window >= 0 && dist > window ? -INFINITY : alibi ? -(float) dist : 0;
            mask[(int64_t) i * n + j] = ggml_fp32_to_fp16(m);
        }
}

// sequence by sequence with ggml_flash_attn_ext
static void reference(const struct window_case * c, int n, const float * q, const float * k, const float * v, int first,
    int total, float * want) {
    struct graph g = graph_new();
    float * part[3];
    const float * of[3] = { q, k, v };
    const int heads[3] = { c->n_head, c->n_head_kv, c->n_head_kv }, dims[3] = { c->d, c->d, c->dv };
    struct ggml_tensor * t[3];
    for (int i = 0; i < 3; i++) { // [head][token][d] of one sequence
        part[i] = malloc((size_t) heads[i] * n * dims[i] * 4);
        for (int h = 0; h < heads[i]; h++)
            memcpy(part[i] + (int64_t) h * n * dims[i], of[i] + ((int64_t) h * total + first) * dims[i],
                (size_t) n * dims[i] * 4);
        t[i] = graph_heads(&g, GGML_TYPE_F32, dims[i], n, heads[i], 1, part[i], 0);
        free(part[i]);
    }
    ggml_fp16_t * mask = malloc((size_t) n * n * sizeof(*mask));
    fill_mask(mask, n, c->window, c->max_bias > 0);
    struct ggml_tensor * m = graph_input(&g, GGML_TYPE_F16, n, n, 1, 1, mask);
    struct ggml_tensor * o = ggml_flash_attn_ext(g.ctx, t[0], t[1], t[2], m, 1 / sqrtf((float) c->d), c->max_bias, 0);
    ggml_flash_attn_ext_set_prec(o, GGML_PREC_F32);
    float * got = graph_run(&g, o, 2);
    memcpy(want + (int64_t) first * c->n_head * c->dv, got, (size_t) n * c->n_head * c->dv * 4);
    free(got);
    free(mask);
    graph_free(&g);
}

// in small numbers: close to floats, the same for every number of threads; never with ALiBi
static void check_small(const struct window_case * c, struct ggml_tensor * t[4], struct graph * g, int max_len,
    const float * want, int64_t n_out) {
    const struct mra_kernels * small[16];
    const int n_small = dense_tables(small, 16);
    for (int i = 0; i < n_small; i++) {
        struct mra_error err = { 0 };
        struct mra_window_params p = {
            .window = c->window, .max_bias = c->max_bias, .n_threads = 3, .type = MRA_ATTN_INT8
        };
        mra_kernels_set(small[i]);
        struct ggml_tensor * o = ggml_mra_window_attn(g->ctx, t[0], t[1], t[2], t[3], max_len, &p, &err);
        float *one = graph_run(g, o, 1), *three = graph_run(g, o, 3);
        const double e = one ? max_error(one, want, n_out) : INFINITY;
        CHECK(e <= (c->max_bias > 0 ? 5e-3 : .06), "window %d in %s: %.1e %s", c->window, small[i]->name, e, err.msg);
        CHECK(one && three && memcmp(one, three, (size_t) n_out * 4) == 0, "window %d in %s: threads", c->window,
            small[i]->name);
        const bool integers = target_is_cpu() && c->max_bias == 0 && c->window >= 0 && c->window <= 512 &&
            small[i]->int8.window_attn;
        CHECK(!one || (e > 1e-6) >= integers, "window %d in %s: no rounding to be seen", c->window, small[i]->name);
        free(one);
        free(three);
    }
}

static void test_window(void) {
    for (size_t i = 0; i < sizeof(window_cases) / sizeof(window_cases[0]); i++) {
        const struct window_case * c = &window_cases[i];
        int32_t starts[5] = { 0 };
        int n_seq = 0, max_len = 0;
        for (; n_seq < 4 && c->lengths[n_seq]; n_seq++) {
            starts[n_seq + 1] = starts[n_seq] + c->lengths[n_seq];
            if (c->lengths[n_seq] > max_len) max_len = c->lengths[n_seq];
        }
        const int n = starts[n_seq];
        float *q = data_new(DATA_NORMAL, (int64_t) c->n_head * n, c->d, 1),
              *k = data_of_type(c->type, (int64_t) c->n_head_kv * n, c->d, 2),
              *v = data_of_type(c->type, (int64_t) c->n_head_kv * n, c->dv, 3);
        const int64_t n_out = (int64_t) n * c->n_head * c->dv;
        float * want = malloc((size_t) n_out * 4);
        for (int s = 0; s < n_seq; s++) reference(c, c->lengths[s], q, k, v, starts[s], n, want);
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        struct mra_window_params p = { .window = c->window, .max_bias = c->max_bias, .n_threads = 3 };
        struct ggml_tensor * h[4] = { graph_heads(&g, GGML_TYPE_F32, c->d, n, c->n_head, 1, q, c->layout),
            graph_heads(&g, c->type, c->d, n, c->n_head_kv, 1, k, c->layout),
            graph_heads(&g, c->type, c->dv, n, c->n_head_kv, 1, v, c->layout),
            graph_input(&g, GGML_TYPE_I32, n_seq + 1, 1, 1, 1, starts) };
        kernels_best();
        struct ggml_tensor * o = ggml_mra_window_attn(g.ctx, h[0], h[1], h[2], h[3], max_len, &p, &err);
        for (int t = 0; t < n_tables; t++) {
            mra_kernels_set(tables[t]);
            float *one = graph_run(&g, o, 1), *three = graph_run(&g, o, 3);
            const double e = one ? max_error(one, want, n_out) : INFINITY;
            // ggml's mask of distances times slopes is F16
            CHECK(e <= attn_tolerance(tables[t], c->max_bias > 0 ? 5e-3 : 3e-4), "window %d bias %g d %d %s: %.1e %s",
                c->window, (double) c->max_bias, c->d, tables[t]->name, e, err.msg);
            CHECK(one && memcmp(one, three, (size_t) n_out * 4) == 0, "window %d: threads", c->window);
            free(one);
            free(three);
        }
        check_small(c, h, &g, max_len, want, n_out);
        graph_free(&g);
        free(want);
        free(q);
        free(k);
        free(v);
    }
}

// ALiBi: far keys are left out where that changes nothing, and only there
static int shortest; // window that a kernel was asked for
static void spy(const struct mra_attn_head * a, int i0, int i1, int window, float slope, void * scratch) {
    if (window >= 0 && window < shortest) shortest = window;
    mra_kernels_ref.window_attn(a, i0, i1, window, slope, scratch);
}

enum far_kind { FAR_WEAK, FAR_STRONG, FAR_NAN };
static void test_reach_of(enum far_kind kind, enum ggml_type type) {
    enum { N = 700, D = 32, HEADS = 4, FAR = 650 }; // slopes 2^-2 to 2^-8
    const int32_t starts[2] = { 0, N };
    float *x[3], want[N * D];
    for (int i = 0; i < 3; i++) {
        x[i] = data_new(DATA_NORMAL, HEADS * N, D, 20 + i);
        for (int c = 0; c < HEADS * N * D; c++) x[i][c] *= .25f;
    }
    for (int i = 0; i < N && kind == FAR_STRONG; i++) x[0][i * D] = 4;
    if (kind == FAR_STRONG) x[1][FAR * D] = 300; // 4*300/sqrt(32) = 212 nats, a distance of 650 takes 163
    if (kind == FAR_NAN) x[2][FAR * D + 1] = NAN;
    struct graph g = graph_new();
    struct mra_error err = { 0 };
    struct ggml_tensor * h[3];
    for (int i = 0; i < 3; i++) h[i] = graph_heads(&g, i ? type : GGML_TYPE_F32, D, N, HEADS, 1, x[i], 0);
    const struct mra_window_params p = { .window = -1, .max_bias = 8 };
    struct mra_kernels k = mra_kernels_ref;
    k.window_attn = spy;
    mra_kernels_set(&k);
    shortest = N;
    struct ggml_tensor * o = ggml_mra_window_attn(
        g.ctx, h[0], h[1], h[2], graph_input(&g, GGML_TYPE_I32, 2, 1, 1, 1, starts), N, &p, &err);
    float * got = graph_run(&g, o, 1);
    CHECK(got, "%s", err.msg);
    CHECK((shortest < 150) == (kind == FAR_WEAK), "far keys %d: the shortest reach is %d", kind, shortest);
    const struct mra_attn_head a = { .q = { (char *) x[0], sizeof(float) * D, MRA_F32 },
        .k = { (char *) x[1], sizeof(float) * D, MRA_F32 },
        .v = { (char *) x[2], sizeof(float) * D, MRA_F32 },
        .n_q = N,
        .n_k = N,
        .d = D,
        .dv = D,
        .scale = 1 / sqrtf(D),
        .out = want,
        .ld_out = D };
    mra_kernels_ref.window_attn(&a, 0, N, -1, .25f, NULL); // the first head
    double e = 0;
    for (int i = 0; got && i < N; i++)
        for (int c = 0; c < D; c++) {
            const float y = got[(int64_t) i * HEADS * D + c];
            if (kind == FAR_NAN && c == 1) e = fmax(e, isnan(y) ? 0 : INFINITY);
            else e = fmax(e, isnan(y) ? INFINITY : fabs(y - want[i * D + c]));
        }
    CHECK(e <= (type == GGML_TYPE_F16 ? 2e-3 : 1e-6), "far keys %d: off by %.1e", kind, e);
    free(got);
    graph_free(&g);
    kernels_best();
    for (int i = 0; i < 3; i++) free(x[i]);
}
static void test_reach(void) {
    for (enum far_kind kind = FAR_WEAK; kind <= FAR_NAN; kind++) test_reach_of(kind, GGML_TYPE_F32);
    test_reach_of(FAR_WEAK, GGML_TYPE_F16);
}

// a sequence gives the same alone and among others, and nothing of its neighbours' NaN
static void test_window_batch(void) {
    const int n[3] = { 90, 201, 64 }, total = 355, d = 32;
    const int32_t starts[4] = { 0, 90, 291, 355 }, alone[2] = { 0, 201 };
    float * x = data_new(DATA_NORMAL, total, 3 * d, 11);
    for (int c = 0; c < 3 * d; c++) x[(starts[1] - 1) * 3 * d + c] = x[starts[2] * 3 * d + c] = NAN;
    kernels_best();
    float * out[2];
    for (int i = 0; i < 2; i++) {
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        const int m = i ? n[1] : total;
        struct ggml_tensor *t = graph_input(&g, GGML_TYPE_F32, 3 * d, m, 1, 1, i ? x + starts[1] * 3 * d : x), *h[3];
        for (int c = 0; c < 3; c++)
            h[c] = ggml_view_3d(g.ctx, t, d, m, 1, t->nb[1], (size_t) m * t->nb[1], (size_t) c * d * sizeof(float));
        const struct mra_window_params p = { .window = 40, .max_bias = 8 };
        struct ggml_tensor * o = ggml_mra_window_attn(g.ctx, h[0], h[1], h[2],
            graph_input(&g, GGML_TYPE_I32, i ? 2 : 4, 1, 1, 1, i ? alone : starts), 201, &p, &err);
        out[i] = graph_run(&g, o, 2);
        CHECK(out[i], "%s", err.msg);
        graph_free(&g);
    }
    CHECK(out[0] && out[1] && memcmp(out[0] + (int64_t) starts[1] * d, out[1], (size_t) n[1] * d * 4) == 0,
        "window: a sequence alone and among others");
    CHECK(out[0] && isnan(out[0][(starts[1] - 1) * d]) && isnan(out[0][starts[2] * d]), "window: NaN is gone");
    free(out[0]);
    free(out[1]);
    free(x);
}

int main(void) {
    n_tables = kernel_tables(tables, 12);
    test_rows();
    test_window();
    test_reach();
    test_window_batch();
    return summary("test-layers");
}
