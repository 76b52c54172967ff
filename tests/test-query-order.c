// Order of the queries of a head, and biases of its keys: every table of kernels against the reference. Splits are
// discontinuous, so an order may differ from the reference's where projections are equal within rounding: each node is
// checked by itself, and the orders are the same where no node was that close. Also real heads against numpy's order
// and biases (golden/make_attn.py). usage: test-query-order FOLDER
#include "harness.h"
#include "../examples/common/npy.h"
#include "../ggml-mra/src/ref/common.h"

enum { H = MRA_QUERY_BLOCK, MAX_N = 1100, MAX_D = 144, BIG = 100 };

enum damage { NONE, EQUAL_ROWS, NAN_QUERY, NAN_UNSAMPLED, INF_QUERY, NAN_KEY, HUGE_BOTH, TINY_BOTH, BEYOND_FLOAT };

struct test_case {
    int n_q, n_k, d, dv;
    enum data_kind kind;
    enum damage damage;
    bool f16;
};

static const struct test_case cases[] = {
    { 1, 1, 32, 32, DATA_NORMAL, NONE, false },
    { 15, 15, 32, 32, DATA_NORMAL, NONE, false },
    { 16, 16, 64, 64, DATA_NORMAL, NONE, true },
    { 17, 17, 64, 64, DATA_NORMAL, NONE, false },
    { 33, 33, 32, 32, DATA_NORMAL, NONE, true },
    { 48, 1, 32, 32, DATA_NORMAL, NONE, false }, // one key: no covariance, so no order
    { 97, 97, 80, 80, DATA_NORMAL, NONE, false },
    { 127, 300, 128, 128, DATA_NORMAL, NONE, true },
    { 211, 90, 24, 40, DATA_NORMAL, NONE, false },
    { 300, 300, 8, 8, DATA_NORMAL, NONE, true },
    { 512, 512, 32, 32, DATA_WALK, NONE, false },
    { 1021, 1021, 64, 64, DATA_NORMAL, NONE, false },
    { 1024, 1024, 64, 32, DATA_WALK, NONE, true },
    { 200, 200, 144, 144, DATA_NORMAL, NONE, false },
    { 257, 257, 32, 32, DATA_GRID, NONE, false },
    { 257, 257, 32, 32, DATA_TIES, NONE, false },
    { 257, 257, 64, 64, DATA_CONST, NONE, false },
    { 257, 257, 64, 64, DATA_HUGE, NONE, false },
    { 257, 257, 64, 64, DATA_NORMAL, HUGE_BOTH, false },
    { 257, 257, 64, 64, DATA_NORMAL, TINY_BOTH, false },
    { 257, 257, 64, 64, DATA_NORMAL, BEYOND_FLOAT, false },
    { 257, 257, 32, 32, DATA_NORMAL, EQUAL_ROWS, false },
    { 257, 257, 32, 32, DATA_NORMAL, NAN_QUERY, false },
    { 257, 257, 32, 32, DATA_NORMAL, NAN_UNSAMPLED, false },
    { 257, 257, 32, 32, DATA_NORMAL, INF_QUERY, false },
    { 257, 257, 64, 64, DATA_NORMAL, NAN_KEY, false },
};

// queries that are not numbers
static bool poisoned(const struct test_case * c) {
    return c->damage == NAN_QUERY || c->damage == NAN_UNSAMPLED || c->damage == INF_QUERY;
}

// what a kernel reads, and its results
struct head {
    float *q, *k, *v;
    uint16_t *k16, *v16;
    struct mra_attn_head a;
    void * scratch;
    size_t scratch_bytes;
};

// of one row in five, so that rows are not as far apart as their values are long; k and v hold what F16 can
static struct mra_rows rows_of(float ** f32, uint16_t ** f16, const struct test_case * c, int n, int d, int seed) {
    float * x = data_new(c->kind, n, d, (uint64_t) seed);
    const int gap = d + 8;
    *f32 = calloc((size_t) n * gap + 16, sizeof(float));
    *f16 = calloc((size_t) n * gap + 16, sizeof(uint16_t));
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < d; j++) {
            const ggml_fp16_t h = ggml_fp32_to_fp16(x[i * d + j]);
            (*f16)[i * gap + j] = h;
            (*f32)[i * gap + j] = c->f16 ? ggml_fp16_to_fp32(h) : x[i * d + j];
        }
    }
    free(x);
    return (struct mra_rows) { (const char *) *f32, sizeof(float) * gap, MRA_F32 };
}

static void scale_rows(float * x, int n, float f) {
    for (int i = 0; i < n; i++) x[i] *= f;
}

static struct head head_new(const struct test_case * c, int seed) {
    struct head h = { 0 };
    uint16_t * unused;
    h.a = (struct mra_attn_head) { .n_q = c->n_q, .n_k = c->n_k, .d = c->d, .dv = c->dv, .scale = .2f };
    h.a.q = rows_of(&h.q, &unused, c, c->n_q, c->d, 3 * seed);
    free(unused);
    h.a.k = rows_of(&h.k, &h.k16, c, c->n_k, c->d, 3 * seed + 1);
    h.a.v = rows_of(&h.v, &h.v16, c, c->n_k, c->dv, 3 * seed + 2);
    const int gap = c->d + 8;
    const float f = c->damage == HUGE_BOTH ? 1e8f : c->damage == TINY_BOTH ? 1e-12f : 3e37f;
    if (c->damage >= HUGE_BOTH) {
        scale_rows(h.q, c->n_q * gap, f);
        scale_rows(h.k, c->n_k * gap, f);
    }
    const int step = mra_order_stride(c->n_q, MRA_ORDER_ROWS);
    for (int i = 0; i < c->n_q; i++) {
        if (c->damage == EQUAL_ROWS)
            memcpy(h.q + i * gap, h.q + i % 5 * gap, sizeof(float) * c->d);         // ties at every cut
        if (c->damage == NAN_UNSAMPLED && i % step != step / 2) h.q[i * gap] = NAN; // more than a part has room for
    }
    if (c->damage == NAN_QUERY || c->damage == INF_QUERY) h.q[20 * gap + 3] = c->damage == NAN_QUERY ? NAN : INFINITY;
    if (c->damage == NAN_KEY) h.k[mra_order_stride(c->n_k, MRA_ORDER_KEYS) * gap] = NAN;
    if (c->f16) {
        h.a.k = (struct mra_rows) { (const char *) h.k16, sizeof(uint16_t) * (c->d + 8), MRA_F16 };
        h.a.v = (struct mra_rows) { (const char *) h.v16, sizeof(uint16_t) * (c->dv + 8), MRA_F16 };
    }
    const int D = MRA_ROUND_UP(c->d, MRA_PAD);
    h.a.sorted.order = malloc(sizeof(int32_t) * c->n_q);
    h.a.sorted.q_mean = malloc(sizeof(float) * D * ((c->n_q + H - 1) / H));
    h.a.sorted.q_var = malloc(sizeof(float) * D);
    h.a.sorted.spread = malloc(sizeof(float) * ((c->n_q + H - 1) / H));
    h.a.sorted.all_keys = malloc(sizeof(int32_t) * ((c->n_q + H - 1) / H));
    h.a.n_all = 2;
    h.a.sorted.k_mean = malloc(sizeof(float) * D);
    h.a.sorted.key_bias = malloc(sizeof(float) * c->n_k);
    h.scratch_bytes = MRA_ROUND_UP(mra_sorted_scratch(c->d, c->dv, c->n_q, c->n_k), 64);
    h.scratch = aligned_alloc(64, h.scratch_bytes);
    return h;
}

static void head_free(struct head * h) {
    void * all[] = { h->q, h->k, h->v, h->k16, h->v16, h->a.sorted.order, h->a.sorted.q_mean, h->a.sorted.q_var,
        h->a.sorted.spread, h->a.sorted.all_keys, h->a.sorted.k_mean, h->a.sorted.key_bias, h->scratch };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) free(all[i]);
}

static void order_with(struct head * h, const struct mra_kernels * kern, int dirt) {
    memset(h->scratch, dirt, h->scratch_bytes);
    memset(h->a.sorted.order, dirt, sizeof(int32_t) * h->a.n_q);
    kern->query_order(&h->a, false, h->scratch);
}

static bool is_permutation(const int32_t * order, int n) {
    bool seen[MAX_N] = { false };
    for (int i = 0; i < n; i++) {
        if (order[i] < 0 || order[i] >= n || seen[order[i]]) return false;
        seen[order[i]] = true;
    }
    return true;
}

static int ascending(const void * a, const void * b) {
    return (*(const int32_t *) a > *(const int32_t *) b) - (*(const int32_t *) a < *(const int32_t *) b);
}

struct verdict {
    double gap;     // smallest distance, of all nodes, between the parts: right minimum - left maximum, over the spread
    bool ascending; // rows of leaves
};

// the tree that order came from, node by node, against projections in double
static void check_nodes(const struct head * h, const double * C, const int32_t * order, int m, struct verdict * r) {
    if (m <= H) {
        for (int i = 1; i < m; i++) r->ascending = r->ascending && order[i] > order[i - 1];
        return;
    }
    const int d = h->a.d, cut = (m + 2 * H - 1) / (2 * H) * H;
    static double y[2 * MRA_ORDER_ROWS * MAX_D];
    double z[MAX_D], left = -INFINITY, right = INFINITY, lo = INFINITY, hi = -INFINITY;
    int32_t * idx = malloc(sizeof(int32_t) * m);
    memcpy(idx, order, sizeof(int32_t) * m);
    qsort(idx, m, sizeof(int32_t), ascending);
    if (mra_ref_split_direction(z, C, h->a.q, idx, m, d, y)) {
        for (int i = 0; i < m; i++) {
            double s = 0;
            for (int c = 0; c < d; c++) s += z[c] * mra_ref_value(h->a.q, order[i], c);
            lo = fmin(lo, s);
            hi = fmax(hi, s);
            if (i < cut) left = fmax(left, s);
            else right = fmin(right, s);
        }
        r->gap = fmin(r->gap, hi > lo ? (right - left) / (hi - lo) : 0);
    }
    free(idx);
    check_nodes(h, C, order, cut, r);
    check_nodes(h, C, order + cut, m - cut, r);
}

static void check_order(struct head * h, const struct test_case * c, const struct mra_kernels * kern, const double * C,
    const int32_t * want) {
    const int n = c->n_q;
    int32_t first[MAX_N];
    order_with(h, kern, 0xff);
    memcpy(first, h->a.sorted.order, sizeof(int32_t) * n);
    const bool permutes = is_permutation(first, n);
    CHECK(permutes, "%s n %d d %d kind %d damage %d: not a permutation", kern->name, n, c->d, c->kind, c->damage);
    if (!permutes) return;
    order_with(h, kern, 0x3f);
    CHECK(
        memcmp(first, h->a.sorted.order, sizeof(int32_t) * n) == 0, "%s n %d: differs the second time", kern->name, n);
    if (poisoned(c) || c->damage == BEYOND_FLOAT) return;
    struct verdict r = { INFINITY, true };
    check_nodes(h, C, first, n, &r);
    const bool same = memcmp(first, want, sizeof(int32_t) * n) == 0;
    CHECK(r.ascending, "%s n %d: a leaf is not in the order of the text", kern->name, n);
    CHECK(r.gap > -1e-5, "%s n %d d %d kind %d: a split is off by %.1e of its spread", kern->name, n, c->d, c->kind,
        -r.gap);
    CHECK(same || r.gap < 1e-5, "%s n %d d %d kind %d: differs from the reference, and no split is that close",
        kern->name, n, c->d, c->kind);
    if (c->kind == DATA_CONST || c->damage == NAN_KEY || c->n_k == 1) {
        bool text = true;
        for (int i = 0; i < n; i++) text = text && first[i] == i;
        CHECK(text, "%s n %d: nothing to sort by, and not the order of the text", kern->name, n);
    }
}

struct bias {
    float q_mean[MAX_N * MAX_D], q_var[MAX_D], spread[MAX_N], raw_spread[MAX_N], k_mean[MAX_D], key_bias[MAX_N];
    int32_t all_keys[MAX_N];
};

static void bias_with(struct head * h, const struct mra_kernels * kern, struct bias * b) {
    const int D = MRA_ROUND_UP(h->a.d, MRA_PAD);
    struct mra_sorted * s = &h->a.sorted;
    memset(h->scratch, 0xff, h->scratch_bytes);
    memset(s->q_mean, 0xff, sizeof(float) * D * ((h->a.n_q + H - 1) / H));
    memset(s->k_mean, 0xff, sizeof(float) * D);
    kern->query_order(&h->a, true, h->scratch);
    kern->key_bias(&h->a, h->scratch);
    memcpy(b->q_var, s->q_var, sizeof(float) * D);
    memcpy(b->spread, s->spread, sizeof(float) * ((h->a.n_q + H - 1) / H));
    memcpy(b->raw_spread, s->spread, sizeof(float) * ((h->a.n_q + H - 1) / H));
    memcpy(b->all_keys, s->all_keys, sizeof(int32_t) * ((h->a.n_q + H - 1) / H));
    memcpy(b->q_mean, s->q_mean, sizeof(float) * D * ((h->a.n_q + H - 1) / H));
    memcpy(b->k_mean, s->k_mean, sizeof(float) * D);
    memcpy(b->key_bias, s->key_bias, sizeof(float) * h->a.n_k);
}

// the n_all blocks that spread most, by the kernel's own spreads
static void check_all_keys(const struct head * h, const struct bias * b, const struct mra_kernels * kern) {
    const int n_block = (h->a.n_q + H - 1) / H;
    int n_wrong = 0;
    for (int x = 0; x < n_block; x++) {
        int n_before = 0;
        for (int y = 0; y < n_block; y++)
            n_before += b->raw_spread[y] > b->raw_spread[x] || (b->raw_spread[y] == b->raw_spread[x] && y < x);
        n_wrong += b->all_keys[x] != (n_before < h->a.n_all);
    }
    CHECK(n_wrong == 0, "%s n %d: %d blocks that should use all keys do not, or the reverse", kern->name, h->a.n_q,
        n_wrong);
}

// of a given order: the reference's
static void check_bias(struct head * h, const struct test_case * c, const struct mra_kernels * kern) {
    static struct bias got, want;
    const int D = MRA_ROUND_UP(c->d, MRA_PAD), n_block = (c->n_q + H - 1) / H;
    if (c->damage == BEYOND_FLOAT) return;
    bias_with(h, &mra_kernels_ref, &want);
    bias_with(h, kern, &got);
    if (poisoned(c) || c->damage == NAN_KEY) { // no bias is better than a choice by NaN
        int n_biased = 0;
        for (int j = 0; j < c->n_k; j++) n_biased += got.key_bias[j] != 0 || want.key_bias[j] != 0;
        CHECK(n_biased == 0, "%s damage %d: %d biases of NaN are not 0", kern->name, c->damage, n_biased);
        return;
    }
    const float unit = c->damage == HUGE_BOTH ? 1e-8f : c->damage == TINY_BOTH ? 1e12f : 1;
    for (struct bias * b = &got;; b = &want) {
        scale_rows(b->q_mean, D * n_block, unit);
        scale_rows(b->k_mean, D, unit);
        scale_rows(b->q_var, D, unit * unit);
        scale_rows(b->spread, n_block, unit * unit);
        if (b == &want) break;
    }
    const double eq = max_error(got.q_mean, want.q_mean, (int64_t) D * n_block);
    const double ek = max_error(got.k_mean, want.k_mean, D), eb = max_error(got.key_bias, want.key_bias, c->n_k);
    CHECK(eq <= 2e-6 && ek <= 2e-6, "%s n %d d %d kind %d: means differ by %.1e, %.1e", kern->name, c->n_q, c->d,
        c->kind, eq, ek);
    const double ev = max_error(got.q_var, want.q_var, D), es = max_error(got.spread, want.spread, n_block);
    CHECK(ev <= 5e-6 && es <= 5e-6, "%s n %d d %d kind %d: variances differ by %.1e, spreads by %.1e", kern->name,
        c->n_q, c->d, c->kind, ev, es);
    check_all_keys(h, &got, kern);
    const bool finite_only = c->kind == DATA_CONST; // logarithms of what rounding leaves
    CHECK(finite_only ? eb < INFINITY : eb <= 5e-6, "%s n %d d %d kind %d damage %d: biases differ by %.1e", kern->name,
        c->n_q, c->d, c->kind, c->damage, eb);
}

// queries of `n_kind` well separated kinds, mixed: every block is of one kind
static void test_separates(const struct mra_kernels * kern) {
    enum { N = 256, D = 32 };
    const struct test_case c = { N, N, D, D, DATA_NORMAL, NONE, false };
    for (int n_kind = 2; n_kind <= 16; n_kind *= 2) {
        struct head h = head_new(&c, BIG + n_kind);
        for (int i = 0; i < N; i++) {
            const int kind = i * 7 % n_kind;
            for (int j = 0; j < D; j++)
                h.q[i * (D + 8) + j] = .01f * h.q[i * (D + 8) + j] + (j == 2 * kind ? 4.0f + (float) kind : 0);
        }
        order_with(&h, kern, 0);
        int n_mixed = 0;
        for (int i = 0; i < N; i++)
            n_mixed += h.a.sorted.order[i] * 7 % n_kind != h.a.sorted.order[i & ~(H - 1)] * 7 % n_kind;
        CHECK(n_mixed == 0, "%s: %d rows of %d kinds are in a block of another kind", kern->name, n_mixed, n_kind);
        head_free(&h);
    }
}

// a golden array of 4 heads; false, and a failed check, where it cannot be read
static bool golden_read(struct npy * x, const char * dir, const char * name, int64_t n) {
    char path[512];
    struct mra_error err = { 0 };
    snprintf(path, sizeof(path), "%s/%s.npy", dir, name);
    const bool ok = npy_read(x, path, &err) == MRA_OK && x->n == n;
    CHECK(ok, "%s: %s", path, err.msg);
    return ok;
}

// MiniLM's heads: numpy's order, and its biases for that order
static void test_golden(const char * dir, const char * name, int n, const struct mra_kernels * kern) {
    enum { N_HEAD = 4, N = 512, D = 32, GAP = D + 8 };
    struct npy qkv, order, bias;
    char file[64];
    if (!golden_read(&qkv, dir, "qkv", 3 * N_HEAD * N * D)) return;
    snprintf(file, sizeof(file), "%s.order", name);
    if (!golden_read(&order, dir, file, N_HEAD * n)) return;
    snprintf(file, sizeof(file), "%s.bias", name);
    if (!golden_read(&bias, dir, file, N_HEAD * n)) return;
    const struct test_case c = { n, n, D, D, DATA_NORMAL, NONE, false };
    struct head h = head_new(&c, 1);
    h.a.scale = 1 / sqrtf(D);
    for (int head = 0; head < N_HEAD; head++) {
        float * dst[3] = { h.q, h.k, h.v };
        for (int i = 0; i < 3 * n; i++)
            memcpy(dst[i / n] + i % n * GAP, qkv.data + ((int64_t) (i / n * N_HEAD + head) * N + i % n) * D,
                sizeof(float) * D);
        order_with(&h, kern, 0);
        int n_other = 0;
        for (int i = 0; i < n; i++) n_other += h.a.sorted.order[i] != (int32_t) order.data[head * n + i];
        CHECK(n_other == 0, "%s %s head %d: %d of %d rows are not where numpy has them", kern->name, name, head,
            n_other, n);
        for (int i = 0; i < n; i++) h.a.sorted.order[i] = (int32_t) order.data[head * n + i];
        kern->query_order(&h.a, true, h.scratch);
        kern->key_bias(&h.a, h.scratch);
        scale_rows(h.a.sorted.key_bias, n, h.a.scale);
        const double e = max_error(h.a.sorted.key_bias, bias.data + head * n, n);
        CHECK(e <= 5e-6, "%s %s head %d: biases differ from numpy's by %.1e", kern->name, name, head, e);
    }
    head_free(&h);
    npy_free(&qkv);
    npy_free(&order);
    npy_free(&bias);
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: test-query-order FOLDER\n");
        return 2;
    }
    const struct mra_kernels * tables[8];
    const int n_tables = kernel_tables(tables, 8);
    static double C[MAX_D * MAX_D];
    static int32_t want[MAX_N];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct head h = head_new(&cases[i], (int) i + 1);
        mra_ref_key_covariance(C, h.a.k, h.a.n_k, h.a.d);
        order_with(&h, &mra_kernels_ref, 0);
        memcpy(want, h.a.sorted.order, sizeof(int32_t) * h.a.n_q);
        for (int t = 0; t < n_tables; t++) check_order(&h, &cases[i], tables[t], C, want);
        memcpy(h.a.sorted.order, want, sizeof(int32_t) * h.a.n_q);
        for (int t = 0; t < n_tables; t++) check_bias(&h, &cases[i], tables[t]);
        head_free(&h);
    }
    for (int t = 0; t < n_tables; t++) {
        test_separates(tables[t]);
        test_golden(argv[1], "sorted-4", 512, tables[t]);
        test_golden(argv[1], "sorted-301", 301, tables[t]);
    }
    return summary("test-query-order");
}
