// dst[b][c] = mean, min or max of x[t][c] over the valid rows t of block b
#include "cells.cuh"
#include "cuda.h"

enum { THREADS = 128, MEAN = 0, MIN = 1, MAX = 2 };

struct pool_args {
    struct strided x;
    float * dst; // [n_batch][n_head][n_block][d]
    struct lengths len;
    int d, n, block, n_block, n_head, kind;
    int per_row; // threads that share a row, 4 channels each; a power of two
    bool keys, aligned;
};

MRA_DEVICE float4 row4(const float * p, int c, bool aligned) { return load4(p + c, aligned); }
MRA_DEVICE float4 row4(const half * p, int c, bool aligned) {
    p += c;
    if (!aligned) return make_float4(__half2float(p[0]), __half2float(p[1]), __half2float(p[2]), __half2float(p[3]));
    const uint2 u = *(const uint2 *) p;
    return make_float4(__half2float(__ushort_as_half(u.x & 0xffff)), __half2float(__ushort_as_half(u.x >> 16)),
        __half2float(__ushort_as_half(u.y & 0xffff)), __half2float(__ushort_as_half(u.y >> 16)));
}

MRA_DEVICE float join(float a, float b, int kind) {
    return kind == MEAN ? a + b : kind == MIN ? fminf(a, b) : fmaxf(a, b);
}
MRA_DEVICE float4 join(float4 a, float4 b, int kind) {
    return make_float4(join(a.x, b.x, kind), join(a.y, b.y, kind), join(a.z, b.z, kind), join(a.w, b.w, kind));
}

// One block of threads per block of rows: teams of per_row threads take every n_team-th row, then the first team
// joins what all have.
template <class T> __global__ void __launch_bounds__(THREADS) pool_kernel(const struct pool_args a) {
    MRA_SHARED(float4, part, THREADS);
    const int b = blockIdx.x % a.n_block, head = blockIdx.x / a.n_block % a.n_head,
              batch = blockIdx.x / a.n_block / a.n_head;
    const int team = threadIdx.x / a.per_row, n_team = THREADS / a.per_row;
    const struct mra_len len = length_at(a.len, batch, a.n, a.n);
    const int first = b * a.block, end = mra_min(first + a.block, a.keys ? len.n_k : len.n_q);
    const float start = a.kind == MEAN ? 0 : a.kind == MIN ? INFINITY : -INFINITY;
    const char * x = a.x.data + head * a.x.head + batch * a.x.batch;
    for (int c0 = 0; c0 < a.d; c0 += a.per_row * 4) {
        const int c = c0 + threadIdx.x % a.per_row * 4;
        float4 acc = make_float4(start, start, start, start);
        if (c < a.d) {
            for (int t = first + team; t < end; t += n_team)
                acc = join(acc, row4((const T *) (x + t * a.x.row), c, a.aligned), a.kind);
        }
        part[threadIdx.x] = acc; // where there are several rounds there is one team, which reads none of it
        __syncthreads();
        if (team > 0 || c >= a.d) continue;
        for (int i = 1; i < n_team; i++) acc = join(acc, part[i * a.per_row + threadIdx.x], a.kind);
        const float f = a.kind == MEAN ? 1.0f / (end - first) : 1.0f;
        float * out = a.dst + (int64_t) blockIdx.x * a.d + c;
        *(float4 *) out = end > first ? make_float4(acc.x * f, acc.y * f, acc.z * f, acc.w * f)
                                      : make_float4(0, 0, 0, 0);
    }
}

bool mra_cuda_supports_pool(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) p;
    (void) n_src;
    return (src[0].type == MRA_TENSOR_F32 || src[0].type == MRA_TENSOR_F16) && src[0].ne[0] % 4 == 0 &&
        dst->ne[1] * dst->ne[2] * dst->ne[3] <= INT32_MAX;
}

int mra_cuda_pool(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    const struct mra_tensor & x = src[0];
    const bool f16 = x.type == MRA_TENSOR_F16;
    struct pool_args a = {};
    a.x = strided_of(x);
    a.dst = (float *) dst.data;
    a.len = lengths_of(mra_tensor_source(p, MRA_SRC_LENGTHS, src), x.ne[3]);
    a.d = (int) x.ne[0];
    a.n = (int) x.ne[1];
    a.n_head = (int) x.ne[2];
    a.n_block = (int) dst.ne[1];
    a.block = p->u.pool.block;
    a.kind = p->u.pool.kind;
    a.keys = p->flags & MRA_FLAG_KEYS;
    a.aligned = (((uintptr_t) x.data | x.nb[1] | x.nb[2] | x.nb[3]) & (f16 ? 7 : 15)) == 0;
    a.per_row = 1;
    while (a.per_row < THREADS && a.per_row * 4 < a.d) a.per_row *= 2;
    const unsigned n = (unsigned) (dst.ne[1] * dst.ne[2] * dst.ne[3]);
    return f16 ? MRA_LAUNCH(pool_kernel<half>, n, THREADS, 0, stream, a)
               : MRA_LAUNCH(pool_kernel<float>, n, THREADS, 0, stream, a);
}
