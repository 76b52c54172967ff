// Attention in integers, kernel by kernel: the same integers as the scalar reference (1e-5), and how far they are from
// attention in floats, on real queries, keys and values and on hard ones. usage: test-int8 QKV.npy
#include "harness.h"
#include "../examples/common/npy.h"

enum kind {
    NORMAL,
    Q_OUTLIER, // a channel 50 times as large
    K_OUTLIER,
    V_OUTLIER,
    HUGE_SCORE, // of one key
    EQUAL_KEYS,
    ZERO_VALUES, // every third row
    NO_VALUES,   // all of them 0
    ZERO_QUERY,
    TINY_SINK, // most of the weight on a key with almost no value
    LARGE_V,   // 1e30
    HUGE_ROWS, // three rows of q
    HUGE_ALL,  // scores of +-1e4: for floats
    ALIGNED,   // each query is a key, 10 times as large: some for floats, though no weight is small
    BAD_Q,     // NaN in a row of q
    BAD_K,
    BAD_V, // infinite
    N_KINDS
};
static const char * const kind_names[] = { "normal", "q outlier", "k outlier", "v outlier", "huge score", "equal keys",
    "zero values", "no values", "zero query", "tiny sink", "large v", "huge rows", "huge scores", "aligned", "NaN in q",
    "NaN in k", "inf in v" };

// left: rows that the guard must leave to floats; error: what bytes may be off by
struct int8_case {
    enum kind kind;
    int n_q, n_k, d, dv;
    bool f16;
    int left;
    double error;
};
static const struct int8_case cases[] = {
    { NORMAL, 1, 1, 64, 64, false, 0, 0.01 },
    { NORMAL, 1, 600, 64, 64, false, 0, 0.025 },
    { NORMAL, 100, 3, 32, 32, false, 0, 0.025 },
    { NORMAL, 31, 31, 80, 80, false, 0, 0.025 },
    { NORMAL, 33, 33, 128, 128, true, 0, 0.025 },
    { NORMAL, 63, 64, 32, 32, true, 0, 0.025 },
    { NORMAL, 65, 65, 64, 64, true, 0, 0.025 },
    { NORMAL, 211, 211, 64, 32, false, 0, 0.025 },
    { NORMAL, 40, 513, 24, 40, false, 0, 0.025 },
    { NORMAL, 40, 130, 256, 256, false, 0, 0.025 },
    { NORMAL, 64, 1100, 64, 64, false, 0, 0.025 },
    { Q_OUTLIER, 65, 513, 64, 64, false, 0, 0.025 },
    { K_OUTLIER, 65, 513, 64, 64, false, 0, 0.025 },
    { V_OUTLIER, 65, 513, 64, 64, false, 0, 0.03 },
    { HUGE_SCORE, 33, 513, 64, 64, false, -1, 0.01 },
    { EQUAL_KEYS, 33, 513, 64, 64, false, 0, 0.015 },
    { ZERO_VALUES, 33, 513, 64, 64, false, 0, 0.025 },
    { NO_VALUES, 33, 130, 64, 64, false, 0, 0 },
    { ZERO_QUERY, 33, 513, 32, 32, false, 0, 0.015 },
    { TINY_SINK, 33, 513, 64, 64, false, 0, 0.08 },
    { LARGE_V, 33, 513, 64, 64, false, 0, 0.025 },
    { HUGE_ROWS, 70, 513, 64, 64, false, 3, 0.03 }, // such rows in the sample make the factors worse
    { HUGE_ALL, 70, 513, 64, 64, false, 70, 1e-5 },
    { ALIGNED, 70, 130, 64, 64, false, -1, 0.01 },
    { BAD_Q, 70, 130, 64, 64, false, 1, 0.025 },
    { BAD_K, 40, 130, 64, 64, false, 40, 1e-5 },
    { BAD_V, 40, 130, 64, 64, false, 40, 1e-5 },
};

static void * memory(size_t bytes) {
    void * p = aligned_alloc(64, MRA_ROUND_UP(bytes + 64, 64));
    memset(p, 0x55, bytes + 64); // not zeros
    return p;
}

// rows of a tensor in which others' rows lie between; owned
struct rows {
    float * x; // [n][d], what the kernels see
    void * mem;
    struct mra_rows rows;
};
static struct rows rows_new(const float * x, int n, int d, bool f16) {
    const size_t es = f16 ? 2 : 4, stride = 2 * es * d;
    struct rows r = { malloc(sizeof(float) * n * d), memory(stride * n), { NULL, 0, MRA_F32 } };
    for (int64_t i = 0; i < (int64_t) n * d; i++) {
        char * dst = (char *) r.mem + i / d * stride + i % d * es;
        r.x[i] = x[i];
        if (f16) {
            const ggml_fp16_t h = ggml_fp32_to_fp16(x[i]);
            memcpy(dst, &h, 2);
            r.x[i] = ggml_fp16_to_fp32(h);
        } else memcpy(dst, &x[i], 4);
    }
    r.rows = (struct mra_rows) { r.mem, stride, f16 ? MRA_F16 : MRA_F32 };
    return r;
}
static void rows_free(struct rows * r) {
    free(r->x);
    free(r->mem);
}

// one head: its rows, float copies for the float kernel, and the result
struct head {
    struct rows q, k, v;
    struct mra_attn_head a;
};
static struct head head_new(
    const float * q, const float * k, const float * v, int n_q, int n_k, int d, int dv, bool f16) {
    struct head h = { .q = rows_new(q, n_q, d, false), .k = rows_new(k, n_k, d, f16), .v = rows_new(v, n_k, dv, f16) };
    h.a = (struct mra_attn_head) { .q = h.q.rows,
        .k = h.k.rows,
        .v = h.v.rows,
        .n_q = n_q,
        .n_k = n_k,
        .d = d,
        .dv = dv,
        .scale = 1 / sqrtf((float) d),
        .ld_out = dv + 3 };
    const int dp = MRA_ROUND_UP(d, MRA_PAD), dvp = MRA_ROUND_UP(dv, MRA_PAD);
    const size_t es = f16 ? 2 : 4;
    h.a.pack = (struct mra_pack) {
        .type = h.k.rows.type, .k = memory(es * dp * n_k), .v = memory(es * dvp * n_k), .ldk = dp, .ldv = dvp
    };
    h.a.out = memory(sizeof(float) * h.a.ld_out * n_q);
    return h;
}
static void head_free(struct head * h) {
    rows_free(&h->q);
    rows_free(&h->k);
    rows_free(&h->v);
    free(h->a.pack.k);
    free(h->a.pack.v);
    free(h->a.out);
}

static void spoil(const struct int8_case * c, float * q, float * k, float * v) {
    const int d = c->d, dv = c->dv;
    for (int i = 0; i < c->n_q; i++) {
        float * r = q + i * d;
        if (c->kind == Q_OUTLIER) r[5] *= 50;
        if (c->kind == K_OUTLIER) r[5] *= 0.02f;
        for (int x = 0; x < d; x++) {
            if (c->kind == ALIGNED) r[x] = 10 * k[i * d + x];
            if (c->kind == HUGE_SCORE) r[x] = fabsf(r[x]) * (x % 2 ? 1 : -1);
            if (c->kind == ZERO_QUERY) r[x] = 0;
            if (c->kind == HUGE_ALL) r[x] *= 60;
        }
        if (c->kind == TINY_SINK) r[2] = 3;
    }
    for (int j = 0; j < c->n_k; j++) {
        float *r = k + j * d, *s = v + j * dv;
        if (c->kind == Q_OUTLIER) r[5] *= 0.02f;
        if (c->kind == K_OUTLIER) r[5] *= 50;
        if (c->kind == V_OUTLIER) s[5] *= 50;
        if (c->kind == EQUAL_KEYS) memcpy(r, k, sizeof(float) * d);
        for (int x = 0; x < d; x++) {
            if (c->kind == HUGE_SCORE && j == c->n_k / 2) r[x] = x % 2 ? 12 : -12;
            if (c->kind == HUGE_ALL) r[x] *= 60;
            if (c->kind == TINY_SINK) r[x] = j ? 0.3f * r[x] : x == 2 ? 20 : 0;
        }
        for (int x = 0; x < dv; x++) {
            if ((c->kind == ZERO_VALUES && j % 3 == 0) || c->kind == NO_VALUES) s[x] = 0;
            if (c->kind == TINY_SINK && j == 0) s[x] *= 1e-3f;
            if (c->kind == LARGE_V) s[x] *= 1e30f;
        }
    }
    if (c->kind == BAD_Q) q[40 * d + 1] = NAN;
    for (int i = 40; c->kind == HUGE_ROWS && i < 47; i += i == 40 ? 5 : 1) // 40, 45, 46: two runs
        for (int x = 0; x < d; x++) q[i * d + x] *= 2000;
    if (c->kind == BAD_K) k[17 * d + 1] = NAN;
    if (c->kind == BAD_V) v[17 * dv + 1] = INFINITY;
}

static struct head head_of(const struct int8_case * c) {
    float *q = data_new(DATA_NORMAL, c->n_q, c->d, 1), *k = data_new(DATA_NORMAL, c->n_k, c->d, 2),
          *v = data_new(DATA_NORMAL, c->n_k, c->dv, 3);
    for (int64_t i = 0; i < (int64_t) c->n_q * c->d; i++) q[i] *= 1.5f;
    for (int64_t i = 0; i < (int64_t) c->n_k * c->d; i++) k[i] = 1.5f * k[i] + (i % c->d == 3 ? 4 : 0); // not centred
    spoil(c, q, k, v);
    struct head h = head_new(q, k, v, c->n_q, c->n_k, c->d, c->dv, c->f16);
    free(q);
    free(k);
    free(v);
    return h;
}

// [n_q][dv] of the rows in a->out; malloc'ed
static float * result(const struct mra_attn_head * a) {
    float * r = malloc(sizeof(float) * a->n_q * a->dv);
    for (int i = 0; i < a->n_q; i++) memcpy(r + i * a->dv, a->out + i * a->ld_out, sizeof(float) * a->dv);
    return r;
}

struct packed {
    void * mem;
    struct mra_int8_pack p;
};
static struct packed packed_new(
    const struct mra_int8_kernels * k, const struct mra_attn_head * a, bool gather, int step) {
    struct packed r = { memory(mra_int8_pack_size(a->d, a->dv, a->n_k, k->bytes)), { 0 } };
    r.p = mra_int8_pack_at(r.mem, a->d, a->dv, a->n_k, k->bytes, gather);
    for (int j = MRA_ROUND_UP(a->n_k, step) - step; j >= 0; j -= step) // in any order
        k->pack(a, &r.p, j, j + step < a->n_k ? j + step : a->n_k);
    return r;
}

// by the integer kernel alone; NaN where rows are left to floats. idx NULL: all keys
static float * run_integers(const struct mra_int8_kernels * k, struct mra_attn_head * a, const int32_t * idx, int n_idx,
    const float * state, int step) {
    struct packed p = packed_new(k, a, idx != NULL, step);
    void * scratch = memory(MRA_INT8_SCRATCH);
    const int rows = idx ? MRA_INT8_GATHER : MRA_INT8_ROWS;
    for (int i = 0; i < a->n_q; i += rows) {
        const int i1 = i + rows < a->n_q ? i + rows : a->n_q;
        const uint32_t left = k->attn(a, &p.p, i, i1, idx, n_idx, state, scratch);
        for (int r = i; r < i1; r++)
            for (int c = 0; left >> (r - i) & 1 && c < a->dv; c++) a->out[r * a->ld_out + c] = NAN;
    }
    free(p.mem);
    free(scratch);
    return result(a);
}

// as a node would: rows that the guard refuses by floats
static float * run_rows(const struct mra_kernels * k, struct mra_attn_head * a, int * n_left) {
    struct packed p = packed_new(&k->int8, a, false, 512);
    const size_t other = mra_block_sparse_attn_scratch(a->d, a->dv);
    void * scratch = memory(other > MRA_INT8_SCRATCH ? other : MRA_INT8_SCRATCH);
    k->pack(a, 0, a->n_k, true, false);
    *n_left = 0;
    for (int i = 0; i < a->n_q; i += MRA_EXACT_ROWS) {
        const int i1 = i + MRA_EXACT_ROWS < a->n_q ? i + MRA_EXACT_ROWS : a->n_q;
        *n_left += mra_int8_attn_rows(k, a, &p.p, i, i1, scratch);
    }
    free(p.mem);
    free(scratch);
    return result(a);
}

static float * run_exact(struct mra_attn_head * a, const int32_t * idx, int n_idx, const float * state) {
    mra_kernels_ref.block_sparse_attn(a, 0, a->n_q, idx, n_idx, 1, state, NULL);
    return result(a);
}

// by the float kernel of k, for what becomes of NaN and infinities
static float * run_float(const struct mra_kernels * k, struct mra_attn_head * a) {
    void * scratch = memory(mra_block_sparse_attn_scratch(a->d, a->dv));
    k->pack(a, 0, a->n_k, true, false);
    for (int i = 0; i < a->n_q; i += MRA_EXACT_ROWS)
        k->block_sparse_attn(
            a, i, i + MRA_EXACT_ROWS < a->n_q ? i + MRA_EXACT_ROWS : a->n_q, NULL, 0, 1, NULL, scratch);
    free(scratch);
    return result(a);
}

// relative error where the exact result is a number; infinite where only one of them is
static double error_of(const float * a, const float * exact, int64_t n) {
    double e2 = 0, r2 = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(exact[i]) != !isfinite(a[i])) return INFINITY;
        if (!isfinite(exact[i])) continue;
        e2 += ((double) a[i] - exact[i]) * ((double) a[i] - exact[i]);
        r2 += (double) exact[i] * exact[i];
    }
    return e2 == 0 ? 0 : sqrt(e2 / r2);
}

static void test_case(const struct mra_kernels * k, const struct int8_case * c) {
    struct head h = head_of(c);
    const int64_t n = (int64_t) c->n_q * c->dv;
    float *ref = run_integers(mra_int8_reference(&k->int8), &h.a, NULL, 0, NULL, 512),
          *a = run_integers(&k->int8, &h.a, NULL, 0, NULL, 512), *b = run_integers(&k->int8, &h.a, NULL, 0, NULL, 64);
    const char * name = kind_names[c->kind];
    const double e = max_difference(a, ref, n);
    CHECK(e <= 1e-5, "%s %s n=%d d=%d: differs from the reference by %.1e", k->name, name, c->n_k, c->d, e);
    CHECK(memcmp(a, b, sizeof(float) * n) == 0, "%s %s n=%d: packed in parts gives other bits", k->name, name, c->n_k);
    int left;
    float *rows = run_rows(k, &h.a, &left), *floats = run_float(k, &h.a);
    float * exact = c->kind >= BAD_Q ? floats : run_exact(&h.a, NULL, 0, NULL);
    int n_other = 0;
    for (int64_t i = 0; i < n; i++) n_other += isnan(a[i]) && memcmp(&rows[i], &floats[i], sizeof(float)) != 0;
    CHECK(n_other == 0, "%s %s: rows left to floats are not what floats give", k->name, name);
    const double off = error_of(rows, exact, n);
    CHECK(off <= int8_tolerance(k, c->error), "%s %s n=%d d=%d: error %.5f", k->name, name, c->n_k, c->d, off);
    CHECK(
        c->left < 0 || left == c->left || (c->kind == HUGE_ALL && mra_int8_reference(&k->int8) == &mra_int8_ref_words),
        "%s %s: %d rows left to floats, not %d", k->name, name, left, c->left);
    free(ref);
    free(a);
    free(b);
    free(rows);
    if (exact != floats) free(exact);
    free(floats);
    head_free(&h);
}

// lists of keys, from a coarse state or from none
static void test_list(const struct mra_kernels * k, int n_k, int d, int dv, int m, bool with_state) {
    const struct int8_case c = { NORMAL, 48, n_k, d, dv, false, 0, 0 };
    struct head h = head_of(&c);
    uint64_t seed = 5;
    int32_t * idx = malloc(sizeof(int32_t) * m);
    int n = 0;
    for (int j = 0; j < n_k && n < m; j++)
        if (rng_int(&seed, 1, n_k - j) <= m - n) idx[n++] = j;
    float state[MRA_INT8_MAX_DIM + 2];
    for (int i = 0; i < dv; i++) state[i] = rng_normal(&seed) * 20;
    state[dv] = 4;
    state[dv + 1] = 30;
    const float * from = with_state ? state : NULL;
    float *ref = run_integers(mra_int8_reference(&k->int8), &h.a, idx, n, from, 512),
          *a = run_integers(&k->int8, &h.a, idx, n, from, 512), *exact = run_exact(&h.a, idx, n, from);
    const double e = max_difference(a, ref, 48 * dv), off = error_of(a, exact, 48 * dv);
    CHECK(e <= 1e-5, "%s: %d of %d keys, d=%d: differs from the reference by %.1e", k->name, m, n_k, d, e);
    CHECK(off <= int8_tolerance(k, 0.025), "%s: %d of %d keys, d=%d: error %.5f", k->name, m, n_k, d, off);
    free(idx);
    free(ref);
    free(a);
    free(exact);
    head_free(&h);
}

// what machines without tiles test is what tiles compute, bit for bit
static void test_plain(const struct mra_kernels * tiles, const struct mra_kernels * plain, const struct int8_case * c) {
    struct head h = head_of(c);
    float *a = run_integers(&tiles->int8, &h.a, NULL, 0, NULL, 512),
          *b = run_integers(&plain->int8, &h.a, NULL, 0, NULL, 512);
    CHECK(memcmp(a, b, sizeof(float) * c->n_q * c->dv) == 0, "%s n=%d d=%d: tiles in plain C differ by %.1e",
        kind_names[c->kind], c->n_k, c->d, max_difference(b, a, (int64_t) c->n_q * c->dv));
    free(a);
    free(b);
    head_free(&h);
}

// a group of mean queries and of coarse weights, of which every `every`-th want a block of keys
struct group_case {
    enum kind kind;
    int n, every, n_k, d, dv, g, refused; // refused: mean queries that the guard must leave to floats, -1: all
};
static const struct group_case group_cases[] = {
    { NORMAL, 1, 1, 40, 64, 64, 16, 0 },
    { NORMAL, 64, 1, 1000, 64, 64, 32, 0 },
    { NORMAL, 40, 1, 515, 32, 32, 16, 0 },
    { NORMAL, 37, 2, 259, 80, 48, 32, 0 },
    { NORMAL, 64, 3, 90, 128, 128, 16, 0 },
    { NORMAL, 29, 1, 100, 24, 40, 32, 0 },
    { NORMAL, 16, 1, 100, 256, 256, 32, 0 },
    { V_OUTLIER, 48, 1, 300, 64, 64, 32, 0 },
    { ZERO_VALUES, 48, 1, 300, 64, 64, 32, 0 },
    { NO_VALUES, 16, 1, 130, 64, 64, 32, 0 },
    { TINY_SINK, 48, 1, 513, 64, 64, 32, 0 },
    { ZERO_QUERY, 20, 1, 130, 64, 64, 32, 0 },
    { BAD_Q, 64, 1, 130, 64, 64, 32, 1 },
    { BAD_K, 16, 1, 130, 64, 64, 32, -1 },
    { BAD_V, 16, 1, 130, 64, 64, 32, -1 },
};

// does query block i want key block y? The fifth of a group leaves some out, so that the others are not evenly apart
static bool wants(const struct group_case * c, int i, int y) {
    return i % c->every == y % c->every && (i != 5 || y % 3 != 2);
}

// logits [n][n_k] and weighted values [n][dv] by k (NULL: in double); those of query blocks first.. of the case alone
struct group_result {
    float *logits, *values;
    uint64_t refused;
};
static struct group_result run_group(const struct mra_int8_kernels * k, struct mra_attn_head * a,
    const struct group_case * c, const float * q, const float * weight, int first, int n) {
    const int D = MRA_ROUND_UP(c->d, MRA_PAD), DV = MRA_ROUND_UP(c->dv, MRA_PAD), ld = MRA_ROUND_UP(c->n_k, 32) + 16;
    struct group_result r = { calloc((size_t) c->n * ld, 4), calloc((size_t) c->n * DV, 4), 0 };
    struct packed p = packed_new(k, a, true, 512);
    void * scratch = memory(MRA_INT8_SCRATCH);
    a->g = c->g;
    r.refused = k->means(a, &p.p, q + (size_t) first * D, n, scratch);
    for (int pass = 0; pass < 2 && !r.refused; pass++)
        for (int j = 0; j < c->n_k; j += c->g) {
            float *logits[MRA_GROUP_MAX], *values[MRA_GROUP_MAX];
            const float * w[MRA_GROUP_MAX];
            uint8_t which[MRA_GROUP_MAX];
            int m = 0;
            for (int i = 0; i < n; i++) {
                if (!wants(c, first + i, j / c->g)) continue;
                which[m] = (uint8_t) i;
                logits[m] = r.logits + (size_t) (first + i) * ld + j;
                values[m] = r.values + (size_t) (first + i) * DV;
                w[m++] = weight + (size_t) (first + i) * ld + j;
            }
            if (m && pass == 0) k->scores(a, &p.p, j, logits, which, m, scratch);
            else if (m) k->values(a, &p.p, j, values, w, m, scratch);
        }
    for (int i = 0; i < c->n; i++) memset(r.logits + (size_t) i * ld + c->n_k, 0, sizeof(float) * (ld - c->n_k));
    free(p.mem);
    free(scratch);
    return r;
}

static struct group_result run_group_exact(
    const struct head * h, const struct group_case * c, const float * q, const float * weight) {
    const int D = MRA_ROUND_UP(c->d, MRA_PAD), DV = MRA_ROUND_UP(c->dv, MRA_PAD), ld = MRA_ROUND_UP(c->n_k, 32) + 16;
    struct group_result r = { calloc((size_t) c->n * ld, 4), calloc((size_t) c->n * DV, 4), 0 };
    for (int i = 0; i < c->n; i++)
        for (int j = 0; j < c->n_k; j++) {
            if (!wants(c, i, j / c->g)) continue;
            double dot = 0;
            for (int x = 0; x < c->d; x++) dot += (double) q[i * D + x] * h->k.x[j * c->d + x];
            r.logits[i * ld + j] = (float) dot;
            for (int x = 0; x < c->dv; x++) r.values[i * DV + x] += weight[i * ld + j] * h->v.x[j * c->dv + x];
        }
    return r;
}

static void group_free(struct group_result r) {
    free(r.logits);
    free(r.values);
}

static void test_group(const struct mra_kernels * k, const struct group_case * c) {
    const struct int8_case of = { c->kind, c->n, c->n_k, c->d, c->dv, false, 0, 0 };
    const int D = MRA_ROUND_UP(c->d, MRA_PAD), DV = MRA_ROUND_UP(c->dv, MRA_PAD), ld = MRA_ROUND_UP(c->n_k, 32) + 16;
    struct head h = head_of(&of);
    float *q = calloc((size_t) c->n * D, 4), *weight = calloc((size_t) c->n * ld, 4);
    uint64_t seed = 7;
    for (int i = 0; i < c->n; i++) {
        memcpy(q + i * D, h.q.x + i * c->d, sizeof(float) * c->d);
        for (int j = 0; j < c->n_k; j++) // some kept; of some query blocks whole blocks
            if (rng_int(&seed, 1, 4) > 1 && (i % 5 || j >= c->g)) weight[i * ld + j] = expf(2 * rng_normal(&seed) - 6);
    }
    const struct group_result a = run_group(&k->int8, &h.a, c, q, weight, 0, c->n),
                              ref = run_group(mra_int8_reference(&k->int8), &h.a, c, q, weight, 0, c->n),
                              one = run_group(&k->int8, &h.a, c, q, weight, c->n / 2, 1),
                              exact = run_group_exact(&h, c, q, weight);
    const int64_t n_l = (int64_t) c->n * ld, n_v = (int64_t) c->n * DV, at = c->n / 2;
    const char * name = kind_names[c->kind];
    CHECK(a.refused == ref.refused &&
            (c->refused < 0 ? ~a.refused << (64 - c->n) == 0 : __builtin_popcountll(a.refused) == c->refused),
        "%s %s group: refused %llx, by the reference %llx", k->name, name, (unsigned long long) a.refused,
        (unsigned long long) ref.refused);
    const double e_l = max_difference(a.logits, ref.logits, n_l), e_v = max_difference(a.values, ref.values, n_v);
    CHECK(e_l <= 1e-5 && e_v <= 1e-5, "%s %s group of %d, n=%d d=%d dv=%d: differs from the reference by %.1e, %.1e",
        k->name, name, c->n, c->n_k, c->d, c->dv, e_l, e_v);
    if (a.refused == 0) {
        CHECK(memcmp(a.logits + at * ld, one.logits + at * ld, sizeof(float) * ld) == 0 &&
                memcmp(a.values + at * DV, one.values + at * DV, sizeof(float) * DV) == 0,
            "%s %s group of %d: other bits alone", k->name, name, c->n);
        const double off_l = error_of(a.logits, exact.logits, n_l), off_v = error_of(a.values, exact.values, n_v);
        CHECK(off_l <= int8_tolerance(k, 0.01) && off_v <= int8_tolerance(k, 0.02),
            "%s %s group, n=%d d=%d: errors %.5f, %.5f", k->name, name, c->n_k, c->d, off_l, off_v);
    }
    group_free(a);
    group_free(ref);
    group_free(one);
    group_free(exact);
    free(q);
    free(weight);
    head_free(&h);
}

// MiniLM over prose
static void test_golden(const struct mra_kernels * k, const struct npy * qkv) {
    enum { N_HEAD = 4, N = 512, D = 32 };
    static float all[2][N_HEAD * N * D];
    double worst = 0;
    for (int head = 0; head < N_HEAD; head++) {
        const float * x = qkv->data + (int64_t) head * N * D;
        struct head h = head_new(x, x + (int64_t) N_HEAD * N * D, x + (int64_t) 2 * N_HEAD * N * D, N, N, D, D, false);
        int left;
        float *ref = run_integers(mra_int8_reference(&k->int8), &h.a, NULL, 0, NULL, 512),
              *a = run_integers(&k->int8, &h.a, NULL, 0, NULL, 512), *rows = run_rows(k, &h.a, &left),
              *exact = run_exact(&h.a, NULL, 0, NULL);
        const double e = max_difference(a, ref, N * D), off = error_of(rows, exact, N * D);
        memcpy(all[0] + head * N * D, rows, sizeof(float) * N * D);
        memcpy(all[1] + head * N * D, exact, sizeof(float) * N * D);
        CHECK(e <= 1e-5, "%s golden head %d: differs from the reference by %.1e", k->name, head, e);
        CHECK(off <= int8_tolerance(k, 0.012), "%s golden head %d: error %.5f", k->name, head, off);
        CHECK(left == 0, "%s golden head %d: %d rows left to floats", k->name, head, left);
        worst = fmax(worst, off);
        free(ref);
        free(a);
        free(rows);
        free(exact);
        head_free(&h);
    }
    const double error = error_of(all[0], all[1], N_HEAD * N * D);
    CHECK(error <= int8_tolerance(k, 0.01), "%s golden: error %.5f", k->name, error);
    printf("%s: error on real Q, K, V %.3f %%, worst head %.3f %%\n", k->name, 100 * error, 100 * worst);
}

int main(int argc, char ** argv) {
    struct npy qkv;
    struct mra_error err = { 0 };
    if (argc != 2 || npy_read(&qkv, argv[1], &err) != MRA_OK || qkv.n != 3 * 4 * 512 * 32) {
        fprintf(stderr, "usage: test-int8 QKV.npy %s\n", err.msg);
        return 2;
    }
    const struct mra_kernels * tables[12];
    const int n = dense_tables(tables, 12);
    int n_int8 = 0;
    for (int t = 0; t < n; t++) {
        if (!tables[t]->int8.attn) continue;
        n_int8++;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) test_case(tables[t], &cases[i]);
        for (int state = 0; state < 2; state++) {
            test_list(tables[t], 300, 64, 64, 1, state);
            test_list(tables[t], 300, 64, 64, 64, state);
            test_list(tables[t], 1000, 64, 64, 257, state);
            test_list(tables[t], 500, 32, 32, 130, state);
            test_list(tables[t], 500, 80, 48, 130, state);
            test_list(tables[t], 500, 128, 128, 200, state);
            test_list(tables[t], 200, 24, 40, 65, state);
        }
        for (size_t i = 0; tables[t]->int8.scores && i < sizeof(group_cases) / sizeof(group_cases[0]); i++)
            test_group(tables[t], &group_cases[i]);
        test_golden(tables[t], &qkv);
    }
    const struct mra_kernels *tiles = mra_kernels_by_name("v4-amx"), *plain = plain_tiles();
    for (size_t i = 0; tiles && plain && i < sizeof(cases) / sizeof(cases[0]); i++) test_plain(tiles, plain, &cases[i]);
    CHECK(n_int8 >= 3 || !mra_kernels_by_name("v3"), "only %d levels", n_int8);
    npy_free(&qkv);
    return summary("test-int8");
}
