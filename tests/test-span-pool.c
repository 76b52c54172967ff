// span-pool against sums in double, one token after the other, on all kernel tables: lengths around what a thread
// block takes, spans that overlap, are empty or reach behind the end, NaN and infinities, rows that are spread.
#include "harness.h"

#include <math.h>

enum { MAX_SPANS = 8 };

static const struct span_case {
    int n, d, ld; // tokens, channels, values from one row to the next
    int n_span, spans[MAX_SPANS][2];
} cases[] = {
    { 1, 1, 1, 1, { { 0, 1 } } },
    { 31, 64, 64, 2, { { 0, 31 }, { 3, 1 } } },
    { 33, 33, 40, 3, { { 0, 33 }, { 0, 8 }, { 25, 8 } } },
    { 127, 520, 520, 4, { { 0, 127 }, { 1, 7 }, { 60, 9 }, { 126, 1 } } },
    { 40, 100, 200, 6, { { 0, 40 }, { 39, 4 }, { 40, 1 }, { -1, 3 }, { 5, 0 }, { 5, -2 } } },
    { 1000, 32, 32, 3, { { 0, 1000 }, { 0, 999 }, { 500, 500 } } },
};

// a span of n tokens from `first` on, cut to what there is
static float expected(const struct span_case * c, const float * x, const int * span, int channel, int kind) {
    const int n = span[0] < 0 || span[0] >= c->n ? 0 : span[0] + span[1] > c->n ? c->n - span[0] : span[1];
    double r = kind == MRA_SPAN_MAX ? -INFINITY : 0;
    if (n <= 0) return 0;
    for (int t = span[0]; t < span[0] + n; t++) {
        const double v = x[(int64_t) t * c->ld + channel];
        if (kind != MRA_SPAN_MAX) r += v;
        else if (isnan(v) || v > r) r = v;
        if (isnan(r)) return NAN;
    }
    return (float) (kind == MRA_SPAN_MEAN ? r / n : kind == MRA_SPAN_MEAN_SQRT ? r / sqrt(n) : r);
}

static void test(const struct span_case * c, const float * x, const struct mra_kernels * table, int n_threads) {
    for (int kind = MRA_SPAN_MEAN; kind <= MRA_SPAN_MAX; kind++) {
        struct graph g = graph_new();
        struct mra_error err = { 0 };
        struct ggml_tensor *all = graph_input(&g, GGML_TYPE_F32, c->ld, c->n, 1, 1, x),
                           *spans = graph_input(&g, GGML_TYPE_I32, 2, c->n_span, 1, 1, c->spans);
        struct ggml_tensor * o = ggml_mra_span_pool(
            g.ctx, ggml_view_2d(g.ctx, all, c->d, c->n, all->nb[1], 0), spans, (enum mra_span_pool) kind, &err);
        CHECK(o, "%s", err.msg);
        float * y = graph_run(&g, o, n_threads);
        for (int s = 0; s < c->n_span; s++)
            for (int i = 0; i < c->d; i++) {
                const float a = y[s * c->d + i], b = expected(c, x, c->spans[s], i, kind);
                CHECK(a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-7 * fabs(b),
                    "%s, %d tokens, kind %d, span %d, channel %d: %g instead of %g", table->name, c->n, kind, s, i,
                    (double) a, (double) b);
            }
        free(y);
        graph_free(&g);
    }
}

int main(void) {
    const struct mra_kernels * tables[8];
    const int n_tables = kernel_tables(tables, 8);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct span_case * c = &cases[i];
        float * x = data_new(DATA_NORMAL, c->n, c->ld, 3);
        for (int special = 0; special < 3; special++) {
            if (special) x[(int64_t) (c->n / 2) * c->ld + c->d / 2] = special == 1 ? -INFINITY : NAN;
            for (int t = 0; t < n_tables; t++) {
                mra_kernels_set(tables[t]);
                for (int n_threads = 1; n_threads <= 3; n_threads += 2) test(c, x, tables[t], n_threads);
            }
        }
        free(x);
    }
    return summary("test-span-pool");
}
