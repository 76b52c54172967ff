// Tiles of K and V in shared memory: N keys, rows of D channels padded to D + 8, so that the 8 rows of an ldmatrix phase lie in different banks.
#pragma once

#include "common.cuh"

template <int D, int N> struct kv_tile {
    half k[N][D + 8];
    half v[N][D + 8];
};

// Starts the copy of N rows of K and V by n_threads threads, whole warps. key: the row that lane j%N brings for tile row j, -1: zeros.
template <int D, int N> MRA_DEVICE void tile_load(kv_tile<D, N> & t, const char * k, size_t k_nb, int d, const char * v, size_t v_nb, int dv, int key, int thread, int n_threads) {
    for (int i = thread; i < N*(D/8); i += n_threads) { // N*(D/8) is a multiple of 32: lanes stay together
        const int r = i/(D/8), c = i%(D/8)*8, j = __shfl_sync(MRA_ALL_LANES, key, r);
        mra_copy16(&t.k[r][c], k + (j >= 0 && c < d  ? (size_t) j*k_nb + c*2 : 0), j >= 0 && c < d  ? 16 : 0);
        mra_copy16(&t.v[r][c], v + (j >= 0 && c < dv ? (size_t) j*v_nb + c*2 : 0), j >= 0 && c < dv ? 16 : 0);
    }
}
