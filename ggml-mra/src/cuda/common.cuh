// What the kernels are written in: launches, shared memory, tensor-core and copy instructions. The only file that knows
// whether nvcc compiles it, or a C++ compiler for the emulator (tests/cuda-host), in which every thread of a block is a
// fiber.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#    include <cuda_fp16.h>
#    include <cuda_runtime.h>
#    define MRA_SHARED(type, name, n) __shared__ __align__(16) type name[n]
#    define MRA_DYN_SHARED(type, name) \
        extern __shared__ __align__(128) unsigned char mra_dyn_shared[]; \
        type * const name = reinterpret_cast<type *>(mra_dyn_shared)
#    define MRA_ARCH __CUDA_ARCH__ // device code only
#else
#    include "cuda-host.h"
#    define MRA_SHARED(type, name, n)  type * const name = emu::shared_array<type, n>(__FILE__, __LINE__)
#    define MRA_DYN_SHARED(type, name) type * const name = reinterpret_cast<type *>(emu::dyn_shared())
#    define MRA_ARCH                   EMU_ARCH
#endif

#define MRA_DEVICE        static __device__ __forceinline__
#define MRA_DEVICE_MEMBER __device__ __forceinline__

// ---- launches ------------------------------------------------------------------------------------------------

// int MRA_LAUNCH(kernel, grid, block, bytes of dynamic shared memory, stream, arguments...): 0 or an error code. A
// kernel with commas in its template arguments goes in parentheses.
#if defined(MRA_PTX) // the host's part of a launch, whose device part an interpreter runs (tests/cuda-ptx)
#    include "launch.h"
#    define MRA_LAUNCH(kernel, grid, block, smem, stream, ...) \
        ((void) (stream), ptx::launch_of<kernel>(kernel, grid, block, smem, __VA_ARGS__))
#else
#    define MRA_LAUNCH(kernel, grid, block, smem, stream, ...) \
        mra_launch(#kernel, kernel, grid, block, smem, stream, __VA_ARGS__)
#endif

#if defined(__CUDACC__)
template <class... P, class... A>
static int mra_launch(
    const char *, void (*kernel)(P...), dim3 grid, dim3 block, size_t smem, void * stream, A... args) {
    if (smem > 48 * 1024) { // more than every device has is to be asked for
        const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) smem);
        if (e != cudaSuccess) return (int) e;
    }
    kernel<<<grid, block, smem, (cudaStream_t) stream>>>(static_cast<P>(args)...);
    return (int) cudaGetLastError();
}
// bytes of shared memory that a block may have on the current device
static inline size_t mra_shared_max() {
    int device = 0, bytes = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    return cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess
        ? (size_t) bytes
        : 0;
}
static inline const char * mra_device_message(int code) { return cudaGetErrorString((cudaError_t) code); }
#else
template <class... P, class... A>
static int mra_launch(const char * name, void (*kernel)(P...), dim3 grid, dim3 block, size_t smem, void *, A... args) {
    return emu::launch(name, grid, block, smem, [=] { kernel(static_cast<P>(args)...); });
}
static inline size_t mra_shared_max() { return emu::shared_max(); }
static inline const char * mra_device_message(int) { return "launch refused by the emulator"; }
#endif

// ---- tensor cores --------------------------------------------------------------------------------------------

// d(16x8, f32) += a(16x8, f16, row major) * b(8x8, f16, column major)
MRA_DEVICE void mra_mma_16x8x8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
#if defined(__CUDACC__)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(b0));
#else
    emu::mma_16x8x8(d, a0, a1, b0);
#endif
}

// d(16x8, f32) += a(16x16, f16, row major) * b(16x8, f16, column major)
MRA_DEVICE void mra_mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if MRA_ARCH < 800
    mra_mma_16x8x8(d, a[0], a[1], b[0]);
    mra_mma_16x8x8(d, a[2], a[3], b[1]);
#elif defined(__CUDACC__)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    emu::mma_16x8x16(d, a, b);
#endif
}

// four 8x8 matrices of 16-bit values from shared memory: lane l gives row l%8 of matrix l/8, 16-byte aligned
template <bool transpose> MRA_DEVICE void mra_ldmatrix_x4(uint32_t (&r)[4], const half * row) {
#if defined(__CUDACC__)
    const uint32_t s = (uint32_t) __cvta_generic_to_shared(row);
    if (transpose) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(s)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(s)
                     : "memory");
    }
#else
    emu::ldmatrix_x4(r, row, transpose);
#endif
}

MRA_DEVICE uint32_t mra_pack_half2(float lo, float hi) {
    return (uint32_t) __half_as_ushort(__float2half_rn(lo)) | (uint32_t) __half_as_ushort(__float2half_rn(hi)) << 16;
}

// 2^x and log2(x) in one instruction each; results and x below 2^-126 are 0
#if defined(__CUDACC__)
MRA_DEVICE float mra_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
MRA_DEVICE float mra_log2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
MRA_DEVICE float mra_exp2(float x) { return exp2f(x); }
MRA_DEVICE float mra_log2(float x) { return log2f(x); }
#endif

// ---- copies from global to shared memory ---------------------------------------------------------------------

// 16 bytes, both addresses 16-byte aligned; `from` = 0 instead of 16: zeros, though src still has to be an address of
// global memory. Asynchronous from sm_80 on: valid behind mra_copy_wait and a barrier.
MRA_DEVICE void mra_copy16(void * dst, const void * src, int from = 16) {
#if MRA_ARCH < 800
    *(uint4 *) dst = from ? *(const uint4 *) src : make_uint4(0, 0, 0, 0);
#elif defined(__CUDACC__)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t) __cvta_generic_to_shared(dst)),
                 "l"(src), "r"(from)
                 : "memory");
#else
    emu::copy16(dst, src, from);
#endif
}
MRA_DEVICE void mra_copy_commit() {
#if MRA_ARCH >= 800 && defined(__CUDACC__)
    asm volatile("cp.async.commit_group;" ::: "memory");
#elif MRA_ARCH >= 800
    emu::copy_commit();
#endif
}
// until at most N of this thread's committed groups are in flight
template <int N> MRA_DEVICE void mra_copy_wait() {
#if MRA_ARCH >= 800 && defined(__CUDACC__)
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#elif MRA_ARCH >= 800
    emu::copy_wait(N);
#endif
}

// ---- warps: every lane gets the result, the same for every schedule -------------------------------------------

enum { MRA_WARP = 32 };
#define MRA_ALL_LANES 0xffffffffu

template <int width = MRA_WARP> MRA_DEVICE float mra_warp_max(float x) {
#pragma unroll
    for (int o = width / 2; o > 0; o /= 2) x = fmaxf(x, __shfl_xor_sync(MRA_ALL_LANES, x, o));
    return x;
}
template <int width = MRA_WARP, class T> MRA_DEVICE T mra_warp_sum(T x) {
#pragma unroll
    for (int o = width / 2; o > 0; o /= 2) x += __shfl_xor_sync(MRA_ALL_LANES, x, o);
    return x;
}
// sum over the lanes below this one
MRA_DEVICE int mra_warp_prefix(int x) {
    const int lane = threadIdx.x % MRA_WARP;
    int sum = x;
#pragma unroll
    for (int o = 1; o < MRA_WARP; o *= 2) {
        const int below = __shfl_up_sync(MRA_ALL_LANES, sum, o);
        if (lane >= o) sum += below;
    }
    return sum - x;
}
