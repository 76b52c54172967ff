// Attention in small integers (int8.h): the integer arithmetic to the letter, one float operation at a time; sums over
// keys in double. k and v of the pack are int16 [n][dk], [n][dv].
#include "common.h"

typedef int16_t whole;

static const struct mra_int8_form bytes = MRA_INT8_BYTES, words = MRA_INT8_WORDS;

// the larger; NaN if one is
static double most_of(double a, double b) { return a <= b || isnan(b) ? b : a; }

static float largest(const float * x, int n) {
    double m = 1e-20f;
    for (int c = 0; c < n; c++) m = most_of(fabsf(x[c]), m);
    return (float) m;
}

static float log2_of(float x) {
    static const float p[7] = MRA_INT8_LOG2;
    int e;
    const float f = 2 * frexpf(x, &e) - 1.5f;
    float r = p[0];
    for (int i = 1; i < 7; i++) r = fmaf(r, f, p[i]);
    return r + (float) (e - 1);
}

static float exp2_of(const struct mra_int8_form * form, float x) {
    x = fmaxf(x, -120.0f);
    const float n = rintf(x), f = x - n;
    float r = form->exp2[0];
    for (int i = 1; i < form->n_exp2; i++) r = fmaf(r, f, form->exp2[i]);
    return ldexpf(r, (int) n);
}

static float value(struct mra_rows x, int64_t row, int c) { return (float) mra_ref_value(x, row, c); }

// sum over the sample of |x|, or of |x - the sampled row before|
static void magnitudes(float * sum, struct mra_rows x, int n_row, int n, int d, bool differences) {
    for (int c = 0; c < d; c++) {
        float s = 0, last = n_row > 0 ? value(x, 0, c) : 0;
        for (int i = 0; i < n && n_row > 0; i++) {
            const float y = value(x, (int64_t) i * n_row / n, c);
            s += fabsf(differences ? y - last : y);
            last = y;
        }
        sum[c] = s;
    }
    const float least = largest(sum, d) * 0x1p-10f; // a sample may see zeros only
    for (int c = 0; c < d; c++)
        if (!(sum[c] >= least)) sum[c] = least;
}

// out_c = 2^x_c's nearest power of two relative to the mean of x, where it stands out; else 1
static void factors(float * out, const float * x, int d, float stands_out) {
    float mean = 0;
    for (int c = 0; c < d; c++) mean += x[c];
    mean /= (float) d;
    for (int c = 0; c < d; c++) out[c] = fabsf(x[c] - mean) > stands_out ? exp2f(rintf(x[c] - mean)) : 1;
}

void mra_ref_int8_sample(const struct mra_attn_head * a, float * mean, float * k_factor, float * v_factor) {
    const int n = a->n_k < MRA_INT8_SAMPLE ? a->n_k : MRA_INT8_SAMPLE;
    float q[MRA_INT8_MAX_DIM], k[MRA_INT8_MAX_DIM], v[MRA_INT8_MAX_DIM];
    for (int c = 0; c < a->d; c++) {
        float sum = 0;
        for (int i = 0; i < n; i++) sum += value(a->k, (int64_t) i * a->n_k / n, c);
        mean[c] = sum * (1.0f / (float) n);
    }
    magnitudes(q, a->q, a->n_q, n, a->d, false);
    magnitudes(k, a->k, a->n_k, n, a->d, true);
    magnitudes(v, a->v, a->n_k, n, a->dv, false);
    for (int c = 0; c < a->d; c++) q[c] = log2_of(q[c] / k[c]) * 0.5f;
    for (int c = 0; c < a->dv; c++) v[c] = log2_of(v[c]);
    factors(k_factor, q, a->d, MRA_INT8_STANDS_OUT_QK);
    factors(v_factor, v, a->dv, MRA_INT8_STANDS_OUT_V);
}

static void pack_block(const struct mra_int8_form * form, const struct mra_attn_head * a,
    const struct mra_int8_pack * p, int j0, const float * k_factor) {
    const int n = a->n_k - j0 < MRA_INT8_KEYS ? a->n_k - j0 : MRA_INT8_KEYS, dk = MRA_ROUND_UP(a->d, MRA_PAD),
              dv = MRA_ROUND_UP(a->dv, MRA_PAD);
    float x[MRA_INT8_MAX_DIM], u[MRA_INT8_KEYS];
    double norm2 = 0, step = 0, v_most = 1e-20f;
    for (int j = j0; j < j0 + n; j++) {
        for (int c = 0; c < a->d; c++) x[c] = (value(a->k, j, c) - p->mean[c]) * k_factor[c];
        const float s = largest(x, a->d), f = (float) form->k_max / s;
        double sum = 0;
        for (int c = 0; c < a->d; c++) {
            ((whole *) p->k)[(int64_t) j * dk + c] = (whole) (isfinite(x[c] * f) ? lrintf(x[c] * f) : 0);
            sum += (double) x[c] * x[c];
        }
        p->key[j].k_scale = s / (float) form->k_max;
        norm2 = most_of(sum, norm2);
        step = most_of(p->key[j].k_scale, step);
        for (int c = 0; c < a->dv; c++) x[c] = value(a->v, j, c) / p->v_factor[c];
        u[j - j0] = largest(x, a->dv);
        v_most = most_of(u[j - j0], v_most);
    }
    const float most = (float) v_most;
    for (int j = j0; j < j0 + n; j++) {
        const float s = u[j - j0] < most * 0x1p-12f ? most * 0x1p-12f : u[j - j0], f = (float) form->v_max / s;
        for (int c = 0; c < a->dv; c++) {
            const float y = value(a->v, j, c) / p->v_factor[c] * f;
            ((whole *) p->v)[(int64_t) j * dv + c] = (whole) (isfinite(y) ? lrintf(y) : 0);
        }
        p->key[j].v_inv = f;
        p->key[j].v_log2 = log2_of(s / (float) form->v_max);
    }
    if (!isfinite(most)) step = NAN;
    p->range[j0 / MRA_INT8_KEYS] = (struct mra_int8_range) { (float) norm2, (float) step };
}

static void pack(
    const struct mra_int8_form * form, const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, int j1) {
    float mean[MRA_INT8_MAX_DIM], k_factor[MRA_INT8_MAX_DIM], v_factor[MRA_INT8_MAX_DIM];
    mra_ref_int8_sample(a, mean, k_factor, v_factor);
    struct mra_int8_pack own = *p;
    own.mean = mean;
    own.v_factor = v_factor;
    if (j0 == 0) {
        memcpy(p->mean, mean, sizeof(float) * a->d);
        memcpy(p->v_factor, v_factor, sizeof(float) * a->dv);
        for (int c = 0; c < a->d; c++) p->q_factor[c] = 1 / k_factor[c];
    }
    for (int j = j0; j < j1; j += MRA_INT8_KEYS) pack_block(form, a, &own, j, k_factor);
}

// One row of queries in integers. shift: scale log2(e) q . mean, which the logits lack; in the sorted frame minus what
// the coarse state lacks, scale log2(e) (q - q~).k_mean.
struct row {
    whole q[MRA_INT8_MAX_DIM];
    float scale;
    double shift;
};

// deviation of a logit predicted from rounding alone, squared
static double deviation2(
    const struct mra_attn_head * a, const struct mra_int8_pack * p, double q_step, double q_norm2) {
    double k2 = 0, step = 0;
    for (int b = 0; b * MRA_INT8_KEYS < a->n_k; b++) {
        k2 = most_of(p->range[b].k_norm2, k2);
        step = most_of(p->range[b].k_step, step);
    }
    return (q_step * q_step * k2 + q_norm2 * step * step) / 12 * a->scale * a->scale;
}

// false: too far off
static bool row_of(const struct mra_int8_form * form, const struct mra_attn_head * a, const struct mra_int8_pack * p,
    int i, struct row * r) {
    const struct mra_sorted * sorted = &a->sorted;
    const size_t block = (size_t) i / MRA_QUERY_BLOCK * MRA_ROUND_UP(a->d, MRA_PAD);
    const int at = (int) mra_query_at(a, i);
    float x[MRA_INT8_MAX_DIM];
    double q2 = 0;
    r->shift = 0;
    for (int c = 0; c < a->d; c++) {
        const double q = value(a->q, at, c), f = (double) a->scale * 1.44269504f;
        x[c] = (float) q * p->q_factor[c];
        q2 += (double) x[c] * x[c];
        r->shift += f * q * p->mean[c];
        if (sorted->order) r->shift -= f * (q - sorted->q_mean[block + c]) * sorted->k_mean[c];
    }
    const float s = largest(x, a->d), f = (float) form->q_max / s;
    for (int c = 0; c < a->d; c++) r->q[c] = (whole) (isfinite(x[c] * f) ? lrintf(x[c] * f) : 0);
    r->scale = s / (float) form->q_max * (a->scale * 1.44269504f);
    return deviation2(a, p, s / (float) form->q_max, q2) <= (double) MRA_INT8_LIMIT * MRA_INT8_LIMIT;
}

// idx: keys, -1 for one that the row does not see, or NULL
static void attn_row(const struct mra_int8_form * form, const struct mra_attn_head * a, const struct mra_int8_pack * p,
    int i, const struct row * r, const int32_t * idx, int n, const float * state) {
    const int dk = MRA_ROUND_UP(a->d, MRA_PAD), dv = MRA_ROUND_UP(a->dv, MRA_PAD);
    double o[MRA_INT8_MAX_DIM] = { 0 }, sum = 0, max = -INFINITY;
    if (state && state[a->dv] > -INFINITY) {
        max = state[a->dv] * 1.44269504f - r->shift;
        sum = state[a->dv + 1];
        for (int c = 0; c < a->dv; c++) o[c] = state[c] / p->v_factor[c];
    }
    for (int j0 = 0; j0 < n; j0 += MRA_INT8_KEYS) {
        float t[MRA_INT8_KEYS], b = -INFINITY;
        const int nb = n - j0 < MRA_INT8_KEYS ? n - j0 : MRA_INT8_KEYS;
        for (int m = 0; m < nb; m++) {
            const int64_t j = idx ? idx[j0 + m] : j0 + m;
            int32_t dot = 0;
            t[m] = -INFINITY;
            if (j < 0) continue;
            for (int c = 0; c < a->d; c++) dot += r->q[c] * ((const whole *) p->k)[j * dk + c];
            t[m] = fmaf((float) dot * p->key[j].k_scale, r->scale, p->key[j].v_log2);
            b = t[m] > b ? t[m] : b;
        }
        if (b == -INFINITY) continue;
        const double m1 = b > max ? b : max, old = exp2(max - m1), w = exp2(b - m1) / form->w_max;
        sum *= old;
        for (int c = 0; c < a->dv; c++) o[c] *= old;
        max = m1;
        for (int m = 0; m < nb; m++) {
            const int64_t j = idx ? idx[j0 + m] : j0 + m;
            if (j < 0) continue;
            const float e = exp2_of(form, t[m] + (form->log2_w_max - b));
            const double weight = rint(e);
            sum += (double) e * p->key[j].v_inv * w;
            for (int c = 0; c < a->dv; c++) o[c] += weight * ((const whole *) p->v)[j * dv + c] * w;
        }
    }
    for (int c = 0; c < a->dv; c++) a->out[mra_query_at(a, i) * a->ld_out + c] = (float) (o[c] / sum * p->v_factor[c]);
}

static uint32_t attn(const struct mra_int8_form * form, const struct mra_attn_head * a, const struct mra_int8_pack * p,
    int i0, int i1, const int32_t * idx, int n_idx, const float * state) {
    uint32_t left = 0;
    for (int i = i0; i < i1; i++) {
        struct row r;
        if (row_of(form, a, p, i, &r)) attn_row(form, a, p, i, &r, idx, idx ? n_idx : a->n_k, state);
        else left |= 1u << (i - i0);
    }
    return left;
}

static uint32_t window_attn(const struct mra_int8_form * form, const struct mra_attn_head * a,
    const struct mra_int8_pack * p, int i0, int i1, int window) {
    const size_t k_row = MRA_ROUND_UP(a->d, MRA_PAD) * sizeof(whole),
                 v_row = MRA_ROUND_UP(a->dv, MRA_PAD) * sizeof(whole);
    int32_t keys[2 * MRA_MAX_WINDOW + MRA_INT8_ROWS + 2 * MRA_INT8_KEYS];
    uint32_t left = 0;
    for (int i = i0; i < i1; i++) {
        struct mra_attn_head near = *a;
        struct mra_int8_pack of_near = *p;
        struct row r;
        const int together = i / MRA_INT8_ROWS * MRA_INT8_ROWS,
                  first = mra_int8_near(&near, &of_near, together, MRA_INT8_ROWS, window, k_row, v_row);
        for (int j = 0; j < near.n_k; j++) keys[j] = abs(i - first - j) <= window ? j : -1;
        if (row_of(form, &near, &of_near, i, &r)) attn_row(form, &near, &of_near, i, &r, keys, near.n_k, NULL);
        else left |= 1u << (i - i0);
    }
    return left;
}

static uint64_t means(
    const struct mra_attn_head * a, const struct mra_int8_pack * p, const float * q, int n, void * scratch) {
    struct mra_ref_mean * r = scratch;
    uint64_t left = 0;
    for (int i = 0; i < n; i++, q += MRA_ROUND_UP(a->d, MRA_PAD)) {
        float x[MRA_INT8_MAX_DIM];
        double q2 = 0;
        for (int c = 0; c < a->d; c++) {
            x[c] = q[c] * p->q_factor[c];
            q2 += (double) x[c] * x[c];
        }
        const float s = largest(x, a->d), f = (float) bytes.q_max / s;
        for (int c = 0; c < a->d; c++) r[i].q[c] = isfinite(x[c] * f) ? rintf(x[c] * f) : 0;
        r[i].scale = s / (float) bytes.q_max;
        r[i].same = mra_ref_dot_16(q, p->mean, a->d);
        const bool ok = deviation2(a, p, r[i].scale, q2) <= (double) MRA_INT8_LIMIT * MRA_INT8_LIMIT;
        left |= (uint64_t) !ok << i;
    }
    return left;
}

static void scores(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, float * const * to,
    const uint8_t * which, int n, void * scratch) {
    const struct mra_ref_mean * r = scratch;
    const int dk = MRA_ROUND_UP(a->d, MRA_PAD);
    for (int i = 0; i < n; i++)
        for (int j = j0; j < j0 + a->g && j < a->n_k; j++) {
            float dot = 0; // a whole number
            for (int c = 0; c < a->d; c++) dot += r[which[i]].q[c] * ((const whole *) p->k)[(int64_t) j * dk + c];
            to[i][j - j0] = fmaf(dot * p->key[j].k_scale, r[which[i]].scale, r[which[i]].same);
        }
}

static void values(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, float * const * to,
    const float * const * weight, int n, void * scratch) {
    const int dv = MRA_ROUND_UP(a->dv, MRA_PAD), n_key = j0 + a->g < a->n_k ? a->g : a->n_k - j0;
    (void) scratch;
    for (int i = 0; i < n; i++) {
        float x[MRA_KEY_BLOCK_WIDE], top = 0;
        for (int j = 0; j < n_key; j++) {
            x[j] = weight[i][j] * (1 / p->key[j0 + j].v_inv);
            top = fmaxf(x[j], top);
        }
        if (!(top >= MRA_INT8_LEAST)) continue;
        const float inv = (float) bytes.w_max / top;
        for (int c = 0; c < a->dv; c++) {
            double sum = 0;
            for (int j = 0; j < n_key; j++)
                sum += rintf(x[j] * inv) * ((const whole *) p->v)[(int64_t) (j0 + j) * dv + c];
            to[i][c] = (float) (to[i][c] + sum * top / bytes.w_max * p->v_factor[c]);
        }
    }
}

static void pack_bytes(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, int j1) {
    pack(&bytes, a, p, j0, j1);
}
static void pack_words(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, int j1) {
    pack(&words, a, p, j0, j1);
}
static uint32_t attn_bytes(const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1,
    const int32_t * idx, int n_idx, const float * state, void * scratch) {
    (void) scratch;
    return attn(&bytes, a, p, i0, i1, idx, n_idx, state);
}
static uint32_t attn_words(const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1,
    const int32_t * idx, int n_idx, const float * state, void * scratch) {
    (void) scratch;
    return attn(&words, a, p, i0, i1, idx, n_idx, state);
}

static uint32_t window_attn_bytes(
    const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1, int window, void * scratch) {
    (void) scratch;
    return window_attn(&bytes, a, p, i0, i1, window);
}
static uint32_t window_attn_words(
    const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1, int window, void * scratch) {
    (void) scratch;
    return window_attn(&words, a, p, i0, i1, window);
}

const struct mra_int8_kernels mra_int8_ref_bytes = { .form = MRA_INT8_BYTES,
    .bytes = sizeof(whole),
    .pack = pack_bytes,
    .attn = attn_bytes,
    .window_attn = window_attn_bytes,
    .means = means,
    .scores = scores,
    .values = values };
const struct mra_int8_kernels mra_int8_ref_words = { .form = MRA_INT8_WORDS,
    .bytes = sizeof(whole),
    .pack = pack_words,
    .attn = attn_words,
    .window_attn = window_attn_words };
