// Heads of the sorted frame with shares: a head with a share is the head of a node with as many kept keys, bit by bit,
// one that gets all keys is exact attention, and neither threads nor neighbours change anything. What it costs is what
// mra_attn_work_shares says.
#include "harness.h"

enum { N_HEAD = 5, N_KV = 5, D = 32, N = 700, SHORT = 300 };

struct setting {
    enum ggml_type kv;
    enum mra_attn_type type;
    int n_kv;
};

static const float shares[N_HEAD] = { 1, 0, .4f, 1e6f, 2.2f };

// rows of head h : [n][D], malloc'ed
static float * head_of(const float * out, int h, int n) {
    float * x = malloc(sizeof(float) * D * (size_t) n);
    for (int i = 0; i < n; i++) memcpy(x + (size_t) i * D, out + ((size_t) i * N_HEAD + h) * D, sizeof(float) * D);
    return x;
}

// two packed sequences of N and SHORT tokens, or the first alone; given NULL: no shares
static float * run(
    const struct setting * s, const struct mra_attn_params * params, const float * given, bool both, int n_threads) {
    struct graph g = graph_new();
    const int n = both ? N + SHORT : N;
    const int32_t starts[3] = { 0, N, N + SHORT };
    struct mra_attn_params p = *params;
    p.type = s->type;
    p.n_threads = n_threads;
    float * x[3];
    struct ggml_tensor * t[3];
    for (int i = 0; i < 3; i++) {
        const int heads = i ? s->n_kv : N_HEAD;
        x[i] = data_new(DATA_WALK, (int64_t) heads * (N + SHORT), D, (uint64_t) i + 7);
        float * cut = malloc(sizeof(float) * D * (size_t) (heads * n));
        for (int h = 0; h < heads; h++)
            memcpy(cut + (size_t) h * n * D, x[i] + (size_t) h * (N + SHORT) * D, sizeof(float) * D * (size_t) n);
        t[i] = graph_heads(&g, i ? s->kv : GGML_TYPE_F32, D, n, heads, 1, cut, 1);
        free(cut);
        free(x[i]);
    }
    if (given) p.shares = graph_input(&g, GGML_TYPE_F32, N_HEAD, 1, 1, 1, given);
    struct mra_error err = { 0 };
    struct ggml_tensor * o = ggml_mra_attn_packed(
        g.ctx, t[0], t[1], t[2], graph_input(&g, GGML_TYPE_I32, both ? 3 : 2, 1, 1, 1, starts), N, &p, &err);
    CHECK(o, "%s", err.msg);
    float * out = graph_run(&g, o, n_threads);
    graph_free(&g);
    return out;
}

static struct mra_attn_params sorted(float budget) {
    struct mra_attn_params p = mra_attn_params_default();
    p.budget = budget;
    CHECK(mra_attn_params_parse(&p, "sorted", NULL) == MRA_OK, "sorted");
    return p;
}

// head h of a node in which every head keeps as many keys as h's share gives it
static void check_head(const struct setting * s, const float * all, int h, float budget) {
    struct mra_attn_params p = sorted(budget);
    const struct mra_columns_plan base = mra_plan_sorted(budget, -1, -1, 0, N), c = mra_plan_share(base, shares[h], N);
    if (c.exact) p = mra_attn_params_exact();
    else {
        p.counts[0] = c.m1;
        p.counts[1] = c.m2;
        p.counts[2] = mra_sorted_all_keys(budget, N);
    }
    CHECK(c.exact == (h == 3), "head %d: exact", h);
    CHECK(c.exact || c.m2 == (int) rint((double) shares[h] * base.m2), "head %d keeps %d keys", h, c.m2);
    float *other = run(s, &p, NULL, false, 1), *x = head_of(all, h, N), *y = head_of(other, h, N);
    const bool integers = mra_attn_type_runs(s->type) == MRA_ATTN_INT8;
    const double e = max_error(x, y, (int64_t) N * D);
    if (c.exact && integers) CHECK(e < .02, "int8, a head with all keys is %.1e off exact attention", e);
    else
        CHECK(memcmp(x, y, sizeof(float) * D * N) == 0, "head %d, share %g: %.1e off the same counts", h,
            (double) shares[h], e);
    free(other);
    free(x);
    free(y);
}

static void check_setting(const struct setting * s) {
    const float ones[N_HEAD] = { 1, 1, 1, 1, 1 }, odd[N_HEAD] = { NAN, -1, 1, 1, 1 };
    const struct mra_attn_params p = sorted(.25f);
    float *all = run(s, &p, shares, false, 1), *plain = run(s, &p, NULL, false, 2);
    for (int h = 0; h < N_HEAD; h++) check_head(s, all, h, .25f);
    const size_t bytes = sizeof(float) * D * N * N_HEAD;
    for (int n = 2; n <= 5; n += 3) {
        float * y = run(s, &p, shares, false, n);
        CHECK(memcmp(all, y, bytes) == 0, "%d threads give another result", n);
        free(y);
    }
    float *both = run(s, &p, shares, true, 2), *one = run(s, &p, ones, false, 2), *no = run(s, &p, odd, false, 2);
    CHECK(memcmp(all, both, bytes) == 0, "a neighbour changes the result");
    CHECK(memcmp(plain, one, bytes) == 0, "shares of 1 change the result");
    CHECK(memcmp(plain, no, bytes) == 0, "shares that are no numbers do not count as 1");
    CHECK(memcmp(plain, all, bytes) != 0, "shares change nothing");
    free(both);
    free(one);
    free(no);
    free(all);
    free(plain);
}

static void check_work(void) {
    struct mra_attn_params p = sorted(.25f);
    const float some[4] = { .5f, 1.5f, 0, 2 }, most = 1e6f, one = 1, none = 0;
    for (int n = 512; n <= 65536; n *= 2) {
        const double plain = mra_attn_work(&p, n, n), work = mra_attn_work_shares(&p, n, n, some, 4);
        CHECK(fabs(work - plain) <= 2.0 / n, "n = %d: shares with the mean 1 cost %.5f, not %.5f", n, work, plain);
        CHECK(mra_attn_work_shares(&p, n, n, &most, 1) == 1, "n = %d: all keys are not the whole work", n);
        CHECK(mra_attn_work_shares(&p, n, n, &one, 1) == plain && mra_attn_work_shares(&p, n, n, NULL, 0) == plain,
            "n = %d: a share of 1 has other work", n);
        const double left = mra_attn_work_shares(&p, n, n, &none, 1);
        CHECK(left > 1.0 / 16 && left < .14, "n = %d: no kept keys cost %.5f", n, left);
    }
    p.budget = 2;
    CHECK(mra_attn_work_shares(&p, 512, 512, some, 4) < 0, "work of bad settings");
}

static void check_errors(void) {
    struct graph g = graph_new();
    float * x = data_new(DATA_NORMAL, 4 * 300, 32, 1);
    struct ggml_tensor * t = graph_heads(&g, GGML_TYPE_F32, 32, 300, 4, 1, x, 0);
    struct mra_error err;
    struct mra_attn_params p = sorted(.25f);
    p.shares = graph_input(&g, GGML_TYPE_F32, 3, 1, 1, 1, x);
    CHECK(!ggml_mra_attn(g.ctx, t, t, t, NULL, &p, &err) && strstr(err.msg, "shares"), "3 shares of 4 heads");
    p.shares = graph_input(&g, GGML_TYPE_F16, 4, 1, 1, 1, x);
    CHECK(!ggml_mra_attn(g.ctx, t, t, t, NULL, &p, &err) && strstr(err.msg, "shares"), "shares of F16");
    p = mra_attn_params_default();
    p.shares = graph_input(&g, GGML_TYPE_F32, 4, 1, 1, 1, x);
    CHECK(!ggml_mra_attn(g.ctx, t, t, t, NULL, &p, &err) && strstr(err.msg, "sorted"), "shares of columns");
    free(x);
    graph_free(&g);
}

int main(void) {
    static const struct setting settings[] = {
        { GGML_TYPE_F32, MRA_ATTN_FLOAT, N_KV },
        { GGML_TYPE_F16, MRA_ATTN_FLOAT, N_KV },
        { GGML_TYPE_F32, MRA_ATTN_FLOAT, 1 },
        { GGML_TYPE_F32, MRA_ATTN_INT8, N_KV },
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) check_setting(&settings[i]);
    check_work();
    check_errors();
    return summary("test-shares");
}
