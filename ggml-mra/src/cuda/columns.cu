// Columns frame {16 x g, 16 x 1, 1 x 1} of one query block, q~ its mean query:
//   out_i = [ sum_kept e^{q_i.k_j} v_j + sum_{expanded, not kept} e^{q~.k_j} v_j + sum_{not expanded} c_y e^{q~.k~_y}
//   v~_y ] / (same, v = 1)
// Sorted frame: query blocks of alike queries, keys minus their mean, choice by score + bias (see kernels.h).
// A thread block has 32 neighbouring query blocks of a head (16 where heads are large). Their mean queries are the rows
// of tensor-core products with all keys, of which its warps take turns, and what is not kept becomes a product with V;
// then each warp has some of the query blocks to itself, with the keys they keep.
#include "cuda.h"
#include "columns-keys.cuh"

// the keys that row r keeps, in ascending order -> b.kept, through LISTED words of shared memory; returns how many
enum { LISTED = MRA_WARP * STEP };
MRA_DEVICE int list_keys(const struct group & b, int r, int * shared) {
    const int lane = threadIdx.x % MRA_WARP, n_step = mra_div_up(b.s.n_k, STEP);
    int n = 0;
    for (int i0 = 0; i0 < n_step; i0 += MRA_WARP) {
        uint32_t w = i0 + lane < n_step ? b.taken[(i0 + lane) * b.choose.n_row + r] : 0;
        const int mine = __popc(w), n_new = mra_warp_sum(mine);
        int * to = shared + mra_warp_prefix(mine);
        for (; w; w &= w - 1) *to++ = (i0 + lane) * STEP + __clz((int) __brev(w)); // the lowest bit
        __syncwarp();
        for (int i = lane; i < n_new; i += MRA_WARP) b.kept[n + i] = shared[i]; // whole sectors
        n += n_new;
        __syncwarp(); // before the next overwrite these
    }
    return n;
}

// sorted: scale (q_i - q~).k_mean of rows lane/4 and lane/4 + 8 of a query block
MRA_DEVICE void mean_key_scores(float (&shift)[2], const struct attn_args & a, const struct group & b, int x) {
    const int lane = threadIdx.x % MRA_WARP, n = min(H, b.s.n_q - x * H), d = (int) a.q.ne[0];
    const float * mean = b.sorted.q_mean + (int64_t) x * a.order.dim;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int i = query_at<true>(b, x, min(lane / 4 + r * 8, n - 1));
        const float * q = (const float *) row_at(a.q, b.s, b.head, i);
        float sum = 0.0f;
        for (int c = lane % 4; c < d; c += 4) sum += (q[c] - mean[c]) * b.sorted.k_mean[c];
        shift[r] = mra_warp_sum<4>(sum) * a.scale;
    }
}

// the 16 queries of row r over the keys it keeps (or all of them), from its coarse state on; by one warp
template <int D, bool SORTED> MRA_DEVICE void fine(const struct attn_args & a, const struct group & b, int r) {
    static_assert(LISTED * sizeof(int) <= mra_device_tile_bytes(D), "the list passes through the tiles");
    char * mine = b.tiles + warp_of<D>() * mra_device_tile_bytes(D);
    kv_tile<D, N> * tiles = (kv_tile<D, N> *) mine;
    const bool all = uses_all<SORTED>(b, r);
    const int lane = threadIdx.x % MRA_WARP, d = (int) a.k.ne[0], dv = (int) a.v.ne[0], x = b.x0 + r, i = x * H,
              n_kept = all ? b.s.n_k : list_keys(b, r, (int *) mine), n_tile = mra_div_up(n_kept, N);
    const auto key_at = [&](int j) { return j >= n_kept ? -1 : all ? j : b.kept[j]; };
    const auto row = [&](int at) { return query_at<SORTED>(b, x, at) - i; };
    if (n_tile > 0)
        tile_load<D, N>(tiles[0], b.k, a.kh.token, d, b.v, a.vh.token, dv, key_at(lane % N), lane, MRA_WARP);
    mra_copy_commit();
    query_rows<D> q;
    const int n_valid = min(b.s.n_q - i, H);
    load_queries<D>(q, (half *) (tiles + 2), row_at(a.q, b.s, b.head, i), a.q.nb[1], n_valid, d, 1.0f, row);
    softmax_state<D> st;
    const bool from_coarse = !all && !(a.node.flags & MRA_FLAG_FINEST_ONLY);
    state_start<D>(st, b.coarse + r * D, dv, from_coarse ? b.choose.c->max[r] : -INFINITY, b.choose.c->sum[r]);
    if (SORTED) {
        float shift[2];
        mean_key_scores(shift, a, b, x);
        for (int h = 0; h < 2; h++) st.max[h] += shift[h]; // -inf stays
    }
    int key = key_at(N + lane % N);
    for (int t = 0; t < n_tile; t++) {
        mra_copy_wait<0>();
        __syncwarp(); // tile t is there, and no lane reads tile t - 1 any more
        if (t + 1 < n_tile)
            tile_load<D, N>(tiles[(t + 1) % 2], b.k, a.kh.token, d, b.v, a.vh.token, dv, key, lane, MRA_WARP);
        mra_copy_commit();
        key = key_at((t + 2) * N + lane % N);
        state_attend<D, N>(st, q, tiles[t % 2].k[0], tiles[t % 2].v[0], n_kept - t * N, a.scale);
    }
    mra_copy_wait<0>();
    state_store<D>(st, out_row(a, b.s, b.head, i), a.dst.nb[2], n_valid, min(b.s.n_rows - i, H), dv, row);
    __syncwarp(); // the next query block takes the same memory
}

// rows of the group behind its query blocks: padding
MRA_DEVICE void clear_rows(const struct attn_args & a, const struct group & b) {
    const int dv = (int) a.v.ne[0], first = (b.x0 + b.n) * H, end = min((b.x0 + b.choose.n_row) * H, b.s.n_rows);
    for (int i = first + threadIdx.x / MRA_WARP; i < end; i += blockDim.x / MRA_WARP) {
        for (int c = threadIdx.x % MRA_WARP; c < dv; c += MRA_WARP) out_row(a, b.s, b.head, i)[c] = 0.0f;
    }
}

// where a thread block has its memory; lists: of this thread block, in global memory
template <int D> MRA_DEVICE void place(struct group & b, const struct attn_args & a, char * shared, char * lists) {
    const int warp = warp_of<D>(), n_warp = warps<D>();
    const struct mra_device_lists l = mra_device_lists_of(mra_device_rows(D), b.s.n_k, b.s.plan.g, b.s.plan.m2);
    b.means = (uint4 *) shared;
    b.coarse = (float *) shared;
    b.choose.c = (struct choice *) (shared + mra_device_means_bytes(D));
    b.tiles = shared + mra_device_means_bytes(D) + MRA_DEVICE_CHOICE;
    b.choose.bins = (int *) b.tiles;
    b.choose.open = (struct open_column *) b.tiles;
    b.choose.n_row = mra_device_rows(D);
    b.choose.row0 = warp % pair<D>::N * 16;
    b.choose.turn = warp / pair<D>::N;
    b.choose.n_turn = n_warp / pair<D>::N;
    b.taken = a.pack.list_shared ? (uint32_t *) (b.tiles + mra_device_work_bytes(D, n_warp))
                                 : (uint32_t *) lists + n_warp * l.kept;
    b.expanded = l.taken;
    b.kept = (int *) lists + warp * l.kept;
}

// thread blocks that a multiprocessor holds at least: sets how many registers there are
constexpr int columns_blocks(int dim) { return dim <= 64 || dim > 128 ? 1 : 2; }

// so many query blocks: item `first_item` + number of the thread block of all
template <int D, bool SORTED>
__global__ void __launch_bounds__(mra_device_warps(D) * MRA_WARP, columns_blocks(D))
    columns(const struct attn_args a, int n_x, int64_t first_item) {
    MRA_DYN_SHARED(char, shared);
    const int n_head = (int) a.q.ne[2];
    const int64_t item = first_item + blockIdx.x;
    struct group b;
    b.is = (int) (item / n_x / n_head);
    b.x0 = (int) (item % n_x) * mra_device_rows(D);
    b.head = (int) (item / n_x % n_head);
    b.head_kv = b.head / (n_head / (int) a.k.ne[2]);
    b.s = sequence_of(a, b.is);
    if (b.s.exact || b.x0 * H >= b.s.n_rows) return; // all threads
    b.n = min(max(mra_div_up(b.s.n_q, H) - b.x0, 0), mra_device_rows(D));
    b.n_b = mra_div_up(b.s.n_k, b.s.plan.g);
    b.log_g = b.s.plan.g == 32 ? 5 : 4;
    place<D>(b, a, shared, a.mem + a.pack.lists + blockIdx.x * a.pack.list_bytes);
    b.k = row_at(a.kh, b.s, b.head_kv, 0);
    b.v = row_at(a.vh, b.s, b.head_kv, 0);
    if (SORTED) b.sorted = sorted_of(a, b.s, b.is, b.head);
    if (b.n > 0) choose_keys<D, SORTED>(a, b);
    for (int r = warp_of<D>(); r < b.n; r += warps<D>()) fine<D, SORTED>(a, b, r);
    clear_rows(a, b);
}

struct columns_launch {
    struct attn_args a;
    void * stream;
    // Several launches where there are more thread blocks than lists: a loop in the kernel would keep what its rounds
    // have in common in registers, of which there are too few.
    template <int D> int run() const {
        constexpr bool sorted = D <= MRA_DEVICE_SORTED_DIM;
        const int max_len = a.node.flags & MRA_FLAG_STARTS ? a.node.u.attn.max_len : (int) a.q.ne[1];
        const int64_t n_x = mra_div_up(max_len, H * mra_device_rows(D)), n_item = n_x * a.q.ne[2] * a.n_seq;
        const size_t most = mra_shared_max();
        struct attn_args a = this->a;
        int n_warp = mra_device_warps(D);
        if (mra_device_block_bytes(D, n_warp) > most && mra_device_rows(D) > 16) n_warp /= 2;
        if (mra_device_block_bytes(D, n_warp) + a.pack.list_shared > most) a.pack.list_shared = 0;
        const size_t shared = mra_device_block_bytes(D, n_warp) + a.pack.list_shared;
        int rc = MRA_CUDA_OK;
        for (int64_t first = 0; first < n_item && rc == MRA_CUDA_OK; first += a.pack.n_list) {
            const dim3 grid((unsigned) (n_item - first < a.pack.n_list ? n_item - first : a.pack.n_list)),
                threads(n_warp * MRA_WARP);
            rc = a.sorted ? MRA_LAUNCH((columns<D, sorted>), grid, threads, shared, stream, a, (int) n_x, first)
                          : MRA_LAUNCH((columns<D, false>), grid, threads, shared, stream, a, (int) n_x, first);
        }
        return rc;
    }
};

bool mra_cuda_supports_attn(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) dst;
    return n_src == mra_source_count(p) && src[0].type == MRA_TENSOR_F32 &&
        (p->u.attn.frame != MRA_PLAN_SORTED || src[4].type == MRA_TENSOR_I32) &&
        mra_device_has_frame(&p->u.attn, (int) src[1].ne[0], (int) src[2].ne[0]);
}

int mra_cuda_attn(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    struct columns_launch l;
    const bool is_columns = mra_attn_has_columns(&p->u.attn);
    int rc = mra_cuda_attn_args(
        &l.a, p, is_columns, &dst, &src[0], &src[1], &src[2], &src[3], mra_tensor_source(p, MRA_SRC_LENGTHS, src));
    if (rc != MRA_CUDA_OK) return rc;
    l.a.scale = p->u.attn.scale * MRA_LOG2E;
    l.stream = stream;
    if (p->u.attn.frame == MRA_PLAN_SORTED) {
        const int64_t * q = src[0].ne;
        l.a.order = mra_order_layout_of((int) q[0], q[1], src[1].ne[1], q[2], q[3], l.a.n_seq);
        l.a.sorted = (int32_t *) src[4].data;
    }
    // lengths are known on the device only: sequences short enough to be exact are the one launch's, the others the
    // other's
    rc = mra_cuda_exact(l.a, stream);
    if (rc != MRA_CUDA_OK || !is_columns) return rc;
    return with_dim(mra_device_dim((int) src[1].ne[0], (int) src[2].ne[0]), l);
}
