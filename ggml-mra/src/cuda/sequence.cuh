// What the attention kernels are given, and where a sequence of it lies.
#pragma once

#include "../device-pack.h"
#include "common.cuh"

// rows of F16, 16-byte aligned: that of token t, head h, batch b at data + t*token + h*head + b*batch
struct half_rows {
    const char * data;
    uint32_t token;
    size_t head, batch;
};

struct attn_args {
    struct mra_tensor q, k, v, dst;
    struct mra_tensor lengths, cells, state; // data NULL: none
    struct half_rows kh, vh;
    struct mra_node node; // the attn node's parameters; of a block_sparse_attn node only its flags
    bool columns;         // is the frame columns or sorted? else exact
    int n_seq;
    float scale; // times log2(e)
    // block-sparse-attn
    int h, g;
    // columns
    struct mra_device_pack pack;
    char * mem; // the pack node's data, aligned
    // sorted
    struct mra_order_layout order;
    int32_t * sorted; // the query_order node's data; NULL: another frame
};

struct sequence {
    int first, batch;             // its tokens in the tensors
    int n_rows;                   // of the output, valid or not
    int n_q, n_k;                 // valid
    bool exact;                   // every key of every query
    struct mra_columns_plan plan; // where not exact
};

// Sequence s, cut to what the tensors hold: lengths and starts are data.
MRA_DEVICE struct sequence sequence_of(const struct attn_args & a, int s) {
    struct sequence r;
    const int n_max = (int) a.k.ne[1];
    if (a.node.flags & MRA_FLAG_STARTS) {
        const int32_t * start = (const int32_t *) a.lengths.data;
        const int lo = min(max(start[s], 0), n_max), hi = min(start[s + 1], n_max);
        r.first = lo;
        r.batch = 0;
        r.n_rows = r.n_q = r.n_k = min(max(hi - lo, 0), a.node.u.attn.max_len);
    } else {
        r.first = 0;
        r.batch = s;
        r.n_rows = a.q.data ? (int) a.q.ne[1] : n_max;
        const struct mra_len len = mra_len_at(a.lengths.data, a.lengths.ne[0] == 2 && a.lengths.ne[1] == a.k.ne[3],
            a.lengths.nb[0], a.lengths.nb[1], s, r.n_rows, n_max);
        r.n_q = len.n_q;
        r.n_k = len.n_k;
    }
    r.exact = true;
    if (a.columns && r.n_k > 0) {
        r.plan = mra_attn_plan(&a.node.u.attn, r.n_k);
        r.exact = r.plan.exact;
    }
    return r;
}

// key blocks of sequence s start at this one of all
MRA_DEVICE int64_t first_block(const struct attn_args & a, const struct sequence & q, int s) {
    return ((int64_t) q.batch * a.k.ne[1] + q.first) / MRA_KEY_BLOCK + s;
}

MRA_DEVICE const char * row_at(const struct half_rows & x, const struct sequence & s, int head, int t) {
    return x.data + (size_t) (s.first + t) * x.token + (size_t) head * x.head + (size_t) s.batch * x.batch;
}
MRA_DEVICE const char * row_at(const struct mra_tensor & x, const struct sequence & s, int head, int t) {
    return x.data + (size_t) (s.first + t) * x.nb[1] + (size_t) head * x.nb[2] + (size_t) s.batch * x.nb[3];
}
MRA_DEVICE float * out_row(const struct attn_args & a, const struct sequence & s, int head, int i) {
    return (float *) (a.dst.data + (size_t) head * a.dst.nb[1] + (size_t) (s.first + i) * a.dst.nb[2] +
        (size_t) s.batch * a.dst.nb[3]);
}

// What query_order found for a head: struct mra_sorted of kernels.h.
struct sorted_head {
    int32_t *order, *all_keys;
    float *q_mean, *spread, *q_var, *k_mean, *key_bias;
};
MRA_DEVICE struct sorted_head sorted_of(const struct attn_args & a, const struct sequence & s, int is, int head) {
    const struct mra_order_layout & l = a.order;
    const int64_t at = s.batch * a.q.ne[2] + head,
                  block = head * l.n_b + ((int64_t) s.batch * a.q.ne[1] + s.first) / MRA_QUERY_BLOCK + is,
                  of_seq = ((int64_t) is * a.q.ne[2] + head) * l.dim;
    float * f = (float *) a.sorted;
    return { a.sorted + l.order + at * a.q.ne[1] + s.first, a.sorted + l.all_keys + block, f + l.q_mean + block * l.dim,
        f + l.spread + block, f + l.q_var + of_seq, f + l.k_mean + of_seq, f + l.key_bias + at * a.k.ne[1] + s.first };
}

// What all attention nodes have in common: src = {q, k, v, pack, ...}. pack.cu
int mra_cuda_attn_args(struct attn_args * a, const struct mra_node * p, bool columns, const struct mra_tensor * dst,
    const struct mra_tensor * q, const struct mra_tensor * k, const struct mra_tensor * v,
    const struct mra_tensor * pack, const struct mra_tensor * lengths);

// The exact frame: all sequences that are exact. block-sparse-attn.cu
int mra_cuda_exact(const struct attn_args & a, void * stream);

// calls f.operator()<dim>() with the head size the kernels are compiled for
template <class F> static int with_dim(int dim, const F & f) {
    switch (dim) {
        case 32: return f.template run<32>();
        case 64: return f.template run<64>();
        case 80: return f.template run<80>();
        case 96: return f.template run<96>();
        case 128: return f.template run<128>();
        default: return f.template run<256>();
    }
}
