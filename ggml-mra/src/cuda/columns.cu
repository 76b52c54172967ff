// Columns frame {16 x g, 16 x 1, 1 x 1} of one query block, q~ its mean query:
//   out_i = [ sum_kept e^{q_i.k_j} v_j + sum_{expanded, not kept} e^{q~.k_j} v_j + sum_{not expanded} c_y e^{q~.k~_y}
//   v~_y ] / (same, v = 1)
// Sorted frame: query blocks of alike queries, keys minus their mean, choice by score + bias (see kernels.h).
// One warp per query block, from the scores of the key blocks to the output. The warps of a thread block have
// neighbouring query blocks, which choose much the same keys: what one reads, the others find in L1. What is chosen by
// is computed in F32 from K as it is given.
#include "cuda.h"
#include "warp-topk.cuh"
#include "sequence.cuh"
#include "softmax-state.cuh"
#include "tile.cuh"

enum { H = MRA_QUERY_BLOCK, N = MRA_DEVICE_KEYS };
static_assert((int) SELECT_BINS == (int) MRA_DEVICE_BINS && sizeof(half) == MRA_DEVICE_HALF &&
        (int) tile_row<64>::LD == 64 + (int) MRA_DEVICE_ROW_PAD,
    "device-pack.h says the same");

// One query block.
struct query_block {
    struct sequence s;
    int head, head_kv, x;
    int n_b; // key blocks
    int log_g;
    float * qm;     // [D] shared: mean query; later o of the coarse state
    int * bins;     // [SELECT_BINS] shared
    half * queries; // shared, where registers are too few
    int *kept, *expanded;
    float *pooled, *logit; // [n_b] q~.k~; [m1*g] q~.k_j; both later weights, and -inf, then 0, for what was refined
    void * tiles;          // shared; where lists lie there too, over all of them but `kept`
    struct sorted_head sorted;
    float shift[2]; // sorted: what the mean key adds to the coarse scores of rows lane/4 and lane/4 + 8
};

// where row r of the block lies in its tensors; in the sorted frame padding stays behind the queries
template <bool SORTED> MRA_DEVICE int query_at(const struct query_block & b, int r) {
    const int i = b.x * H + r;
    return SORTED && i < b.s.n_q ? b.sorted.order[i] : i;
}

MRA_DEVICE void list_places(struct query_block & b, char * shared, char * lists, int dim) {
    const struct mra_device_lists l = mra_device_lists_of(b.s.n_k, b.s.plan.g, b.s.plan.m1, b.s.plan.m2);
    b.qm = (float *) shared;
    b.bins = (int *) (b.qm + dim);
    b.queries = (half *) (b.bins + SELECT_BINS);
    int *own = (int *) (shared + mra_device_head_bytes(dim)), *at = lists ? (int *) lists : own;
    b.kept = at;
    b.tiles = lists ? own : at + l.kept;
    b.pooled = (float *) (at + l.kept);
    b.expanded = at + l.kept + l.pooled;
    b.logit = (float *) (b.expanded + l.expanded);
}

MRA_DEVICE void mean_query(const struct attn_args & a, const struct query_block & b) {
    const int lane = threadIdx.x % MRA_WARP, n = min(H, b.s.n_q - b.x * H);
    const char * q = row_at(a.q, b.s, b.head, b.x * H);
    for (int c = lane; c < (int) a.q.ne[0]; c += MRA_WARP) {
        float sum = 0.0f;
        for (int i = 0; i < n; i++) sum += ((const float *) (q + i * a.q.nb[1]))[c];
        b.qm[c] = sum / n;
    }
    __syncwarp();
}

// sorted: the mean query is there already; b.shift = scale (q_i - q~).k_mean
MRA_DEVICE void centre_queries(const struct attn_args & a, struct query_block & b) {
    const int lane = threadIdx.x % MRA_WARP, n = min(H, b.s.n_q - b.x * H), d = (int) a.q.ne[0];
    const float * mean = b.sorted.q_mean + (int64_t) b.x * a.order.dim;
    for (int c = lane; c < d; c += MRA_WARP) b.qm[c] = mean[c];
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int i = query_at<true>(b, min(lane / 4 + r * 8, n - 1));
        const float * q = (const float *) row_at(a.q, b.s, b.head, i);
        float sum = 0.0f;
        for (int c = lane % 4; c < d; c += 4) sum += (q[c] - b.qm[c]) * b.sorted.k_mean[c];
        b.shift[r] = mra_warp_sum<4>(sum) * a.scale;
    }
}

MRA_DEVICE float largest_bias(const struct query_block & b, int y) {
    float top = -INFINITY;
    for (int j = y << b.log_g; j < min((y + 1) << b.log_g, b.s.n_k); j++) top = fmaxf(top, b.sorted.key_bias[j]);
    return top;
}

// scores of the key blocks, a lane each -> the m1 best; returns how many
template <bool SORTED> MRA_DEVICE int expand(const struct attn_args & a, const struct query_block & b, int is) {
    const int lane = threadIdx.x % MRA_WARP, d = (int) a.k.ne[0], first_n = a.node.u.attn.first_n,
              diag_n = a.node.u.attn.diag_n;
    const int64_t b0 = first_block(a, b.s, is);
    const float * stat = (const float *) (a.mem + a.pack.k_stat) + b.head_kv * a.pack.n_b * 3 * d;
    if (b.s.plan.m1 >= b.n_b) {
        for (int y = lane; y < b.n_b; y += MRA_WARP) b.expanded[y] = y;
        __syncwarp();
        return b.n_b;
    }
    for (int y = lane; y < b.n_b; y += MRA_WARP) {
        const float * lo = stat + (b0 + y) / MRA_DEVICE_PANEL * MRA_DEVICE_PANEL * 3 * d + (b0 + y) % MRA_DEVICE_PANEL;
        const float *hi = lo + d * MRA_DEVICE_PANEL, *mean = hi + d * MRA_DEVICE_PANEL;
        float u = 0.0f, l = 0.0f;
#pragma unroll 4
        for (int c = 0; c < d; c++) {
            const float q = b.qm[c];
            l += q * mean[c * MRA_DEVICE_PANEL];
            u += fmaxf(q * lo[c * MRA_DEVICE_PANEL], q * hi[c * MRA_DEVICE_PANEL]);
        }
        if (!b.s.plan.bound) u = l;
        if (SORTED) u += largest_bias(b, y);
        if (first_n || diag_n) u = mra_named_key(u, mra_columns_priors(first_n, diag_n, b.s.plan.g, b.x, y));
        b.pooled[y] = l;
        b.logit[y] = u;
    }
    __syncwarp();
    const int n = warp_topk(b.logit, b.n_b, b.s.plan.m1, b.bins, [&](int i, int y) {
        b.expanded[i] = y;
        b.pooled[y] = -INFINITY;
    });
    __syncwarp();
    return n;
}

MRA_DEVICE int expanded_key(const struct query_block & b, int j) {
    return (b.expanded[j >> b.log_g] << b.log_g) + (j & (b.s.plan.g - 1));
}

MRA_DEVICE void load_halves(float (&x)[8], const char * at) {
    const uint4 r = *(const uint4 *) at;
    const uint32_t w[4] = { r.x, r.y, r.z, r.w };
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = __half2float(__ushort_as_half((unsigned short) (w[i] & 0xffff)));
        x[2 * i + 1] = __half2float(__ushort_as_half((unsigned short) (w[i] >> 16)));
    }
}
MRA_DEVICE void load_floats(float * x, const char * at, bool aligned) {
    const float * f = (const float *) at;
    const float4 r = aligned ? *(const float4 *) at : make_float4(f[0], f[1], f[2], f[3]);
    x[0] = r.x;
    x[1] = r.y;
    x[2] = r.z;
    x[3] = r.w;
}

// Channels of K, 8 for each of 4 lanes in every 32: 16 bytes side by side, which are 8 channels of F16, or twice 4 of
// F32.
MRA_DEVICE int channel_of(int part, int i, bool f16) {
    const int l = threadIdx.x % 4;
    return part * 32 + (f16 ? l * 8 + i : i / 4 * 16 + l * 4 + i % 4);
}
MRA_DEVICE void load_channels(float (&x)[8], const char * row, int part, int d, bool f16, bool aligned) {
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = 0.0f;
    if (f16) {
        const int c = channel_of(part, 0, true);
        if (c < d) load_halves(x, row + c * 2);
        return;
    }
    const int c = channel_of(part, 0, false);
    if (c < d) load_floats(x, row + c * 4, aligned);
    if (c + 16 < d) load_floats(x + 4, row + c * 4 + 64, aligned);
}

// sorted: the keys are chosen by logit + bias; turns what they were chosen by into logits again
MRA_DEVICE void take_bias_off(const struct query_block & b, int n) {
    for (int j = threadIdx.x % MRA_WARP; j < n; j += MRA_WARP) {
        const int key = expanded_key(b, j);
        if (key < b.s.n_k) b.logit[j] -= b.sorted.key_bias[key]; // -inf, which is kept, stays
    }
    __syncwarp();
}

// q~.k_j of the expanded keys, 4 lanes each -> the m2 best; returns how many
template <int D, bool SORTED>
MRA_DEVICE int keep(const struct attn_args & a, const struct query_block & b, int n_expanded) {
    enum { PARTS = (D + 31) / 32 };
    const int lane = threadIdx.x % MRA_WARP, d = (int) a.k.ne[0], n = n_expanded << b.log_g;
    const bool f16 = a.k.type == MRA_TENSOR_F16,
               aligned = ((uintptr_t) a.k.data | a.k.nb[1] | a.k.nb[2] | a.k.nb[3]) % 16 == 0;
    const char * k = f16 ? row_at(a.kh, b.s, b.head_kv, 0) : row_at(a.k, b.s, b.head_kv, 0);
    const size_t nb = f16 ? a.kh.token : a.k.nb[1];
    float q[PARTS][8];
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
#pragma unroll
        for (int i = 0; i < 8; i++) q[p][i] = channel_of(p, i, f16) < d ? b.qm[channel_of(p, i, f16)] : 0.0f;
    }
    for (int j = lane / 4; j < n; j += MRA_WARP / 4) { // n is a multiple of 16: lanes stay together
        const int key = expanded_key(b, j);
        float sum = 0.0f;
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            if (key >= b.s.n_k) continue;
            float x[8];
            load_channels(x, k + (size_t) key * nb, p, d, f16, aligned);
#pragma unroll
            for (int i = 0; i < 8; i++) sum += q[p][i] * x[i];
        }
        sum = mra_warp_sum<4>(sum);
        if (SORTED && lane % 4 == 0 && key < b.s.n_k) sum += b.sorted.key_bias[key];
        if (lane % 4 == 0) b.logit[j] = key < b.s.n_k ? sum : -INFINITY;
    }
    __syncwarp();
    const int n_kept = warp_topk(b.logit, n, b.s.plan.m2, b.bins, [&](int i, int j) {
        b.kept[i] = expanded_key(b, j);
        b.logit[j] = -INFINITY;
    });
    __syncwarp();
    if (SORTED) take_bias_off(b, n);
    return n_kept;
}

// x[n] -> weights e^{x - top} (in powers of 2, times scale), times what count gives; returns this lane's share of their
// sum
template <class F> MRA_DEVICE float to_weights(float * x, int n, float top, float scale, const F & count) {
    float sum = 0.0f;
    for (int j = threadIdx.x % MRA_WARP; j < n; j += MRA_WARP) {
        const float p = x[j] > -INFINITY ? exp2f((x[j] - top) * scale) * count(j) : 0.0f;
        x[j] = p;
        sum += p;
    }
    return sum;
}

// o[dv] (b.qm) = sum of weight times value row: of the expanded keys and of the key blocks' means. A row takes dv/8
// lanes, a piece of 8 channels each, so a warp has a few rows at a time.
template <int D>
MRA_DEVICE void coarse_values(
    const struct attn_args & a, const struct query_block & b, int n_logit, int n_pooled, int is) {
    const int lane = threadIdx.x % MRA_WARP, dv = (int) a.v.ne[0], pieces = dv / 8, rows = MRA_WARP / pieces,
              row = lane / pieces, c = lane % pieces * 8;
    const char * v = row_at(a.vh, b.s, b.head_kv, 0);
    const float * mean = (const float *) (a.mem + a.pack.v_mean) +
        (b.head_kv * a.pack.n_b + first_block(a, b.s, is)) * dv;
    float o[8] = { 0.0f };
    if (row < rows) {
#pragma unroll 2
        for (int j = row; j < n_logit; j += rows) {
            const float w = b.logit[j];
            if (w == 0.0f) continue;
            float x[8];
            load_halves(x, v + (size_t) expanded_key(b, j) * a.vh.token + c * 2);
#pragma unroll
            for (int i = 0; i < 8; i++) o[i] += w * x[i];
        }
#pragma unroll 2
        for (int y = row; y < n_pooled; y += rows) {
            const float w = b.pooled[y];
            if (w == 0.0f) continue;
            float x[8];
            load_floats(x, (const char *) (mean + (int64_t) y * dv + c), true);
            load_floats(x + 4, (const char *) (mean + (int64_t) y * dv + c + 4), true);
#pragma unroll
            for (int i = 0; i < 8; i++) o[i] += w * x[i];
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float sum = o[i];
        for (int r = 1; r < rows; r++) sum += __shfl_sync(MRA_ALL_LANES, o[i], (lane + r * pieces) % MRA_WARP);
        if (row == 0) b.qm[c + i] = sum;
    }
}

// What is not kept, as a softmax state: o in b.qm.
template <int D>
MRA_DEVICE void coarse(
    const struct attn_args & a, const struct query_block & b, int n_expanded, int is, float * max, float * sum) {
    const int lane = threadIdx.x % MRA_WARP, g = b.s.plan.g, n_logit = n_expanded << b.log_g,
              n_pooled = b.s.plan.m1 < b.n_b ? b.n_b : 0;
    float top = -INFINITY;
    for (int j = lane; j < n_logit; j += MRA_WARP) top = fmaxf(top, b.logit[j]);
    for (int y = lane; y < n_pooled; y += MRA_WARP) top = fmaxf(top, b.pooled[y]);
    top = mra_warp_max(top);
    *max = top * a.scale;
    *sum = 0.0f;
    if (top == -INFINITY) return;
    const float s0 = to_weights(b.logit, n_logit, top, a.scale, [](int) { return 1.0f; });
    const float s1 = to_weights(
        b.pooled, n_pooled, top, a.scale, [&](int y) { return (float) min(g, b.s.n_k - y * g); });
    *sum = mra_warp_sum(s0 + s1);
    __syncwarp();
    coarse_values<D>(a, b, n_logit, n_pooled, is);
}

// the 16 rows over the kept keys (all: over all of them), from the coarse state on
template <int D, bool SORTED>
MRA_DEVICE void fine(
    const struct attn_args & a, const struct query_block & b, bool all, int n_kept, float max, float sum) {
    kv_tile<D, N> * tiles = (kv_tile<D, N> *) b.tiles;
    const int lane = threadIdx.x % MRA_WARP, d = (int) a.k.ne[0], dv = (int) a.v.ne[0], n_tile = mra_div_up(n_kept, N),
              i = b.x * H;
    const char *k = row_at(a.kh, b.s, b.head_kv, 0), *v = row_at(a.vh, b.s, b.head_kv, 0);
    const auto key_at = [&](int j) { return j >= n_kept ? -1 : SORTED && all ? j : b.kept[j]; };
    const auto row = [&](int r) { return query_at<SORTED>(b, r) - i; };
    __syncwarp(); // the lists are not read any more, and the coarse state is there
    if (n_tile > 0) tile_load<D, N>(tiles[0], k, a.kh.token, d, v, a.vh.token, dv, key_at(lane % N), lane, MRA_WARP);
    mra_copy_commit();
    query_rows<D> q;
    const int n_valid = min(b.s.n_q - i, H);
    load_queries<D>(q, b.queries, row_at(a.q, b.s, b.head, i), a.q.nb[1], n_valid, d, row);
    softmax_state<D> st;
    state_start<D>(st, b.qm, dv, max, sum);
    for (int r = 0; r < 2 && SORTED; r++) st.max[r] += b.shift[r]; // -inf stays
    int key = key_at(N + lane % N);
    for (int t = 0; t < n_tile; t++) {
        mra_copy_wait<0>();
        __syncwarp(); // tile t is there, and no lane reads tile t - 1 any more
        if (t + 1 < n_tile)
            tile_load<D, N>(tiles[(t + 1) % 2], k, a.kh.token, d, v, a.vh.token, dv, key, lane, MRA_WARP);
        mra_copy_commit();
        key = key_at((t + 2) * N + lane % N);
        state_attend<D, N>(st, q, tiles[t % 2].k[0], tiles[t % 2].v[0], n_kept - t * N, a.scale);
    }
    state_store<D>(st, out_row(a, b.s, b.head, i), a.dst.nb[2], n_valid, min(b.s.n_rows - i, H), dv, row);
}

// rows from i to the end of the query block: padding
MRA_DEVICE void clear_rows(const struct attn_args & a, const struct query_block & b) {
    for (int i = b.x * H; i < min((b.x + 1) * H, b.s.n_rows); i++) {
        for (int c = threadIdx.x % MRA_WARP; c < (int) a.v.ne[0]; c += MRA_WARP) out_row(a, b.s, b.head, i)[c] = 0.0f;
    }
}

// thread blocks that a multiprocessor holds at least: sets how many registers there are
constexpr int columns_blocks(int dim) { return dim == 64 ? 3 : dim == 80 || dim == 96 ? 5 : 4; }

template <int D, bool SORTED>
__global__ void __launch_bounds__(mra_device_warps(D) * MRA_WARP, columns_blocks(D))
    columns(const struct attn_args a, int n_x, int64_t n_item) {
    MRA_DYN_SHARED(char, shared);
    const int warp = threadIdx.x / MRA_WARP, n_warp = blockDim.x / MRA_WARP, n_head = (int) a.q.ne[2];
    char * mine = shared + warp * (mra_device_head_bytes(D) + a.pack.list_shared);
    const int64_t step = (int64_t) gridDim.x * n_warp, first = (int64_t) blockIdx.x * n_warp + warp;
    char * lists = a.pack.n_list ? a.mem + a.pack.lists + first * a.pack.list_bytes : NULL;
    for (int64_t item = first; item < n_item; item += step) {
        struct query_block b;
        const int is = (int) (item / n_x / n_head);
        b.x = (int) (item % n_x);
        b.head = (int) (item / n_x % n_head);
        b.head_kv = b.head / (n_head / (int) a.k.ne[2]);
        b.s = sequence_of(a, is);
        if (b.s.exact || b.x * H >= b.s.n_rows) continue;
        if (b.x * H >= b.s.n_q) {
            clear_rows(a, b);
            continue;
        }
        b.n_b = mra_div_up(b.s.n_k, b.s.plan.g);
        b.log_g = b.s.plan.g == 32 ? 5 : 4;
        list_places(b, mine, lists, D);
        if (SORTED) b.sorted = sorted_of(a, b.s, is, b.head);
        const bool all = SORTED && b.sorted.all_keys[b.x];
        float max = -INFINITY, sum = 0.0f;
        int n_kept = b.s.n_k;
        if (SORTED) centre_queries(a, b);
        else mean_query(a, b);
        if (!all) {
            const int n_expanded = expand<SORTED>(a, b, is);
            n_kept = keep<D, SORTED>(a, b, n_expanded);
            if (!(a.node.flags & MRA_FLAG_FINEST_ONLY)) coarse<D>(a, b, n_expanded, is, &max, &sum);
        }
        fine<D, SORTED>(a, b, all, n_kept, max, sum);
        __syncwarp(); // the next query block takes the same memory
    }
}

struct columns_launch {
    struct attn_args a;
    void * stream;
    template <int D> int run() const {
        const int64_t n_x = mra_div_up(a.node.flags & MRA_FLAG_STARTS ? a.node.u.attn.max_len : (int) a.q.ne[1], H),
                      n_item = n_x * a.q.ne[2] * a.n_seq;
        const int warps = mra_device_warps(D);
        int64_t blocks = (n_item + warps - 1) / warps;
        if (a.pack.n_list && blocks > a.pack.n_list / warps) blocks = a.pack.n_list / warps;
        if (blocks > INT32_MAX) return MRA_CUDA_UNSUPPORTED;
        const size_t shared = warps * (mra_device_head_bytes(D) + a.pack.list_shared);
        const dim3 grid((unsigned) blocks), threads(warps * MRA_WARP);
        constexpr bool sorted = D <= MRA_DEVICE_SORTED_DIM;
        return a.sorted ? MRA_LAUNCH((columns<D, sorted>), grid, threads, shared, stream, a, (int) n_x, n_item)
                        : MRA_LAUNCH((columns<D, false>), grid, threads, shared, stream, a, (int) n_x, n_item);
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
