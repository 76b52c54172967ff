// The kernels by themselves, without ggml: one table against the scalar reference over random heads. Small enough to be
// cross-compiled and run under an emulator. usage: test-kernels [TABLE [PERCENT]]   (default: the best this CPU runs;
// all cases)
#include "kernel-check.h"

// finite F16 with a few bits, so that F32 and F16 hold the same value
static uint16_t half_of(float x) {
    const float m = rintf(fabsf(x) * 64);
    if (m == 0) return 0;
    int e;
    const float f = frexpf(m / 64, &e); // [.5, 1)
    return (uint16_t) ((x < 0 ? 0x8000 : 0) | (e + 14) << 10 | ((int) rintf(f * 2048) & 1023));
}
static double half_value(uint16_t h) {
    const double m = ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25);
    return (h & 0x7fff) ? (h >> 15 ? -m : m) : 0;
}

// n rows of d values, `gap` elements apart
struct block {
    char * mem;
    struct mra_rows rows;
};
static struct block block_new(int n, int d, int gap, enum mra_type type) {
    const size_t es = type == MRA_F16 ? 2 : 4;
    struct block b = { calloc((size_t) (n + 1) * gap + 64, es), { 0 } };
    for (int t = 0; t < n; t++)
        for (int c = 0; c < d; c++) {
            const uint16_t h = half_of(gauss());
            if (type == MRA_F16) ((uint16_t *) b.mem)[(size_t) t * gap + c] = h;
            else ((float *) b.mem)[(size_t) t * gap + c] = (float) half_value(h);
        }
    b.rows = (struct mra_rows) { b.mem, gap * es, type };
    return b;
}

static double worst(const float * a, const float * b, size_t n) {
    double e = 0, m = 1;
    for (size_t i = 0; i < n; i++) m = fmax(m, fabs(b[i]));
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double) a[i] - b[i]) < 1e30)) return a[i] == b[i] ? e : INFINITY;
        e = fmax(e, fabs((double) a[i] - b[i]));
    }
    return e / m;
}

static void test_pool_score(void) {
    const int d = 8 * pick(1, 20), n = pick(1, 100), block = 1 << pick(0, 6), nb = (n + block - 1) / block;
    struct block x = block_new(n, d, d + 8 * pick(0, 2), pick(0, 1) ? MRA_F16 : MRA_F32);
    float *a[3], *b[3];
    for (int kind = 0; kind < 3; kind++) {
        a[kind] = calloc((size_t) nb * d, 4);
        b[kind] = calloc((size_t) nb * d, 4);
        kern->pool(a[kind], x.rows, d, n, block, kind, 0, nb);
        mra_kernels_ref.pool(b[kind], x.rows, d, n, block, kind, 0, nb);
        CHECK(worst(a[kind], b[kind], (size_t) nb * d) <= 2e-6, "pool kind %d n %d d %d block %d", kind, n, d, block);
    }
    float *s = calloc((size_t) nb * nb, 4), *r = calloc((size_t) nb * nb, 4);
    for (int bound = 0; bound < 2; bound++) {
        kern->block_score(s, nb, b[0], d, nb, b[bound], bound ? b[2] : NULL, d, nb, d, .3f);
        mra_kernels_ref.block_score(r, nb, b[0], d, nb, b[bound], bound ? b[2] : NULL, d, nb, d, .3f);
        CHECK(worst(s, r, (size_t) nb * nb) <= 5e-6, "score bound %d n %d d %d", bound, n, d);
    }
    float o[2][256] = { { 0 } }, max[2] = { -INFINITY, -INFINITY }, sum[2] = { 0 };
    int32_t y[128];
    for (int j = 0; j < nb; j++) {
        y[j] = nb - 1 - j;
        s[j] = r[j] = 20 * gauss();
    }
    for (int part = 0; part < 2; part++) { // two calls: the second goes on from the first
        const int n0 = part ? nb / 2 : 0, n1 = part ? nb : nb / 2;
        kern->coarse_state(o[0], &max[0], &sum[0], s + n0, s, y + n0, n1 - n0, b[0], d, d);
        mra_kernels_ref.coarse_state(o[1], &max[1], &sum[1], s + n0, s, y + n0, n1 - n0, b[0], d, d);
    }
    CHECK(worst(o[0], o[1], d) <= 1e-5 && fabsf(sum[0] - sum[1]) <= 1e-5f * fabsf(sum[1]) + 1e-5f, "coarse n %d d %d",
        nb, d);
    for (int i = 0; i < 3; i++) {
        free(a[i]);
        free(b[i]);
    }
    free(s);
    free(r);
    free(x.mem);
}

static void test_select(void) {
    const int n = pick(1, 300), m = pick(0, n + 2), kind = pick(0, 3);
    float x[400], y[400];
    int32_t a[400], b[400];
    for (int i = 0; i < n; i++)
        x[i] = y[i] = kind == 0       ? gauss()
            : kind == 1               ? rintf(2 * gauss())
            : kind == 2 && pick(0, 1) ? -INFINITY
                                      : 1e20f * gauss();
    const int p = kern->topk_blocks(a, x, n, m), q = mra_kernels_ref.topk_blocks(b, y, n, m);
    CHECK(p == q && memcmp(a, b, q * sizeof(*a)) == 0, "select %d of %d kind %d", m, n, kind);
}

// sorted.*, for queries in any order
static void sorted_new(struct mra_attn_head * a, void * scratch) {
    const int n_b = (a->n_q + MRA_QUERY_BLOCK - 1) / MRA_QUERY_BLOCK, D = MRA_ROUND_UP(a->d, MRA_PAD);
    a->sorted = (struct mra_sorted) { .order = malloc(a->n_q * sizeof(int32_t)),
        .q_mean = malloc((size_t) n_b * D * 4),
        .q_var = malloc(D * sizeof(float)),
        .spread = malloc(n_b * sizeof(float)),
        .all_keys = malloc(n_b * sizeof(int32_t)),
        .k_mean = malloc(D * sizeof(float)),
        .key_bias = malloc(a->n_k * sizeof(float)) };
    a->n_all = pick(0, 2);
    for (int i = 0; i < a->n_q; i++) a->sorted.order[i] = i;
    for (int i = a->n_q - 1; i > 0; i--) {
        const int j = pick(0, i), t = a->sorted.order[i];
        a->sorted.order[i] = a->sorted.order[j];
        a->sorted.order[j] = t;
    }
    mra_kernels_ref.query_order(a, true, scratch);
    mra_kernels_ref.key_bias(a, scratch);
}
static void sorted_free(struct mra_sorted * s) {
    void * all[] = { s->order, s->q_mean, s->q_var, s->spread, s->all_keys, s->k_mean, s->key_bias };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) free(all[i]);
    s->order = NULL;
}

// One head of random sizes, packed by the kernels under test.
struct head {
    struct mra_attn_head a;
    struct block q, k, v;
    void * scratch;
};

static struct head head_new(void) {
    const int d = 8 * pick(1, 16), dv = 8 * pick(1, 16), n_q = pick(1, 150), n_k = pick(1, 400);
    const enum mra_type type = pick(0, 1) ? MRA_F16 : MRA_F32;
    struct head h = { .q = block_new(n_q, d, d + 8, MRA_F32) };
    h.k = block_new(n_k, d, d + 24, type);
    h.v = block_new(n_k, dv, dv, type);
    struct mra_attn_head * a = &h.a;
    *a = (struct mra_attn_head) { .q = h.q.rows,
        .k = h.k.rows,
        .v = h.v.rows,
        .n_q = n_q,
        .n_k = n_k,
        .d = d,
        .dv = dv,
        .scale = .3f,
        .ld_out = dv + 3,
        .g = pick(0, 1) ? 16 : 32,
        .first_n = pick(0, 1),
        .diag_n = pick(0, 3),
        .bound = pick(0, 1),
        .finest_only = pick(0, 3) == 0,
        .group = 8 * pick(1, 8) };
    const int nb = (n_k + a->g - 1) / a->g;
    a->m1 = pick(1, nb);
    a->m2 = pick(0, a->m1 * a->g < n_k ? a->m1 * a->g : n_k);
    head_pack(a);
    const size_t s1 = mra_block_sparse_attn_scratch(d, dv),
                 s2 = mra_columns_scratch(d, dv, n_k, a->g, a->m1, a->m2, a->group),
                 s3 = mra_sorted_scratch(d, dv, n_q, n_k), most = s1 > s2 ? s1 : s2;
    h.scratch = aligned_alloc(64, MRA_ROUND_UP(most > s3 ? most : s3, 64));
    return h;
}

static void head_free(struct head * h) {
    pack_free(&h->a.pack);
    free(h->scratch);
    free(h->q.mem);
    free(h->k.mem);
    free(h->v.mem);
}

// exact, listed cells, columns, sorted, on one head
static void test_head(void) {
    struct head h = head_new();
    struct mra_attn_head * a = &h.a;
    static const char * const modes[] = { "exact", "cells", "columns", "sorted" };
    float * out[2] = { calloc((size_t) a->n_q * a->ld_out, 4), calloc((size_t) a->n_q * a->ld_out, 4) };
    int32_t cells[512];
    int n_cell = 0;
    const int g = 1 << pick(0, 5);
    for (int y = 0; y * g < a->n_k; y++)
        if (pick(0, 2) == 0) cells[n_cell++] = y;
    float state[300];
    for (int c = 0; c < a->dv; c++) state[c] = gauss();
    state[a->dv] = pick(0, 1) ? 2 * gauss() : -INFINITY;
    state[a->dv + 1] = state[a->dv] > -INFINITY ? 3 : 0;
    for (int mode = 0; mode < 4; mode++) {
        if (mode == 3) {
            sorted_new(a, h.scratch);
            a->first_n = a->diag_n = 0;
        }
        for (int t = 0; t < 2; t++) {
            const struct mra_kernels * kt = t ? &mra_kernels_ref : kern;
            a->out = out[t];
            if (mode >= 2)
                for (int x = 0; x * MRA_QUERY_BLOCK < a->n_q; x += a->group) kt->columns(a, x, h.scratch);
            else
                for (int i = 0; i < a->n_q; i += 50)
                    kt->block_sparse_attn(a, i, i + 50 < a->n_q ? i + 50 : a->n_q, mode ? cells : NULL, n_cell, g,
                        mode ? state : NULL, h.scratch);
        }
        const double e = worst(out[0], out[1], (size_t) a->n_q * a->ld_out);
        CHECK(e <= 5e-5, "%s n_q %d n_k %d d %d dv %d %s g %d m1 %d m2 %d group %d: %.1e", modes[mode], a->n_q, a->n_k,
            a->d, a->dv, a->pack.type == MRA_F16 ? "f16" : "f32", mode == 1 ? g : a->g, a->m1, a->m2, a->group, e);
    }
    sorted_free(&a->sorted);
    free(out[0]);
    free(out[1]);
    head_free(&h);
}

// ---- dense layers: Q8_0, Q4_0 blocks made by hand, floats

enum { MAX_K = 640 };
static void f16_to_float(const void * w, float * x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = (float) half_value(((const uint16_t *) w)[i]);
}
static void q8_0_to_float(const void * w, float * x, int64_t n) {
    const char * p = w;
    for (int64_t i = 0; i < n; i++) {
        uint16_t d;
        memcpy(&d, p + i / 32 * 34, 2);
        x[i] = (float) half_value(d) * (float) ((const int8_t *) p)[i / 32 * 34 + 2 + i % 32];
    }
}
static void q4_0_to_float(const void * w, float * x, int64_t n) {
    const char * p = w;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t q = ((const uint8_t *) p)[i / 32 * 18 + 2 + i % 16];
        uint16_t d;
        memcpy(&d, p + i / 32 * 18, 2);
        x[i] = (float) half_value(d) * (float) ((i % 32 < 16 ? q & 15 : q >> 4) - 8);
    }
}

static double linear_tolerance(bool floats, bool tiles) {
    return floats ? 2e-6 : tiles ? 1e-5 : strchr(kern->name, '-') ? 2e-2 : 2e-3;
}

// kernels whose integers give the same bits as those under test; or NULL
static const struct mra_kernels * same_bits(void) {
    return strcmp(kern->name, "neon-i8mm") == 0 ? mra_kernels_by_name("neon-dot") : NULL;
}

// n values of a type of test_linear
static char * linear_weights(int type, size_t bytes, size_t n) {
    char * w = malloc(bytes + 64);
    for (size_t i = 0; i < bytes; i++) w[i] = (char) pick(type == 2 ? -127 : -128, 127);
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = half_of(gauss());
        if (type == 0) ((float *) w)[i] = (float) half_value(h);
        if (type == 1 || type == 4) ((uint16_t *) w)[i] = h;
        if (type == 2 && i % 32 == 0) memcpy(w + i / 32 * 34, &h, 2);
        if (type == 3 && i % 32 == 0) memcpy(w + i / 32 * 18, &h, 2);
    }
    return w;
}

static void test_linear(void) {
    static const struct {
        enum mra_weight_type type;
        int num, den;
        void (*to_float)(const void *, float *, int64_t);
    } types[] = {
        { MRA_W_F32, 4, 1, NULL },
        { MRA_W_F16, 2, 1, f16_to_float },
        { MRA_W_Q8_0, 34, 32, q8_0_to_float },
        { MRA_W_Q4_0, 18, 32, q4_0_to_float },
        { MRA_W_ANY, 2, 1, f16_to_float },
    };
    const int t = pick(0, 4), m = pick(1, 40), k = 32 * pick(1, MAX_K / 32), n = pick(1, 80);
    const size_t row = (size_t) k * types[t].num / types[t].den;
    const bool floats = t < 2, tiles = strcmp(kern->name, "v4-amx") == 0, gated = pick(0, 2) == 0;
    char * w = linear_weights(t, row * n, (size_t) k * n);
    struct block x = block_new(m, k, k + 8 * pick(0, 1), MRA_F32), res = block_new(m, n, n, MRA_F32),
                 b = block_new(1, n, n, MRA_F32);
    float * y[3] = { calloc((size_t) m * n, 4), calloc((size_t) m * n, 4), calloc((size_t) m * n, 4) };
    const struct mra_kernels * same = same_bits();
    const struct mra_weights weights = { w, row, row, types[t].type, types[t].to_float,
        pick(0, 1) ? (const float *) b.mem : NULL, n, 0 };
    struct mra_weights gate = weights;
    gate.bias = pick(0, 1) ? (const float *) res.mem : NULL;
    struct mra_linear a = { .x = x.mem,
        .res = !gated && pick(0, 1) ? res.mem : NULL,
        .stride_x = x.rows.stride,
        .stride_res = res.rows.stride,
        .stride_y = (size_t) n * 4,
        .k = k,
        .gelu = !gated && pick(0, 1),
        .gate = gated ? &gate : NULL,
        .act = pick(MRA_GLU_ACT_GELU, MRA_GLU_ACT_SILU),
        .floats = floats,
        .integers = !floats };
    void * scratch = aligned_alloc(64, MRA_ROUND_UP(mra_linear_scratch(k, floats, gated), 64));
    for (int i = 0; i < (same ? 3 : 2); i++) {
        const struct mra_dense_kernels * kt = i == 2 ? &same->dense
            : !i                                     ? &kern->dense
            : tiles                                  ? &mra_dense_ref_bf16
                                                     : &mra_kernels_ref.dense;
        a.y = (char *) y[i];
        kt->linear_x(&a, 0, m, scratch);
        for (int c = 0; c < n; c += 64) kt->linear(&a, &weights, 0, m, c, c + 64 < n ? c + 64 : n, scratch);
    }
    const double e = worst(y[0], y[1], (size_t) m * n);
    CHECK(e <= (gated ? 4 : 1) * linear_tolerance(floats, tiles), "linear type %d m %d k %d n %d gate %d: %.1e", t, m,
        k, n, gated, e);
    CHECK(!same || memcmp(y[0], y[2], (size_t) m * n * 4) == 0, "linear type %d m %d k %d n %d: other bits than %s", t,
        m, k, n, same->name);
    free(w);
    free(x.mem);
    free(res.mem);
    free(b.mem);
    for (int i = 0; i < 3; i++) free(y[i]);
    free(scratch);
}

// norm, glu and rope of one row
static void test_rows(void) {
    const int n = pick(1, 100), d = 2 * pick(1, 70), n_head = pick(1, 3), n_rot = pick(0, 2) ? d : 2 * pick(1, d / 2);
    const bool rms = pick(0, 1), no_bias = pick(0, 1), interleaved = pick(0, 1);
    struct block x = block_new(4, n, n, MRA_F32), heads = block_new(n_head, d, d, MRA_F32),
                 table = block_new(1, n_rot, n_rot, MRA_F32);
    const float *row = (const float *) x.mem, *w = row + n, *b = no_bias ? NULL : row + 2 * n;
    float *y[2] = { calloc((size_t) n, 4), calloc((size_t) n, 4) },
          *turned[2] = { malloc((size_t) n_head * d * 4), malloc((size_t) n_head * d * 4) };
    for (int act = MRA_GLU_ACT_GELU; act <= MRA_GLU_ACT_SILU; act++) {
        kern->glu(y[0], row, w, n, act);
        mra_kernels_ref.glu(y[1], row, w, n, act);
        CHECK(worst(y[0], y[1], n) <= 4e-6, "glu %d of %d: %.1e", act, n, worst(y[0], y[1], n));
    }
    for (int i = 0; i < 2; i++) {
        const struct mra_kernels * kt = i ? &mra_kernels_ref : kern;
        kt->norm(y[i], row, w, b, n, 1e-5f, rms);
        memcpy(turned[i], heads.mem, (size_t) n_head * d * 4);
        kt->rope(turned[i], (const float *) table.mem, n_head, d, n_rot, interleaved);
    }
    CHECK(worst(y[0], y[1], n) <= 1e-5, "norm of %d%s%s", n, rms ? ", rms" : "", no_bias ? ", no bias" : "");
    CHECK(worst(turned[0], turned[1], (size_t) n_head * d) <= 1e-6, "rope of %d heads of %d, %d turned%s", n_head, d,
        n_rot, interleaved ? ", interleaved" : "");
    for (int i = 0; i < 2; i++) {
        free(y[i]);
        free(turned[i]);
    }
    free(x.mem);
    free(heads.mem);
    free(table.mem);
}

// attention within a window, with and without ALiBi
static void test_window(void) {
    const int d = 16 * pick(1, 8), dv = 16 * pick(1, 8), n = pick(1, 300), window = pick(-1, 130);
    const enum mra_type type = pick(0, 1) ? MRA_F16 : MRA_F32;
    const float slope = pick(0, 1) ? .1f : 0;
    struct block q = block_new(n, d, d + 8, MRA_F32), k = block_new(n, d, d + 16, type), v = block_new(n, dv, dv, type);
    float * out[2] = { calloc((size_t) n * dv, 4), calloc((size_t) n * dv, 4) };
    struct mra_attn_head a = { .q = q.rows, .k = k.rows, .v = v.rows, .n_q = n, .n_k = n, .d = d, .dv = dv };
    a.scale = .3f;
    a.ld_out = dv;
    a.pack = (struct mra_pack) {
        .type = type, .k = k.mem, .v = v.mem, .ldk = k.rows.stride / (type == MRA_F16 ? 2 : 4), .ldv = dv
    };
    void * scratch = aligned_alloc(64, MRA_ROUND_UP(mra_block_sparse_attn_scratch(d, dv), 64));
    for (int t = 0; t < 2; t++) {
        a.out = out[t];
        for (int i = 0; i < n; i += MRA_EXACT_ROWS)
            (t ? &mra_kernels_ref : kern)
                ->window_attn(&a, i, i + MRA_EXACT_ROWS < n ? i + MRA_EXACT_ROWS : n, window, slope, scratch);
    }
    const double e = worst(out[0], out[1], (size_t) n * dv);
    CHECK(e <= 1e-5, "window %d slope %g n %d d %d dv %d: %.1e", window, (double) slope, n, d, dv, e);
    free(scratch);
    free(out[0]);
    free(out[1]);
    free(q.mem);
    free(k.mem);
    free(v.mem);
}

// attention in integers: all keys, and a list of them from a state
static void test_int8(void) {
    const int d = 8 * pick(1, 16), dv = 8 * pick(1, 16), n_q = pick(1, 70), n_k = pick(1, 300);
    const enum mra_type type = pick(0, 1) ? MRA_F16 : MRA_F32;
    const struct mra_int8_kernels * ref = mra_int8_reference(&kern->int8);
    struct block q = block_new(n_q, d, d + 8, MRA_F32), k = block_new(n_k, d, d + 24, type),
                 v = block_new(n_k, dv, dv, type);
    const struct mra_kernels * same = same_bits();
    const size_t size = (size_t) n_q * dv * 4;
    float * out[3] = { calloc(size, 1), calloc(size, 1), calloc(size, 1) };
    struct mra_attn_head a = { .q = q.rows, .k = k.rows, .v = v.rows, .n_q = n_q, .n_k = n_k, .d = d, .dv = dv };
    a.scale = .1f;
    a.ld_out = dv;
    int32_t idx[300];
    int n_idx = 0;
    for (int j = 0; j < n_k; j++)
        if (j == 0 || pick(0, 1)) idx[n_idx++] = j;
    float state[130];
    for (int c = 0; c < dv; c++) state[c] = gauss();
    state[dv] = gauss();
    state[dv + 1] = 3;
    void * scratch = aligned_alloc(64, MRA_INT8_SCRATCH);
    for (int list = 0; list < 2; list++) {
        const int rows = list ? MRA_INT8_GATHER : MRA_INT8_ROWS;
        uint32_t left[3] = { 0, 0, 0 };
        for (int t = 0; t < (same ? 3 : 2); t++) {
            const struct mra_int8_kernels * kt = t == 2 ? &same->int8 : t ? ref : &kern->int8;
            void * mem = aligned_alloc(64, MRA_ROUND_UP(mra_int8_pack_size(d, dv, n_k, kt->bytes), 64));
            const struct mra_int8_pack p = mra_int8_pack_at(mem, d, dv, n_k, kt->bytes, list);
            a.out = out[t];
            kt->pack(&a, &p, 0, n_k);
            for (int i = 0; i < n_q; i += rows)
                left[t] |= kt->attn(
                    &a, &p, i, i + rows < n_q ? i + rows : n_q, list ? idx : NULL, n_idx, list ? state : NULL, scratch);
            free(mem);
        }
        const double e = worst(out[0], out[1], (size_t) n_q * dv);
        CHECK(!left[0] && !left[1] && e <= 1e-5, "int8 n_q %d n_k %d d %d dv %d %s%s: %.1e", n_q, n_k, d, dv,
            type == MRA_F16 ? "f16" : "f32", list ? ", list" : "", e);
        CHECK(!same || memcmp(out[0], out[2], size) == 0, "int8 n_q %d n_k %d d %d dv %d%s: other bits than %s", n_q,
            n_k, d, dv, list ? ", list" : "", same->name);
    }
    free(scratch);
    for (int t = 0; t < 3; t++) free(out[t]);
    free(q.mem);
    free(k.mem);
    free(v.mem);
}

int main(int argc, char ** argv) {
    if (!kern_find(argc, argv)) return 77;
    const int percent = argc > 2 ? atoi(argv[2]) : 100;
    for (int i = 0; i < 2 * percent; i++) test_pool_score();
    for (int i = 0; i < 20 * percent; i++) test_select();
    for (int i = 0; i < 6 * percent / 10; i++) test_head();
    for (int i = 0; i < 3 * percent; i++) test_linear();
    for (int i = 0; i < 3 * percent; i++) test_rows();
    for (int i = 0; i < 6 * percent / 10; i++) test_window();
    for (int i = 0; kern->int8.attn && i < 6 * percent / 10; i++) test_int8();
    return kern_summary("test-kernels");
}
