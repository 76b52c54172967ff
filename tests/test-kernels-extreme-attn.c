// The kernels of attention - pack, block_sparse_attn, columns - on values that break them: one table against the scalar
// reference, as test-kernels-extreme.c does for the others; and on scores that are far from 0, or give no key a weight.
// usage: test-kernels-extreme-attn [TABLE [PERCENT]]
#include "special-values.h"

#include <float.h>

enum poison {
    NAN_Q,
    NAN_K,
    NAN_V,
    INF_Q,
    INF_K,
    INF_V,
    DENORMALS,   // everywhere
    OVERFLOW_UP, // scores of one query block beyond FLT_MAX
    OVERFLOW_DOWN,
    BELOW_1E30, // all scores below -1e30
    N_POISON
};

enum { MAX_N = 300, MAX_D = 72, CANARIES = 4096 };

struct head {
    struct mra_attn_head a;
    float q[MAX_N * MAX_D];
    float k[MAX_N * MAX_D], v[MAX_N * MAX_D]; // or halves
    float out[2][MAX_N * MAX_D];
    char * scratch;
    size_t n_scratch;
    enum poison poison;
};

// multiples of 1/8 below 2: sums are exact in float, so that the tables choose the same keys; as float or half
static void put(void * x, enum mra_type type, int i, int eighths) {
    if (type == MRA_F32) ((float *) x)[i] = (float) eighths / 8;
    else {
        unsigned e = 0;
        while (eighths && abs(eighths) >> e > 1) e++;
        const int fraction = eighths ? (int) ((unsigned) abs(eighths) << 10 >> e & 1023) : 0;
        ((uint16_t *) x)[i] = (uint16_t) ((eighths < 0) << 15 | (eighths ? (e + 12) << 10 : 0) | fraction);
    }
}
static void put_special(void * x, enum mra_type type, int i, enum special kind) {
    if (type == MRA_F32) ((float *) x)[i] = special(kind);
    else ((uint16_t *) x)[i] = special_half(kind);
}

static void head_fill(struct head * h) {
    struct mra_attn_head * a = &h->a;
    const enum mra_type type = a->k.type;
    const int d = a->d, c = pick(0, d - 1), x0 = pick(0, (a->n_q - 1) / MRA_QUERY_BLOCK) * MRA_QUERY_BLOCK;
    for (int i = 0; i < a->n_q * d; i++) put(h->q, MRA_F32, i, pick(-15, 15));
    for (int i = 0; i < a->n_k * d; i++) put(h->k, type, i, pick(-15, 15));
    for (int i = 0; i < a->n_k * a->dv; i++) put(h->v, type, i, pick(-15, 15));
    // a channel that decides all scores: key 0 the least in size, key n_k - 1 the largest
    if (h->poison >= OVERFLOW_UP)
        for (int j = 0; j < a->n_k; j++) put(h->k, type, j * d + c, 512 * (j + 1));
    const enum special inf = pick(0, 1) ? PLUS_INF : MINUS_INF;
    switch (h->poison) {
        case NAN_Q: put_special(h->q, MRA_F32, pick(0, a->n_q * d - 1), NANS); break;
        case NAN_K: put_special(h->k, type, pick(0, a->n_k * d - 1), NANS); break;
        case NAN_V: put_special(h->v, type, pick(0, a->n_k * a->dv - 1), NANS); break;
        case INF_Q: put_special(h->q, MRA_F32, pick(0, a->n_q * d - 1), inf); break;
        case INF_K: put_special(h->k, type, pick(0, a->n_k * d - 1), inf); break;
        case INF_V: put_special(h->v, type, pick(0, a->n_k * a->dv - 1), inf); break;
        case DENORMALS:
            for (int i = 0; i < a->n_q * d; i++) put_special(h->q, MRA_F32, i, DENORMAL);
            for (int i = 0; i < a->n_k * d; i++) put_special(h->k, type, i, DENORMAL);
            for (int i = 0; i < a->n_k * a->dv; i++) put_special(h->v, type, i, DENORMAL);
            break;
        case OVERFLOW_UP:
        case OVERFLOW_DOWN: h->q[x0 * d + c] = h->poison == OVERFLOW_UP ? 3e38f : -3e38f; break;
        default:
            for (int i = 0; i < a->n_q; i++) h->q[i * d + c] = -1e30f;
    }
}

static void head_free(struct head * h) {
    pack_free(&h->a.pack);
    free(h->scratch);
}

// copies bit by bit; means and ranges of the blocks
static void check_pack(const struct head * h) {
    const struct mra_attn_head * a = &h->a;
    const struct mra_pack * p = &a->pack;
    const int D = MRA_ROUND_UP(a->d, MRA_PAD), DV = MRA_ROUND_UP(a->dv, MRA_PAD), n_b = (a->n_k + a->g - 1) / a->g;
    const size_t es = p->type == MRA_F16 ? 2 : 4;
    int bad = 0, off = 0;
    for (int j = 0; j < a->n_k; j++) {
        bad += memcmp((char *) p->k + j * D * es, (const char *) h->k + j * a->d * es, a->d * es) != 0;
        bad += memcmp((char *) p->v + j * DV * es, (const char *) h->v + j * a->dv * es, a->dv * es) != 0;
        for (int c = 0; c < a->d; c++)
            bad += memcmp((char *) p->kp + (((size_t) (j / a->g) * D + c) * a->g + j % a->g) * es,
                       (const char *) h->k + (j * a->d + c) * es, es) != 0;
    }
    CHECK(bad == 0, "pack, poison %d: %d copies differ", (int) h->poison, bad);
    static float ref[3][MAX_N * MAX_D], v[MAX_N * MAX_D];
    for (int kind = 0; kind < 3; kind++) mra_kernels_ref.pool(ref[kind], a->k, a->d, a->n_k, a->g, kind, 0, n_b);
    mra_kernels_ref.pool(v, a->v, a->dv, a->n_k, a->g, 0, 0, n_b);
    for (int y = 0; y < n_b && a->m1 < n_b; y++) {
        const int panel = y / MRA_PANEL, t = y % MRA_PANEL;
        for (int c = 0; c < a->d; c++) {
            const float lo = ref[1][y * a->d + c], hi = ref[2][y * a->d + c];
            off += !agrees(p->k_mean[(panel * D + c) * MRA_PANEL + t], ref[0][y * a->d + c], 2);
            if (isnan(lo)) continue; // what a range with NaN is, is not said
            off += p->k_range[(panel * 2 * D + c) * MRA_PANEL + t] != fminf(hi, FLT_MAX);
            off += p->k_range[(panel * 2 * D + D + c) * MRA_PANEL + t] != fmaxf(lo, -FLT_MAX);
        }
        for (int c = 0; c < a->dv; c++) off += !agrees(p->v_mean[y * DV + c], v[y * a->dv + c], 2);
    }
    CHECK(off == 0, "pack, poison %d: %d statistics differ", (int) h->poison, off);
}

// mode 0: exact, 1: listed cells on top of a state, 2: columns
static void attend(const struct mra_kernels * k, struct head * h, int mode, float * out, const int32_t * cells,
    int n_cell, int g, const float * state) {
    struct mra_attn_head * a = &h->a;
    a->out = out;
    memset(h->scratch, 0x55, h->n_scratch + CANARIES);
    if (mode == 2)
        for (int x = 0; x * MRA_QUERY_BLOCK < a->n_q; x += a->group) k->columns(a, x, h->scratch);
    else
        for (int i = 0; i < a->n_q; i += MRA_EXACT_ROWS)
            k->block_sparse_attn(a, i, i + MRA_EXACT_ROWS < a->n_q ? i + MRA_EXACT_ROWS : a->n_q, mode ? cells : NULL,
                n_cell, g, mode ? state : NULL, h->scratch);
    int written = 0;
    for (int i = 0; i < CANARIES; i++) written += h->scratch[h->n_scratch + i] != 0x55;
    CHECK(written == 0, "%s mode %d poison %d: wrote behind scratch", k->name, mode, (int) h->poison);
}

static void check_out(const struct head * h, int mode) {
    const struct mra_attn_head * a = &h->a;
    const double tol = h->poison >= OVERFLOW_UP ? 5e-3 : 2e-4; // scores of thousands, rounded as floats
    int bad = 0, at = -1;
    for (int i = 0; i < a->n_q * a->dv; i++)
        if (!agrees(h->out[0][i], h->out[1][i], tol)) {
            if (at < 0) at = i;
            bad++;
        }
    CHECK(bad == 0, "%s poison %d n_q %d n_k %d d %d %s g %d m1 %d m2 %d%s%s: %d values, row %d: %g, not %g",
        mode == 0       ? "exact"
            : mode == 1 ? "cells"
                        : "columns",
        (int) h->poison, a->n_q, a->n_k, a->d, a->k.type == MRA_F16 ? "f16" : "f32", a->g, a->m1, a->m2,
        a->bound ? " bound" : "", a->finest_only ? " finest only" : "", bad, at / a->dv,
        (double) h->out[0][at < 0 ? 0 : at], (double) h->out[1][at < 0 ? 0 : at]);
}

// one block of queries with d floats, every block of keys chosen; packed
static void head_of_far(struct head * h, int n_k, int d, int g) {
    h->a = (struct mra_attn_head) { .q = { (char *) h->q, (size_t) d * 4, MRA_F32 },
        .k = { (char *) h->k, (size_t) d * 4, MRA_F32 },
        .v = { (char *) h->v, (size_t) d * 4, MRA_F32 },
        .n_q = MRA_QUERY_BLOCK,
        .n_k = n_k,
        .d = d,
        .dv = d,
        .scale = 1,
        .ld_out = d,
        .g = g,
        .m1 = (n_k + g - 1) / g,
        .group = 8 };
    head_pack(&h->a);
}
static void head_scratch(struct head * h) {
    const struct mra_attn_head * a = &h->a;
    const size_t s1 = mra_block_sparse_attn_scratch(a->d, a->dv),
                 s2 = mra_columns_scratch(a->d, a->dv, a->n_k, a->g, a->m1, a->m2, a->group);
    h->n_scratch = MRA_ROUND_UP(s1 > s2 ? s1 : s2, 64);
    h->scratch = aligned_alloc(64, h->n_scratch + CANARIES);
}

static void test_head(void) {
    static struct head h;
    struct mra_attn_head * a = &h.a;
    const enum mra_type type = pick(0, 1) ? MRA_F16 : MRA_F32;
    const size_t es = type == MRA_F16 ? 2 : 4;
    const int d = 8 * pick(1, MAX_D / 8), dv = 8 * pick(1, MAX_D / 8);
    // Means are exact, and so ties are ties for all tables, where the last block has 1, 2, 4, 8 or 16 rows. With any
    // other length nothing is left to choose.
    const bool any_length = pick(0, 1);
    *a = (struct mra_attn_head) { .q = { (char *) h.q, (size_t) d * 4, MRA_F32 },
        .k = { (char *) h.k, d * es, type },
        .v = { (char *) h.v, dv * es, type },
        .n_q = any_length ? pick(1, 120) : 16 * pick(0, 6) + (1 << pick(0, 4)),
        .n_k = any_length ? pick(1, 125) : 32 * pick(0, 3) + (1 << pick(0, 4)), // 512/8*125: the largest exact half
        .d = d,
        .dv = dv,
        .scale = .3f,
        .ld_out = dv,
        .g = pick(0, 1) ? 16 : 32,
        .bound = pick(0, 1),
        .finest_only = pick(0, 2) == 0,
        .group = 8 };
    const int nb = (a->n_k + a->g - 1) / a->g, all = a->n_k;
    a->m1 = pick(0, 3) && !any_length ? pick(1, nb) : nb;
    a->m2 = any_length ? all : pick(0, a->m1 * a->g < all ? a->m1 * a->g : all);
    h.poison = (enum poison) pick(0, N_POISON - 1);
    head_fill(&h);
    head_pack(&h.a);
    check_pack(&h);
    head_scratch(&h);
    int32_t cells[MAX_N];
    int n_cell = 0;
    const int g = 1 << pick(0, 5);
    for (int y = 0; y * g < a->n_k; y++)
        if (pick(0, 2) == 0) cells[n_cell++] = y;
    float state[MAX_D + 2];
    for (int c = 0; c < dv; c++) state[c] = gauss();
    state[dv] = pick(0, 1) ? gauss() : special((enum special) pick(0, N_SPECIAL - 1));
    state[dv + 1] = state[dv] == -INFINITY ? 0 : 3;
    for (int mode = 0; mode < 3; mode++) {
        attend(kern, &h, mode, h.out[0], cells, n_cell, g, state);
        attend(&mra_kernels_ref, &h, mode, h.out[1], cells, n_cell, g, state);
        check_out(&h, mode);
    }
    head_free(&h);
}

// All scores are far from 0, up to 1e31, and one is far above the others: its key gets all the weight, whether scores
// are exact or of the block's mean query (columns that keep no key).
static void test_far(void) {
    enum { N = 40, D = 16, G = 16 };
    static struct head h;
    const int best = pick(0, N - 1);
    const float far = (1 + fabsf(gauss())) * powf(10, (float) pick(3, 15)), sign = pick(0, 1) ? 1 : -1;
    memset(h.q, 0, sizeof(h.q));
    memset(h.k, 0, sizeof(h.k));
    for (int c = 0; c < N * D; c++) h.v[c] = gauss();
    for (int i = 0; i < MRA_QUERY_BLOCK; i++) h.q[i * D] = far;
    for (int j = 0; j < N; j++) h.k[j * D] = sign * far * ((j == best) == (sign > 0) ? 2 : 1);
    head_of_far(&h, N, D, G);
    head_scratch(&h);
    for (int t = 0; t < 4; t++) {
        const struct mra_kernels * table = t % 2 ? kern : &mra_kernels_ref;
        attend(table, &h, t / 2 ? 2 : 0, h.out[0], NULL, 0, 0, NULL);
        CHECK(memcmp(h.out[0], h.v + best * D, D * sizeof(float)) == 0, "%s, %s: scores of %g give %g, not %g",
            table->name, t / 2 ? "columns" : "exact", (double) (sign * far) * far, (double) h.out[0][0],
            (double) h.v[best * D]);
    }
    head_free(&h);
}

// No key has a weight: the scores of a query leave floats downwards for every key, and nothing else is used. Its result
// is 0, not the NaN of -inf - -inf.
static void test_no_weight(void) {
    enum { N = 40, D = 16, G = 16 };
    static struct head h;
    struct mra_attn_head * a = &h.a;
    const int lost = pick(0, MRA_QUERY_BLOCK - 1); // the others weigh all keys alike, and so does their mean
    memset(h.q, 0, sizeof(h.q));
    memset(h.k, 0, sizeof(h.k));
    for (int c = 0; c < N * D; c++) h.v[c] = 1 + fabsf(gauss());
    for (int i = 0; i < MRA_QUERY_BLOCK; i++) h.q[i * D] = i == lost ? 6e36f : -6e36f / (MRA_QUERY_BLOCK - 1);
    for (int j = 0; j < N; j++) h.k[j * D] = -64;
    head_of_far(&h, N, D, G);
    a->m2 = N;
    a->finest_only = true;
    head_scratch(&h);
    for (int t = 0; t < 4; t++) {
        const struct mra_kernels * table = t % 2 ? kern : &mra_kernels_ref;
        attend(table, &h, t / 2 ? 2 : 0, h.out[0], NULL, 0, 0, NULL);
        int bad = 0;
        for (int i = 0; i < MRA_QUERY_BLOCK; i++)
            for (int c = 0; c < D; c++) bad += i == lost ? h.out[0][i * D + c] != 0 : !(h.out[0][i * D + c] > 0);
        CHECK(bad == 0, "%s, %s: query %d without weights: %d values, it has %g", table->name,
            t / 2 ? "columns" : "exact", lost, bad, (double) h.out[0][lost * D]);
    }
    head_free(&h);
}

int main(int argc, char ** argv) {
    if (!kern_find(argc, argv)) return 77;
    const int percent = argc > 2 ? atoi(argv[2]) : 100;
    for (int i = 0; i < 10 * percent; i++) test_head();
    for (int i = 0; i < percent; i++) test_far();
    for (int i = 0; i < percent; i++) test_no_weight();
    return kern_summary("test-kernels-extreme-attn");
}
