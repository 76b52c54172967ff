// Attention by bfloat16 (int8.h, the third form), scores in the order of additions that tiles have, so that all weights
// are the same; sums over keys in double. k and v of
// the pack are bfloat16 [n][dk], [n][dv].
#include "common.h"

static float value(struct mra_rows x, int64_t row, int c) { return (float) mra_ref_value(x, row, c); }

static double most_of(double a, double b) { return a <= b || isnan(b) ? b : a; }

// a power of two above the values of the sample
static float values_factor(const struct mra_attn_head * a) {
    const int n = a->n_k < MRA_INT8_SAMPLE ? a->n_k : MRA_INT8_SAMPLE;
    double largest = 0;
    for (int c = 0; c < a->dv; c++) {
        float sum = 0;
        for (int i = 0; i < n; i++) sum += fabsf(value(a->v, (int64_t) i * a->n_k / n, c));
        largest = most_of(sum, largest);
    }
    int e = 0;
    if (largest > 0 && isfinite(largest)) frexp(largest, &e);
    return ldexpf(1, e > 120 ? 120 : e < -120 ? -120 : e);
}

static void pack_block(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, const float * k_factor) {
    const int n = a->n_k - j0 < MRA_INT8_KEYS ? a->n_k - j0 : MRA_INT8_KEYS, dk = MRA_ROUND_UP(a->d, MRA_INT8_PAD),
              dv = MRA_ROUND_UP(a->dv, MRA_INT8_PAD);
    double norm2 = 0, largest = 0;
    for (int j = j0; j < j0 + n; j++) {
        double sum = 0;
        for (int c = 0; c < a->d; c++) {
            const float x = (value(a->k, j, c) - p->mean[c]) * k_factor[c];
            const uint16_t b = mra_ref_to_bf16(x);
            ((uint16_t *) p->k)[(int64_t) j * dk + c] = b;
            sum += isfinite(x) ? (double) mra_ref_from_bf16(b) * mra_ref_from_bf16(b) : NAN;
        }
        for (int c = 0; c < a->dv; c++) {
            const float x = value(a->v, j, c) / p->v_factor[c];
            ((uint16_t *) p->v)[(int64_t) j * dv + c] = mra_ref_to_bf16(x);
            largest = most_of(fabsf(x), largest);
        }
        norm2 = most_of(sum, norm2);
    }
    p->range[j0 / MRA_INT8_KEYS] = (struct mra_int8_range) { largest < 0x1p40 ? (float) norm2 : NAN, 0 };
}

static void pack(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, int j1) {
    float mean[MRA_INT8_MAX_DIM], k_factor[MRA_INT8_MAX_DIM], v_factor[MRA_INT8_MAX_DIM];
    mra_ref_int8_sample(a, mean, k_factor, v_factor);
    for (int c = 0; c < a->dv; c++) v_factor[c] = values_factor(a);
    struct mra_int8_pack own = *p;
    own.mean = mean;
    own.v_factor = v_factor;
    if (j0 == 0) {
        memcpy(p->mean, mean, sizeof(float) * a->d);
        for (int c = 0; c < a->d; c++) p->q_factor[c] = 1 / k_factor[c];
        memcpy(p->v_factor, v_factor, sizeof(float) * a->dv);
    }
    for (int j = j0; j < j1; j += MRA_INT8_KEYS) pack_block(a, &own, j, k_factor);
}

// One row of queries. m: no score is above 2^(m + MRA_BF16_ABOVE). lack: scale log2(e) q . mean, which the scores lack;
// in the sorted frame minus what the coarse state lacks, scale log2(e) (q - q~).k_mean.
struct row {
    float q[MRA_INT8_MAX_DIM];
    double m, lack;
};

// false: too far off
static bool row_of(const struct mra_attn_head * a, const struct mra_int8_pack * p, int i, struct row * r) {
    const struct mra_sorted * sorted = &a->sorted;
    const size_t block = (size_t) i / MRA_QUERY_BLOCK * MRA_ROUND_UP(a->d, MRA_PAD);
    double norm2 = 0, k2 = 0, second = 0, fourth = 0;
    r->lack = 0;
    for (int c = 0; c < a->d; c++) {
        const float q = value(a->q, mra_query_at(a, i), c), x = q * p->q_factor[c];
        const double f = (double) a->scale * 1.44269504f;
        r->q[c] = mra_ref_from_bf16(mra_ref_to_bf16(x * (a->scale * (256 * 1.44269504f))));
        norm2 += isfinite(x) ? (double) r->q[c] * r->q[c] : NAN;
        second += (double) x * x;
        fourth += (double) x * x * x * x;
        r->lack += f * q * p->mean[c];
        if (sorted->order) r->lack -= f * (q - sorted->q_mean[block + c]) * sorted->k_mean[c];
    }
    for (int b = 0; b * MRA_INT8_KEYS < a->n_k; b++) k2 = most_of(p->range[b].k_norm2, k2);
    const double bound = sqrt(norm2) * sqrt(k2) * (1.01f / 256) + 1, dev = MRA_BF16_ROUNDING * a->scale,
                 limit = MRA_INT8_LIMIT * MRA_INT8_LIMIT;
    r->m = bound > MRA_BF16_ABOVE ? ceil(bound - MRA_BF16_ABOVE) : 0;
    return (second == 0 || fourth / second * k2 * dev * dev <= limit) && bound < 1e6;
}

// Q . K + start in the order of tiles: 32 channels at a time, even and odd ones by themselves
static float score_of(const float * q, const uint16_t * k, int d, float start) {
    for (int c0 = 0; c0 < d; c0 += 32) {
        float sum[2] = { 0 };
        for (int c = c0; c < d && c < c0 + 32; c++) sum[c & 1] += q[c] * mra_ref_from_bf16(k[c]);
        start += sum[0] + sum[1];
    }
    return start;
}

static double weight_of(float z) {
    static const uint8_t exp2_of[64] = MRA_BF16_EXP2;
    z = rintf(z);
    const uint32_t x = z < 0 ? 0 : z > 65535 ? 65535 : (uint32_t) z, bits = (x + exp2_of[x >> 2 & 63]) >> 1;
    return bits < 128 ? 0 : mra_ref_from_bf16((uint16_t) bits); // denormals count as 0
}

// false: all weights too small
static bool attn_row(const struct mra_attn_head * a, const struct mra_int8_pack * p, int i, const struct row * r,
    const int32_t * idx, int n, const float * state) {
    const int dk = MRA_ROUND_UP(a->d, MRA_INT8_PAD), dv = MRA_ROUND_UP(a->dv, MRA_INT8_PAD);
    double o[MRA_INT8_MAX_DIM] = { 0 }, sum = 0, m = r->m;
    if (state && state[a->dv] > -INFINITY) {
        const double max = state[a->dv] * 1.44269504f - r->lack;
        m = fmax(m, ceil(max - MRA_BF16_ABOVE));
        sum = state[a->dv + 1] * exp2(max - m);
        for (int c = 0; c < a->dv; c++) o[c] = state[c] * exp2(max - m) / p->v_factor[c];
    }
    for (int l = 0; l < n; l++) {
        const int64_t j = idx ? idx[l] : l;
        const float start = (float) (256 * (127 - m) - MRA_BF16_OFFSET);
        const double w = weight_of(score_of(r->q, (const uint16_t *) p->k + j * dk, a->d, start));
        sum += w;
        for (int c = 0; c < a->dv; c++) o[c] += w * mra_ref_from_bf16(((const uint16_t *) p->v)[j * dv + c]);
    }
    float * out = a->out + mra_query_at(a, i) * a->ld_out;
    for (int c = 0; c < a->dv; c++) out[c] = (float) (o[c] / sum * p->v_factor[c]);
    return sum >= MRA_BF16_LEAST && sum < INFINITY;
}

static uint32_t attn(const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1,
    const int32_t * idx, int n_idx, const float * state, void * scratch) {
    uint32_t left = 0;
    (void) scratch;
    for (int i = i0; i < i1; i++) {
        struct row r;
        if (!row_of(a, p, i, &r) || !attn_row(a, p, i, &r, idx, idx ? n_idx : a->n_k, state)) left |= 1u << (i - i0);
    }
    return left;
}

static uint32_t window_attn(
    const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1, int window, void * scratch) {
    const size_t k_row = MRA_ROUND_UP(a->d, MRA_INT8_PAD) * sizeof(uint16_t),
                 v_row = MRA_ROUND_UP(a->dv, MRA_INT8_PAD) * sizeof(uint16_t);
    int32_t seen[2 * MRA_MAX_WINDOW + 1];
    uint32_t left = 0;
    (void) scratch;
    for (int i = i0; i < i1; i++) {
        struct mra_attn_head near = *a;
        struct mra_int8_pack keys = *p;
        struct row r;
        const int first = mra_int8_near(&near, &keys, i / 16 * 16, 16, window, k_row, v_row);
        int n = 0;
        for (int j = first; j < first + near.n_k; j++)
            if (abs(i - j) <= window) seen[n++] = j - first;
        if (!row_of(&near, &keys, i, &r) || !attn_row(&near, &keys, i, &r, seen, n, NULL)) left |= 1u << (i - i0);
    }
    return left;
}

static uint64_t means(
    const struct mra_attn_head * a, const struct mra_int8_pack * p, const float * q, int n, void * scratch) {
    struct mra_ref_mean * r = scratch;
    const double dev = MRA_BF16_ROUNDING * a->scale, limit = MRA_INT8_LIMIT * MRA_INT8_LIMIT;
    uint64_t left = 0;
    double k2 = 0;
    for (int b = 0; b * MRA_INT8_KEYS < a->n_k; b++) k2 = most_of(p->range[b].k_norm2, k2);
    for (int i = 0; i < n; i++, q += MRA_ROUND_UP(a->d, MRA_PAD)) {
        double second = 0, fourth = 0;
        for (int c = 0; c < a->d; c++) {
            const float x = q[c] * p->q_factor[c];
            r[i].q[c] = mra_ref_from_bf16(mra_ref_to_bf16(x));
            second += (double) x * x;
            fourth += (double) x * x * x * x;
        }
        r[i].same = mra_ref_dot_16(q, p->mean, a->d);
        const bool ok = isfinite(k2) && p->v_factor[0] >= MRA_BF16_LEAST_V &&
            (second == 0 || fourth / second * k2 * dev * dev <= limit);
        left |= (uint64_t) !ok << i;
    }
    return left;
}

static void scores(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, float * const * to,
    const uint8_t * which, int n, void * scratch) {
    const struct mra_ref_mean * r = scratch;
    const int64_t dk = MRA_ROUND_UP(a->d, MRA_INT8_PAD);
    for (int i = 0; i < n; i++)
        for (int j = j0; j < j0 + a->g && j < a->n_k; j++)
            to[i][j - j0] = score_of(r[which[i]].q, (const uint16_t *) p->k + j * dk, a->d, r[which[i]].same);
}

static void values(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, float * const * to,
    const float * const * weight, int n, void * scratch) {
    const int64_t dv = MRA_ROUND_UP(a->dv, MRA_INT8_PAD);
    (void) scratch;
    for (int i = 0; i < n; i++)
        for (int c = 0; c < a->dv; c++) {
            double sum = 0;
            for (int j = j0; j < j0 + a->g && j < a->n_k; j++)
                sum += (double) mra_ref_from_bf16(mra_ref_to_bf16(weight[i][j - j0])) *
                    mra_ref_from_bf16(((const uint16_t *) p->v)[j * dv + c]);
            to[i][c] = (float) (to[i][c] + sum * p->v_factor[c]);
        }
}

const struct mra_int8_kernels mra_int8_ref_bf16 = { .form = MRA_INT8_BF16,
    .bytes = sizeof(uint16_t),
    .pack = pack,
    .attn = attn,
    .window_attn = window_attn,
    .means = means,
    .scores = scores,
    .values = values };

const struct mra_int8_kernels * mra_int8_reference(const struct mra_int8_kernels * k) {
    return k->form.w_max == mra_int8_ref_bytes.form.w_max ? &mra_int8_ref_bytes
        : k->form.w_max == mra_int8_ref_words.form.w_max  ? &mra_int8_ref_words
                                                          : &mra_int8_ref_bf16;
}
