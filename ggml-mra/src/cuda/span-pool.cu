// dst[s][c] = mean, sum/sqrt(n) or maximum of x[t][c] over the n tokens t of span s, summed in double
#include "common.cuh"
#include "cuda.h"

enum { CHANNELS = 32, LANES = 8 }; // of a thread block; a lane has every LANES-th token

struct span_pool_args {
    const char * x;
    const int32_t * spans; // [n_span][2]
    float * dst;           // [n_span][d]
    size_t row;            // bytes
    int64_t n;             // rows of x
    int d, n_strip, kind;
};

// NaN stays
MRA_DEVICE double joined(double a, double b, int kind) {
    if (kind != MRA_SPAN_KIND_MAX) return a + b;
    return a != a || a >= b ? a : b;
}

__global__ void __launch_bounds__(CHANNELS * LANES) span_pool_kernel(const struct span_pool_args a) {
    MRA_SHARED(double, part, CHANNELS * LANES);
    const int s = blockIdx.x / a.n_strip, lane = threadIdx.x / CHANNELS,
              c = blockIdx.x % a.n_strip * CHANNELS + threadIdx.x % CHANNELS;
    const struct mra_span_rows span = mra_span_rows_of(a.spans + 2 * s, a.n);
    double acc = a.kind == MRA_SPAN_KIND_MAX ? -INFINITY : 0;
    if (c < a.d) {
#pragma unroll 4
        for (int64_t t = lane; t < span.n; t += LANES)
            acc = joined(acc, ((const float *) (a.x + (span.first + t) * a.row))[c], a.kind);
    }
    part[threadIdx.x] = acc;
    __syncthreads();
    if (lane > 0 || c >= a.d) return;
    for (int i = 1; i < LANES; i++) acc = joined(acc, part[i * CHANNELS + threadIdx.x], a.kind);
    a.dst[(int64_t) s * a.d + c] = span.n > 0 ? (float) (acc * mra_span_scale(a.kind, span.n)) : 0;
}

bool mra_cuda_supports_span_pool(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) p;
    (void) n_src;
    return src[0].type == MRA_TENSOR_F32 && (dst->ne[0] + CHANNELS - 1) / CHANNELS * dst->ne[1] <= INT32_MAX;
}

int mra_cuda_span_pool(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    struct span_pool_args a = {};
    a.x = src[0].data;
    a.spans = (const int32_t *) src[1].data;
    a.dst = (float *) dst.data;
    a.row = src[0].nb[1];
    a.n = src[0].ne[1];
    a.d = (int) dst.ne[0];
    a.n_strip = (a.d + CHANNELS - 1) / CHANNELS;
    a.kind = p->u.span_pool.kind;
    return MRA_LAUNCH(span_pool_kernel, (unsigned) (a.n_strip * dst.ne[1]), CHANNELS * LANES, 0, stream, a);
}
