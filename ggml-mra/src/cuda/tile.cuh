// Tiles of K and V in shared memory.
#pragma once

#include "common.cuh"

// from row to row, in halves: padded, so that the 8 rows of an ldmatrix phase lie in different banks
template <int D> struct tile_row {
    enum { LD = D + 8 };
};

template <int D, int N> struct kv_tile {
    half k[N][tile_row<D>::LD];
    half v[N][tile_row<D>::LD];
};

// channels [c, c + 8) of a row of d: where they are, or the row's start, and how many bytes of them
MRA_DEVICE const char * at_channel(const char * row, int c, int d) { return row + (c < d ? c * 2 : 0); }
MRA_DEVICE int bytes_of(int c, int d) { return c < d ? 16 : 0; }

// Starts the copy of N rows of K and V, *_nb bytes from row to row, by n_threads threads, whole warps. key: the row
// that lane j%N brings for tile row j, -1: zeros. A warp copies PART 16-byte pieces of each of AT_ONCE rows at a time:
// whole sectors of global memory, and every 8 lanes write to different banks, either side by side in a row or at the
// same place of 8 rows.
template <int D, int N>
MRA_DEVICE void tile_load(kv_tile<D, N> & t, const char * k, uint32_t k_nb, int d, const char * v, uint32_t v_nb,
    int dv, int key, int thread, int n_threads) {
    enum {
        PIECES = D / 8,
        PART = PIECES % 8 == 0 ? 8
            : PIECES % 4 == 0  ? 4
                               : 2,
        AT_ONCE = MRA_WARP / PART,
        PARTS = PIECES / PART
    };
    static_assert(N % AT_ONCE == 0 && N <= MRA_WARP, "a tile is a multiple of AT_ONCE rows");
    const int lane = thread % MRA_WARP;
#pragma unroll 4 // below sm_80 every copy passes through registers
    for (int i = thread / MRA_WARP; i < N / AT_ONCE * PARTS; i += n_threads / MRA_WARP) {
        const int lane_row = PART == 8 ? lane / PART : lane % AT_ONCE, piece = PART == 8 ? lane % PART : lane / AT_ONCE;
        const int r = i / PARTS * AT_ONCE + lane_row, c = (i % PARTS * PART + piece) * 8;
        const int j = __shfl_sync(MRA_ALL_LANES, key, r);
        const uint32_t row = (uint32_t) max(j, 0);
        mra_copy16(&t.k[r][c], at_channel(k, c, d) + (uint64_t) row * k_nb, j >= 0 ? bytes_of(c, d) : 0);
        mra_copy16(&t.v[r][c], at_channel(v, c, dv) + (uint64_t) row * v_nb, j >= 0 ? bytes_of(c, dv) : 0);
    }
}
