// The reference kernels with one difference: a row x that meets quantized weights is rounded to 8 bits, with a scale
// for each 32 values. How far an embedding moves by that is how far kernels that round may be off in this model.
#include "bench-model.h"

#include "common/args.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 32 };

static void round_row(float * to, const float * x, int n) {
    for (int c = 0; c < n; c += GROUP) {
        float top = 0;
        for (int i = c; i < c + GROUP && i < n; i++) top = fmaxf(top, fabsf(x[i]));
        const float scale = top / 127;
        for (int i = c; i < c + GROUP && i < n; i++) to[i] = scale > 0 ? roundf(x[i] / scale) * scale : x[i];
    }
}

static void linear(
    const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1, void * scratch) {
    const bool quantized = w->type != MRA_W_F32 && w->type != MRA_W_F16;
    float * x = malloc((size_t) a->k * sizeof(*x));
    if (!x) fatal("mra-bench model", "out of memory");
    struct mra_linear b = *a;
    b.x = (const char *) x;
    b.stride_x = 0; // one row at a time
    for (int i = i0; i < i1; i++) {
        const float * row = (const float *) (a->x + (size_t) i * a->stride_x);
        if (quantized) round_row(x, row, a->k);
        else memcpy(x, row, (size_t) a->k * sizeof(*x));
        mra_kernels_ref.dense.linear(&b, w, i, i + 1, n0, n1, scratch);
    }
    free(x);
}

const struct mra_kernels * kernels_rounded(void) {
    static struct mra_kernels k;
    k = mra_kernels_ref;
    k.dense.linear = linear;
    return &k;
}
