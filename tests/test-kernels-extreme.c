// The kernels on values that break them: NaN of several bit patterns, infinities, denormals, values whose products
// leave the range of floats, and mixtures. One table against the scalar reference: where that is finite the table must
// agree, where it is NaN or infinite so must the table be; and nothing is written behind what a contract allows. usage:
// test-kernels-extreme [TABLE [PERCENT]]
#include "kernel-check.h"

#include <float.h>

static float of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

enum special { NANS, PLUS_INF, MINUS_INF, DENORMAL, HUGE_VALUE, ZERO, N_SPECIAL };

// HUGE_VALUE: far from overflow by itself, but not its square
static float special(enum special kind) {
    static const uint32_t nans[] = { 0x7fc00000, 0x7fc00001, 0x7fc0007f, 0xffc00155, 0x7f8000ff, 0x7fffffff };
    switch (kind) {
        case NANS: return of_bits(nans[pick(0, 5)]);
        case PLUS_INF: return INFINITY;
        case MINUS_INF: return -INFINITY;
        case DENORMAL: return of_bits((uint32_t) pick(0, 1) << 31 | (uint32_t) pick(1, 0x7fffff));
        case HUGE_VALUE: return (pick(0, 1) ? 1e30f : -1e30f) * (float) pick(1, 64);
        default: return pick(0, 1) ? 0.0f : -0.0f;
    }
}
static uint16_t special_half(enum special kind) {
    static const uint16_t nans[] = { 0x7e00, 0x7c01, 0xfe55, 0x7fff };
    switch (kind) {
        case NANS: return nans[pick(0, 3)];
        case PLUS_INF: return 0x7c00;
        case MINUS_INF: return 0xfc00;
        case DENORMAL: return (uint16_t) (pick(0, 1) << 15 | pick(1, 1023));
        case HUGE_VALUE: return (uint16_t) (pick(0, 1) << 15 | 0x7bff);
        default: return (uint16_t) (pick(0, 1) << 15);
    }
}

// finite and near where `ref` is, else not finite; NaN where ref is NaN
static bool agrees(float x, float ref, double tol) {
    if (isnan(ref)) return isnan(x);
    if (isinf(ref)) return !isfinite(x);
    return fabs((double) x - ref) <= tol + 1e-43; // denormals are rounded to multiples of 1.4e-45
}

// ---- topk_blocks

static void test_topk(void) {
    enum { MAX = 300, CANARY = -7 };
    float x[MAX + 64], y[MAX + 64];
    int32_t a[MAX + 128], b[MAX + 128];
    const int n = pick(1, MAX), m = pick(0, n + 2), share = pick(0, 3), only = pick(0, 2 * N_SPECIAL);
    int n_valid = 0;
    for (int i = 0; i < n; i++) {
        x[i] = pick(0, 3) < share ? gauss() : special(only < N_SPECIAL ? only : pick(0, N_SPECIAL - 1));
        y[i] = x[i];
        n_valid += x[i] >= -FLT_MAX;
    }
    for (int i = 0; i < MAX + 128; i++) a[i] = b[i] = CANARY;
    const int p = kern->topk_blocks(a, x, n, m), q = mra_kernels_ref.topk_blocks(b, y, n, m);
    CHECK(p == q && p == (m < n_valid ? m : n_valid), "topk %d of %d, kind %d: %d taken, not %d", m, n, only, p, q);
    CHECK(memcmp(a, b, (size_t) q * sizeof(*a)) == 0, "topk %d of %d, kind %d: other positions", m, n, only);
    int written = 0; // behind the m entries and the 16 that a kernel may write
    for (int i = m + 16; i < MAX + 128; i++) written += a[i] != CANARY;
    CHECK(written == 0, "topk %d of %d, kind %d: %d entries written behind idx", m, n, only, written);
}

// ---- pool, block_score, coarse_state, norm

static void test_pool(void) {
    enum { N = 70, D = 40 };
    static float f[N * D];
    static uint16_t h[N * D];
    const int n = pick(1, N), d = pick(1, D), block = 1 << pick(0, 5), nb = (n + block - 1) / block,
              rare = 1 << pick(0, 8);
    const enum mra_type type = pick(0, 1) ? MRA_F16 : MRA_F32;
    for (int i = 0; i < n * d; i++) {
        const bool some = pick(1, rare) == 1;
        const enum special kind = (enum special) pick(0, N_SPECIAL - 1);
        f[i] = some ? special(kind) : gauss();
        h[i] = some ? special_half(kind) : (uint16_t) pick(0x3000, 0x3fff);
    }
    double size = 1; // of the largest value
    for (int i = 0; i < n * d; i++)
        if (type == MRA_F32 && isfinite(f[i])) size = fmax(size, fabs((double) f[i]));
    if (type == MRA_F16) size = 65504;
    const struct mra_rows x = { type == MRA_F16 ? (const char *) h : (const char *) f,
        (size_t) d * (type == MRA_F16 ? 2 : 4), type };
    for (int kind = 0; kind < 3; kind++) {
        static float a[N * D], b[N * D];
        kern->pool(a, x, d, n, block, kind, 0, nb);
        mra_kernels_ref.pool(b, x, d, n, block, kind, 0, nb);
        int bad = 0;
        for (int i = 0; i < nb * d; i++) bad += !agrees(a[i], b[i], 1e-6 * size);
        CHECK(bad == 0, "pool kind %d n %d d %d block %d: %d values", kind, n, d, block, bad);
    }
}

static void test_score(void) {
    enum { N = 9, D = 80 };
    static float q[N * D], k[2][N * D];
    const int n = pick(1, N), d = pick(1, D), bound = pick(0, 1);
    for (int i = 0; i < n * d; i++) {
        q[i] = gauss();
        k[0][i] = gauss();
        k[1][i] = k[0][i] + fabsf(gauss());
    }
    for (int i = 0; i < n; i++) { // one of each row, so that no two overflows meet
        if (pick(0, 1)) q[i * d + pick(0, d - 1)] = special((enum special) pick(0, N_SPECIAL - 1));
        if (pick(0, 1))
            k[bound ? pick(0, 1) : 0][i * d + pick(0, d - 1)] = special((enum special) pick(0, N_SPECIAL - 1));
    }
    float a[N * N], b[N * N];
    kern->block_score(a, n, q, d, n, k[0], bound ? k[1] : NULL, d, n, d, .3f);
    mra_kernels_ref.block_score(b, n, q, d, n, k[0], bound ? k[1] : NULL, d, n, d, .3f);
    for (int i = 0; i < n * n; i++) {
        double size = 0; // of the sum's terms
        for (int c = 0; c < d; c++)
            size += fabs((double) q[i / n * d + c]) *
                fmax(fabs((double) k[0][i % n * d + c]), bound ? fabs((double) k[1][i % n * d + c]) : 0);
        CHECK(
            agrees(a[i], b[i], 1e-6 * size), "score bound %d d %d: %g, not %g", bound, d, (double) a[i], (double) b[i]);
    }
}

static void test_coarse_state(void) {
    enum { N = 40, D = 72 };
    float v[N * D], s[N], w[N], o[2][D] = { { 0 } }, max[2] = { -INFINITY, -INFINITY }, sum[2] = { 0 };
    int32_t y[N];
    const int n = pick(1, N), d = pick(1, D), share = pick(0, 3), only = pick(0, N_SPECIAL - 1);
    for (int i = 0; i < N * D; i++) v[i] = gauss();
    if (pick(0, 3) == 0) v[pick(0, n * d - 1)] = special(NANS);
    for (int j = 0; j < n; j++) {
        s[j] = pick(0, 3) < share ? 3 * gauss() : special((enum special) only);
        w[j] = (float) pick(1, 32);
        y[j] = pick(0, n - 1);
    }
    for (int part = 0; part < 3; part++) {
        const int j0 = n * part / 3, j1 = n * (part + 1) / 3;
        kern->coarse_state(o[0], &max[0], &sum[0], s + j0, w + j0, y + j0, j1 - j0, v, d, d);
        mra_kernels_ref.coarse_state(o[1], &max[1], &sum[1], s + j0, w + j0, y + j0, j1 - j0, v, d, d);
    }
    bool ok = (max[0] == max[1] || (isnan(max[0]) && isnan(max[1]))) &&
        agrees(sum[0], sum[1], 1e-5 * fmax(1, fabs((double) sum[1])));
    for (int c = 0; c < d; c++) ok = ok && agrees(o[0][c], o[1][c], 1e-5 * fmax(1, fabs((double) sum[1])));
    CHECK(ok, "coarse_state n %d d %d kind %d: max %g, not %g; sum %g, not %g", n, d, only, (double) max[0],
        (double) max[1], (double) sum[0], (double) sum[1]);
    for (int j = 0; j < n; j++)
        if (isnan(s[j])) CHECK(isnan(max[0]) && isnan(sum[0]), "coarse_state: a NaN score is lost");
}

static void test_norm(void) {
    enum { N = 100 };
    float x[N], w[N], b[N], y[2][N];
    const int n = pick(2, N), kind = pick(0, N_SPECIAL - 1), share = pick(0, 4);
    const float unit = kind == HUGE_VALUE ? powf(10, (float) pick(10, 37)) : 1;
    for (int c = 0; c < n; c++) {
        x[c] = pick(0, 4) < share ? unit * gauss() : special((enum special) kind);
        if (kind == HUGE_VALUE) x[c] = unit * gauss();
        w[c] = gauss();
        b[c] = gauss();
    }
    for (int rms = 0; rms < 2; rms++) {
        kern->norm(y[0], x, w, b, n, 1e-5f, rms);
        mra_kernels_ref.norm(y[1], x, w, b, n, 1e-5f, rms);
        int bad = 0;
        for (int c = 0; c < n; c++) bad += !agrees(y[0][c], y[1][c], 1e-4);
        CHECK(bad == 0, "norm %d of %d, kind %d, unit %g: %d values, first %g, not %g", rms, n, kind, (double) unit,
            bad, (double) y[0][0], (double) y[1][0]);
    }
}

// ---- attention

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
        int e = 0;
        while (eighths && abs(eighths) >> e > 1) e++;
        const int fraction = eighths ? (abs(eighths) << (10 - e)) & 1023 : 0;
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

static void head_pack(struct head * h) {
    struct mra_attn_head * a = &h->a;
    const int D = MRA_ROUND_UP(a->d, MRA_PAD), DV = MRA_ROUND_UP(a->dv, MRA_PAD), nb = (a->n_k + a->g - 1) / a->g,
              np = MRA_ROUND_UP(nb, MRA_PANEL);
    const size_t es = a->k.type == MRA_F16 ? 2 : 4;
    a->pack = (struct mra_pack) { .type = a->k.type,
        .k = malloc(a->n_k * D * es),
        .v = malloc(a->n_k * DV * es),
        .ldk = D,
        .ldv = DV,
        .kp = malloc((size_t) nb * a->g * D * es),
        .k_range = calloc((size_t) np * 2 * D, 4),
        .k_mean = calloc((size_t) np * D, 4),
        .v_mean = malloc((size_t) nb * DV * 4) };
    for (int j = 0; j < a->n_k; j += 16 * a->g)
        kern->pack(a, j, j + 16 * a->g < a->n_k ? j + 16 * a->g : a->n_k, true, true);
}

static void head_free(struct head * h) {
    const struct mra_pack * p = &h->a.pack;
    void * all[] = { p->k, p->v, p->kp, p->k_range, p->k_mean, p->v_mean, h->scratch };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) free(all[i]);
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
    head_pack(h);
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
    head_pack(&h);
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
    for (int i = 0; i < 40 * percent; i++) test_topk();
    for (int i = 0; i < 5 * percent; i++) test_pool();
    for (int i = 0; i < 5 * percent; i++) test_score();
    for (int i = 0; i < 10 * percent; i++) test_coarse_state();
    for (int i = 0; i < 10 * percent; i++) test_norm();
    for (int i = 0; i < 10 * percent; i++) test_head();
    for (int i = 0; i < percent; i++) test_far();
    for (int i = 0; i < percent; i++) test_no_weight();
    return kern_summary("test-kernels-extreme");
}
