// y = act(first half of x)*second half, over every row of x. A thread block has a row.
#include "cuda.h"
#include "rows.cuh"

enum { THREADS = 128 };
enum { GELU, GELU_TANH, RELU, SILU }; // as enum mra_glu of ggml-mra.h

MRA_DEVICE float activate(float x, int act) {
    switch (act) {
        case GELU: return 0.5f * x * erfcf(-0.707106781f * x);
        case GELU_TANH: return x / (1.0f + expf(-1.59576912f * (x + 0.044715f * x * x * x)));
        case RELU: return x > 0.0f || x != x ? x : 0.0f;
        default: return x / (1.0f + expf(-x)); // SILU
    }
}

__global__ void __launch_bounds__(THREADS)
    glu_rows(const struct even_rows x, const struct even_rows y, int n, int act) {
    const float * gate = row_at(x, blockIdx.x);
    float * to = row_at(y, blockIdx.x);
    for (int c = threadIdx.x; c < n; c += THREADS) to[c] = activate(gate[c], act) * gate[n + c];
}

bool mra_cuda_supports_glu(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    return n_src == mra_source_count(p) && src[0].ne[0] <= INT32_MAX && rows_of(*dst).n <= INT32_MAX;
}

int mra_cuda_glu(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    const struct even_rows x = rows_of(src[0]), y = rows_of(dst);
    return MRA_LAUNCH(
        glu_rows, dim3((unsigned) y.n), dim3(THREADS), 0, stream, x, y, (int) dst.ne[0], (int) p->u.glu.act);
}
