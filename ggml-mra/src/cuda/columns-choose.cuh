// How a thread block chooses, for each of its query blocks (rows), the m best of many columns: key blocks by their
// bounds, then keys by their scores. Columns come 32 at a time from tensor cores, for 16 rows; a lane has those of its
// warp's rows lane/4 and lane/4 + 8. Scores are not kept but computed again: first for a sample that gives their range,
// then for a histogram over it, then to take what is above the bin of the m-th best. Those in that bin are put aside
// and ranked. Bit-equal from run to run: only integers are counted atomically, and ranks do not depend on the order of
// arrival.
#pragma once

#include "../device-pack.h"
#include "warp-topk.cuh"

enum { ROWS = MRA_DEVICE_ROWS, STEP = 32, OPEN = MRA_DEVICE_OPEN, RANGE_STEPS = 8 };

struct open_column {
    float score;
    int column;
};

// What is known of each row's choice. A column's place is its bin in the range; of the columns of one bin, where those
// are too many, also the first `level` bytes of its score and number.
struct choice {
    union { // bin = score * inv + first, until all choices are made; then the coarse state
        float inv[ROWS];
        float max[ROWS];
    };
    union {
        float first[ROWS];
        float sum[ROWS];
    };
    float at[ROWS], above[ROWS]; // bins from `above` on are taken, from `at` on ranked
    int left[ROWS];              // how many of the ranked ones are taken
    int level[ROWS], n_open[ROWS];
    uint64_t prefix[ROWS];
    int again; // rows whose bin holds too many
};
static_assert(sizeof(struct choice) <= MRA_DEVICE_CHOICE, "device-pack.h says the same");

// the bins, later what was put aside, of all rows
struct choice_memory {
    struct choice * c;
    int * bins;                // [n_row][SELECT_BINS]
    struct open_column * open; // [n_row][OPEN], in the same place
    int n_row, row0;           // rows of the thread block; the first of this warp's 16
    int turn, n_turn;          // which of the warps with these rows this is: they take turns of the columns
};

// NaN: 0
MRA_DEVICE float bin_of(float score, float inv, float first) { return fmaxf(fmaf(score, inv, first), 0.0f); }
MRA_DEVICE uint64_t place_of(float score, int column) {
    return (uint64_t) select_key(score) << 32 | (uint32_t) ~column; // of equal scores the first column is the best
}

// the part of a row's choice that a lane uses for every column
struct row_choice {
    float inv, first, at, above;
};
MRA_DEVICE struct row_choice row_choice_of(const struct choice & c, int r) {
    return { c.inv[r], c.first[r], c.at[r], c.above[r] };
}
MRA_DEVICE int row_of_lane(const struct choice_memory & m, int half) {
    return m.row0 + (int) threadIdx.x % MRA_WARP / 4 + half * 8;
}
MRA_DEVICE int column_of_lane(int t, int e) { return t * 8 + threadIdx.x % MRA_WARP % 4 * 2 + e; } // within a step

// Bits of a row's 32 columns: a lane's 8 at their places -> the whole word, for the 4 lanes of the row.
MRA_DEVICE uint32_t join_columns(uint32_t w) {
    w |= __shfl_xor_sync(MRA_ALL_LANES, w, 1);
    return w | __shfl_xor_sync(MRA_ALL_LANES, w, 2);
}

// calls f(score, column) for a lane's columns of one row that are in `bits`
template <class F> MRA_DEVICE void each_column(const float (&s)[4][4], int half, uint32_t bits, const F & f) {
#pragma unroll
    for (int t = 0; t < 4; t++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int col = column_of_lane(t, e);
            if (bits >> col & 1) f(s[t][half * 2 + e], col);
        }
    }
}

// Which of a lane's columns of one row are above, and which are to be ranked; as bits of a step. s: scores of a step
struct taken {
    uint32_t above, open;
};
MRA_DEVICE struct taken classify(const struct choice_memory & m, const struct row_choice & r, int half,
    const float (&s)[4][4], uint32_t allowed, int first) {
    struct taken k = { 0, 0 };
#pragma unroll
    for (int t = 0; t < 4; t++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float f = bin_of(s[t][half * 2 + e], r.inv, r.first);
            k.above |= f >= r.above ? 1u << (t * 8 + e) : 0u;
            k.open |= f >= r.at ? 1u << (t * 8 + e) : 0u;
        }
    }
    const int shift = threadIdx.x % 4 * 2;
    k.above = k.above << shift & allowed;
    k.open = k.open << shift & allowed & ~k.above;
    if (k.open == 0) return k;
    const int level = m.c->level[row_of_lane(m, half)];
    if (level == 0) return k;
    const uint64_t prefix = m.c->prefix[row_of_lane(m, half)];
    const uint32_t open = k.open;
    k.open = 0;
    each_column(s, half, open, [&](float score, int col) {
        const uint64_t place = place_of(score, first + col) >> (64 - 8 * level);
        if (place > prefix) k.above |= 1u << col;
        if (place == prefix) k.open |= 1u << col;
    });
    return k;
}

// the range of a row's scores, from a sample; source(step): the scores of a step
template <class F> MRA_DEVICE void find_range(const struct choice_memory & m, int n, const F & source) {
    const int n_step = mra_div_up(n, STEP), stride = max(1, n_step / RANGE_STEPS);
    float lo[2] = { INFINITY, INFINITY }, hi[2] = { -INFINITY, -INFINITY };
    for (int i = m.turn; i * stride < n_step; i += m.n_turn) {
        const float(&s)[4][4] = source(i * stride);
        const int rest = n - i * stride * STEP;
#pragma unroll
        for (int t = 0; t < 4; t++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const bool there = column_of_lane(t, e % 2) < rest;
                lo[e / 2] = fminf(lo[e / 2], there ? s[t][e] : INFINITY);
                hi[e / 2] = fmaxf(hi[e / 2], there ? s[t][e] : -INFINITY);
            }
        }
    }
    float * part = (float *) m.bins; // [n_turn][2][n_row]
#pragma unroll
    for (int half = 0; half < 2; half++) {
        lo[half] = -mra_warp_max<4>(-lo[half]);
        hi[half] = mra_warp_max<4>(hi[half]);
        if (threadIdx.x % 4 == 0) {
            part[m.turn * 2 * m.n_row + row_of_lane(m, half)] = lo[half];
            part[(m.turn * 2 + 1) * m.n_row + row_of_lane(m, half)] = hi[half];
        }
    }
    __syncthreads();
    if ((int) threadIdx.x < m.n_row) {
        float l = INFINITY, h = -INFINITY;
        for (int w = 0; w < m.n_turn; w++) {
            l = fminf(l, part[w * 2 * m.n_row + threadIdx.x]);
            h = fmaxf(h, part[(w * 2 + 1) * m.n_row + threadIdx.x]);
        }
        const float inv = h > l ? (SELECT_BINS - .01f) / (h - l) : 0.0f;
        m.c->inv[threadIdx.x] = inv;
        m.c->first[threadIdx.x] = -l * inv;
        m.c->at[threadIdx.x] = 0.0f;
        m.c->above[threadIdx.x] = INFINITY;
        m.c->level[threadIdx.x] = 0;
        m.c->prefix[threadIdx.x] = 0;
    }
    __syncthreads();
}

// one row, by a warp: what its bins say; level: bytes of the places that came before this histogram, -1: none, bins of
// the range
MRA_DEVICE void narrow_row(const struct choice_memory & m, int r, int level) {
    struct choice & c = *m.c;
    const int lane = threadIdx.x % MRA_WARP;
    const int * bins = m.bins + r * SELECT_BINS;
    int left = c.left[r];
    if (level < 0) left = min(left, bins_total(bins));
    const bool none = left <= 0;
    int bin = SELECT_BINS;
    if (!none) bin = select_bin(bins, &left);
    const int count = none ? 0 : bins[bin];
    const bool all = level < 0 && left == count; // of the bin
    __syncwarp();
    if (lane > 0) return;
    c.left[r] = all || none ? 0 : left;
    c.n_open[r] = all ? 0 : count;
    if (level >= 0) {
        c.prefix[r] = c.prefix[r] << 8 | (uint64_t) bin;
        c.level[r] = level + 1;
    } else {
        c.above[r] = none ? INFINITY : all ? (float) bin : bin == SELECT_BINS - 1 ? INFINITY : (float) (bin + 1);
        c.at[r] = none ? INFINITY : (float) bin;
    }
}

// adds the columns of a step that are in question to the bins of their row
MRA_DEVICE void count_columns(const struct choice_memory & m, const struct row_choice & r, int half,
    const float (&s)[4][4], uint32_t allowed, int first, int level) {
    int * bins = m.bins + row_of_lane(m, half) * SELECT_BINS;
    if (level < 0) {
        const uint32_t mine = allowed >> threadIdx.x % 4 * 2;
#pragma unroll
        for (int t = 0; t < 4; t++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float f = fminf(bin_of(s[t][half * 2 + e], r.inv, r.first), SELECT_BINS - 1);
                atomicAdd(&bins[(int) f], (int) (mine >> (t * 8 + e) & 1));
            }
        }
        return;
    }
    if (m.c->level[row_of_lane(m, half)] != level || m.c->n_open[row_of_lane(m, half)] <= OPEN) return;
    const struct taken k = classify(m, r, half, s, allowed, first);
    each_column(s, half, k.open, [&](float score, int col) {
        atomicAdd(&bins[place_of(score, first + col) >> (56 - 8 * level) & (SELECT_BINS - 1)], 1);
    });
}

MRA_DEVICE void clear_bins(const struct choice_memory & m) {
    for (int i = threadIdx.x; i < m.n_row * SELECT_BINS / 4; i += blockDim.x)
        ((int4 *) m.bins)[i] = make_int4(0, 0, 0, 0);
}

// Finds for each row where its m best begin: c.left[row] of n columns. each_step(f) calls f(scores, step, on) for the
// steps of this warp, on[half]: the columns that count. Behind it c.left is how many of those to be ranked are taken.
template <class F, class E>
MRA_DEVICE void find_thresholds(const struct choice_memory & m, int n, const F & source, const E & each_step) {
    const int warp = threadIdx.x / MRA_WARP, n_warp = blockDim.x / MRA_WARP;
    find_range(m, n, source);
    for (int level = -1;; level++) {
        clear_bins(m);
        __syncthreads();
        const struct row_choice row[2] = { row_choice_of(*m.c, row_of_lane(m, 0)),
            row_choice_of(*m.c, row_of_lane(m, 1)) };
        each_step([&](const float(&s)[4][4], int step, const uint32_t(&on)[2]) {
#pragma unroll
            for (int half = 0; half < 2; half++) count_columns(m, row[half], half, s, on[half], step * STEP, level);
        });
        if (threadIdx.x == 0) m.c->again = 0;
        __syncthreads();
        for (int r = warp; r < m.n_row; r += n_warp) {
            if (level < 0 || (m.c->level[r] == level && m.c->n_open[r] > OPEN)) narrow_row(m, r, level);
            if (threadIdx.x % MRA_WARP == 0 && m.c->n_open[r] > OPEN) atomicAdd(&m.c->again, 1);
        }
        __syncthreads();
        if (m.c->again == 0) break;
    }
    if ((int) threadIdx.x < m.n_row) m.c->n_open[threadIdx.x] = 0;
    __syncthreads();
}

// puts a lane's columns of one row aside
MRA_DEVICE void put_aside(const struct choice_memory & m, int half, const float (&s)[4][4], uint32_t open, int first) {
    const int r = row_of_lane(m, half);
    each_column(s, half, open, [&](float score, int col) {
        const int i = atomicAdd(&m.c->n_open[r], 1);
        m.open[r * OPEN + i].score = score;
        m.open[r * OPEN + i].column = first + col;
    });
}

// Ranks what was put aside of a row, by a warp: sorts it, and sets the bits of the first c.left[row].
MRA_DEVICE void rank_row(const struct choice_memory & m, int r, uint32_t * bits) {
    const int lane = threadIdx.x % MRA_WARP, n = m.c->n_open[r], left = m.c->left[r];
    struct open_column * open = m.open + r * OPEN;
    struct open_column mine[OPEN / MRA_WARP];
    int rank[OPEN / MRA_WARP];
#pragma unroll
    for (int i = 0; i < OPEN / MRA_WARP; i++) {
        const int at = i * MRA_WARP + lane;
        if (i * MRA_WARP >= n) break;
        mine[i] = open[min(at, n - 1)];
        const uint64_t place = place_of(mine[i].score, mine[i].column);
        rank[i] = 0;
        for (int j = 0; j < n; j++) rank[i] += place_of(open[j].score, open[j].column) > place;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < OPEN / MRA_WARP; i++) {
        if (i * MRA_WARP + lane >= n) break;
        open[rank[i]] = mine[i];
        if (rank[i] < left) atomicAdd(&bits[mine[i].column / STEP * m.n_row + r], 1u << mine[i].column % STEP);
    }
    __syncwarp();
}
