// CUDA's keywords, types and built-in functions for the emulator, as far as our kernels use them.
#pragma once

#include "emu.h"

#include <cfloat>
#include <cmath>
#include <cstring>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return { x, y }; }
static inline float4 make_float4(float x, float y, float z, float w) { return { x, y, z, w }; }
static inline int2 make_int2(int x, int y) { return { x, y }; }
static inline int4 make_int4(int x, int y, int z, int w) { return { x, y, z, w }; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return { x, y }; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return { x, y, z, w }; }

#define threadIdx emu::at.thread
#define blockIdx  emu::at.block
#define blockDim  emu::at.block_dim
#define gridDim   emu::at.grid_dim

#define __syncthreads() emu::sync_threads(__LINE__)
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emu::sync_warp(mask); }

template <class T> static inline T emu_shuffle(T v, int from, unsigned mask, int op) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof(T));
    bits = emu::shuffle(bits, from, mask, op);
    std::memcpy(&v, &bits, sizeof(T));
    return v;
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int x, int width = 32) {
    const int l = emu::lane(), s = l ^ x;
    return emu_shuffle(v, s / width > l / width ? l : s, mask, 1);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, int by, int width = 32) {
    const int l = emu::lane(), s = l + by;
    return emu_shuffle(v, s / width != l / width ? l : s, mask, 2);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, int by, int width = 32) {
    const int l = emu::lane(), s = l - by;
    return emu_shuffle(v, s < 0 || s / width != l / width ? l : s, mask, 3);
}
template <class T> static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
    const int l = emu::lane();
    return emu_shuffle(v, l / width * width + (from & (width - 1)), mask, 4);
}
static inline unsigned __ballot_sync(unsigned mask, bool p) { return emu::ballot(p, mask); }
static inline bool __any_sync(unsigned mask, bool p) { return emu::ballot(p, mask) != 0; }
static inline bool __all_sync(unsigned mask, bool p) { return emu::ballot(p, mask) == mask; }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned) x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
    return r;
}
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }

template <class T> __attribute__((no_sanitize("thread"), noinline)) T atomicAdd(T * p, T v) {
    emu::touch_atomic(p, sizeof(T));
    const T old = *p;
    *p = old + v;
    return old;
}
template <class T> __attribute__((no_sanitize("thread"), noinline)) T atomicMax(T * p, T v) {
    emu::touch_atomic(p, sizeof(T));
    const T old = *p;
    *p = old > v ? old : v;
    return old;
}

struct half {
    uint16_t u;
};
static inline float __half2float(half h) { return emu::half_to_float(h.u); }
static inline half __float2half_rn(float f) { return { emu::float_to_half(f) }; }
static inline uint16_t __half_as_ushort(half h) { return h.u; }
static inline half __ushort_as_half(uint16_t u) { return { u }; }
static inline unsigned __float_as_uint(float f) {
    unsigned u;
    std::memcpy(&u, &f, 4);
    return u;
}
static inline float __uint_as_float(unsigned u) {
    float f;
    std::memcpy(&f, &u, 4);
    return f;
}
static inline double __dmul_rn(double a, double b) { return a * b; } // compiled without contraction
template <class T> static inline T __ldg(const T * p) { return *p; }
