// y = gelu(x W^T + bias) + res, in double; gelu only if a->gelu. Of CPUs with tiles of bfloat16: the same with x and
// the values of quantized weights rounded to bfloat16.
#include "common.h"

void mra_ref_linear_x(const struct mra_linear * a, int i0, int i1, void * scratch) {
    (void) a;
    (void) i0;
    (void) i1;
    (void) scratch; // linear reads x itself
}

static double rounded(float x, bool bf16) { return bf16 ? mra_ref_from_bf16(mra_ref_to_bf16(x)) : x; }

static void products(const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1,
    void * scratch, bool bf16) {
    float * row = scratch; // [k]
    for (int n = n0; n < n1 && n < w->n; n++) {
        const char * at = w->data + (size_t) n * w->stride;
        if (w->type == MRA_W_F32) memcpy(row, at, a->k * sizeof(float));
        else w->to_float(at, row, a->k);
        for (int i = i0; i < i1; i++) {
            const float * x = (const float *) (a->x + (size_t) i * a->stride_x);
            double s = 0;
            for (int c = 0; c < a->k; c++) s += rounded(x[c], bf16) * rounded(row[c], bf16);
            if (w->bias) s += w->bias[n];
            if (a->gelu) s = 0.5 * s * erfc(-s * sqrt(0.5));
            if (a->res) s += ((const float *) (a->res + (size_t) i * a->stride_res))[w->first + n];
            ((float *) (a->y + (size_t) i * a->stride_y))[w->first + n] = (float) s;
        }
    }
}

void mra_ref_linear(
    const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1, void * scratch) {
    products(a, w, i0, i1, n0, n1, scratch, false);
}

static void linear_bf16(
    const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1, void * scratch) {
    products(a, w, i0, i1, n0, n1, scratch, w->type != MRA_W_F32 && w->type != MRA_W_F16);
}

const struct mra_dense_kernels mra_dense_ref_bf16 = { .linear_x = mra_ref_linear_x, .linear = linear_bf16 };
