// What the sparse frames in integers do for a group of query blocks, kernel by kernel: scores of mean queries and
// coarse values, against the scalar reference (1e-5) and against doubles.
#include "int8-head.h"

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

int main(void) {
    const struct mra_kernels * tables[12];
    const int n = dense_tables(tables, 12);
    for (int t = 0; t < n; t++)
        for (size_t i = 0; tables[t]->int8.scores && i < sizeof(group_cases) / sizeof(group_cases[0]); i++)
            test_group(tables[t], &group_cases[i]);
    return summary("test-int8-group");
}
