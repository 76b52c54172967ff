// Vectors of VL floats on GCC/Clang vector extensions. Intrinsics stand only here and in lanes.h (integers), and only
// where the compiler does not find the instruction by itself.
#pragma once

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(MRA_VL) // tests run the wide code on CPUs without AVX-512
#    define VL MRA_VL
#elif defined(__AVX512F__)
#    define VL 16
#elif defined(__AVX2__)
#    define VL 8
#else
#    define VL 4
#endif

#if defined(__SSE2__)
#    include <immintrin.h>
#elif defined(__ARM_NEON)
#    include <arm_neon.h>
#endif

#define INL      static inline __attribute__((always_inline, unused))
#define NOINLINE static __attribute__((noinline, unused))
#if defined(__AVX512F__) && !defined(MRA_VL)
#    define V_OPAQUE(x) __asm__("" : "+v"(x)) // as below, in any of 32 registers
#elif defined(__SSE2__) && !defined(MRA_VL)
#    define V_OPAQUE(x) __asm__("" : "+x"(x)) // the compiler must take x as it is
#elif defined(__aarch64__)
#    define V_OPAQUE(x) __asm__("" : "+w"(x))
#else
#    define V_OPAQUE(x) ((void) 0)
#endif
#define OPAQUE_POINTER(p) __asm__("" : "+r"(p)) // the compiler must not compute it beforehand
// ROLLED: a loop that stays one, because the compiler would load beforehand what all its rounds need, and spill
#ifdef __clang__
#    define UNROLL _Pragma("clang loop unroll(full)")
#    define ROLLED _Pragma("clang loop unroll(disable)")
#else
#    define UNROLL _Pragma("GCC unroll 16")
#    define ROLLED _Pragma("GCC unroll 1")
#endif

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef float vfu __attribute__((vector_size(4 * VL), aligned(4), may_alias));

INL vf v_set1(float x) { return x - (vf) { 0 }; }
INL vf v_load(const float * p) { return *(const vfu *) p; }
INL void v_store(float * p, vf v) { *(vfu *) p = v; }
// past the caches, where p allows it; other threads see it after v_stream_end
INL void v_stream(float * p, vf v) {
#if VL == 16 && defined(__AVX512F__)
    if ((uintptr_t) p % 64 == 0) {
        _mm512_stream_ps(p, (__m512) v);
        return;
    }
#endif
    v_store(p, v);
}
INL void v_stream_end(void) {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}
INL vf v_fma(vf a, vf b, vf c) { return a * b + c; } // needs -ffp-contract=fast

// v_max, v_min: b where a or b is NaN. v_ge: bit i is a[i] >= b[i], false for NaN; v_compress: writes base + i for the
// set bits, returns past the last; v_compress_of: writes src[i] for them. Both may write a whole vector; src may be
// dst, or behind it.
#if VL == 16 && defined(__AVX512F__)
INL vf v_max(vf a, vf b) { return (vf) _mm512_max_ps((__m512) a, (__m512) b); }
INL vf v_min(vf a, vf b) { return (vf) _mm512_min_ps((__m512) a, (__m512) b); }
INL unsigned v_ge(vf a, vf b) { return _mm512_cmp_ps_mask((__m512) a, (__m512) b, _CMP_GE_OQ); }
INL int32_t * v_compress(int32_t * dst, int base, unsigned mask) {
    const __m512i iota = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm512_storeu_si512(
        dst, _mm512_maskz_compress_epi32((__mmask16) mask, _mm512_add_epi32(iota, _mm512_set1_epi32(base))));
    return dst + __builtin_popcount(mask);
}
INL int32_t * v_compress_of(int32_t * dst, const int32_t * src, unsigned mask) {
    _mm512_storeu_si512(dst, _mm512_maskz_compress_epi32((__mmask16) mask, _mm512_loadu_si512(src)));
    return dst + __builtin_popcount(mask);
}
#elif VL == 8
INL vf v_max(vf a, vf b) { return (vf) _mm256_max_ps((__m256) a, (__m256) b); }
INL vf v_min(vf a, vf b) { return (vf) _mm256_min_ps((__m256) a, (__m256) b); }
INL unsigned v_ge(vf a, vf b) {
    return (unsigned) _mm256_movemask_ps(_mm256_cmp_ps((__m256) a, (__m256) b, _CMP_GE_OQ));
}
INL int32_t * v_compress(int32_t * dst, int base, unsigned mask) {
    const uint64_t bytes = _pdep_u64(mask, 0x0101010101010101u) * 0xff;
    const uint64_t lanes = _pext_u64(0x0706050403020100u, bytes);
    _mm256_storeu_si256((__m256i *) dst,
        _mm256_add_epi32(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long) lanes)), _mm256_set1_epi32(base)));
    return dst + __builtin_popcount(mask);
}
INL int32_t * v_compress_of(int32_t * dst, const int32_t * src, unsigned mask) {
    const uint64_t bytes = _pdep_u64(mask, 0x0101010101010101u) * 0xff;
    const uint64_t lanes = _pext_u64(0x0706050403020100u, bytes);
    _mm256_storeu_si256((__m256i *) dst,
        _mm256_permutevar8x32_epi32(
            _mm256_loadu_si256((const __m256i *) src), _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long) lanes))));
    return dst + __builtin_popcount(mask);
}
#else
#    if VL == 4 && defined(__SSE2__)
INL vf v_max(vf a, vf b) { return (vf) _mm_max_ps((__m128) a, (__m128) b); }
INL vf v_min(vf a, vf b) { return (vf) _mm_min_ps((__m128) a, (__m128) b); }
INL unsigned v_ge(vf a, vf b) { return (unsigned) _mm_movemask_ps(_mm_cmpge_ps((__m128) a, (__m128) b)); }
#    else
INL vf v_max(vf a, vf b) {
    const vi m = a > b;
    return (vf) ((m & (vi) a) | (~m & (vi) b));
}
INL vf v_min(vf a, vf b) {
    const vi m = a < b;
    return (vf) ((m & (vi) a) | (~m & (vi) b));
}
INL unsigned v_ge(vf a, vf b) {
    const vi m = a >= b;
    unsigned r = 0;
    UNROLL for (int i = 0; i < VL; i++) r |= (unsigned) m[i] & 1u << i;
    return r;
}
#    endif
INL int32_t * v_compress(int32_t * dst, int base, unsigned mask) {
    for (int i = 0; i < VL; i++) {
        *dst = base + i;
        dst += mask >> i & 1;
    }
    return dst;
}
INL int32_t * v_compress_of(int32_t * dst, const int32_t * src, unsigned mask) {
    for (int i = 0; i < VL; i++) {
        *dst = src[i];
        dst += mask >> i & 1;
    }
    return dst;
}
#endif

INL float v_hmax(vf a) {
    float r = a[0];
    UNROLL for (int i = 1; i < VL; i++) r = a[i] > r ? a[i] : r;
    return r;
}
// a tree, so that the sum of VL partial sums is one order of additions on every compiler
INL float v_hsum(vf a) {
    float t[VL];
    v_store(t, a);
    UNROLL for (int s = VL / 2; s > 0; s /= 2) { UNROLL for (int i = 0; i < s; i++) t[i] += t[i + s]; }
    return t[0];
}

// 2^x, relative error 4e-8 plus rounding. whole: x, or another number in its place where x is NaN
INL vf v_exp2_parts(vf x, vf whole) {
    const vf magic = v_set1(12582912.0f);            // 1.5 * 2^23: adding it rounds to nearest
    const vf r = whole + magic, f = x - (r - magic); // f in [-.5, .5]
    vf p = v_set1(1.339887e-3f);
    p = v_fma(p, f, v_set1(9.618437e-3f));
    p = v_fma(p, f, v_set1(5.550332e-2f));
    p = v_fma(p, f, v_set1(2.402265e-1f));
    p = v_fma(p, f, v_set1(6.931472e-1f));
    p = v_fma(p, f, v_set1(1.0f));
    return (vf) ((vu) p + ((vu) r << 23));
}
// 2^x for x <= 0; exactly 0 from -127 on, also for -inf. NaN gives NaN: it passes v_max and the polynomial, while v_min
// keeps it out of the exponent, where its bits could turn the sum into a number.
INL vf v_exp2(vf x) {
    x = v_max(v_set1(-127.0f), x);
    return v_exp2_parts(x, v_min(x, v_set1(0)));
}
// 2^x for x <= 127, which must be a number; exactly 0 from -127 on
INL vf v_exp2_up(vf x) {
    x = v_max(v_set1(-127.0f), x);
    return v_exp2_parts(x, x);
}

// Of vectors a and b, blocks of s elements: V_LOW_s takes the even ones of a, each with b's behind it, V_HIGH_s the
// odd.
#if VL == 16
#    define V_LOW_8  0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#    define V_HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#    define V_LOW_4  0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#    define V_HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#    define V_LOW_2  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#    define V_HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#    define V_LOW_1  0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#    define V_HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#elif VL == 8
#    define V_LOW_4  0, 1, 2, 3, 8, 9, 10, 11
#    define V_HIGH_4 4, 5, 6, 7, 12, 13, 14, 15
#    define V_LOW_2  0, 1, 8, 9, 4, 5, 12, 13
#    define V_HIGH_2 2, 3, 10, 11, 6, 7, 14, 15
#    define V_LOW_1  0, 8, 2, 10, 4, 12, 6, 14
#    define V_HIGH_1 1, 9, 3, 11, 5, 13, 7, 15
#else
#    define V_LOW_2  0, 1, 4, 5
#    define V_HIGH_2 2, 3, 6, 7
#    define V_LOW_1  0, 4, 2, 6
#    define V_HIGH_1 1, 5, 3, 7
#endif

// Of the first or last two elements of each 4 of a and b, one of a and one of b in turn.
#if VL == 16
#    define V_ZIP_LOW  0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#    define V_ZIP_HIGH 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#elif VL == 8
#    define V_ZIP_LOW  0, 8, 1, 9, 4, 12, 5, 13
#    define V_ZIP_HIGH 2, 10, 3, 11, 6, 14, 7, 15
#else
#    define V_ZIP_LOW  0, 4, 1, 5
#    define V_ZIP_HIGH 2, 6, 3, 7
#endif

// r[4] as 4 x 4 matrices side by side: transposes each. Every step is one instruction without a table.
INL void v_transpose_4(vf * r) {
    const vf a = __builtin_shufflevector(r[0], r[1], V_ZIP_LOW), b = __builtin_shufflevector(r[0], r[1], V_ZIP_HIGH),
             c = __builtin_shufflevector(r[2], r[3], V_ZIP_LOW), d = __builtin_shufflevector(r[2], r[3], V_ZIP_HIGH);
    r[0] = __builtin_shufflevector(a, c, V_LOW_2);
    r[1] = __builtin_shufflevector(a, c, V_HIGH_2);
    r[2] = __builtin_shufflevector(b, d, V_LOW_2);
    r[3] = __builtin_shufflevector(b, d, V_HIGH_2);
}
// swaps the off-diagonal s x s blocks of the matrix with rows r[VL]
#define V_SWAP(s) \
    UNROLL for (int i = 0; i < VL; i++) if (!(i & (s))) { \
        const vf a = r[i], b = r[i + (s)]; \
        r[i] = __builtin_shufflevector(a, b, V_LOW_##s); \
        r[i + (s)] = __builtin_shufflevector(a, b, V_HIGH_##s); \
    }
// Transposes r as a VL x VL matrix.
INL void v_transpose(vf * r) {
#if VL == 16
    V_SWAP(8)
#endif
#if VL >= 8
    V_SWAP(4)
#endif
    UNROLL for (int i = 0; i < VL; i += 4) v_transpose_4(r + i);
}

// F16 -> F32. Without the instruction: exponent by a multiplication, which also normalises subnormals.
INL vf v_load_f16(const uint16_t * p) {
#if VL == 16 && defined(__AVX512F__)
    return (vf) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p));
#elif VL == 8 && defined(__F16C__)
    return (vf) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p));
#elif VL == 4 && defined(__aarch64__)
    return (vf) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
    vi h;
    UNROLL for (int i = 0; i < VL; i++) h[i] = p[i];
    const vf mag = (vf) ((h & 0x7fff) << 13) * v_set1(0x1p112f);
    const vi special = (vi) ((h & 0x7c00) == 0x7c00) & 0x7f800000;
    return (vf) ((vi) mag | special | ((h & 0x8000) << 16));
#endif
}
INL float half_to_float(uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    const uint32_t special = (h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0, bits = (uint32_t) (h & 0x7fff) << 13;
    float mag;
    memcpy(&mag, &bits, 4);
    mag *= 0x1p112f;
    uint32_t u;
    memcpy(&u, &mag, 4);
    u |= special | (uint32_t) (h & 0x8000) << 16;
    memcpy(&mag, &u, 4);
    return mag;
#endif
}
// VL values of a packed row
INL vf v_load_kv(const void * p, size_t i, int f16) {
    return f16 ? v_load_f16((const uint16_t *) p + i) : v_load((const float *) p + i);
}
