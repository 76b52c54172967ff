// What the kernels of the query_order node share: a head of it, and where its memory lies (device-pack.h).
#pragma once

#include "cuda.h"
#include "sequence.cuh"
#include "warp-topk.cuh"

enum {
    ORDER_THREADS = 256,
    ORDER_WARPS = ORDER_THREADS / MRA_WARP,
    ROW_LANES = 8 // that share a row: neighbouring ones read whole sectors
};

// mra_order_stride of kernels.h: every stride-th of n rows is looked at
MRA_DEVICE int order_stride(int n, int n_wanted) { return n / n_wanted > 1 ? n / n_wanted | 1 : 1; }

struct order_args {
    struct attn_args a; // q, k, v, lengths, node, order, sorted
    struct mra_device_order m;
};

struct order_head {
    struct sequence s;
    int is, head, head_kv;
};
// head number `item` of all sequences; false: it is exact, and nobody asks for its order
MRA_DEVICE bool order_head_of(const struct order_args & o, int item, struct order_head & h) {
    const int n_head = (int) o.a.q.ne[2];
    h.is = item / n_head;
    h.head = item % n_head;
    h.head_kv = h.head / (n_head / (int) o.a.k.ne[2]);
    h.s = sequence_of(o.a, h.is);
    return !h.s.exact || h.s.n_k == 0;
}

// channel c of a row of F32 or F16, 0 behind d
MRA_DEVICE float value_at(const struct mra_tensor & x, const char * row, int c, int d) {
    if (c >= d) return 0.0f;
    return x.type == MRA_TENSOR_F16 ? __half2float(((const half *) row)[c]) : ((const float *) row)[c];
}

MRA_DEVICE float * words_at(const struct order_args & o, int64_t at) { return (float *) o.a.sorted + at; }
// [dim][dim] of a sequence of more than 16 queries
MRA_DEVICE float * covariance_of(const struct order_args & o, const struct sequence & s, int is, int head_kv) {
    const int64_t slot = o.m.shortest ? s.first / o.m.shortest : is;
    return words_at(o, o.m.cov + (slot * o.a.k.ne[2] + head_kv) * o.a.order.dim * o.a.order.dim);
}
MRA_DEVICE float * diagonal_of(const struct order_args & o, int is, int head_kv) {
    return words_at(o, o.m.diag + ((int64_t) is * o.a.k.ne[2] + head_kv) * o.a.order.dim);
}
MRA_DEVICE float * sums_of(const struct order_args & o, const struct order_head & h, int piece) {
    const int64_t n = o.a.q.ne[1] > o.a.k.ne[1] ? o.a.q.ne[1] : o.a.k.ne[1],
                  at = (h.s.batch * n + h.s.first) / MRA_DEVICE_PIECE + h.is + piece;
    return words_at(o, o.m.sums + (h.head * o.m.n_piece + at) * (2 * o.a.order.dim + o.m.dim_v));
}
MRA_DEVICE float * value_mean_of(const struct order_args & o, const struct order_head & h) {
    return words_at(o, o.m.v_mean + ((int64_t) h.is * o.a.q.ne[2] + h.head) * o.m.dim_v);
}

// The largest element of the diagonal, by which the covariance is divided: 0 where that is nothing, or not finite. All
// lanes of every warp get the same.
MRA_DEVICE float diagonal_top(const float * diag, int dim) {
    float top = 0.0f;
    for (int c = threadIdx.x % MRA_WARP; c < dim; c += MRA_WARP) top = fmaxf(top, diag[c]);
    top = mra_warp_max(top);
    return top <= FLT_MAX ? top : 0.0f;
}

// The tree over sequences of at most n_q queries; order holds 0, 1, ... at its start. order-tree.cu
int mra_cuda_order_tree(const struct order_args & o, int n_q, void * stream);
