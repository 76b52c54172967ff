// Columns frame {16 x g, 16 x 1, 1 x 1} of one query block, q~ its mean query:
//   out_i = [ sum_kept e^{q_i.k_j} v_j + sum_{expanded, not kept} e^{q~.k_j} v_j + sum_{not expanded} c_y e^{q~.k~_y}
//   v~_y ] / (same, v = 1)
// Sorted frame: query blocks of alike queries, keys minus their mean, choice by score + bias (see kernels.h).
// A thread block has 16 neighbouring query blocks of a head. Their mean queries are the rows of tensor-core products
// with all keys, of which its warps take turns, and what is not kept becomes a product with V; then each warp has some
// of the query blocks to itself, with the keys they keep.
#include "cuda.h"
#include "columns-scores.cuh"
#include "softmax-state.cuh"

// ---- choices ----

MRA_DEVICE uint32_t there(int n, int step) { // the columns of a step, of n
    const int rest = n - step * STEP;
    return rest >= STEP ? ~0u : (1u << rest) - 1;
}
// keys of a step that are expanded for a row
MRA_DEVICE uint32_t expanded_keys(const struct group & b, int r, int step) {
    const uint32_t all = there(b.s.n_k, step);
    if (b.s.plan.m1 >= b.n_b) return all;
    const int second = 5 - b.log_g, y = step << second; // block of the second half, from that of the first
    const uint32_t w = b.taken[b.expanded + y / STEP * ROWS + r] >> y % STEP;
    return all & ((w & 1) * 0xffffu | (w >> second & 1) * 0xffff0000u);
}

// bits of the key blocks that are expanded
template <int D, bool SORTED> MRA_DEVICE void expand(const struct attn_args & a, const struct group & b) {
    const int warp = warp_of<D>(), n_warp = mra_device_warps(D), lane = threadIdx.x % MRA_WARP;
    if (b.s.plan.m1 >= b.n_b) return;
    if (threadIdx.x < ROWS) b.choose.c->left[threadIdx.x] = (int) threadIdx.x < b.n ? b.s.plan.m1 : 0;
    const auto source = [&](float(&s)[4][4], int step) { block_choices<D, SORTED>(s, a, b, step); };
    find_thresholds(b.choose, b.n_b, source, [&](int, int step) { return there(b.n_b, step); });
    const struct row_choice row[2] = { row_choice_of(*b.choose.c, row_of_lane(0)),
        row_choice_of(*b.choose.c, row_of_lane(1)) };
    for (int i = warp; i < mra_div_up(b.n_b, STEP); i += n_warp) {
        float s[4][4];
        source(s, i);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const struct taken k = classify(*b.choose.c, row[half], half, s, there(b.n_b, i), i * STEP);
            const uint32_t above = join_columns(k.above);
            if (lane % 4 == 0) b.taken[b.expanded + i * ROWS + row_of_lane(half)] = above;
            put_aside(b.choose, half, s, k.open, i * STEP);
        }
    }
    __syncthreads();
    for (int r = warp; r < ROWS; r += n_warp) rank_row(b.choose, r, b.taken + b.expanded);
    __syncthreads();
}

// the tile of V rows of a step, by one warp: those from `first` on; behind the last of n that one again
template <int D> MRA_DEVICE void load_values(half * tile, const char * v, uint32_t nb, int dv, int first, int n) {
    enum { PIECES = D / 8, LD = tile_row<D>::LD };
    const int lane = threadIdx.x % MRA_WARP;
#pragma unroll(D <= 64 ? STEP * PIECES / MRA_WARP : D <= 96 ? 4 : 1) // below sm_80 copies pass through registers
    for (int t = 0; t < STEP * PIECES / MRA_WARP; t++) {
        const int i = t * MRA_WARP + lane, r = i / PIECES, c = i % PIECES * 8;
        mra_copy16(tile + r * LD + c, at_channel(v, c, dv) + (uint64_t) (uint32_t) min(first + r, n - 1) * nb,
            bytes_of(c, dv));
    }
    mra_copy_commit();
}

// scores of the columns in `on` of both rows; -inf for the others
MRA_DEVICE void only(float (&s)[4][4], const uint32_t (&on)[2]) {
    const int shift = threadIdx.x % 4 * 2;
    const uint32_t mine[2] = { on[0] >> shift, on[1] >> shift };
#pragma unroll
    for (int t = 0; t < 4; t++) {
#pragma unroll
        for (int e = 0; e < 4; e++) s[t][e] = mine[e / 2] >> (t * 8 + e % 2) & 1 ? s[t][e] : -INFINITY;
    }
}

// Channels of V that a coarse state has at a time: of more, registers hold no state beside the scores. In that case one
// warp goes through the keys once for each part.
template <int D> struct coarse_part {
    enum { DV = D > 128 ? 128 : D, N = D / DV };
    static_assert(N == 1 || mra_device_warps(D) == 1, "the first part waits where only one warp has its tile");
};
template <int D> using coarse_state = softmax_state<coarse_part<D>::DV>;

// Bits of the keys that are kept, but for those put aside; expanded keys that are not go into st, channels of V from c0
// on.
template <int D, bool SORTED>
MRA_DEVICE void take_keys(
    const struct attn_args & a, const struct group & b, coarse_state<D> & st, half * tile, int c0) {
    const int warp = warp_of<D>(), n_warp = mra_device_warps(D), lane = threadIdx.x % MRA_WARP, dv = (int) a.v.ne[0];
    const bool with_coarse = !(a.node.flags & MRA_FLAG_FINEST_ONLY);
    for (int i = warp; i < mra_div_up(b.s.n_k, STEP); i += n_warp) {
        uint32_t on[2] = { expanded_keys(b, row_of_lane(0), i), expanded_keys(b, row_of_lane(1), i) };
        const bool any = __any_sync(MRA_ALL_LANES, on[0] | on[1]);
        float s[4][4];
        if (any) {
            if (with_coarse)
                load_values<coarse_part<D>::DV>(tile, at_channel(b.v, c0, dv), a.vh.token, dv - c0, i * STEP, b.s.n_k);
            key_scores<D>(s, a, b, i);
        } else clear_scores(s);
        float by[4][4];
#pragma unroll
        for (int t = 0; t < 4; t++) {
#pragma unroll
            for (int e = 0; e < 4; e++) by[t][e] = s[t][e];
        }
        if (any) add_bias<SORTED>(by, b, i);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const struct row_choice row = row_choice_of(*b.choose.c, row_of_lane(half));
            const struct taken k = classify(*b.choose.c, row, half, by, on[half], i * STEP);
            const uint32_t above = join_columns(k.above);
            if (lane % 4 == 0) b.taken[i * ROWS + row_of_lane(half)] = above;
            if (k.open && c0 == 0) put_aside(b.choose, half, by, k.open, i * STEP);
            on[half] &= ~(k.above | k.open);
        }
        if (!any || !with_coarse) continue;
        only(s, on);
        mra_copy_wait<0>();
        __syncwarp();
        state_add<coarse_part<D>::DV, STEP>(st, s, tile, a.scale);
        __syncwarp(); // before the next values overwrite these
    }
}

// the means of key blocks that are not expanded go into st
template <int D>
MRA_DEVICE void add_blocks(
    const struct attn_args & a, const struct group & b, coarse_state<D> & st, half * tile, int c0) {
    const int warp = warp_of<D>(), n_warp = mra_device_warps(D), dv = (int) a.v.ne[0];
    const char * v = at_channel(a.mem + a.pack.v_mean + block_of(a, b) * dv * sizeof(half), c0, dv);
    const float log_last = mra_log2((float) (b.s.n_k - ((b.n_b - 1) << b.log_g)));
    if (b.s.plan.m1 >= b.n_b) return;
    for (int i = warp; i < mra_div_up(b.n_b, STEP); i += n_warp) {
        load_values<coarse_part<D>::DV>(tile, v, dv * sizeof(half), dv - c0, i * STEP, b.n_b);
        float s[4][4];
        block_scores<D, POOLED>(s, a, b, i);
        uint32_t on[2];
#pragma unroll
        for (int half = 0; half < 2; half++)
            on[half] = there(b.n_b, i) & ~b.taken[b.expanded + i * ROWS + row_of_lane(half)];
        only(s, on);
        mra_copy_wait<0>();
        __syncwarp();
#pragma unroll
        for (int t = 0; t < 4; t++) {
#pragma unroll
            for (int e = 0; e < 4; e++) { // a block's weight counts once per key
                const bool last = i * STEP + column_of_lane(t, e % 2) == b.n_b - 1;
                s[t][e] = s[t][e] * a.scale + (last ? log_last : (float) b.log_g);
            }
        }
        state_add<coarse_part<D>::DV, STEP>(st, s, tile, 1.0f);
        __syncwarp();
    }
}

// The states of all warps, channels of V from c0 on -> out [ROWS][ld], and with the last channels, when choices are
// made, b.choose.c->max and sum.
template <int D>
MRA_DEVICE void join_states(const struct group & b, coarse_state<D> & st, int c0, float * part, float * out, int ld) {
    const int warp = warp_of<D>(), n_warp = mra_device_warps(D), lane = threadIdx.x % MRA_WARP;
    const bool last = c0 + coarse_part<D>::DV >= D;
    struct choice & c = *b.choose.c;
#pragma unroll
    for (int half = 0; half < 2; half++)
        if (lane % 4 == 0) part[warp * ROWS + row_of_lane(half)] = st.max[half];
    __syncthreads();
    float f[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = -INFINITY;
        for (int w = 0; w < n_warp; w++) top = fmaxf(top, part[w * ROWS + row_of_lane(half)]);
        f[half] = top > -INFINITY ? mra_exp2(st.max[half] - top) : 0.0f;
        st.sum[half] = mra_warp_sum<4>(st.sum[half]) * f[half];
        if (last && warp == 0 && lane % 4 == 0) c.max[row_of_lane(half)] = top;
    }
    for (int w = 0; w < n_warp; w++) {
        if (w == warp) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = row_of_lane(half);
#pragma unroll
                for (int i = 0; i < coarse_part<D>::DV / 8; i++) {
                    float2 * at = (float2 *) (out + r * ld + i * 8 + lane % 4 * 2);
                    const float2 o = w ? *at : make_float2(0.0f, 0.0f);
                    *at = make_float2(o.x + st.o[i][2 * half] * f[half], o.y + st.o[i][2 * half + 1] * f[half]);
                }
                if (last && lane % 4 == 0) c.sum[r] = (w ? c.sum[r] : 0.0f) + st.sum[half];
            }
        }
        __syncthreads();
    }
}

// Ranks what was put aside of a row, and adds to its coarse state what is not kept of it. By one warp.
template <int D, bool SORTED> MRA_DEVICE void finish_row(const struct attn_args & a, const struct group & b, int r) {
    const int lane = threadIdx.x % MRA_WARP, dv = (int) a.v.ne[0], n = b.choose.c->n_open[r],
              left = b.choose.c->left[r];
    rank_row(b.choose, r, b.taken);
    if (left >= n || (a.node.flags & MRA_FLAG_FINEST_ONLY)) return;
    const struct open_column * open = b.choose.open + r * OPEN;
    const auto score = [&](int i) {
        const int j = open[i].column;
        return (open[i].score - (SORTED ? b.sorted.key_bias[j] : 0.0f)) * a.scale;
    };
    float top = b.choose.c->max[r];
    for (int i = left; i < n; i++) top = fmaxf(top, score(i));
    const float base = top > -INFINITY ? top : 0.0f, corr = mra_exp2(b.choose.c->max[r] - base);
    float sum = b.choose.c->sum[r] * corr;
    for (int i = left; i < n; i++) sum += mra_exp2(score(i) - base);
    for (int c = lane; c < dv; c += MRA_WARP) {
        float o = b.coarse[r * D + c] * corr;
        for (int i = left; i < n; i++)
            o += mra_exp2(score(i) - base) *
                __half2float(((const half *) (b.v + (uint64_t) (uint32_t) open[i].column * a.vh.token))[c]);
        b.coarse[r * D + c] = o;
    }
    __syncwarp(); // all lanes have read what lane 0 writes
    if (lane > 0) return;
    b.choose.c->max[r] = top;
    b.choose.c->sum[r] = sum;
}

// chooses key blocks and keys of all rows, and leaves what is not kept as coarse states
template <int D, bool SORTED> MRA_DEVICE void choose_keys(const struct attn_args & a, const struct group & b) {
    const int warp = warp_of<D>(), n_warp = mra_device_warps(D);
    half * tile = (half *) (b.tiles + mra_device_bins_bytes() + warp * mra_device_step_bytes(D));
    mean_queries<D, SORTED>(a, b);
    __syncthreads();
    expand<D, SORTED>(a, b);
    if (threadIdx.x < ROWS) {
        const int r = (int) threadIdx.x;
        b.choose.c->left[r] = r < b.n && !uses_all<SORTED>(b, r) ? b.s.plan.m2 : 0;
    }
    find_thresholds(
        b.choose, b.s.n_k,
        [&](float(&s)[4][4], int step) {
            key_scores<D>(s, a, b, step);
            add_bias<SORTED>(s, b, step);
        },
        [&](int r, int step) { return expanded_keys(b, r, step); });
    constexpr int DV = coarse_part<D>::DV;
    static_assert(coarse_part<D>::N == 1 ||
            STEP * tile_row<DV>::LD * sizeof(half) + ROWS * DV * sizeof(float) <= mra_device_step_bytes(D),
        "a part waits behind the tile of the next");
    const bool with_coarse = !(a.node.flags & MRA_FLAG_FINEST_ONLY);
    float *scratch = (float *) (b.tiles + mra_device_bins_bytes()), // behind it room for a part that waits
        *waits = scratch + STEP * tile_row<DV>::LD / 2;
    for (int c0 = 0; c0 < (with_coarse ? D : DV); c0 += DV) {
        coarse_state<D> st;
        state_start<DV>(st, b.coarse, 0, -INFINITY, 0.0f);
        take_keys<D, SORTED>(a, b, st, tile, c0);
        if (with_coarse) add_blocks<D>(a, b, st, tile, c0);
        __syncthreads(); // the last time: nobody needs mean queries any more
        const bool last = c0 + DV >= D;
        join_states<D>(b, st, c0, scratch, last ? b.coarse + c0 : waits, last ? D : DV);
    }
    for (int i = threadIdx.x; coarse_part<D>::N > 1 && i < ROWS * DV; i += MRA_WARP)
        b.coarse[i / DV * D + i % DV] = waits[i];
    __syncthreads();
    for (int r = warp; r < ROWS; r += n_warp) finish_row<D, SORTED>(a, b, r);
    __syncthreads();
}

// ---- what is kept ----

// the keys that row r keeps, in ascending order -> b.kept; returns how many
MRA_DEVICE int list_keys(const struct group & b, int r) {
    const int lane = threadIdx.x % MRA_WARP, n_step = mra_div_up(b.s.n_k, STEP);
    int n = 0;
    for (int i0 = 0; i0 < n_step; i0 += MRA_WARP) {
        uint32_t w = i0 + lane < n_step ? b.taken[(i0 + lane) * ROWS + r] : 0;
        const int mine = __popc(w);
        int * to = b.kept + n + mra_warp_prefix(mine);
        n += mra_warp_sum(mine);
        for (; w; w &= w - 1) *to++ = (i0 + lane) * STEP + __clz((int) __brev(w)); // the lowest bit
    }
    __syncwarp();
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
    char * mine = b.tiles + warp_of<D>() * mra_device_tile_bytes(D);
    kv_tile<D, N> * tiles = (kv_tile<D, N> *) mine;
    const bool all = uses_all<SORTED>(b, r);
    const int lane = threadIdx.x % MRA_WARP, d = (int) a.k.ne[0], dv = (int) a.v.ne[0], x = b.x0 + r, i = x * H,
              n_kept = all ? b.s.n_k : list_keys(b, r), n_tile = mra_div_up(n_kept, N);
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
    const int dv = (int) a.v.ne[0], first = (b.x0 + b.n) * H, end = min((b.x0 + ROWS) * H, b.s.n_rows);
    for (int i = first + threadIdx.x / MRA_WARP; i < end; i += blockDim.x / MRA_WARP) {
        for (int c = threadIdx.x % MRA_WARP; c < dv; c += MRA_WARP) out_row(a, b.s, b.head, i)[c] = 0.0f;
    }
}

// where a thread block has its memory; lists: of this thread block, in global memory
template <int D> MRA_DEVICE void place(struct group & b, const struct attn_args & a, char * shared, char * lists) {
    const int warp = warp_of<D>(), n_warp = mra_device_warps(D);
    const struct mra_device_lists l = mra_device_lists_of(b.s.n_k, b.s.plan.g, b.s.plan.m2);
    b.means = (uint4 *) shared;
    b.coarse = (float *) shared;
    b.choose.c = (struct choice *) (shared + mra_device_means_bytes(D));
    b.tiles = shared + mra_device_means_bytes(D) + MRA_DEVICE_CHOICE;
    b.choose.bins = (int *) b.tiles;
    b.choose.open = (struct open_column *) b.tiles;
    b.taken = a.pack.list_shared ? (uint32_t *) (b.tiles + mra_device_work_bytes(D))
                                 : (uint32_t *) lists + n_warp * l.kept;
    b.expanded = l.taken;
    b.kept = (int *) lists + warp * l.kept;
}

// thread blocks that a multiprocessor holds at least: sets how many registers there are
constexpr int columns_blocks(int dim) { return dim > 128 ? 1 : 2; }

// 16 query blocks: item `first_item` + number of the thread block of all
template <int D, bool SORTED>
__global__ void __launch_bounds__(mra_device_warps(D) * MRA_WARP, columns_blocks(D))
    columns(const struct attn_args a, int n_x, int64_t first_item) {
    MRA_DYN_SHARED(char, shared);
    const int n_head = (int) a.q.ne[2];
    const int64_t item = first_item + blockIdx.x;
    struct group b;
    b.is = (int) (item / n_x / n_head);
    b.x0 = (int) (item % n_x) * ROWS;
    b.head = (int) (item / n_x % n_head);
    b.head_kv = b.head / (n_head / (int) a.k.ne[2]);
    b.s = sequence_of(a, b.is);
    if (b.s.exact || b.x0 * H >= b.s.n_rows) return; // all threads
    b.n = min(max(mra_div_up(b.s.n_q, H) - b.x0, 0), (int) ROWS);
    b.n_b = mra_div_up(b.s.n_k, b.s.plan.g);
    b.log_g = b.s.plan.g == 32 ? 5 : 4;
    place<D>(b, a, shared, a.mem + a.pack.lists + blockIdx.x * a.pack.list_bytes);
    b.k = row_at(a.kh, b.s, b.head_kv, 0);
    b.v = row_at(a.vh, b.s, b.head_kv, 0);
    if (SORTED) b.sorted = sorted_of(a, b.s, b.is, b.head);
    if (b.n > 0) choose_keys<D, SORTED>(a, b);
    for (int r = warp_of<D>(); r < b.n; r += mra_device_warps(D)) fine<D, SORTED>(a, b, r);
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
        const int64_t n_x = mra_div_up(max_len, H * ROWS), n_item = n_x * a.q.ne[2] * a.n_seq;
        const size_t shared = mra_device_block_bytes(D) + a.pack.list_shared;
        int rc = MRA_CUDA_OK;
        for (int64_t first = 0; first < n_item && rc == MRA_CUDA_OK; first += a.pack.n_list) {
            const dim3 grid((unsigned) (n_item - first < a.pack.n_list ? n_item - first : a.pack.n_list)),
                threads(mra_device_warps(D) * MRA_WARP);
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
