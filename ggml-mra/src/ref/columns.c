// Columns frame {16 x g, 16 x 1, 1 x 1} of one query block:
//   out_i = [ sum_kept e^{q_i.k_j} v_j + sum_{expanded, not kept} e^{q~.k_j} v_j + sum_{not expanded} c_y e^{q~.k~_y}
//   v~_y ] / (same, v = 1)
// Sorted frame: queries in another order, keys minus their mean, choice by score + bias (see kernels.h).
#include "common.h"

enum { H = MRA_QUERY_BLOCK };

struct cell {
    double s, choice; // score without its scale, score to choose by
    int32_t id;       // key block or key
    int32_t taken;    // refined?
};

// marks the m best of c[n] as taken; ties to the lower position
static void take_best(struct cell * c, int n, int m) {
    for (int i = 0; i < n; i++) c[i].taken = 0;
    for (; m > 0; m--) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            if (!c[i].taken && c[i].choice > -INFINITY && (best < 0 || c[i].choice > c[best].choice)) best = i;
        }
        if (best < 0) return;
        c[best].taken = 1;
    }
}

// block y of n rows: mean (and range) of channel c
static double stat(struct mra_rows x, int first, int n, int c, double * lo, double * hi) {
    double sum = 0;
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int t = first; t < first + n; t++) {
        const double v = mra_ref_value(x, t, c);
        sum += v;
        *lo = fmin(*lo, v);
        *hi = fmax(*hi, v);
    }
    return sum / n;
}

static double largest_bias(const struct mra_attn_head * a, int first, int n) {
    double top = -INFINITY;
    for (int j = first; j < first + n; j++) top = fmax(top, a->sorted.key_bias[j]);
    return top;
}

// blocks[y] = score to expand by, l0[y] = pooled score; expands the m1 best
static void expand(const struct mra_attn_head * a, const double * qm, int x, struct cell * blocks, double * l0) {
    const int nb = (a->n_k + a->g - 1) / a->g;
    for (int y = 0; y < nb; y++) {
        const int first = y * a->g, n = a->n_k - first < a->g ? a->n_k - first : a->g;
        double u = 0, lo, hi;
        l0[y] = 0;
        for (int c = 0; c < a->d; c++) {
            l0[y] += qm[c] * stat(a->k, first, n, c, &lo, &hi);
            u += fmax(qm[c] * lo, qm[c] * hi);
        }
        if (!a->bound) u = l0[y];
        u = mra_ref_score(u);
        if (a->sorted.order) u += largest_bias(a, first, n);
        if (a->first_n || a->diag_n) u = mra_named_key((float) u, mra_columns_named(a, x, y));
        l0[y] = a->scale * mra_ref_score(l0[y]);
        blocks[y] = (struct cell) { .choice = u, .id = y };
    }
    if (a->m1 < nb) take_best(blocks, nb, a->m1);
    else
        for (int y = 0; y < nb; y++) blocks[y].taken = 1; // whatever their scores are
}

static bool any_nan(const struct cell * blocks, const double * l0, int n_block, const struct cell * keys, int n_key) {
    for (int y = 0; y < n_block; y++)
        if (!blocks[y].taken && l0[y] != l0[y]) return true;
    for (int j = 0; j < n_key; j++)
        if (keys[j].s != keys[j].s) return true;
    return false;
}

// 2^x, x about 0 or less, as kernels compute it: the integers of the coarse weights depend on it
static float exp2_of(float x) {
    static const float p[6] = { 1.339887e-3f, 9.618437e-3f, 5.550332e-2f, 2.402265e-1f, 6.931472e-1f, 1.0f };
    if (!(x > -127)) return 0;
    const float n = rintf(fminf(x, 0)), f = x - n;
    float r = p[0];
    for (int i = 1; i < 6; i++) r = fmaf(r, f, p[i]);
    return ldexpf(r, (int) n);
}

// e^{scale s - max}, s a score of q~; max: of integers a whole power of 2, in natural units
static double weight_of(const struct mra_attn_head * a, double s, bool integers, double max) {
    return integers ? exp2_of(fmaf((float) s, a->scale * MRA_LOG2E, -(float) rint(max * MRA_LOG2E)))
                    : exp(a->scale * s - max);
}

// acc = coarse weights x values in integers
static void integer_values(
    const struct mra_attn_head * a, const struct cell * keys, int n_key, double max, double * acc) {
    for (int j = 0, n; j < n_key; j += n) { // whole key blocks, but for the last
        float weight[MRA_KEY_BLOCK_WIDE], value[MRA_INT8_MAX_DIM] = { 0 }, *to = value;
        const float * from = weight;
        n = a->n_k - keys[j].id < a->g ? a->n_k - keys[j].id : a->g;
        for (int t = 0; t < n; t++) weight[t] = keys[j + t].taken ? 0 : (float) weight_of(a, keys[j + t].s, true, max);
        a->int8->values(a, &a->int8_pack, keys[j].id, &to, &from, 1, NULL);
        for (int c = 0; c < a->dv; c++) acc[c] += value[c];
    }
}

// logits of the keys of block y: in integers by mean, or where that is NULL from q~ itself. Returns how many.
static int block_keys(
    const struct mra_attn_head * a, const double * qm, struct mra_ref_mean * mean, int y, struct cell * keys) {
    const int first = y * a->g, n = a->n_k - first < a->g ? a->n_k - first : a->g;
    float logits[MRA_KEY_BLOCK_WIDE], *to = logits;
    const uint8_t which = 0;
    if (mean) a->int8->scores(a, &a->int8_pack, first, &to, &which, 1, mean);
    for (int j = 0; j < n; j++) {
        keys[j] = (struct cell) { .id = first + j, .s = mean ? logits[j] : 0 };
        for (int c = 0; c < a->d && !mean; c++) keys[j].s += qm[c] * mra_ref_value(a->k, first + j, c);
        keys[j].s = mra_ref_score(keys[j].s);
    }
    return n;
}

// q~ of queries [first, first + n) in integers, from its sum in floats; false: there are none, or they are not good
// enough
static bool integer_mean(
    const struct mra_attn_head * a, const double * qm, int first, int n, struct mra_ref_mean * mean) {
    float q[MRA_INT8_MAX_DIM] = { 0 };
    if (!a->int8 || !a->int8->means) return false;
    for (int c = 0; c < a->d; c++) {
        for (int i = first; i < first + n; i++) q[c] += (float) mra_ref_value(a->q, i, c);
        q[c] = a->sorted.order ? (float) qm[c] : q[c] * (1.0f / (float) n);
    }
    return a->int8->means(a, &a->int8_pack, q, 1, mean) == 0;
}

// state = what is not kept: maximum, sum, acc[dv]. A NaN among the scores makes all of it NaN, also where nothing else
// is used of what is not kept.
static void coarse(const struct mra_attn_head * a, const struct cell * blocks, const double * l0,
    const struct cell * keys, int n_key, bool integers, double * max, double * sum, double * acc) {
    const int nb = (a->n_k + a->g - 1) / a->g;
    double lo, hi;
    *max = -INFINITY;
    *sum = 0;
    memset(acc, 0, a->dv * sizeof(double));
    if (any_nan(blocks, l0, nb, keys, n_key)) {
        *max = *sum = NAN;
        return;
    }
    if (a->finest_only) return;
    for (int j = 0; j < n_key; j++)
        if (!keys[j].taken) *max = fmax(*max, a->scale * keys[j].s);
    for (int y = 0; y < nb; y++)
        if (!blocks[y].taken) *max = fmax(*max, l0[y]);
    if (*max == -INFINITY) return; // no weight is left
    if (integers) *max = ceil(*max * MRA_LOG2E) / MRA_LOG2E;
    for (int j = 0; j < n_key; j++)
        if (!keys[j].taken) {
            const double p = weight_of(a, keys[j].s, integers, *max);
            *sum += p;
            for (int c = 0; c < a->dv && !integers; c++) acc[c] += p * mra_ref_value(a->v, keys[j].id, c);
        }
    if (integers) integer_values(a, keys, n_key, *max, acc);
    for (int y = 0; y < nb; y++)
        if (!blocks[y].taken) {
            const int first = y * a->g, n = a->n_k - first < a->g ? a->n_k - first : a->g;
            const double p = n * exp(l0[y] - *max);
            *sum += p;
            for (int c = 0; c < a->dv; c++) acc[c] += p * stat(a->v, first, n, c, &lo, &hi);
        }
}

// query i; cmax, csum, cacc: the coarse state
static void exact_row(const struct mra_attn_head * a, int i, const struct cell * keys, int n_key, double cmax,
    double csum, const double * cacc) {
    double m = cmax, l = 0, acc[256] = { 0 };
    for (int j = 0; j < n_key; j++)
        if (keys[j].taken) m = fmax(m, mra_ref_score(a->scale * mra_ref_dot(a->q, i, a->k, keys[j].id, a->d)));
    if (m == -INFINITY) m = 0; // no key has a weight, and -inf - -inf would be NaN
    if (cmax != -INFINITY) {
        l = csum * exp(cmax - m);
        for (int c = 0; c < a->dv; c++) acc[c] = cacc[c] * exp(cmax - m);
    }
    for (int j = 0; j < n_key; j++)
        if (keys[j].taken) {
            const double p = exp(mra_ref_score(a->scale * mra_ref_dot(a->q, i, a->k, keys[j].id, a->d)) - m);
            l += p;
            for (int c = 0; c < a->dv; c++) acc[c] += p * mra_ref_value(a->v, keys[j].id, c);
        }
    for (int c = 0; c < a->dv; c++) a->out[i * a->ld_out + c] = l == 0 ? 0 : (float) (acc[c] / l);
}

// what the mean key adds to the coarse scores of query i of a block with mean qm
static double centre(const struct mra_attn_head * a, int i, const double * qm) {
    double s = 0;
    for (int c = 0; c < a->d; c++) s += (mra_ref_value(a->q, i, c) - qm[c]) * a->sorted.k_mean[c];
    return a->scale * s;
}

// the m2 best keys by score, and bias where there is one
static void choose_keys(const struct mra_attn_head * a, struct cell * keys, int n_key) {
    const float * bias = a->sorted.order ? a->sorted.key_bias : NULL;
    for (int j = 0; j < n_key; j++) keys[j].choice = bias ? (float) (keys[j].s + bias[keys[j].id]) : keys[j].s;
    take_best(keys, n_key, a->m2);
}

// queries [first, end) of a's order attend to all keys
static void exact_rows(const struct mra_attn_head * a, int first, int end) {
    struct mra_attn_head one = *a;
    one.sorted.order = NULL;
    for (int i = first; i < end; i++)
        mra_ref_block_sparse_attn(&one, a->sorted.order[i], a->sorted.order[i] + 1, NULL, 0, 0, NULL, NULL);
}

// in integers; returns which rows are not done
static uint32_t integer_rows(const struct mra_attn_head * a, int i0, int i1, const struct cell * keys, int n_key,
    double cmax, double csum, const double * cacc) {
    const uint32_t all = (1u << (i1 - i0)) - 1;
    if (!a->int8 || isnan(cmax) || cmax == INFINITY) return all;
    int32_t * idx = (int32_t *) (keys + n_key);
    int n = 0;
    for (int j = 0; j < n_key; j++)
        if (keys[j].taken) idx[n++] = keys[j].id;
    float state[MRA_INT8_MAX_DIM + 2];
    for (int c = 0; c < a->dv; c++) state[c] = (float) cacc[c];
    state[a->dv] = (float) cmax;
    state[a->dv + 1] = (float) csum;
    return n ? a->int8->attn(a, &a->int8_pack, i0, i1, idx, n, state, NULL) : all;
}

// the same, in integers where these are good enough; keys: memory for all of them
static void all_keys_rows(const struct mra_attn_head * a, int first, int end, struct cell * keys) {
    for (int j = 0; j < a->n_k; j++) keys[j] = (struct cell) { .id = j, .taken = 1 };
    const double none[MRA_INT8_MAX_DIM] = { 0 };
    const uint32_t left = integer_rows(a, first, end, keys, a->n_k, -INFINITY, 0, none);
    for (int i = first; i < end; i++)
        if (left >> (i - first) & 1) exact_rows(a, i, i + 1);
}

void mra_ref_columns(const struct mra_attn_head * a, int x0, void * scratch) {
    const int nb = (a->n_k + a->g - 1) / a->g;
    struct cell * blocks = scratch; // the group's scratch is more than one query block needs
    double * l0 = (double *) (blocks + nb);
    struct cell * keys = (struct cell *) (l0 + nb);
    for (int x = x0; x < x0 + a->group && x * H < a->n_q; x++) {
        const int end = (x + 1) * H < a->n_q ? (x + 1) * H : a->n_q;
        double qm[256], lo, hi, cmax, csum, cacc[256];
        const int32_t * order = a->sorted.order;
        if (order && a->sorted.all_keys[x]) {
            all_keys_rows(a, x * H, end, keys);
            continue;
        }
        for (int c = 0; c < a->d; c++)
            qm[c] = order ? a->sorted.q_mean[x * MRA_ROUND_UP(a->d, MRA_PAD) + c]
                          : stat(a->q, x * H, end - x * H, c, &lo, &hi);
        expand(a, qm, x, blocks, l0);
        struct mra_ref_mean mean;
        const bool integers = integer_mean(a, qm, x * H, end - x * H, &mean);
        int n_key = 0;
        for (int y = 0; y < nb; y++)
            if (blocks[y].taken) n_key += block_keys(a, qm, integers ? &mean : NULL, y, keys + n_key);
        choose_keys(a, keys, n_key);
        coarse(a, blocks, l0, keys, n_key, integers, &cmax, &csum, cacc);
        const uint32_t left = integer_rows(a, x * H, end, keys, n_key, cmax, csum, cacc);
        for (int i = x * H; i < end; i++) {
            const int row = order ? order[i] : i;
            const double up = order && cmax != -INFINITY ? mra_ref_score(cmax + centre(a, row, qm)) : cmax;
            if (left >> (i - x * H) & 1) exact_row(a, row, keys, n_key, up, csum, cacc);
        }
    }
}
