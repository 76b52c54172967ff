// y = gelu(x W^T + bias) + res, in double; gelu only if a->gelu. With a gate y = act(x G^T + bias)*(x W^T + bias). Rows
// of bytes: each 32 values v of y become rint(v 127/max|v|), with the scale max|v|/127. Of CPUs with tiles of bfloat16:
// the same with x and the values of quantized weights rounded to bfloat16.
#include "common.h"

enum { GROUP = 32 }; // values of a row of bytes that share a scale

void mra_ref_linear_x(const struct mra_linear * a, int i0, int i1, void * scratch) {
    (void) a;
    (void) i0;
    (void) i1;
    (void) scratch; // linear reads x itself
}

static double rounded(float x, bool bf16) { return bf16 ? mra_ref_from_bf16(mra_ref_to_bf16(x)) : x; }

static double value_of_x(const struct mra_linear * a, int i, int c) {
    const char * row = a->x + (size_t) i * a->stride_x;
    if (!a->x_bytes) return ((const float *) row)[c];
    const struct mra_byte_group * g = (const struct mra_byte_group *) row + c / GROUP;
    return (double) g->d * g->q[c % GROUP];
}

// row[k] = column n of w
static void column(float * row, const struct mra_linear * a, const struct mra_weights * w, int n) {
    const char * at = w->data + (size_t) n * w->stride;
    if (w->type == MRA_W_F32) memcpy(row, at, a->k * sizeof(float));
    else w->to_float(at, row, a->k);
}

// x_i . row + bias
static double product(
    const struct mra_linear * a, const struct mra_weights * w, const float * row, int i, int n, bool bf16) {
    double s = 0;
    for (int c = 0; c < a->k; c++) {
        const double x = value_of_x(a, i, c);
        s += (bf16 ? rounded((float) x, true) : x) * rounded(row[c], bf16);
    }
    return w->bias ? s + w->bias[n] : s;
}

static void round_group(struct mra_byte_group * g, const float * x) {
    float top = 0;
    for (int c = 0; c < GROUP; c++) top = isnan(x[c]) || fabsf(x[c]) > top ? fabsf(x[c]) : top;
    const float id = top > 0 ? 127 / top : 0;
    *g = (struct mra_byte_group) { .d = top / 127 };
    for (int c = 0; c < GROUP; c++) {
        g->q[c] = isfinite(top) ? (int8_t) rint((double) x[c] * id) : 0;
        g->sum += g->q[c];
    }
}

// columns [n0, n0 + GROUP) or fewer
static void products(const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1,
    void * scratch, bool bf16) {
    float *row = scratch, *row_gate = row + a->k, *y = row_gate + a->k; // y [rows][GROUP]
    for (int n = n0; n < n1; n++) {
        column(row, a, w, n);
        if (a->gate) column(row_gate, a, a->gate, n);
        for (int i = i0; i < i1; i++) {
            double s = product(a, w, row, i, n, bf16);
            if (a->gate) s *= mra_ref_activate(product(a, a->gate, row_gate, i, n, bf16), a->act);
            if (a->gelu) s = mra_ref_activate(s, MRA_GLU_ACT_GELU);
            if (a->res) s += ((const float *) (a->res + (size_t) i * a->stride_res))[w->first + n];
            y[(i - i0) * GROUP + n - n0] = (float) s;
        }
    }
    for (int i = i0; i < i1; i++) {
        char * to = a->y + (size_t) i * a->stride_y;
        const float * from = y + (i - i0) * GROUP;
        if (a->y_bytes) round_group((struct mra_byte_group *) to + (w->first + n0) / GROUP, from);
        else memcpy((float *) to + w->first + n0, from, (size_t) (n1 - n0) * sizeof(float));
    }
}

static void all_products(const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1,
    void * scratch, bool bf16) {
    for (int n = n0; n < n1 && n < w->n; n += GROUP) {
        const int end = n + GROUP < n1 ? n + GROUP : n1;
        products(a, w, i0, i1, n, end < w->n ? end : w->n, scratch, bf16);
    }
}

void mra_ref_linear(
    const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1, void * scratch) {
    all_products(a, w, i0, i1, n0, n1, scratch, false);
}

static void linear_bf16(
    const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1, void * scratch) {
    all_products(a, w, i0, i1, n0, n1, scratch, w->type != MRA_W_F32 && w->type != MRA_W_F16);
}

const struct mra_dense_kernels mra_dense_ref_bf16 = { .linear_x = mra_ref_linear_x, .linear = linear_bf16 };
