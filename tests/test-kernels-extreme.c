// The kernels that work on rows, on values that break them and mixtures of them. One table against the scalar
// reference: where that is finite the table must agree, where it is NaN or infinite so must the table be; and nothing
// is written behind what a contract allows. Attention: test-kernels-extreme-attn.c. usage: test-kernels-extreme [TABLE
// [PERCENT]]
#include "special-values.h"

#include <float.h>

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

int main(int argc, char ** argv) {
    if (!kern_find(argc, argv)) return 77;
    const int percent = argc > 2 ? atoi(argv[2]) : 100;
    for (int i = 0; i < 40 * percent; i++) test_topk();
    for (int i = 0; i < 5 * percent; i++) test_pool();
    for (int i = 0; i < 5 * percent; i++) test_score();
    for (int i = 0; i < 10 * percent; i++) test_coarse_state();
    for (int i = 0; i < 10 * percent; i++) test_norm();
    return kern_summary("test-kernels-extreme");
}
