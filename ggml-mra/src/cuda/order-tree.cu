// One level of the tree of query_order: a thread block has one node of m > 16 queries. It finds the direction z = C
// Y'Y C_c of sampled rows Y, projects all rows on it, and moves those with the ceil(m/32)*16 smallest projections to
// the front, both parts in their old order.
#include "order.cuh"

enum { SAMPLE = 2 * MRA_SORTED_ROWS }; // most rows that a stride leaves

// rows [first, first + m) of a head's order
struct tree_node {
    int first, m;
};
MRA_DEVICE int tree_cut(int m) { return mra_div_up(m, 2 * MRA_QUERY_BLOCK) * MRA_QUERY_BLOCK; }
// Node number `path` of a level of the tree over n rows; m <= 16: there is nothing to split.
MRA_DEVICE struct tree_node tree_node_of(int n, int level, int path) {
    struct tree_node r = { 0, n };
    for (int i = level - 1; i >= 0 && r.m > 0; i--) {
        const int cut = r.m > MRA_QUERY_BLOCK ? tree_cut(r.m) : r.m; // a leaf is the left one of its children
        r.first += path >> i & 1 ? cut : 0;
        r.m = path >> i & 1 ? r.m - cut : cut;
    }
    return r;
}

// Shared memory of a node; dim floats each where nothing else is said.
struct direction {
    float * y; // [SAMPLE][dim] sampled rows minus their mean
    float *size, *g, *z;
    float * weight; // [SAMPLE]
    float * teams;  // [ORDER_THREADS]
};
static inline size_t direction_bytes(int dim) {
    return (SAMPLE * dim + 3 * dim + SAMPLE + ORDER_THREADS) * sizeof(float);
}
MRA_DEVICE struct direction direction_at(float * shared, int dim) {
    struct direction r;
    r.y = shared;
    r.size = r.y + SAMPLE * dim;
    r.g = r.size + dim;
    r.z = r.g + dim;
    r.weight = r.z + dim;
    r.teams = r.weight + SAMPLE;
    return r;
}

// largest absolute value of x[n]; 0: that is nothing to divide by, or not finite. The same in all lanes of all warps
MRA_DEVICE float largest(const float * x, int n) {
    float top = 0.0f;
    bool finite = true;
    for (int i = threadIdx.x % MRA_WARP; i < n; i += MRA_WARP) {
        const float v = fabsf(x[i]);
        finite = finite && v <= FLT_MAX;
        top = fmaxf(top, v);
    }
    top = mra_warp_max(top);
    return __all_sync(MRA_ALL_LANES, finite) ? top : 0.0f;
}

// position of the largest of x[n], of equal ones the first; NaN is passed over. The same in all lanes of all warps
MRA_DEVICE int position_of_largest(const float * x, int n) {
    float best = 0.0f;
    int at = 0;
    for (int i = threadIdx.x % MRA_WARP; i < n; i += MRA_WARP)
        if (x[i] > best) {
            best = x[i];
            at = i;
        }
    const float top = mra_warp_max(best);
    at = best == top ? at : n;
    for (int o = MRA_WARP / 2; o > 0; o /= 2) at = min(at, __shfl_xor_sync(MRA_ALL_LANES, at, o));
    return at;
}

// Loads and centres the sampled rows; size[c] = C_cc sum_i y_ic^2. Returns how many rows.
MRA_DEVICE int sample_rows(const struct order_args & o, const struct order_head & h, const int32_t * idx, int m,
    const struct direction & r, const float * diag, float top) {
    const int dim = o.a.order.dim, d = (int) o.a.q.ne[0], step = order_stride(m, MRA_SORTED_ROWS),
              n = mra_div_up(m - step / 2, step);
    for (int i = threadIdx.x; i < n * dim; i += ORDER_THREADS)
        r.y[i] = value_at(o.a.q, row_at(o.a.q, h.s, h.head, idx[step / 2 + i / dim * step]), i % dim, d);
    __syncthreads();
    for (int c = threadIdx.x; c < dim; c += ORDER_THREADS) {
        float mean = 0.0f, sum = 0.0f;
        for (int i = 0; i < n; i++) mean += r.y[i * dim + c];
        mean /= n;
        for (int i = 0; i < n; i++) {
            const float v = r.y[i * dim + c] - mean;
            r.y[i * dim + c] = v;
            sum += v * v;
        }
        r.size[c] = sum * (diag[c] / top);
    }
    __syncthreads();
    return n;
}

// r.z = C Y'Y C_c; false: there is none. Divisions by the largest element keep the powers of q and k in range.
MRA_DEVICE bool find_direction(
    const struct order_args & o, const struct order_head & h, const int32_t * idx, int m, const struct direction & r) {
    const int dim = o.a.order.dim, t = threadIdx.x, lane = t % MRA_WARP;
    const float *C = covariance_of(o, h.s, h.is, h.head_kv), *diag = diagonal_of(o, h.is, h.head_kv);
    const float top = diagonal_top(diag, dim);
    if (!(top > 0.0f)) return false;
    const int n = sample_rows(o, h, idx, m, r, diag, top), c0 = position_of_largest(r.size, dim);
    for (int i = t / MRA_WARP; i < n; i += ORDER_WARPS) {
        float sum = 0.0f;
        for (int c = lane; c < dim; c += MRA_WARP) sum += r.y[i * dim + c] * (C[c0 * dim + c] / top);
        sum = mra_warp_sum(sum);
        if (lane == 0) r.weight[i] = sum;
    }
    __syncthreads();
    const float w = largest(r.weight, n);
    if (!(w > 0.0f)) return false;
    for (int c = t; c < dim; c += ORDER_THREADS) {
        float sum = 0.0f;
        for (int i = 0; i < n; i++) sum += r.weight[i] / w * r.y[i * dim + c];
        r.g[c] = sum;
    }
    __syncthreads();
    const float g = largest(r.g, dim);
    if (!(g > 0.0f)) return false;
    const int n_team = ORDER_THREADS / dim, team = t / dim, c = t % dim;
    float sum = 0.0f;
    for (int b = team; b < dim && team < n_team; b += n_team) sum += C[b * dim + c] / top * (r.g[b] / g);
    r.teams[t] = sum;
    __syncthreads();
    if (t < dim) {
        for (int i = 1; i < n_team; i++) sum += r.teams[i * dim + t];
        r.z[t] = sum;
    }
    __syncthreads();
    const float z = largest(r.z, dim);
    if (!(z > 0.0f)) return false;
    __syncthreads(); // before it changes
    if (t < dim) r.z[t] /= z;
    __syncthreads();
    return true;
}

// keys[i] = a number that is the larger the smaller row idx[i].z is; the smallest where that is NaN. spare[i] = idx[i]
MRA_DEVICE void project(const struct order_args & o, const struct order_head & h, const int32_t * idx, int m,
    const float * z, uint32_t * keys, int32_t * spare) {
    enum { AT_ONCE = ORDER_THREADS / ROW_LANES };
    const int lane = threadIdx.x % ROW_LANES, d = (int) o.a.q.ne[0];
    for (int i0 = 0; i0 < m; i0 += AT_ONCE) {
        const int i = i0 + threadIdx.x / ROW_LANES, row = idx[min(i, m - 1)];
        const float * q = (const float *) row_at(o.a.q, h.s, h.head, row);
        float sum = 0.0f;
#pragma unroll 4
        for (int c = lane; c < d; c += ROW_LANES) sum += q[c] * z[c];
        sum = -mra_warp_sum<ROW_LANES>(sum);
        if (lane != 0 || i >= m) continue;
        keys[i] = select_key(sum >= -FLT_MAX ? fminf(sum, FLT_MAX) : -FLT_MAX);
        spare[i] = row;
    }
    __syncthreads();
}

// The *m-th largest of keys[n]; *m becomes how many of those equal to it are wanted.
MRA_DEVICE uint32_t threshold_of(const uint32_t * keys, int n, int * m, int * bins) {
    uint32_t found = 0;
    static_assert((int) ORDER_THREADS == (int) SELECT_BINS, "a thread has a bin");
    for (int shift = 24; shift >= 0; shift -= 8) {
        bins[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += ORDER_THREADS)
            if (shift == 24 || keys[i] >> (shift + 8) == found)
                atomicAdd(&bins[keys[i] >> shift & (SELECT_BINS - 1)], 1);
        __syncthreads();
        found = found << 8 | (uint32_t) select_bin(bins, m);
        __syncthreads(); // every warp has looked
    }
    return found;
}

// idx = rows of spare whose key is above the threshold, and the first n_equal at it; then the others. counts: shared
MRA_DEVICE void part_rows(int32_t * idx, const int32_t * spare, const uint32_t * keys, int m, int cut,
    uint32_t threshold, int n_equal, int2 * counts) {
    const int lane = threadIdx.x % MRA_WARP, warp = threadIdx.x / MRA_WARP,
              each = mra_div_up(m, ORDER_THREADS) * MRA_WARP, first = warp * each, end = min(first + each, m);
    int above = 0, equal = 0;
    for (int i = first + lane; i < end; i += MRA_WARP) {
        above += keys[i] > threshold;
        equal += keys[i] == threshold;
    }
    above = mra_warp_sum(above);
    equal = mra_warp_sum(equal);
    if (lane == 0) counts[warp] = make_int2(above, equal);
    __syncthreads();
    int n_left = 0, n_seen = 0; // rows before this warp's: that go left, that are at the threshold
    for (int w = 0; w < warp; w++) {
        n_left += counts[w].x;
        n_seen += counts[w].y;
    }
    n_left += min(n_seen, n_equal);
    const uint32_t below = (1u << lane) - 1;
    for (int i0 = first; i0 < end; i0 += MRA_WARP) {
        const int i = i0 + lane;
        const bool in = i < end, at = in && keys[i] == threshold;
        const uint32_t ats = __ballot_sync(MRA_ALL_LANES, at);
        const bool left = in && (keys[i] > threshold || (at && n_seen + __popc(ats & below) < n_equal));
        const uint32_t lefts = __ballot_sync(MRA_ALL_LANES, left);
        const int to = n_left + __popc(lefts & below); // rows before this one that go left
        if (in) idx[left ? to : cut + i - to] = spare[i];
        n_left += __popc(lefts);
        n_seen += __popc(ats);
    }
}

__global__ void __launch_bounds__(ORDER_THREADS, 2) order_split(const struct order_args o, int level) {
    MRA_DYN_SHARED(float, shared);
    MRA_SHARED(int, bins, SELECT_BINS);
    MRA_SHARED(int2, counts, ORDER_WARPS);
    struct order_head h;
    if (!order_head_of(o, blockIdx.x >> level, h) || h.s.n_k == 0) return;
    const struct tree_node node = tree_node_of(h.s.n_q, level, blockIdx.x & ((1 << level) - 1));
    if (node.m <= MRA_QUERY_BLOCK) return;
    const int64_t at = ((int64_t) h.s.batch * o.a.q.ne[2] + h.head) * o.a.q.ne[1] + h.s.first + node.first;
    int32_t *idx = sorted_of(o.a, h.s, h.is, h.head).order + node.first, *spare = o.a.sorted + o.m.spare + at;
    uint32_t * keys = (uint32_t *) o.a.sorted + o.m.keys + at;
    const struct direction r = direction_at(shared, o.a.order.dim);
    if (!find_direction(o, h, idx, node.m, r)) return; // all threads: they found the same
    project(o, h, idx, node.m, r.z, keys, spare);
    const int cut = tree_cut(node.m);
    int n_equal = cut;
    const uint32_t threshold = threshold_of(keys, node.m, &n_equal, bins);
    part_rows(idx, spare, keys, node.m, cut, threshold, n_equal, counts);
}

int mra_cuda_order_tree(const struct order_args & o, int n_q, void * stream) {
    for (int level = 0; ((int64_t) MRA_QUERY_BLOCK << level) < n_q; level++) {
        const int64_t n = (o.a.q.ne[2] * o.a.n_seq) << level;
        const int rc = MRA_LAUNCH(
            order_split, dim3((unsigned) n), dim3(ORDER_THREADS), direction_bytes(o.a.order.dim), stream, o, level);
        if (rc != MRA_CUDA_OK) return rc;
    }
    return MRA_CUDA_OK;
}
