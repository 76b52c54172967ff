// Attention in integers, kernel by kernel: the same integers as the scalar reference (1e-5), and how far they are from
// attention in floats, on real queries, keys and values and on hard ones. usage: test-int8 QKV.npy
#include "int8-head.h"
#include "../examples/common/npy.h"

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

// [n_q][dv] of the rows in a->out; malloc'ed
static float * result(const struct mra_attn_head * a) {
    float * r = malloc(sizeof(float) * a->n_q * a->dv);
    for (int i = 0; i < a->n_q; i++) memcpy(r + i * a->dv, a->out + i * a->ld_out, sizeof(float) * a->dv);
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

// products of matrices give the sums of dot products, and all else is the same
static void test_matrix(const struct mra_kernels * k, const struct mra_kernels * dots, const struct int8_case * c) {
    struct head h = head_of(c);
    int32_t idx[130];
    for (int i = 0; i < 130; i++) idx[i] = i * c->n_k / 130;
    for (int list = 0; list < 2; list++) {
        float *a = run_integers(&k->int8, &h.a, list ? idx : NULL, 130, NULL, 512),
              *b = run_integers(&dots->int8, &h.a, list ? idx : NULL, 130, NULL, 512);
        CHECK(memcmp(a, b, sizeof(float) * c->n_q * c->dv) == 0, "%s n=%d d=%d%s: %s differs from %s by %.1e",
            kind_names[c->kind], c->n_k, c->d, list ? ", list" : "", k->name, dots->name,
            max_difference(a, b, (int64_t) c->n_q * c->dv));
        free(a);
        free(b);
    }
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
        test_golden(tables[t], &qkv);
    }
    const struct mra_kernels *tiles = mra_kernels_by_name("v4-amx"), *plain = plain_tiles();
    for (size_t i = 0; tiles && plain && i < sizeof(cases) / sizeof(cases[0]); i++) test_plain(tiles, plain, &cases[i]);
    const struct mra_kernels *dots, *matrix = matrix_kernels(&dots);
    for (size_t i = 0; matrix && i < sizeof(cases) / sizeof(cases[0]); i++) test_matrix(matrix, dots, &cases[i]);
    CHECK(n_int8 >= 3 || !mra_kernels_by_name("v3"), "only %d levels", n_int8);
    npy_free(&qkv);
    return summary("test-int8");
}
