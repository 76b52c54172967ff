// y = (x - mean)/sqrt(var + eps)*w + b over every row of x, or with 0 for the mean. A warp has a row.
#include "cuda.h"
#include "rows.cuh"

enum { WARPS = 4 };

struct norm_args {
    struct even_rows x, y;
    const float *w, *b; // b NULL: none
    int n;
    float eps;
    bool rms;
};

__global__ void __launch_bounds__(WARPS * MRA_WARP) norm_rows(const struct norm_args a) {
    const int64_t i = (int64_t) blockIdx.x * WARPS + threadIdx.x / MRA_WARP;
    if (i >= a.x.n) return; // whole warps
    const int lane = threadIdx.x % MRA_WARP;
    const float * x = row_at(a.x, i);
    float * y = row_at(a.y, i);
    float mean = 0.0f, var = 0.0f;
    for (int c = lane; c < a.n && !a.rms; c += MRA_WARP) mean += x[c];
    mean = mra_warp_sum(mean) / a.n;
    for (int c = lane; c < a.n; c += MRA_WARP) var += (x[c] - mean) * (x[c] - mean);
    const float s = 1.0f / sqrtf(mra_warp_sum(var) / a.n + a.eps);
    for (int c = lane; c < a.n; c += MRA_WARP) y[c] = (x[c] - mean) * s * a.w[c] + (a.b ? a.b[c] : 0.0f);
}

bool mra_cuda_supports_norm(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    return n_src == mra_source_count(p) && dst->ne[0] <= INT32_MAX && rows_of(src[0]).n / WARPS < INT32_MAX;
}

int mra_cuda_norm(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    const struct mra_tensor * b = mra_tensor_source(p, MRA_SRC_BIAS, src);
    const struct norm_args a = { rows_of(src[0]), rows_of(dst), (const float *) src[1].data,
        b ? (const float *) b->data : NULL, (int) dst.ne[0], p->u.norm.eps, p->u.norm.rms != 0 };
    return MRA_LAUNCH(norm_rows, dim3((unsigned) ((a.x.n + WARPS - 1) / WARPS)), dim3(WARPS * MRA_WARP), 0, stream, a);
}
