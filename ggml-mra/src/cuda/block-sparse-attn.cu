// out_i = (state + sum_j e^{scale q_i.k_j} v_j) / (same with v = 1), j over the listed blocks of g keys, or over all
// (the exact frame). A thread block has up to 64 query rows, 16 per warp, that share tiles of K and V: the next one is
// copied while one is used.
#include "cuda.h"
#include "sequence.cuh"
#include "softmax-state.cuh"
#include "tile.cuh"

// The keys of one block row: n of them, in ascending order.
struct key_list {
    const int32_t * cells; // NULL: keys 0, 1, ...
    int g, n, n_k;
};

MRA_DEVICE struct key_list keys_of(const struct attn_args & a, const struct sequence & s, int x, int n_bq, int head) {
    struct key_list r = { NULL, 1, s.n_k, s.n_k };
    if (!a.cells.data) return r;
    const struct mra_cell_list list = { (const int32_t *) (a.cells.data + (size_t) head * a.cells.nb[1] +
                                            (size_t) s.batch * a.cells.nb[2]),
        n_bq, (int) a.cells.ne[0] - n_bq - 1 };
    const struct mra_cell_span entries = mra_list_row(&list, x);
    int n_cell = entries.end - entries.first;
    r.cells = mra_list_columns(&list) + entries.first;
    r.g = a.g;
    while (n_cell > 0 && r.cells[n_cell - 1] * a.g >= s.n_k) n_cell--;
    r.n = n_cell * a.g;
    if (n_cell > 0) r.n -= max((r.cells[n_cell - 1] + 1) * a.g - s.n_k, 0);
    return r;
}

// number j of the list, or -1
MRA_DEVICE int key_at(const struct key_list & l, int j) {
    if (j >= l.n) return -1;
    const int key = l.cells ? l.cells[j / l.g] * l.g + j % l.g : j;
    return key >= 0 && key < l.n_k ? key : -1; // the list is data
}

template <int D>
__global__ void __launch_bounds__(attend_shape<D>::WARPS * MRA_WARP, attend_shape<D>::BLOCKS)
    attend(const struct attn_args a) {
    enum { N = attend_shape<D>::KEYS };
    using tile = kv_tile<D, N>;
    MRA_DYN_SHARED(tile, tiles); // two, then queries
    // blocks of one head lie side by side in the grid: they read the same K and V
    const int rows = blockDim.x / 2, subs = mra_div_up(a.h, rows), n_bq = mra_div_up((int) a.q.ne[1], a.h),
              n_head = (int) a.q.ne[2];
    const int item = blockIdx.x % (n_bq * subs), x = item / subs, head = blockIdx.x / (n_bq * subs) % n_head;
    const struct sequence s = sequence_of(a, blockIdx.x / (n_bq * subs) / n_head);
    const int i0 = x * a.h + item % subs * rows, end = min(min((x + 1) * a.h, i0 + rows), s.n_rows);
    if (!s.exact || i0 >= end) return; // all threads: lengths and block numbers are the same for them

    const int thread = threadIdx.x, lane = thread % MRA_WARP, i = i0 + thread / MRA_WARP * 16,
              head_kv = head / (n_head / (int) a.k.ne[2]);
    const int n_valid = min(max(min(end, s.n_q) - i, 0), 16);
    const struct key_list keys = keys_of(a, s, x, n_bq, head);
    const int n_tile = i0 < s.n_q ? mra_div_up(keys.n, N) : 0;
    const char *k = row_at(a.kh, s, head_kv, 0), *v = row_at(a.vh, s, head_kv, 0);
    const int d = (int) a.k.ne[0], dv = (int) a.v.ne[0];

    int key = key_at(keys, lane % N);
    if (n_tile > 0) tile_load<D, N>(tiles[0], k, a.kh.token, d, v, a.vh.token, dv, key, thread, blockDim.x);
    mra_copy_commit();
    key = key_at(keys, N + lane % N); // a tile ahead of its use: the list comes from far

    query_rows<D> q;
    load_queries<D>(q, (half *) (tiles + 2) + thread / MRA_WARP * query_shape<D>::SHARED, row_at(a.q, s, head, i),
        a.q.nb[1], n_valid, d, a.scale < 0.0f ? -1.0f : 1.0f);
    softmax_state<D> st;
    const float * from = a.state.data ? (const float *) (a.state.data + (size_t) x * a.state.nb[1] +
                                            (size_t) head * a.state.nb[2] + (size_t) s.batch * a.state.nb[3])
                                      : NULL;
    state_start<D>(st, from, dv, from ? from[dv] * MRA_LOG2E : -INFINITY, from ? from[dv + 1] : 0.0f);

    for (int t = 0; t < n_tile; t++) {
        mra_copy_wait<0>();
        __syncthreads(); // tile t is there, and nobody reads tile t - 1 any more
        if (t + 1 < n_tile)
            tile_load<D, N>(tiles[(t + 1) % 2], k, a.kh.token, d, v, a.vh.token, dv, key, thread, blockDim.x);
        mra_copy_commit();
        key = key_at(keys, (t + 2) * N + lane % N);
        state_attend<D, N>(st, q, tiles[t % 2].k[0], tiles[t % 2].v[0], keys.n - t * N, fabsf(a.scale));
    }
    state_store<D>(st, out_row(a, s, head, i), a.dst.nb[2], n_valid, min(max(end - i, 0), 16), dv);
}

struct attend_launch {
    struct attn_args a;
    void * stream;
    template <int D> int run() const {
        enum { N = attend_shape<D>::KEYS, WARPS = attend_shape<D>::WARPS };
        struct attn_args b = a;
        if (!b.h) b.h = WARPS * 16; // exact
        const int warps = mra_min(WARPS, mra_div_up(b.h, 16));
        const int64_t max_rows = b.node.flags & MRA_FLAG_STARTS ? b.node.u.attn.max_len : b.q.ne[1];
        const int64_t n = (max_rows + b.h - 1) / b.h * mra_div_up(b.h, warps * 16) * b.q.ne[2] * b.n_seq;
        b.q.ne[1] = max_rows;
        if (n > INT32_MAX) return MRA_CUDA_UNSUPPORTED;
        return MRA_LAUNCH(attend<D>, dim3((unsigned) n), dim3(warps * MRA_WARP),
            2 * sizeof(kv_tile<D, N>) + warps * query_shape<D>::SHARED * sizeof(half), stream, b);
    }
};

int mra_cuda_exact(const struct attn_args & a, void * stream) {
    const struct attend_launch l = { a, stream };
    return with_dim(mra_device_dim((int) a.k.ne[0], (int) a.v.ne[0]), l);
}

bool mra_cuda_supports_block_sparse_attn(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) dst;
    return n_src == mra_source_count(p) && src[0].type == MRA_TENSOR_F32 && src[4].type == MRA_TENSOR_I32;
}

int mra_cuda_block_sparse_attn(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    const struct mra_tensor * state = mra_tensor_source(p, MRA_SRC_STATE, src);
    struct attend_launch l = {};
    const int rc = mra_cuda_attn_args(
        &l.a, p, false, &dst, &src[0], &src[1], &src[2], &src[3], mra_tensor_source(p, MRA_SRC_LENGTHS, src));
    if (rc != MRA_CUDA_OK) return rc;
    l.stream = stream;
    l.a.scale = p->u.block_sparse_attn.scale * MRA_LOG2E;
    l.a.h = p->u.block_sparse_attn.h;
    l.a.g = p->u.block_sparse_attn.g;
    l.a.cells = src[4];
    if (state) l.a.state = *state;
    return with_dim(mra_device_dim((int) src[1].ne[0], (int) src[2].ne[0]), l);
}
