// Order of the queries of a head: the leaves of a balanced tree, split along z = C Y'Y C_c (see kernels.h).
#include "common.h"

enum { H = MRA_QUERY_BLOCK };

// C[d][d] = covariance of every stride-th key, divided by its largest diagonal element; all 0 where there is none
void mra_ref_key_covariance(double * C, struct mra_rows k, int n_k, int d) {
    const int step = mra_order_stride(n_k, MRA_ORDER_KEYS);
    double mean[256] = { 0 }, top = 0;
    int n = 0;
    for (int j = 0; j < n_k; j += step, n++) {
        for (int c = 0; c < d; c++) mean[c] += mra_ref_value(k, j, c);
    }
    memset(C, 0, sizeof(double) * d * d);
    for (int j = 0; j < n_k; j += step) {
        for (int a = 0; a < d; a++) {
            const double x = mra_ref_value(k, j, a) - mean[a] / n;
            for (int b = 0; b < d; b++) C[a * d + b] += x * (mra_ref_value(k, j, b) - mean[b] / n);
        }
    }
    for (int c = 0; c < d; c++) top = fmax(top, C[c * d + c]);
    for (int c = 0; c < d * d; c++) C[c] = top > 0 ? C[c] / top : 0;
}

// y[n][d] = every stride-th row of idx[m], minus their mean; returns n
static int sample(double * y, struct mra_rows q, const int32_t * idx, int m, int d) {
    const int step = mra_order_stride(m, MRA_ORDER_ROWS), n = (m - step / 2 + step - 1) / step;
    for (int c = 0; c < d; c++) {
        double mean = 0;
        for (int i = 0; i < n; i++) mean += mra_ref_value(q, idx[step / 2 + i * step], c) / n;
        for (int i = 0; i < n; i++) y[i * d + c] = mra_ref_value(q, idx[step / 2 + i * step], c) - mean;
    }
    return n;
}

// z[d]: the direction to split the rows idx[m] along; y: 2*MRA_ORDER_ROWS*d. false: there is none
bool mra_ref_split_direction(
    double * z, const double * C, struct mra_rows q, const int32_t * idx, int m, int d, double * y) {
    const int n = sample(y, q, idx, m, d);
    double g[256] = { 0 }, best = 0;
    int c0 = 0;
    bool finite = true, zero = true;
    for (int c = 0; c < d; c++) {
        double s = 0;
        for (int i = 0; i < n; i++) s += y[i * d + c] * y[i * d + c];
        if (s * C[c * d + c] > best) {
            best = s * C[c * d + c];
            c0 = c;
        }
    }
    for (int i = 0; i < n; i++) {
        double t = 0;
        for (int c = 0; c < d; c++) t += y[i * d + c] * C[c0 * d + c];
        for (int c = 0; c < d; c++) g[c] += t * y[i * d + c];
    }
    for (int a = 0; a < d; a++) {
        z[a] = 0;
        for (int b = 0; b < d; b++) z[a] += C[a * d + b] * g[b];
        finite = finite && isfinite(z[a]);
        zero = zero && z[a] == 0;
    }
    return finite && !zero;
}

// moves the cut rows with the smallest x to the front of idx[m]; both parts stay ascending
static void split(int32_t * idx, int m, int cut, const double * x, int32_t * spare) {
    int n_left = 0, n_right = 0;
    for (int i = 0; i < m; i++) {
        int n_before = 0;
        for (int j = 0; j < m; j++) n_before += x[j] < x[i] || (x[j] == x[i] && j < i);
        if (n_before < cut) idx[n_left++] = idx[i];
        else spare[n_right++] = idx[i];
    }
    memcpy(idx + cut, spare, sizeof(int32_t) * n_right);
}

struct tree {
    struct mra_rows q;
    int d;
    double *C, *y, *x;
    int32_t * spare;
};

static void grow(const struct tree * t, int32_t * idx, int m) {
    if (m <= H) return;
    const int cut = (m + 2 * H - 1) / (2 * H) * H;
    double z[256];
    if (mra_ref_split_direction(z, t->C, t->q, idx, m, t->d, t->y)) {
        for (int i = 0; i < m; i++) {
            double s = 0;
            for (int c = 0; c < t->d; c++) s += z[c] * mra_ref_value(t->q, idx[i], c);
            t->x[i] = isnan(s) ? INFINITY : s;
        }
        split(idx, m, cut, t->x, t->spare);
    }
    grow(t, idx, cut);
    grow(t, idx + cut, m - cut);
}

static void block_statistics(const struct mra_attn_head * a, const double * C) {
    const struct mra_sorted * s = &a->sorted;
    const int D = MRA_ROUND_UP(a->d, MRA_PAD), n_block = (a->n_q + H - 1) / H;
    double var[256] = { 0 };
    for (int x = 0; x < n_block; x++) {
        const int32_t * idx = s->order + x * H;
        const int n = a->n_q - x * H < H ? a->n_q - x * H : H;
        double spread = 0;
        for (int c = 0; c < D; c++) {
            double mean = 0, v = 0;
            for (int i = 0; i < n && c < a->d; i++) mean += mra_ref_value(a->q, idx[i], c) / n;
            for (int i = 0; i < n && c < a->d; i++) v += pow(mra_ref_value(a->q, idx[i], c) - mean, 2);
            s->q_mean[x * D + c] = (float) mean;
            var[c] += v;
            if (c < a->d) spread += C[c * a->d + c] * v / n;
        }
        s->spread[x] = (float) spread;
    }
    for (int c = 0; c < D; c++) s->q_var[c] = (float) (a->n_q ? var[c] / a->n_q : 0);
}

void mra_ref_query_order(const struct mra_attn_head * a, bool given, void * scratch) {
    struct tree t = { .q = a->q, .d = a->d, .C = scratch };
    t.y = t.C + a->d * a->d;
    t.x = t.y + 2 * MRA_ORDER_ROWS * a->d;
    t.spare = (int32_t *) (t.x + a->n_q);
    mra_ref_key_covariance(t.C, a->k, a->n_k, a->d);
    if (!given) {
        for (int i = 0; i < a->n_q; i++) a->sorted.order[i] = i;
        grow(&t, a->sorted.order, a->n_q);
    }
    block_statistics(a, t.C);
    const int n_block = (a->n_q + H - 1) / H;
    memset(a->sorted.all_keys, 0, sizeof(int32_t) * n_block);
    const int n = mra_ref_topk_blocks(t.spare, a->sorted.spread, n_block, a->n_all);
    for (int i = 0; i < n; i++) a->sorted.all_keys[t.spare[i]] = 1;
}
