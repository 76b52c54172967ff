// What a device keeps in the pack node's memory, and where: F16 copies of K and V, statistics of key blocks, and lists
// that are too long for shared memory; and behind the results in the query_order node's. The CPU lays the same memory
// out in its own way (op-pack.c, op-query-order.c); the nodes are large enough for both.
#pragma once

#include "node-params.h"

enum {
    MRA_DEVICE_ALIGN = 64,
    MRA_DEVICE_LISTS = 640,       // thread blocks that work at a time; more than an H100 holds,
    MRA_DEVICE_LISTS_LEAST = 264, // fewer where their lists take more than
    MRA_DEVICE_LISTS_BYTES = 64 << 20,
    MRA_DEVICE_ROWS = 32,     // query blocks that a thread block of the columns kernel has, at most
    MRA_DEVICE_STEP = 32,     // keys, or key blocks, whose scores a warp computes at a time
    MRA_DEVICE_KEYS = 16,     // keys per tile of its fine part
    MRA_DEVICE_BINS = 256,    // of the histogram of each query block by which it chooses
    MRA_DEVICE_OPEN = 128,    // keys of a query block that it ranks
    MRA_DEVICE_CHOICE = 1280, // bytes of what it knows of these choices
    MRA_DEVICE_STATS = 4,     // rows of F16 per key block: maxima, minima, means and what those lack in F16
    MRA_DEVICE_ROW_PAD = 8,   // halves behind each row of a tile, so that rows begin in different banks
    MRA_DEVICE_HALF = 2,      // bytes of an F16
};

#if defined(__cplusplus)
#    define MRA_CONST constexpr MRA_INLINE
#else
#    define MRA_CONST MRA_INLINE
#endif

// head size the kernels are compiled for, at least d and dv
MRA_INLINE int mra_device_dim(int d, int dv) {
    const int n = d > dv ? d : dv;
    return n <= 32 ? 32 : n <= 64 ? 64 : n <= 80 ? 80 : n <= 96 ? 96 : n <= 128 ? 128 : 256;
}

// The sorted frame has kernels up to this head size: above, sm_75 has too few registers. Such nodes run on the CPU.
enum { MRA_DEVICE_SORTED_DIM = 128 };
MRA_INLINE bool mra_device_has_frame(const struct mra_attn_node * p, int d, int dv) {
    return p->frame != MRA_PLAN_SORTED || mra_device_dim(d, dv) <= MRA_DEVICE_SORTED_DIM;
}

// Query blocks and warps of a thread block of the columns kernel. A warp has 16 of them beside tensor cores; where
// there are 32, two warps share each tile of keys, which is then read half as often. On a device with too little shared
// memory (sm_75) half as many warps.
MRA_CONST int mra_device_rows(int dim) { return dim <= 64 ? MRA_DEVICE_ROWS : 16; }
MRA_CONST int mra_device_warps(int dim) { return dim <= 64 ? 8 : dim <= 128 ? 2 : 1; }

// Its shared memory: mean queries as two parts of F16, later the coarse states; what it knows of its choices; then
// first histograms and a tile of K or V per warp, later per warp two tiles of K and V, and the query rows where
// registers are too few; then lists, up to this many bytes in all: one thread block of 256 threads of an sm_86, or two
// smaller ones.
MRA_CONST size_t mra_device_shared(int dim) { return dim <= 64 ? 99 << 10 : 49 << 10; }
MRA_CONST size_t mra_device_means_bytes(int dim) { return (size_t) mra_device_rows(dim) * ((dim + 31) / 32 * 32) * 4; }
MRA_CONST size_t mra_device_tile_bytes(int dim) {
    return (size_t) (2 * 2 * MRA_DEVICE_KEYS + (dim > 128 ? MRA_QUERY_BLOCK : 0)) * (dim + MRA_DEVICE_ROW_PAD) *
        MRA_DEVICE_HALF;
}
MRA_CONST size_t mra_device_bins_bytes(int dim) { return (size_t) mra_device_rows(dim) * MRA_DEVICE_BINS * 4; }
MRA_CONST size_t mra_device_step_bytes(int dim) {
    return (size_t) MRA_DEVICE_STEP * (dim + MRA_DEVICE_ROW_PAD) * MRA_DEVICE_HALF;
}
MRA_CONST size_t mra_device_work_bytes(int dim, int warps) {
    return mra_device_bins_bytes(dim) + warps * mra_device_step_bytes(dim) > warps * mra_device_tile_bytes(dim)
        ? mra_device_bins_bytes(dim) + warps * mra_device_step_bytes(dim)
        : warps * mra_device_tile_bytes(dim);
}
MRA_CONST size_t mra_device_block_bytes(int dim, int warps) {
    return mra_device_means_bytes(dim) + MRA_DEVICE_CHOICE + mra_device_work_bytes(dim, warps);
}

// 4-byte words of the lists of a thread block of `rows` query blocks
struct mra_device_lists {
    int taken;    // keys that are kept, a bit each
    int expanded; // key blocks that are expanded, a bit each
    int kept;     // of each warp: numbers of the keys of one query block that are kept
};
MRA_INLINE struct mra_device_lists mra_device_lists_of(int rows, int n_k, int g, int m2) {
    struct mra_device_lists l;
    l.taken = mra_div_up(n_k, MRA_DEVICE_STEP) * rows;
    l.expanded = mra_div_up(mra_div_up(n_k, g), MRA_DEVICE_STEP) * rows;
    l.kept = (m2 + 3) & ~3;
    return l;
}

struct mra_device_pack {
    size_t k, v;   // F16 [n_batch][n_head][n_k][d], [...][dv]
    size_t k_stat; // F16 [n_head][n_b][MRA_DEVICE_STATS][d]
    size_t v_mean; // F16 [n_head][n_b][dv]
    size_t zeros;  // 16 bytes: what lies behind the last channel
    size_t lists;  // [n_list][list_bytes]
    size_t bytes;
    int64_t n_b;        // key blocks of all sequences: those of sequence s start at first token/MRA_KEY_BLOCK + s
    size_t list_bytes;  // of one thread block
    size_t list_shared; // bits that lie in shared memory, where the device has as much; 0: they are in the lists
    int n_list;
};

// n_tokens: of all sequences; copies: K and V are copied, not read in place.
MRA_INLINE struct mra_device_pack mra_device_pack_of(const struct mra_attn_node * p, bool columns, bool copies, int d,
    int dv, int64_t n_head, int64_t n_tokens, int64_t n_seq) {
    struct mra_device_pack r;
    memset(&r, 0, sizeof(r));
    size_t at = 0;
#define MRA_TAKE(n) \
    (at = (at + MRA_DEVICE_ALIGN - 1) / MRA_DEVICE_ALIGN * MRA_DEVICE_ALIGN + (size_t) (n), at - (size_t) (n))
    if (copies) {
        r.k = MRA_TAKE(n_head * n_tokens * d * MRA_DEVICE_HALF);
        r.v = MRA_TAKE(n_head * n_tokens * dv * MRA_DEVICE_HALF);
    }
    if (columns) {
        const int dim = mra_device_dim(d, dv), max_len = p->max_len, warps = mra_device_warps(dim);
        size_t bits = 0, kept = 0;
        r.n_b = n_tokens / MRA_KEY_BLOCK + n_seq;
        r.k_stat = MRA_TAKE(n_head * r.n_b * MRA_DEVICE_STATS * d * MRA_DEVICE_HALF);
        r.v_mean = MRA_TAKE(n_head * r.n_b * dv * MRA_DEVICE_HALF);
        r.zeros = MRA_TAKE(16);
        for (int i = 0; i < 2; i++) {
            const int n = mra_columns_worst_length(max_len, i);
            const struct mra_columns_plan c = mra_attn_plan(p, n);
            const struct mra_device_lists l = mra_device_lists_of(
                mra_device_rows(dim), n, c.g, c.m2 + MRA_KEY_BLOCK_WIDE);
            const size_t n_bit = (l.taken + l.expanded) * sizeof(int32_t), n_kept = l.kept * sizeof(int32_t);
            if (n_bit > bits) bits = n_bit;
            if (n_kept > kept) kept = n_kept;
        }
        if (mra_device_block_bytes(dim, warps) + bits <= mra_device_shared(dim)) r.list_shared = bits;
        r.list_bytes = warps * kept + bits;
        r.list_bytes = (r.list_bytes + MRA_DEVICE_ALIGN - 1) / MRA_DEVICE_ALIGN * MRA_DEVICE_ALIGN;
        r.n_list = (int) (MRA_DEVICE_LISTS_BYTES / r.list_bytes);
        const int halves = mra_device_rows(dim) / 16; // larger thread blocks are fewer
        if (r.n_list < MRA_DEVICE_LISTS_LEAST / halves) r.n_list = MRA_DEVICE_LISTS_LEAST / halves;
        if (r.n_list > MRA_DEVICE_LISTS / halves) r.n_list = MRA_DEVICE_LISTS / halves;
        r.lists = MRA_TAKE(r.n_list * r.list_bytes);
    }
#undef MRA_TAKE
    r.bytes = at + MRA_DEVICE_ALIGN; // the node's data is aligned first
    return r;
}

// Are these rows of F16 that 16-byte copies can read in place? at: where they begin
MRA_INLINE bool mra_device_in_place(bool f16, const size_t * nb, uint64_t at) {
    return f16 && (at | nb[1] | nb[2] | nb[3]) % 16 == 0 && nb[1] <= UINT32_MAX;
}

// In 4-byte words from the start of the query_order node. A piece: MRA_DEVICE_PIECE neighbouring tokens, which are
// added up first; sequence s, whose first token is token t of all, has its pieces from t/MRA_DEVICE_PIECE + s on.
enum { MRA_DEVICE_PIECE = 256 };
struct mra_device_order {
    int64_t keys;   // U32 [n_batch][n_head][n_q]        projections, as numbers that sort alike
    int64_t spare;  // I32 [n_batch][n_head][n_q]        the order before a split
    int64_t cov;    // F32 [n_cov][n_head_kv][dim][dim]  covariance of sampled keys
    int64_t diag;   // F32 [n_seq][n_head_kv][dim]       its diagonal
    int64_t sums;   // F32 [n_head][n_piece][2*dim + dim_v]   (q - q_mean)^2, K, V
    int64_t v_mean; // F32 [n_seq][n_head][dim_v]
    int64_t words;  // of all
    int64_t n_piece;
    int64_t shortest; // packed sequences from so many tokens on have a covariance; 0: all
    int dim_v;
};
MRA_INLINE struct mra_device_order mra_device_order_of(const struct mra_order_layout * l,
    const struct mra_attn_node * p, bool starts, int dv, int64_t n_q, int64_t n_k, int64_t n_head, int64_t n_head_kv,
    int64_t n_batch, int64_t n_seq) {
    struct mra_device_order r;
    const int64_t n_max = n_q > n_k ? n_q : n_k;
    int64_t at = l->words;
#define MRA_TAKE(n) (at = (at + 15) / 16 * 16 + (n), at - (n))
    r.dim_v = (dv + 15) / 16 * 16;
    r.shortest = starts ? (p->m1 < 0 ? (int) MRA_SORTED_EXACT : (int) MRA_QUERY_BLOCK) + 1 : 0;
    r.n_piece = n_batch * n_max / MRA_DEVICE_PIECE + n_seq;
    r.keys = MRA_TAKE(n_batch * n_head * n_q);
    r.spare = MRA_TAKE(n_batch * n_head * n_q);
    r.cov = MRA_TAKE((r.shortest ? n_k / r.shortest + 1 : n_seq) * n_head_kv * l->dim * l->dim);
    r.diag = MRA_TAKE(n_seq * n_head_kv * l->dim);
    r.sums = MRA_TAKE(n_head * r.n_piece * (2 * l->dim + r.dim_v));
    r.v_mean = MRA_TAKE(n_seq * n_head * r.dim_v);
#undef MRA_TAKE
    r.words = at;
    return r;
}
