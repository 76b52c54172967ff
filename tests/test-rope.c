// Rotary positions: every kernel table against ggml's own operators, alone and with attention behind them.
#include "harness.h"

static const struct mra_kernels * tables[12];
static int n_tables;

struct rope_case {
    int d, n_head, extra, n, n_rot; // extra: channels of a row behind the heads
    float base, scale;
    bool interleaved;
};
static const struct rope_case rope_cases[] = {
    { 64, 3, 0, 40, 64, 1e4f, 1, false },
    { 64, 2, 64, 300, 64, 160000, 1, false },
    { 24, 5, 24, 33, 24, 1000, 1, false },
    { 32, 2, 7, 65, 16, 1e4f, .5f, false },
    { 64, 2, 64, 100, 64, 1e4f, 1, true },
    { 40, 3, 0, 17, 24, 500, 2, true },
    { 2, 1, 0, 3, 2, 1e4f, 1, false },
    { 64, 5, 3, 9, 64, 1e4f, 1, false },
};

static void test_rope(void) {
    for (size_t i = 0; i < sizeof(rope_cases) / sizeof(rope_cases[0]); i++) {
        const struct rope_case * c = &rope_cases[i];
        const int width = c->d * c->n_head + c->extra;
        float * x = data_new(DATA_NORMAL, c->n, width, 7);
        int32_t * pos = malloc((size_t) c->n * sizeof(*pos));
        for (int t = 0; t < c->n; t++) pos[t] = t < c->n / 3 ? t : 5 * (t - c->n / 3); // two sequences, one with gaps
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        struct ggml_tensor *p = graph_input(&g, GGML_TYPE_I32, c->n, 1, 1, 1, pos),
                           *t = graph_input(&g, GGML_TYPE_F32, width, c->n, 1, 1, x);
        struct ggml_tensor * heads = ggml_view_3d(g.ctx, t, c->d, c->n_head, c->n, c->d * sizeof(float), t->nb[1], 0);
        struct ggml_tensor * ref = ggml_rope_ext(g.ctx, heads, p, NULL, c->n_rot,
            c->interleaved ? GGML_ROPE_TYPE_NORMAL : GGML_ROPE_TYPE_NEOX, 0, c->base, c->scale, 0, 1, 0, 0);
        float * want = graph_run(&g, ref, 1);
        for (int k = 0; k < n_tables; k++)
            for (int nth = 1; nth < 4; nth += 2) {
                mra_kernels_set(tables[k]);
                struct ggml_tensor * table = ggml_mra_rope_table(g.ctx, p, c->n_rot, c->base, c->scale, &err);
                struct ggml_tensor * y = ggml_mra_rope(
                    g.ctx, ggml_dup(g.ctx, t), table, c->d, c->n_head, c->interleaved, &err);
                float * got = graph_run(&g, y, nth);
                double e = got ? 0 : INFINITY;
                for (int r = 0; got && r < c->n; r++) {
                    const float * row = got + (int64_t) r * width;
                    const int h = c->d * c->n_head;
                    e = fmax(e, max_error(row, want + (int64_t) r * h, h));
                    if (memcmp(row + h, x + (int64_t) r * width + h, (size_t) c->extra * 4)) e = INFINITY;
                }
                // ggml multiplies angles up in F32: 5*200 of them are 1e-4 off
                CHECK(e <= 3e-4, "rope %d x %d, %d turned%s, %s, %d threads: %.1e %s", c->n_head, c->d, c->n_rot,
                    c->interleaved ? ", interleaved" : "", tables[k]->name, nth, e, err.msg);
                free(got);
            }
        free(want);
        graph_free(&g);
        free(pos);
        free(x);
    }
}

// the table itself, at positions where a float's angle would be wrong by more than that
static void test_rope_table(void) {
    const int32_t pos[4] = { 0, 1, 8191, 1000000 };
    struct graph g = graph_new();
    struct mra_error err = { 0 };
    struct ggml_tensor * p = graph_input(&g, GGML_TYPE_I32, 4, 1, 1, 1, pos);
    float * got = graph_run(&g, ggml_mra_rope_table(g.ctx, p, 8, 1e4f, 1, &err), 2);
    for (int t = 0; got && t < 4; t++)
        for (int c = 0; c < 4; c++) {
            const double a = pos[t] * pow(10000, -c / 4.0);
            CHECK(fabs(got[t * 8 + c] - cos(a)) < 1e-7 && fabs(got[t * 8 + 4 + c] - sin(a)) < 1e-7,
                "table of position %d, pair %d", pos[t], c);
        }
    CHECK(got, "%s", err.msg);
    free(got);
    graph_free(&g);
}

// Attention of models with rotary positions: as the encoder has it, q and k of a fused tensor turned in place by one
// call, and by ggml's own operators.
struct rope_attn_case {
    int d, n_head, n_head_kv, n, n_rot;
    bool interleaved;
};
static const struct rope_attn_case rope_attn_cases[] = {
    { 64, 3, 3, 40, 64, false },
    { 64, 4, 2, 513, 64, false },
    { 32, 2, 1, 130, 16, false },
    { 64, 2, 2, 300, 64, true },
};

// q, k or v (part 0, 1, 2) in the rows of x: [d, heads, n]
static struct ggml_tensor * part_of(
    struct ggml_context * ctx, struct ggml_tensor * x, const struct rope_attn_case * c, int part) {
    const int n_head = part ? c->n_head_kv : c->n_head, first = part ? c->n_head + (part - 1) * c->n_head_kv : 0;
    const size_t bytes = (size_t) c->d * sizeof(float);
    return ggml_view_3d(ctx, x, c->d, n_head, c->n, bytes, x->nb[1], first * bytes);
}

static struct ggml_tensor * rope_flash(
    struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * pos, const struct rope_attn_case * c) {
    struct ggml_tensor * h[3];
    for (int i = 0; i < 3; i++) {
        h[i] = part_of(ctx, x, c, i);
        if (i < 2)
            h[i] = ggml_rope_ext(ctx, h[i], pos, NULL, c->n_rot,
                c->interleaved ? GGML_ROPE_TYPE_NORMAL : GGML_ROPE_TYPE_NEOX, 0, 1e4f, 1, 0, 1, 0, 0);
        h[i] = ggml_cont(ctx, ggml_permute(ctx, h[i], 0, 2, 1, 3));
    }
    return ggml_flash_attn_ext(ctx, h[0], h[1], h[2], NULL, 1 / sqrtf((float) c->d), 0, 0);
}

static void test_rope_attn(void) {
    for (size_t i = 0; i < sizeof(rope_attn_cases) / sizeof(rope_attn_cases[0]); i++) {
        const struct rope_attn_case * c = &rope_attn_cases[i];
        const int width = c->d * (c->n_head + 2 * c->n_head_kv);
        const int64_t n_out = (int64_t) c->d * c->n_head * c->n;
        float * x = data_new(DATA_NORMAL, c->n, width, 9);
        int32_t * pos = malloc((size_t) c->n * sizeof(*pos));
        for (int t = 0; t < c->n; t++) pos[t] = t;
        struct graph g = graph_new();
        struct ggml_tensor *p = graph_input(&g, GGML_TYPE_I32, c->n, 1, 1, 1, pos),
                           *t = graph_input(&g, GGML_TYPE_F32, width, c->n, 1, 1, x);
        float * want = graph_run(&g, rope_flash(g.ctx, t, p, c), 1);
        for (int k = 0; k < n_tables; k++)
            for (int frame = 0; frame < 2; frame++) {
                struct mra_error err = { 0 };
                struct mra_attn_params a = mra_attn_params_default();
                mra_kernels_set(tables[k]);
                mra_attn_params_parse(&a, frame ? "columns" : "exact", &err);
                a.budget = 1;
                struct ggml_tensor * y = ggml_mra_rope(g.ctx, ggml_dup(g.ctx, t),
                    ggml_mra_rope_table(g.ctx, p, c->n_rot, 1e4f, 1, &err), c->d, c->n_head + c->n_head_kv,
                    c->interleaved, &err);
                struct ggml_tensor * h[3];
                for (int n = 0; n < 3; n++) h[n] = ggml_permute(g.ctx, part_of(g.ctx, y, c, n), 0, 2, 1, 3);
                float * got = graph_run(&g, ggml_mra_attn(g.ctx, h[0], h[1], h[2], NULL, &a, &err), 2);
                const double e = got ? max_error(got, want, n_out) : INFINITY;
                CHECK(e <= attn_tolerance(tables[k], 1e-4), "rope and attention %d x %d, n=%d, %s, %s: %.1e %s",
                    c->n_head, c->d, c->n, frame ? "columns" : "exact", tables[k]->name, e, err.msg);
                free(got);
            }
        free(want);
        graph_free(&g);
        free(pos);
        free(x);
    }
}

int main(void) {
    n_tables = kernel_tables(tables, 12);
    test_rope();
    test_rope_table();
    test_rope_attn();
    return summary("test-rope");
}
