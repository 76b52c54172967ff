// The query_order node: the order of a head's queries, the leaves of a balanced tree that is grown by one launch per
// level, and what the keys weigh in the choice of keys (see kernels.h). Rows are compared as whole numbers that sort
// as their projections do, and every sum has one order of its own: results do not depend on a schedule, a batch or
// the number of thread blocks.
#include "order.cuh"

// Identity in the order, and -1 behind the last query: where the tree starts.
__global__ void __launch_bounds__(ORDER_THREADS) order_start(const struct order_args o, int n_piece) {
    struct order_head h;
    const int x = blockIdx.x % n_piece, i = x * MRA_DEVICE_PIECE + threadIdx.x;
    static_assert((int) MRA_DEVICE_PIECE == (int) ORDER_THREADS, "a thread has a row");
    if (!order_head_of(o, blockIdx.x / n_piece, h) || i >= h.s.n_rows) return;
    sorted_of(o.a, h.s, h.is, h.head).order[i] = i < h.s.n_q ? i : -1;
}

// 16 rows of the covariance of every stride-th key, not divided by anything
__global__ void __launch_bounds__(ORDER_THREADS, 2) order_covariance(const struct order_args o) {
    enum { KEYS = 16, MAX_OF_ROW = 256 / 16 };
    MRA_SHARED(float, y, KEYS * 256);
    MRA_SHARED(float, mean, 256);
    const int dim = o.a.order.dim, tiles = dim / 16, d = (int) o.a.k.ne[0], n_head = (int) o.a.k.ne[2],
              item = blockIdx.x / tiles, head = item % n_head, is = item / n_head, t = threadIdx.x;
    const struct sequence s = sequence_of(o.a, is);
    if (s.exact) return;
    const int step = order_stride(s.n_k, MRA_SORTED_KEYS), n = mra_div_up(s.n_k, step);
    if (t < dim) {
        float sum = 0.0f;
        for (int j = 0; j < n; j++) sum += value_at(o.a.k, row_at(o.a.k, s, head, j * step), t, d);
        mean[t] = sum / n;
    }
    const int row = blockIdx.x % tiles * 16 + t / 16;
    float acc[MAX_OF_ROW] = { 0.0f };
    for (int j0 = 0; j0 < n; j0 += KEYS) {
        __syncthreads(); // the mean is there, and nobody reads the keys before any more
        for (int i = t; i < KEYS * dim; i += ORDER_THREADS) {
            const int j = j0 + i / dim, c = i % dim;
            y[i] = j < n ? value_at(o.a.k, row_at(o.a.k, s, head, j * step), c, d) - mean[c] : 0.0f;
        }
        __syncthreads();
        for (int j = 0; j < KEYS; j++) {
            const float x = y[j * dim + row];
#pragma unroll
            for (int i = 0; i < MAX_OF_ROW; i++)
                if (i < tiles) acc[i] += x * y[j * dim + i * 16 + t % 16];
        }
    }
    float *C = covariance_of(o, s, is, head), *diag = diagonal_of(o, is, head);
#pragma unroll
    for (int i = 0; i < MAX_OF_ROW; i++) {
        const int col = i * 16 + t % 16;
        if (i < tiles && s.n_q > MRA_QUERY_BLOCK) C[row * dim + col] = acc[i];
        if (i < tiles && col == row) diag[col] = acc[i];
    }
}

// o[c] (shared) = sum over the warps of what each lane has of its channels lane, lane + 32, ...
MRA_DEVICE void add_warps(float * of_warps, const float (&acc)[8], float * dst, int dim) {
    const int lane = threadIdx.x % MRA_WARP, warp = threadIdx.x / MRA_WARP;
    __syncthreads(); // of_warps is not read any more
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (lane + i * MRA_WARP < dim) of_warps[warp * dim + lane + i * MRA_WARP] = acc[i];
    __syncthreads();
    for (int c = threadIdx.x; c < dim; c += ORDER_THREADS) {
        float sum = 0.0f;
        for (int w = 0; w < ORDER_WARPS; w++) sum += of_warps[w * dim + c];
        dst[c] = sum;
    }
}

// Query block x: q_mean and spread; adds its squares to acc. top: see diagonal_top
MRA_DEVICE void block_statistics(const struct order_args & o, const struct order_head & h, const struct sorted_head & s,
    int x, float top, float (&acc)[8]) {
    const int lane = threadIdx.x % MRA_WARP, dim = o.a.order.dim, d = (int) o.a.q.ne[0],
              n = min(MRA_QUERY_BLOCK, h.s.n_q - x * MRA_QUERY_BLOCK);
    const int32_t * idx = s.order + x * MRA_QUERY_BLOCK;
    const float * diag = diagonal_of(o, h.is, h.head_kv);
    float spread = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int c = lane + i * MRA_WARP;
        if (c >= dim) continue;
        float mean = 0.0f, var = 0.0f;
        for (int r = 0; r < n; r++) mean += value_at(o.a.q, row_at(o.a.q, h.s, h.head, idx[r]), c, d);
        mean /= n;
        for (int r = 0; r < n; r++) {
            const float v = value_at(o.a.q, row_at(o.a.q, h.s, h.head, idx[r]), c, d) - mean;
            var += v * v;
        }
        s.q_mean[x * dim + c] = mean;
        acc[i] += var;
        if (top > 0.0f) spread += diag[c] / top * var;
    }
    spread = mra_warp_sum(spread);
    if (lane == 0) s.spread[x] = spread / n;
}

// adds rows [first, end) of x, every ORDER_WARPS-th for each warp
MRA_DEVICE void add_rows(
    const struct mra_tensor & x, const struct order_head & h, int first, int end, float (&acc)[8]) {
    const int lane = threadIdx.x % MRA_WARP, d = (int) x.ne[0];
    for (int j = first + threadIdx.x / MRA_WARP; j < end; j += ORDER_WARPS) {
        const char * row = row_at(x, h.s, h.head_kv, j);
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (lane + i * MRA_WARP < d) acc[i] += value_at(x, row, lane + i * MRA_WARP, d);
    }
}

// A piece of a head: statistics of its query blocks, and sums of (q - q_mean)^2, keys and values.
__global__ void __launch_bounds__(ORDER_THREADS, 2) order_sums(const struct order_args o, int n_piece) {
    MRA_SHARED(float, of_warps, ORDER_WARPS * 256);
    struct order_head h;
    const int x = blockIdx.x % n_piece, first = x * MRA_DEVICE_PIECE;
    if (!order_head_of(o, blockIdx.x / n_piece, h) || first >= max(h.s.n_q, h.s.n_k)) return;
    const struct sorted_head s = sorted_of(o.a, h.s, h.is, h.head);
    const int dim = o.a.order.dim, n_block = mra_div_up(min(h.s.n_q, first + MRA_DEVICE_PIECE), MRA_QUERY_BLOCK);
    const float top = h.s.n_k > 0 ? diagonal_top(diagonal_of(o, h.is, h.head_kv), dim) : 0.0f;
    float * sums = sums_of(o, h, x);
    float q[8] = { 0.0f }, k[8] = { 0.0f }, v[8] = { 0.0f };
    for (int b = first / MRA_QUERY_BLOCK + threadIdx.x / MRA_WARP; b < n_block; b += ORDER_WARPS)
        block_statistics(o, h, s, b, top, q);
    add_warps(of_warps, q, sums, dim);
    add_rows(o.a.k, h, first, min(h.s.n_k, first + MRA_DEVICE_PIECE), k);
    add_warps(of_warps, k, sums + dim, dim);
    add_rows(o.a.v, h, first, min(h.s.n_k, first + MRA_DEVICE_PIECE), v);
    add_warps(of_warps, v, sums + 2 * dim, o.m.dim_v);
}

// A head: q_var, k_mean, v_mean of the pieces' sums; which query blocks use all keys.
__global__ void __launch_bounds__(ORDER_THREADS) order_finish(const struct order_args o) {
    MRA_SHARED(int, bins, SELECT_BINS);
    struct order_head h;
    if (!order_head_of(o, blockIdx.x, h)) return;
    const struct sorted_head s = sorted_of(o.a, h.s, h.is, h.head);
    const int dim = o.a.order.dim, n_sum = 2 * dim + o.m.dim_v,
              n_piece = mra_div_up(max(h.s.n_q, h.s.n_k), MRA_DEVICE_PIECE),
              n_block = mra_div_up(h.s.n_q, MRA_QUERY_BLOCK);
    for (int c = threadIdx.x; c < n_sum; c += ORDER_THREADS) {
        const int n = c < dim ? h.s.n_q : h.s.n_k;
        float sum = 0.0f;
        for (int x = 0; x < n_piece; x++) sum += sums_of(o, h, x)[c];
        float * to = c < dim ? s.q_var + c : c < 2 * dim ? s.k_mean + c - dim : value_mean_of(o, h) + c - 2 * dim;
        *to = n > 0 ? sum / n : 0.0f;
    }
    if (threadIdx.x >= MRA_WARP) return;
    for (int x = threadIdx.x; x < n_block; x += MRA_WARP) s.all_keys[x] = 0;
    __syncwarp();
    warp_topk(
        s.spread, n_block, mra_attn_all_keys(&o.a.node.u.attn, h.s.n_q), bins, [&](int, int x) { s.all_keys[x] = 1; });
}

// Biases of a piece's keys, 8 lanes each.
__global__ void __launch_bounds__(ORDER_THREADS) order_bias(const struct order_args o, int n_piece) {
    struct order_head h;
    const int first = blockIdx.x % n_piece * MRA_DEVICE_PIECE, lane = threadIdx.x % ROW_LANES;
    if (!order_head_of(o, blockIdx.x / n_piece, h) || first >= h.s.n_k) return;
    const struct sorted_head s = sorted_of(o.a, h.s, h.is, h.head);
    const float *v_mean = value_mean_of(o, h), scale = o.a.node.u.attn.scale;
    const int d = (int) o.a.k.ne[0], dv = (int) o.a.v.ne[0], end = min(first + MRA_DEVICE_PIECE, h.s.n_k);
    for (int j0 = first; j0 < end; j0 += ORDER_THREADS / ROW_LANES) {
        const int at = j0 + threadIdx.x / ROW_LANES, j = min(at, end - 1); // all lanes stay together
        const char *k = row_at(o.a.k, h.s, h.head_kv, j), *v = row_at(o.a.v, h.s, h.head_kv, j);
        float k2 = 0.0f, v2 = 0.0f;
        for (int c = lane; c < d; c += ROW_LANES) {
            const float x = value_at(o.a.k, k, c, d) - s.k_mean[c];
            k2 += s.q_var[c] * (x * x);
        }
        for (int c = lane; c < dv; c += ROW_LANES) {
            const float x = value_at(o.a.v, v, c, dv) - v_mean[c];
            v2 += x * x;
        }
        k2 = scale * scale * mra_warp_sum<ROW_LANES>(k2) + 1e-9f;
        v2 = mra_warp_sum<ROW_LANES>(v2) + 1e-18f;
        const float bias = 0.5f * (logf(k2 > FLT_MAX ? FLT_MAX : k2) + logf(v2 > FLT_MAX ? FLT_MAX : v2)) / scale;
        if (lane == 0 && at < end) s.key_bias[j] = bias == bias ? bias : 0.0f;
    }
}

static bool is_kv(const struct mra_tensor * x) { return x->type == MRA_TENSOR_F32 || x->type == MRA_TENSOR_F16; }

bool mra_cuda_supports_query_order(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    return n_src == mra_source_count(p) && dst->type == MRA_TENSOR_I32 && src[0].type == MRA_TENSOR_F32 &&
        is_kv(&src[1]) && is_kv(&src[2]) &&
        mra_device_dim((int) src[1].ne[0], (int) src[2].ne[0]) <= MRA_DEVICE_COLUMNS_DIM;
}

int mra_cuda_query_order(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    struct order_args o;
    const struct mra_tensor * lengths = mra_tensor_source(p, MRA_SRC_LENGTHS, src);
    const bool starts = p->flags & MRA_FLAG_STARTS;
    memset(&o, 0, sizeof(o));
    o.a.q = src[0];
    o.a.k = src[1];
    o.a.v = src[2];
    if (lengths) o.a.lengths = *lengths;
    o.a.node = *p;
    o.a.columns = true;
    o.a.n_seq = (int) (starts ? lengths->ne[0] - 1 : src[1].ne[3]);
    o.a.order = mra_order_layout_of(
        (int) src[0].ne[0], src[0].ne[1], src[1].ne[1], src[0].ne[2], src[0].ne[3], o.a.n_seq);
    o.a.sorted = (int32_t *) dst.data;
    o.m = mra_device_order_of(&o.a.order, &p->u.attn, starts, (int) src[2].ne[0], src[0].ne[1], src[1].ne[1],
        src[0].ne[2], src[1].ne[2], src[1].ne[3], o.a.n_seq);
    if (o.m.words > dst.ne[0]) return MRA_CUDA_UNSUPPORTED;

    const int64_t n_q = starts ? p->u.attn.max_len : src[0].ne[1], n_k = starts ? n_q : src[1].ne[1],
                  n_head = src[0].ne[2] * o.a.n_seq,
                  n_piece = mra_div_up((int) (n_q > n_k ? n_q : n_k), MRA_DEVICE_PIECE),
                  n_cov = o.a.order.dim / 16 * src[1].ne[2] * o.a.n_seq;
    if (n_head * n_piece > INT32_MAX || n_head * (n_q / MRA_QUERY_BLOCK + 1) * 2 > INT32_MAX || n_cov > INT32_MAX)
        return MRA_CUDA_UNSUPPORTED;
    if (n_head * n_piece == 0) return MRA_CUDA_OK; // no tokens at all
    const dim3 threads(ORDER_THREADS), pieces((unsigned) (n_head * n_piece));
    int rc = MRA_LAUNCH(order_covariance, dim3((unsigned) n_cov), threads, 0, stream, o);
    if (rc == MRA_CUDA_OK && !(p->flags & MRA_FLAG_GIVEN)) {
        rc = MRA_LAUNCH(order_start, pieces, threads, 0, stream, o, (int) n_piece);
        if (rc == MRA_CUDA_OK) rc = mra_cuda_order_tree(o, (int) n_q, stream);
    }
    if (rc == MRA_CUDA_OK) rc = MRA_LAUNCH(order_sums, pieces, threads, 0, stream, o, (int) n_piece);
    if (rc == MRA_CUDA_OK) rc = MRA_LAUNCH(order_finish, dim3((unsigned) n_head), threads, 0, stream, o);
    if (rc == MRA_CUDA_OK) rc = MRA_LAUNCH(order_bias, pieces, threads, 0, stream, o, (int) n_piece);
    return rc;
}
