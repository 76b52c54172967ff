// What the query blocks of a thread block of the columns kernel keep: first key blocks are chosen, then keys; what is
// not kept becomes coarse states, one for each query block. Keys come in steps of 32: the warps take turns, or pairs of
// warps where they share tiles of K and V, each with 16 of the 32 query blocks.
#pragma once

#include "columns-scores.cuh"
#include "softmax-state.cuh"

MRA_DEVICE uint32_t there(int n, int step) { // the columns of a step, of n
    const int rest = n - step * STEP;
    return rest >= STEP ? ~0u : rest > 0 ? (1u << rest) - 1 : 0u;
}
// keys of a step that are expanded for a row
MRA_DEVICE uint32_t expanded_keys(const struct group & b, int r, int step) {
    const uint32_t all = there(b.s.n_k, step);
    if (b.s.plan.m1 >= b.n_b) return all;
    const int second = 5 - b.log_g, y = step << second; // block of the second half, from that of the first
    const uint32_t w = b.taken[b.expanded + y / STEP * b.choose.n_row + r] >> y % STEP;
    return all & ((w & 1) * 0xffffu | (w >> second & 1) * 0xffff0000u);
}
// The next turn from `turn` on, of n, in which some row expands a key of some warp's step.
MRA_DEVICE int next_turn(const struct group & b, int turn, int n) {
    const int second = 5 - b.log_g, n_block = b.choose.n_turn << second; // key blocks of a turn: a part of a word
    const uint32_t all = (1u << n_block) - 1;
    for (; b.s.plan.m1 < b.n_b && turn < n; turn++) {
        const int y = turn * n_block;
        const uint32_t w = b.taken[b.expanded + y / STEP * ROWS + threadIdx.x % MRA_WARP] >> y % STEP;
        if (__any_sync(MRA_ALL_LANES, w & all)) break;
    }
    return turn;
}
// the scores of a step that keys are chosen by -> f(scores, step, columns in question), where a row of this warp has
// any
template <int D, bool SORTED, class F>
MRA_DEVICE void each_key_step(const struct attn_args & a, const struct group & b, half * tiles, const F & f) {
    const int n_step = mra_div_up(b.s.n_k, STEP), n_turn = mra_div_up(n_step, b.choose.n_turn);
    const auto of_step = [&](int step, const half * tile) {
        const uint32_t on[2] = { expanded_keys(b, row_of_lane(b.choose, 0), step),
            expanded_keys(b, row_of_lane(b.choose, 1), step) };
        if (!__any_sync(MRA_ALL_LANES, on[0] | on[1])) return;
        float s[4][4];
        if (tile) tile_key_scores<D>(s, a, b, tile);
        else key_scores<D>(s, a, b, step);
        add_bias<SORTED>(s, b, step);
        f(s, step, on);
    };
    if constexpr (pair<D>::N == 1) {
        for (int i = b.choose.turn; i < n_step; i += b.choose.n_turn) of_step(i, NULL);
    } else {
        int turn = next_turn(b, 0, n_turn);
        half * tile[2] = { tiles, tiles + mra_device_step_bytes(D) / sizeof(half) };
        if (turn < n_turn) load_keys<D>(tile[0], a, b, turn * b.choose.n_turn + b.choose.turn);
        mra_copy_commit();
        for (int k = 0; turn < n_turn; k ^= 1) {
            const int step = turn * b.choose.n_turn + b.choose.turn;
            turn = next_turn(b, turn + 1, n_turn);
            mra_copy_wait<0>();
            __syncthreads(); // the keys of this turn are there, and nobody reads those of the last any more
            if (turn < n_turn) load_keys<D>(tile[k ^ 1], a, b, turn * b.choose.n_turn + b.choose.turn);
            mra_copy_commit();
            if (step < n_step) of_step(step, tile[k]);
        }
        mra_copy_wait<0>();
    }
}

// bits of the key blocks that are expanded
template <int D, bool SORTED> MRA_DEVICE void expand(const struct attn_args & a, const struct group & b) {
    const int n_row = b.choose.n_row, lane = threadIdx.x % MRA_WARP;
    if (b.s.plan.m1 >= b.n_b) return;
    if ((int) threadIdx.x < n_row) b.choose.c->left[threadIdx.x] = (int) threadIdx.x < b.n ? b.s.plan.m1 : 0;
    float s[4][4]; // of step `have`: up to 4096 keys a warp has one step, whose scores serve all passes
    int have = -1;
    const auto source = [&](int step) -> const float(&)[4][4] {
        if (step != have) block_choices<D, SORTED>(s, a, b, have = step);
        return s;
    };
    const auto each_step = [&](const auto & f) {
        for (int i = b.choose.turn; i < mra_div_up(b.n_b, STEP); i += b.choose.n_turn) {
            const uint32_t on[2] = { there(b.n_b, i), there(b.n_b, i) };
            f(source(i), i, on);
        }
    };
    find_thresholds(b.choose, b.n_b, source, each_step);
    const struct row_choice row[2] = { row_choice_of(*b.choose.c, row_of_lane(b.choose, 0)),
        row_choice_of(*b.choose.c, row_of_lane(b.choose, 1)) };
    each_step([&](const float(&s)[4][4], int i, const uint32_t(&on)[2]) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const struct taken k = classify(b.choose, row[half], half, s, on[half], i * STEP);
            const uint32_t above = join_columns(k.above);
            if (lane % 4 == 0) b.taken[b.expanded + i * n_row + row_of_lane(b.choose, half)] = above;
            put_aside(b.choose, half, s, k.open, i * STEP);
        }
    });
    __syncthreads();
    for (int r = warp_of<D>(); r < n_row; r += warps<D>()) rank_row(b.choose, r, b.taken + b.expanded);
    __syncthreads();
}

// the tile of V rows of a step, by so many warps: those from `first` on; behind the last of n that one again
template <int D, int WARPS>
MRA_DEVICE void load_values(half * tile, const char * v, uint32_t nb, int dv, int first, int n) {
    enum { PIECES = D / 8, LD = tile_row<D>::LD, THREADS = WARPS * MRA_WARP };
    const int thread = threadIdx.x % THREADS;
#pragma unroll(D <= 64 ? STEP * PIECES / THREADS : D <= 96 ? 4 : 1) // below sm_80 copies pass through registers
    for (int t = 0; t < STEP * PIECES / THREADS; t++) {
        const int i = t * THREADS + thread, r = i / PIECES, c = i % PIECES * 8;
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

// Bits of the keys of a step that are kept, but for those put aside. on: columns in question -> expanded ones that are
// neither. s: scores, where `any`
template <bool SORTED>
MRA_DEVICE void take_step(
    const struct group & b, const float (&s)[4][4], int step, uint32_t (&on)[2], bool any, int c0) {
    float by[4][4];
#pragma unroll
    for (int t = 0; t < 4; t++) {
#pragma unroll
        for (int e = 0; e < 4; e++) by[t][e] = s[t][e];
    }
    if (any) add_bias<SORTED>(by, b, step);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = row_of_lane(b.choose, half);
        const struct taken k = classify(b.choose, row_choice_of(*b.choose.c, r), half, by, on[half], step * STEP);
        const uint32_t above = join_columns(k.above);
        if (threadIdx.x % 4 == 0) b.taken[step * b.choose.n_row + r] = above;
        if (k.open && c0 == 0) put_aside(b.choose, half, by, k.open, step * STEP);
        on[half] &= ~(k.above | k.open);
    }
}

// Bits of the keys that are kept, but for those put aside; expanded keys that are not go into st, channels of V from c0
// on. Each warp has its steps to itself.
template <int D, bool SORTED>
MRA_DEVICE void take_keys(
    const struct attn_args & a, const struct group & b, coarse_state<D> & st, half * tile, int c0) {
    const int dv = (int) a.v.ne[0];
    const bool with_coarse = !(a.node.flags & MRA_FLAG_FINEST_ONLY);
    for (int i = b.choose.turn; i < mra_div_up(b.s.n_k, STEP); i += b.choose.n_turn) {
        uint32_t on[2] = { expanded_keys(b, row_of_lane(b.choose, 0), i),
            expanded_keys(b, row_of_lane(b.choose, 1), i) };
        const bool any = __any_sync(MRA_ALL_LANES, on[0] | on[1]);
        float s[4][4];
        if (any) {
            if (with_coarse)
                load_values<coarse_part<D>::DV, 1>(
                    tile, at_channel(b.v, c0, dv), a.vh.token, dv - c0, i * STEP, b.s.n_k);
            key_scores<D>(s, a, b, i);
        } else clear_scores(s);
        take_step<SORTED>(b, s, i, on, any, c0);
        if (!any || !with_coarse) continue;
        only(s, on);
        mra_copy_wait<0>();
        __syncwarp();
        state_add<coarse_part<D>::DV, STEP>(st, s, tile, a.scale);
        __syncwarp(); // before the next values overwrite these
    }
}

// The same with tiles that pairs of warps share: one of K and one of V, each of which is copied while the other is
// used.
template <int D, bool SORTED>
MRA_DEVICE void take_shared_keys(
    const struct attn_args & a, const struct group & b, coarse_state<D> & st, half * tiles) {
    const int n_step = mra_div_up(b.s.n_k, STEP), n_turn = mra_div_up(n_step, b.choose.n_turn);
    const bool with_coarse = !(a.node.flags & MRA_FLAG_FINEST_ONLY);
    half * v_tile = tiles + mra_device_step_bytes(D) / sizeof(half);
    int turn = next_turn(b, 0, n_turn);
    for (int i = threadIdx.x; b.s.plan.m1 < b.n_b && i < n_step * ROWS; i += blockDim.x) b.taken[i] = 0;
    if (turn < n_turn) load_keys<D>(tiles, a, b, turn * b.choose.n_turn + b.choose.turn);
    mra_copy_commit();
    while (turn < n_turn) {
        const int step = turn * b.choose.n_turn + b.choose.turn;
        uint32_t on[2] = { 0, 0 };
        mra_copy_wait<0>();
        __syncthreads(); // K is there, and nobody reads V of the last turn any more
        if (with_coarse) load_values<D, 2>(v_tile, b.v, a.vh.token, (int) a.v.ne[0], step * STEP, b.s.n_k);
        float s[4][4];
        if (step < n_step) {
#pragma unroll
            for (int half = 0; half < 2; half++) on[half] = expanded_keys(b, row_of_lane(b.choose, half), step);
            tile_key_scores<D>(s, a, b, tiles);
            take_step<SORTED>(b, s, step, on, true, 0);
        }
        turn = next_turn(b, turn + 1, n_turn);
        mra_copy_wait<0>();
        __syncthreads(); // V is there, and nobody reads K any more
        if (turn < n_turn) load_keys<D>(tiles, a, b, turn * b.choose.n_turn + b.choose.turn);
        mra_copy_commit();
        if (!with_coarse || !__any_sync(MRA_ALL_LANES, on[0] | on[1])) continue;
        only(s, on);
        state_add<D, STEP>(st, s, v_tile, a.scale);
    }
    mra_copy_wait<0>();
    __syncthreads(); // before others take this memory
}

// the means of key blocks that are not expanded go into st
template <int D>
MRA_DEVICE void add_blocks(
    const struct attn_args & a, const struct group & b, coarse_state<D> & st, half * tile, int c0) {
    const int dv = (int) a.v.ne[0];
    const char * v = at_channel(a.mem + a.pack.v_mean + block_of(a, b) * dv * sizeof(half), c0, dv);
    const float log_last = mra_log2((float) (b.s.n_k - ((b.n_b - 1) << b.log_g)));
    if (b.s.plan.m1 >= b.n_b) return;
    for (int i = b.choose.turn; i < mra_div_up(b.n_b, STEP); i += b.choose.n_turn) {
        load_values<coarse_part<D>::DV, 1>(tile, v, dv * sizeof(half), dv - c0, i * STEP, b.n_b);
        float s[4][4];
        block_scores<D, POOLED>(s, a, b, i);
        uint32_t on[2];
#pragma unroll
        for (int half = 0; half < 2; half++)
            on[half] = there(b.n_b, i) & ~b.taken[b.expanded + i * b.choose.n_row + row_of_lane(b.choose, half)];
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

// The states of all warps, channels of V from c0 on -> out [rows][ld], and with the last channels, when choices are
// made, b.choose.c->max and sum.
template <int D>
MRA_DEVICE void join_states(const struct group & b, coarse_state<D> & st, int c0, float * part, float * out, int ld) {
    const int turn = b.choose.turn, n_turn = b.choose.n_turn, n_row = b.choose.n_row, lane = threadIdx.x % MRA_WARP;
    const bool last = c0 + coarse_part<D>::DV >= D;
    struct choice & c = *b.choose.c;
#pragma unroll
    for (int half = 0; half < 2; half++)
        if (lane % 4 == 0) part[turn * n_row + row_of_lane(b.choose, half)] = st.max[half];
    __syncthreads();
    float f[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = -INFINITY;
        for (int w = 0; w < n_turn; w++) top = fmaxf(top, part[w * n_row + row_of_lane(b.choose, half)]);
        f[half] = top > -INFINITY ? mra_exp2(st.max[half] - top) : 0.0f;
        st.sum[half] = mra_warp_sum<4>(st.sum[half]) * f[half];
        if (last && turn == 0 && lane % 4 == 0) c.max[row_of_lane(b.choose, half)] = top;
    }
    for (int w = 0; w < n_turn; w++) {
        if (w == turn) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = row_of_lane(b.choose, half);
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
    const int warp = warp_of<D>(), n_warp = warps<D>();
    char * tiles = b.tiles + mra_device_bins_bytes(D);
    half *tile = (half *) (tiles + warp * mra_device_step_bytes(D)), // of this warp, and the first of its pair
        *shared = (half *) (tiles + warp / pair<D>::N * pair<D>::N * mra_device_step_bytes(D));
    mean_queries<D, SORTED>(a, b);
    __syncthreads();
    expand<D, SORTED>(a, b);
    if ((int) threadIdx.x < b.choose.n_row) {
        const int r = (int) threadIdx.x;
        b.choose.c->left[r] = r < b.n && !uses_all<SORTED>(b, r) ? b.s.plan.m2 : 0;
    }
    float s[4][4];
    find_thresholds(
        b.choose, b.s.n_k,
        [&](int step) -> const float(&)[4][4] {
            key_scores<D>(s, a, b, step);
            add_bias<SORTED>(s, b, step);
            return s;
        },
        [&](const auto & f) { each_key_step<D, SORTED>(a, b, shared, f); });
    constexpr int DV = coarse_part<D>::DV;
    static_assert(coarse_part<D>::N == 1 ||
            STEP * tile_row<DV>::LD * sizeof(half) + mra_device_rows(D) * DV * sizeof(float) <=
                mra_device_step_bytes(D),
        "a part waits behind the tile of the next");
    const bool with_coarse = !(a.node.flags & MRA_FLAG_FINEST_ONLY);
    float *scratch = (float *) tiles, // behind it room for a part that waits
        *waits = scratch + STEP * tile_row<DV>::LD / 2;
    for (int c0 = 0; c0 < (with_coarse ? D : DV); c0 += DV) {
        coarse_state<D> st;
        state_start<DV>(st, b.coarse, 0, -INFINITY, 0.0f);
        if constexpr (pair<D>::N > 1) take_shared_keys<D, SORTED>(a, b, st, shared);
        else take_keys<D, SORTED>(a, b, st, tile, c0);
        if (with_coarse) add_blocks<D>(a, b, st, tile, c0);
        __syncthreads(); // the last time: nobody needs mean queries any more
        const bool last = c0 + DV >= D;
        join_states<D>(b, st, c0, scratch, last ? b.coarse + c0 : waits, last ? D : DV);
    }
    for (int i = threadIdx.x; coarse_part<D>::N > 1 && i < b.choose.n_row * DV; i += MRA_WARP)
        b.coarse[i / DV * D + i % DV] = waits[i];
    __syncthreads();
    for (int r = warp; r < b.choose.n_row; r += n_warp) finish_row<D, SORTED>(a, b, r);
    __syncthreads();
}
