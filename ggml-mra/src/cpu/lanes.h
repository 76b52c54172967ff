// Products of small integers, V_STEP of them in each 32-bit lane of a vector: V_STEP = 4 (bytes) where the CPU has a
// dot product of bytes, else 2 (16 bits). With bytes, those of x may carry V_BIAS, which makes them unsigned.
// V_MATRIX: there are products of matrices of bytes, too, 2 x 8 times 8 x 2. Then V_DEEP = 8 integers of a row are side
// by side where the products of many rows read them, else V_STEP.
#pragma once

#include "vec.h"

#include <stdbool.h>

#if defined(MRA_STEP) // tests run the code of CPUs other than their own
#    define V_STEP MRA_STEP
#elif (VL == 16 && defined(__AVX512VNNI__)) || \
    (VL == 8 && (defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__)))) || \
    (VL == 4 && defined(__ARM_FEATURE_DOTPROD))
#    define V_STEP 4
#else
#    define V_STEP 2
#endif

#if V_STEP == 4 && (defined(MRA_MATRIX) || (VL == 4 && defined(__ARM_FEATURE_MATMUL_INT8)))
#    define V_MATRIX 1
#    define V_DEEP   8
#else
#    define V_MATRIX 0
#    define V_DEEP   V_STEP
#endif

#if V_STEP == 4 && (V_MATRIX || defined(__ARM_FEATURE_DOTPROD))
#    define V_BIAS 0
#else
#    define V_BIAS 128
#endif

// Sums of integers may start from the bits of V_ZERO. As floats they are then V_ZERO + sum, and the sum times d is one
// fused multiply-add, whose rounding is that of the product where V_ZERO d is exact. x86 computes conversions where it
// computes dot products; elsewhere they cost nothing, and sums start from 0.
#define V_ZERO      12582912.0f // 1.5 * 2^23
#define V_ZERO_BITS 0x4b400000
#if V_STEP == 4 && defined(__FMA__) && !defined(MRA_VL)
#    define V_FROM_ZERO 1
#    define V_START     V_ZERO_BITS
#else
#    define V_FROM_ZERO 0
#    define V_START     0
#endif

// Steps of a tile of integers. With NEON one after the other: unrolled, gcc loads what several need beforehand, and
// spills.
#if VL == 4
#    define V_STEPS ROLLED
#else
#    define V_STEPS UNROLL
#endif

typedef int16_t v16 __attribute__((vector_size(4 * VL)));
typedef int8_t v8 __attribute__((vector_size(4 * VL)));
typedef int32_t viu __attribute__((vector_size(4 * VL), aligned(4), may_alias));

INL vi v_load_i(const void * p) { return *(const viu *) p; }
INL void v_store_i(void * p, vi v) { *(viu *) p = v; }
INL vi v_set1_i(int32_t x) { return x - (vi) { 0 }; }
INL vf v_abs(vf x) { return (vf) ((vi) x & 0x7fffffff); }
INL vi v_max_i(vi a, vi b) {
#if VL == 16 && defined(__AVX512F__)
    return (vi) _mm512_max_epi32((__m512i) a, (__m512i) b);
#elif VL == 8
    return (vi) _mm256_max_epi32((__m256i) a, (__m256i) b);
#else
    const vi m = a > b;
    return (a & m) | (b & ~m);
#endif
}

// the largest element, the sum of all elements: first over the 128-bit parts, then within one
typedef int32_t v128i __attribute__((vector_size(16)));
union v_parts {
    vi v;
    v128i part[VL / 4];
};
INL int32_t v_hmax_i(vi a) {
    const union v_parts u = { a };
    int32_t top = 0;
    v128i r = u.part[0];
    UNROLL for (int i = 1; i < VL / 4; i++) {
        const v128i m = r > u.part[i];
        r = (r & m) | (u.part[i] & ~m);
    }
    UNROLL for (int i = 0; i < 4; i++) top = i == 0 || r[i] > top ? r[i] : top;
    return top;
}
INL int32_t v_hsum_i(vi a) { // may wrap
    const union v_parts u = { a };
    typedef uint32_t v128u __attribute__((vector_size(16)));
    v128u r = (v128u) u.part[0];
    UNROLL for (int i = 1; i < VL / 4; i++) r += (v128u) u.part[i];
    return (int32_t) (r[0] + r[1] + r[2] + r[3]);
}
// element i = the sum, or the largest, of the elements of r[i]; r[VL] is overwritten
#define V_FOLD(s, OP) \
    UNROLL for (int i = 0; i < (s); i++) { \
        const vi a = r[i], b = r[i + (s)]; \
        r[i] = OP(__builtin_shufflevector(a, b, V_LOW_##s), __builtin_shufflevector(a, b, V_HIGH_##s)); \
    }
#if VL == 16
#    define V_FOLD_ALL(OP) V_FOLD(8, OP) V_FOLD(4, OP) V_FOLD(2, OP) V_FOLD(1, OP)
#elif VL == 8
#    define V_FOLD_ALL(OP) V_FOLD(4, OP) V_FOLD(2, OP) V_FOLD(1, OP)
#else
#    define V_FOLD_ALL(OP) V_FOLD(2, OP) V_FOLD(1, OP)
#endif
INL vi v_add_i(vi a, vi b) { return a + b; }
INL vi v_fold_sum(vi * r) {
    V_FOLD_ALL(v_add_i)
    return r[0];
}
INL vi v_fold_max(vi * r) {
    V_FOLD_ALL(v_max_i)
    return r[0];
}
INL vf v_to_float(vi x) { return __builtin_convertvector(x, vf); }
// nearest integer of |x| < 2^22
INL vi v_round(vf x) { return (vi) (x + v_set1(V_ZERO)) - V_ZERO_BITS; }

// the low halves of the elements of a, then of b
#if VL == 16
INL v16 v_narrow_16(vi a, vi b) {
    return __builtin_shufflevector((v16) a, (v16) b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34,
        36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62);
}
INL v8 v_narrow_8(v16 a, v16 b) {
    return __builtin_shufflevector((v8) a, (v8) b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34,
        36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90,
        92, 94, 96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124, 126);
}
#elif VL == 8
INL v16 v_narrow_16(vi a, vi b) {
    return __builtin_shufflevector((v16) a, (v16) b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
INL v8 v_narrow_8(v16 a, v16 b) {
    return __builtin_shufflevector((v8) a, (v8) b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34,
        36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62);
}
#else
INL v16 v_narrow_16(vi a, vi b) { return __builtin_shufflevector((v16) a, (v16) b, 0, 2, 4, 6, 8, 10, 12, 14); }
INL v8 v_narrow_8(v16 a, v16 b) {
    return __builtin_shufflevector((v8) a, (v8) b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
#endif

// p[32] = the low bytes of 32/VL vectors
INL void v_store_bytes(char * p, const vi * v) {
#if VL == 16 && defined(__AVX512F__)
    UNROLL for (int i = 0; i < 2; i++) _mm_storeu_si128((__m128i *) p + i, _mm512_cvtepi32_epi8((__m512i) v[i]));
#else
    UNROLL for (int i = 0; i < 32 / VL; i += 4) {
        const v16 low = v_narrow_16(v[i], v[i + 1]), high = VL == 16 ? low : v_narrow_16(v[i + 2], v[i + 3]);
        const v8 bytes = v_narrow_8(low, high);
        memcpy(p + i * VL, &bytes, VL == 16 ? 32 : 4 * VL);
    }
#endif
}

// 16 bytes from each of VL/4 places
INL vf v_load_parts(const char * const * at) {
#if VL == 16 && defined(__AVX512F__)
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *) at[0]));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *) at[1]), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *) at[2]), 2);
    return (vf) _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *) at[3]), 3);
#elif VL == 8
    const __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) at[0]));
    return (vf) _mm256_inserti128_si256(v, _mm_loadu_si128((const __m128i *) at[1]), 1);
#else
    union v_parts u;
    UNROLL for (int i = 0; i < VL / 4; i++) memcpy(&u.part[i], at[i], 16);
    return (vf) u.v;
#endif
}
// VL rows that become columns: row 4 p + i starts at part[p] + i*stride. So few pointers, and not VL of them, stay in
// registers.
struct columns {
    const char * part[VL / 4];
    size_t stride;
};
INL struct columns columns_of(const void * from, size_t stride) {
    struct columns c = { .stride = stride };
    UNROLL for (int p = 0; p < VL / 4; p++) c.part[p] = (const char *) from + 4 * p * stride;
    return c;
}
INL void columns_advance(struct columns * c, size_t bytes) {
    UNROLL for (int p = 0; p < VL / 4; p++) {
        c->part[p] += bytes;
        OPAQUE_POINTER(c->part[p]); // else the compiler computes the address of every row beforehand, and spills
    }
}
// r[4] = 4 lanes of each column, `at` bytes from where c is
INL void columns_load(vf * r, const struct columns * c, size_t at) {
    UNROLL for (int i = 0; i < 4; i++) {
        const char * from[VL / 4];
        UNROLL for (int p = 0; p < VL / 4; p++) from[p] = c->part[p] + i * c->stride + at;
        r[i] = v_load_parts(from);
    }
    v_transpose_4(r);
}

// 2*VL bytes, sign extended
INL v16 v_widen_8(const int8_t * p) {
#if VL == 16 && defined(__AVX512BW__)
    return (v16) _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *) p));
#elif VL == 8
    return (v16) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) p));
#else
    typedef int8_t half8 __attribute__((vector_size(2 * VL)));
    half8 h;
    memcpy(&h, p, sizeof(h));
    return __builtin_convertvector(h, v16);
#endif
}

// VL bytes with, without a sign
INL vi v_load_i8(const void * p) {
#if VL == 16 && defined(__AVX512F__)
    return (vi) _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) p));
#else
    vi r;
    for (int i = 0; i < VL; i++) r[i] = ((const int8_t *) p)[i];
    return r;
#endif
}
INL vi v_load_u8(const void * p) {
#if VL == 16 && defined(__AVX512F__)
    return (vi) _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *) p));
#else
    vi r;
    for (int i = 0; i < VL; i++) r[i] = ((const uint8_t *) p)[i];
    return r;
#endif
}

// a*b/2^15, rounded
INL v16 v_mul_q15(v16 a, v16 b) {
#if VL == 16 && defined(__AVX512BW__)
    return (v16) _mm512_mulhrs_epi16((__m512i) a, (__m512i) b);
#elif VL == 8
    return (v16) _mm256_mulhrs_epi16((__m256i) a, (__m256i) b);
#elif VL == 4 && defined(__SSSE3__)
    return (v16) _mm_mulhrs_epi16((__m128i) a, (__m128i) b);
#elif defined(__aarch64__)
    return (v16) vqrdmulhq_s16((int16x8_t) a, (int16x8_t) b);
#else
    UNROLL for (int i = 0; i < 2 * VL; i++) a[i] = (int16_t) ((a[i] * b[i] + (1 << 14)) >> 15);
    return a;
#endif
}

// a + b, which may wrap: integers that NaN and infinities were rounded to meet scales that say so
INL vi v_add_wrapping(vi a, vi b) { return (vi) ((vu) a + (vu) b); }

// acc + the sum of the V_STEP products of each lane of x and w
INL vi v_dot(vi acc, vi x, vi w) {
#if V_STEP == 2 && VL == 16 && defined(__AVX512BW__)
    return v_add_wrapping(acc, (vi) _mm512_madd_epi16((__m512i) x, (__m512i) w));
#elif V_STEP == 2 && VL == 8
    return v_add_wrapping(acc, (vi) _mm256_madd_epi16((__m256i) x, (__m256i) w));
#elif V_STEP == 2 && VL == 4 && defined(__SSE2__)
    return v_add_wrapping(acc, (vi) _mm_madd_epi16((__m128i) x, (__m128i) w));
#elif V_STEP == 2 && defined(__aarch64__)
    const int16x8_t a = (int16x8_t) x, b = (int16x8_t) w;
    return v_add_wrapping(acc, (vi) vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b)));
#elif V_STEP == 4 && VL == 16 && defined(__AVX512VNNI__)
    return (vi) _mm512_dpbusd_epi32((__m512i) acc, (__m512i) x, (__m512i) w);
#elif V_STEP == 4 && VL == 8 && defined(__AVXVNNI__)
    return (vi) _mm256_dpbusd_avx_epi32((__m256i) acc, (__m256i) x, (__m256i) w);
#elif V_STEP == 4 && VL == 8 && defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return (vi) _mm256_dpbusd_epi32((__m256i) acc, (__m256i) x, (__m256i) w);
#elif V_STEP == 4 && defined(__ARM_FEATURE_DOTPROD)
    return (vi) vdotq_s32((int32x4_t) acc, (int8x16_t) x, (int8x16_t) w);
#elif V_MATRIX
    vi r = acc;
    UNROLL for (int i = 0; i < 4; i++) r += (x << (24 - 8 * i) >> 24) * (w << (24 - 8 * i) >> 24);
    return r;
#elif V_STEP == 2
    return v_add_wrapping(acc, v_add_wrapping((x << 16 >> 16) * (w << 16 >> 16), (x >> 16) * (w >> 16)));
#else
    vi r = acc;
    UNROLL for (int i = 0; i < 4; i++) r += ((x >> 8 * i) & 255) * (w << (24 - 8 * i) >> 24);
    return r;
#endif
}

// p[V_DEEP/V_STEP * VL] = element i of each of u, then element i + 1: V_DEEP integers of a row side by side
INL void v_store_deep(void * p, const vi * u) {
#if V_MATRIX
    v_store_i(p, __builtin_shufflevector(u[0], u[1], 0, 4, 1, 5));
    v_store_i((int32_t *) p + VL, __builtin_shufflevector(u[0], u[1], 2, 6, 3, 7));
#else
    v_store_i(p, u[0]);
#endif
}

#if V_MATRIX

// acc[2 i + j] + the 8 products of row i of a and row j of b. Rows are 8 bytes; those of a have no sign in
// v_matrix_unsigned.
#    if defined(__ARM_FEATURE_MATMUL_INT8)
INL vi v_matrix(vi acc, vi a, vi b) { return (vi) vmmlaq_s32((int32x4_t) acc, (int8x16_t) a, (int8x16_t) b); }
INL vi v_matrix_unsigned(vi acc, vi a, vi b) {
    return (vi) vusmmlaq_s32((int32x4_t) acc, (uint8x16_t) a, (int8x16_t) b);
}
#    else
INL vi v_matrix_plain(vi acc, v8 a, v8 b, const int mask) {
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int c = 0; c < 8; c++) acc[2 * i + j] += (a[8 * i + c] & mask) * b[8 * j + c];
    return acc;
}
INL vi v_matrix(vi acc, vi a, vi b) { return v_matrix_plain(acc, (v8) a, (v8) b, -1); }
INL vi v_matrix_unsigned(vi acc, vi a, vi b) { return v_matrix_plain(acc, (v8) a, (v8) b, 255); }
#    endif

// a, b: sums of rows 0, 1 and of rows 2, 3 with two columns; of all four with the first, with the second one
INL vi v_first_column(vi a, vi b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6); }
INL vi v_second_column(vi a, vi b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7); }

#endif
