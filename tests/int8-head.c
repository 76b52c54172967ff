#include "int8-head.h"

const char * const kind_names[N_KINDS] = { "normal", "q outlier", "k outlier", "v outlier", "huge score", "equal keys",
    "zero values", "no values", "zero query", "tiny sink", "large v", "huge rows", "huge scores", "aligned", "NaN in q",
    "NaN in k", "inf in v" };

void * memory(size_t bytes) {
    void * p = aligned_alloc(64, MRA_ROUND_UP(bytes + 64, 64));
    memset(p, 0x55, bytes + 64); // not zeros
    return p;
}

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

struct head head_new(const float * q, const float * k, const float * v, int n_q, int n_k, int d, int dv, bool f16) {
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
void head_free(struct head * h) {
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

struct head head_of(const struct int8_case * c) {
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

struct packed packed_new(const struct mra_int8_kernels * k, const struct mra_attn_head * a, bool gather, int step) {
    struct packed r = { memory(mra_int8_pack_size(a->d, a->dv, a->n_k, k->bytes)), { 0 } };
    r.p = mra_int8_pack_at(r.mem, a->d, a->dv, a->n_k, k->bytes, gather);
    for (int j = MRA_ROUND_UP(a->n_k, step) - step; j >= 0; j -= step) // in any order
        k->pack(a, &r.p, j, j + step < a->n_k ? j + step : a->n_k);
    return r;
}

double error_of(const float * a, const float * exact, int64_t n) {
    double e2 = 0, r2 = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(exact[i]) != !isfinite(a[i])) return INFINITY;
        if (!isfinite(exact[i])) continue;
        e2 += ((double) a[i] - exact[i]) * ((double) a[i] - exact[i]);
        r2 += (double) exact[i] * exact[i];
    }
    return e2 == 0 ? 0 : sqrt(e2 / r2);
}
