// out_i = sum_j e^{p_ij} v_j / sum_j e^{p_ij}, p_ij = scale q_i.k_j - slope |i - j|, over the keys j of the query's
// sequence with |i - j| <= window. A thread block has up to 64 neighbouring queries, 16 per warp, that share tiles of
// K and V from the first key that one of them sees to the last; a warp leaves out the tiles that none of its rows sees.
#include "cuda.h"
#include "sequence.cuh"
#include "softmax-state.cuh"
#include "tile.cuh"

struct near_args {
    struct attn_args attn;
    int window;     // -1: any distance
    float max_bias; // ALiBi's, 0: none
};

// 16 query rows from i on, and the keys they see
struct near_rows {
    int i, reach, n_k;
    float scale, slope; // times log2(e)
};

// Do some of the rows see some of the keys [j, j + n)? Do all of them see all?
MRA_DEVICE bool see_some(const struct near_rows & r, int j, int n) {
    return j <= r.i + 15 + r.reach && j + n > r.i - r.reach;
}
MRA_DEVICE bool see_all(const struct near_rows & r, int j, int n) {
    return j >= r.i + 15 - r.reach && j + n <= r.i + r.reach + 1 && j + n <= r.n_k;
}

// row and key of value t of 8 keys from j on
MRA_DEVICE int row_of(const struct near_rows & r, int t) { return r.i + threadIdx.x % MRA_WARP / 4 + t / 2 * 8; }
MRA_DEVICE int key_of(int j, int t) { return j + threadIdx.x % 4 * 2 + t % 2; }

// s: q.k of the rows and the keys [j, j + N), of which becomes p
template <int N> MRA_DEVICE void add_distances(float (&s)[N / 8][4], const struct near_rows & r, int j) {
#pragma unroll
    for (int y = 0; y < N / 8; y++) {
#pragma unroll
        for (int t = 0; t < 4; t++)
            s[y][t] = fmaf((float) abs(key_of(j + y * 8, t) - row_of(r, t)), -r.slope, s[y][t] * r.scale);
    }
}
// what a row does not see becomes -inf
template <int N> MRA_DEVICE void cut_scores(float (&s)[N / 8][4], const struct near_rows & r, int j) {
#pragma unroll
    for (int y = 0; y < N / 8; y++) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            const int row = row_of(r, t), key = key_of(j + y * 8, t);
            const bool seen = key >= row - r.reach && key <= row + r.reach && key < r.n_k;
            s[y][t] = seen ? s[y][t] : -INFINITY;
        }
    }
}

template <int D>
__global__ void __launch_bounds__(attend_shape<D>::WARPS * MRA_WARP, attend_shape<D>::BLOCKS)
    attend_near(const struct near_args w) {
    enum { N = attend_shape<D>::KEYS, ROWS = attend_shape<D>::WARPS * 16 };
    using tile = kv_tile<D, N>;
    MRA_DYN_SHARED(tile, tiles); // two, then queries
    // blocks of one head lie side by side in the grid: they read the same K and V
    const struct attn_args & a = w.attn;
    const int n_block = mra_div_up((int) a.q.ne[1], ROWS), n_head = (int) a.q.ne[2],
              head = blockIdx.x / n_block % n_head, head_kv = head / (n_head / (int) a.k.ne[2]);
    const struct sequence s = sequence_of(a, blockIdx.x / n_block / n_head);
    const int i0 = blockIdx.x % n_block * ROWS
    , end = min(i0 + ROWS, s.n_rows);
    if (i0 >= end) return; // all threads: lengths and block numbers are the same for them

    const int thread = threadIdx.x, lane = thread % MRA_WARP, i = i0 + thread / MRA_WARP * 16,
              n_row = min(max(end - i, 0), 16), d = (int) a.k.ne[0], dv = (int) a.v.ne[0];
    struct near_rows r = { i, w.window < 0 ? s.n_k : min(w.window, s.n_k), s.n_k, a.scale, 0.0f };
    if (w.max_bias > 0.0f) r.slope = exp2f(-w.max_bias * mra_alibi_exponent(head, n_head)) * MRA_LOG2E;
    const int first = max(i0 - r.reach, 0), last = min(end + r.reach, s.n_k), n_tile = mra_div_up(last - first, N);
    const char *k = row_at(a.kh, s, head_kv, 0), *v = row_at(a.vh, s, head_kv, 0);

    int key = first + lane % N;
    tile_load<D, N>(tiles[0], k, a.kh.token, d, v, a.vh.token, dv, key < last ? key : -1, thread, blockDim.x);
    mra_copy_commit();
    query_rows<D> q;
    load_queries<D>(q, (half *) (tiles + 2) + thread / MRA_WARP * query_shape<D>::SHARED, row_at(a.q, s, head, i),
        a.q.nb[1], n_row, d);
    softmax_state<D> st;
    state_start<D>(st, NULL, dv, -INFINITY, 0.0f);

    for (int t = 0; t < n_tile; t++) {
        mra_copy_wait<0>();
        __syncthreads(); // tile t is there, and nobody reads tile t - 1 any more
        key += N;
        if (t + 1 < n_tile)
            tile_load<D, N>(
                tiles[(t + 1) % 2], k, a.kh.token, d, v, a.vh.token, dv, key < last ? key : -1, thread, blockDim.x);
        mra_copy_commit();
        const int j = first + t * N;
        if (n_row == 0 || !see_some(r, j, N)) continue;
        float p[N / 8][4];
        tile_scores<D, N>(p, q, tiles[t % 2].k[0], N);
        if (r.slope > 0.0f) add_distances<N>(p, r, j);
        if (!see_all(r, j, N)) cut_scores<N>(p, r, j);
        state_add<D, N>(st, p, tiles[t % 2].v[0], r.slope > 0.0f ? 1.0f : r.scale);
    }
    state_store<D>(st, out_row(a, s, head, i), a.dst.nb[2], n_row, n_row, dv);
}

struct near_launch {
    struct near_args a;
    void * stream;
    template <int D> int run() const {
        enum { N = attend_shape<D>::KEYS, WARPS = attend_shape<D>::WARPS };
        const struct attn_args & b = a.attn;
        const int64_t n = (b.q.ne[1] + WARPS * 16 - 1) / (WARPS * 16) * b.q.ne[2] * b.n_seq;
        if (n > INT32_MAX) return MRA_CUDA_UNSUPPORTED;
        return MRA_LAUNCH(attend_near<D>, dim3((unsigned) n), dim3(WARPS * MRA_WARP),
            2 * sizeof(kv_tile<D, N>) + WARPS * query_shape<D>::SHARED * sizeof(half), stream, a);
    }
};

bool mra_cuda_supports_window_attn(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) dst;
    return n_src == mra_source_count(p) && (p->flags & MRA_FLAG_STARTS) && src[0].type == MRA_TENSOR_F32;
}

int mra_cuda_window_attn(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    struct near_launch l = {};
    struct mra_node attn = *p; // as sequence_of knows it
    memset(&attn.u, 0, sizeof(attn.u));
    attn.u.attn.max_len = p->u.window_attn.max_len;
    const int rc = mra_cuda_attn_args(
        &l.a.attn, &attn, false, &dst, &src[0], &src[1], &src[2], &src[3], mra_tensor_source(p, MRA_SRC_LENGTHS, src));
    if (rc != MRA_CUDA_OK) return rc;
    l.a.attn.q.ne[1] = p->u.window_attn.max_len; // rows that the grid covers
    l.a.attn.scale = p->u.window_attn.scale * MRA_LOG2E;
    l.a.window = p->u.window_attn.window;
    l.a.max_bias = p->u.window_attn.max_bias;
    l.stream = stream;
    return with_dim(mra_device_dim((int) src[1].ne[0], (int) src[2].ne[0]), l);
}
