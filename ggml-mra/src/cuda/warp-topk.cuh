// The m largest of a list, by one warp: radix selection of the m-th largest value, 8 bits a pass, then one pass that
// takes.
#pragma once

#include "common.cuh"

#include <float.h>

enum { SELECT_BINS = 256 };

// the order of floats as that of unsigned numbers; 0: -inf and NaN, which are never taken
MRA_DEVICE uint32_t select_key(float x) {
    if (!(x >= -FLT_MAX)) return 0;
    const uint32_t u = __float_as_uint(x + 0.0f); // -0 becomes 0
    return u >> 31 ? ~u : u | 1u << 31;
}

// how many entries a histogram has, by a warp
MRA_DEVICE int bins_total(const int * bins) {
    int n = 0;
    for (int i = threadIdx.x % MRA_WARP; i < SELECT_BINS; i += MRA_WARP) n += bins[i];
    return mra_warp_sum(n);
}

// The bin, from the highest down, in which the *m-th entry lies; *m becomes its rank within that bin.
MRA_DEVICE int select_bin(const int * bins, int * m) {
    const int lane = threadIdx.x % MRA_WARP, first = SELECT_BINS - 8 - lane * 8; // lane 0 has the highest 8
    const int4 * at = (const int4 *) (bins + first);
    const int odd = lane / 4 % 2; // every other 4 lanes begin with their second half: 8 lanes read from different banks
    const int4 a = at[odd], b = at[1 - odd], lo = odd ? b : a, hi = odd ? a : b;
    const int n[8] = { hi.w, hi.z, hi.y, hi.x, lo.w, lo.z, lo.y, lo.x };
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) sum += n[i];
    int above = mra_warp_prefix(sum), bin = first;
    const bool mine = above < *m && *m <= above + sum;
    bool found = false;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (found) continue;
        if (*m <= above + n[i]) {
            bin = first + 7 - i;
            found = true;
        } else above += n[i];
    }
    const int owner = __ffs(__ballot_sync(MRA_ALL_LANES, mine)) - 1;
    *m -= __shfl_sync(MRA_ALL_LANES, above, owner);
    return __shfl_sync(MRA_ALL_LANES, bin, owner);
}

// Calls take(i, j) for the m largest x[j] of n in ascending order of j, i = 0, 1, ...; of equal ones the first. Returns
// how many. bins: SELECT_BINS ints of shared memory, 16-byte aligned. x may be changed by take.
template <class F> MRA_DEVICE int warp_topk(const float * x, int n, int m, int * bins, const F & take) {
    const int lane = threadIdx.x % MRA_WARP;
    m = min(m, n);
    if (m <= 0) return 0;
    uint32_t found = 0; // the highest bits of the m-th largest
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = lane; i < SELECT_BINS; i += MRA_WARP) bins[i] = 0;
        __syncwarp();
        for (int j = lane; j < n; j += MRA_WARP) {
            const uint32_t key = select_key(x[j]);
            if (shift == 24 || key >> (shift + 8) == found) atomicAdd(&bins[key >> shift & (SELECT_BINS - 1)], 1);
        }
        __syncwarp();
        found = found << 8 | (uint32_t) select_bin(bins, &m);
        __syncwarp();
    }
    // m: how many of those equal to it are wanted
    const uint32_t below = (1u << lane) - 1;
    int n_taken = 0;
    for (int j0 = 0; j0 < n; j0 += MRA_WARP) {
        const int j = j0 + lane;
        const uint32_t key = j < n ? select_key(x[j]) : 0;
        const bool equal = key == found && found != 0;
        const uint32_t equals = __ballot_sync(MRA_ALL_LANES, equal);
        const bool taken = key > found || (equal && __popc(equals & below) < m);
        m -= min(m, __popc(equals));
        const uint32_t all = __ballot_sync(MRA_ALL_LANES, taken);
        if (taken) take(n_taken + __popc(all & below), j);
        n_taken += __popc(all);
    }
    return n_taken;
}
