// rope-table: cos and sin of position*freq_c, freq_c = scale*base^(-c/r), c < r pairs; rope: pairs of channels of the
// first heads of each row turned by those angles, in place. A thread block has a row.
#include "cuda.h"
#include "rows.cuh"

enum { THREADS = 128, MAX_PAIRS = 128 };

struct table_args {
    const int32_t * positions;
    float * dst; // [n][2*r]
    int r;
    double freq[MAX_PAIRS]; // a float holds the angle of a late position to 1e-3 only
};

__global__ void __launch_bounds__(THREADS) rope_table_rows(const struct table_args a) {
    float * row = a.dst + (int64_t) blockIdx.x * 2 * a.r;
    const int c = threadIdx.x;
    if (c >= a.r) return;
    double s, cs;
    sincos(a.positions[blockIdx.x] * a.freq[c], &s, &cs);
    row[c] = (float) cs;
    row[a.r + c] = (float) s;
}

bool mra_cuda_supports_rope_table(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    return n_src == mra_source_count(p) && src[0].type == MRA_TENSOR_I32 && dst->ne[0] <= 2 * MAX_PAIRS &&
        dst->ne[1] <= INT32_MAX;
}

int mra_cuda_rope_table(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    struct table_args a = {};
    a.positions = (const int32_t *) src[0].data;
    a.dst = (float *) dst.data;
    a.r = (int) dst.ne[0] / 2;
    for (int c = 0; c < a.r; c++)
        a.freq[c] = (double) p->u.rope_table.scale * pow((double) p->u.rope_table.base, (double) -c / (double) a.r);
    return MRA_LAUNCH(rope_table_rows, dim3((unsigned) dst.ne[1]), dim3(THREADS), 0, stream, a);
}

struct rope_args {
    struct even_rows x, table;
    int n_head, d, r;
    bool interleaved;
};

__global__ void __launch_bounds__(THREADS) rope_rows(const struct rope_args a) {
    float * x = row_at(a.x, blockIdx.x);
    const float * table = row_at(a.table, blockIdx.x);
    const int step = a.interleaved ? 2 : 1, other = a.interleaved ? 1 : a.r;
    for (int i = threadIdx.x; i < a.n_head * a.r; i += THREADS) {
        const int c = i % a.r;
        float *even = x + i / a.r * a.d + c * step, *odd = even + other;
        const float e = *even, o = *odd, cs = table[c], s = table[a.r + c];
        *even = e * cs - o * s;
        *odd = o * cs + e * s;
    }
}

bool mra_cuda_supports_rope(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) src;
    return n_src == mra_source_count(p) && dst->ne[0] <= INT32_MAX && rows_of(*dst).n <= INT32_MAX;
}

int mra_cuda_rope(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    const struct rope_args a = { rows_of(dst), rows_of(src[1]), p->u.rope.n_head, p->u.rope.d, (int) src[1].ne[0] / 2,
        p->u.rope.interleaved != 0 };
    return MRA_LAUNCH(rope_rows, dim3((unsigned) a.x.n), dim3(THREADS), 0, stream, a);
}
