// Vector operations that attention in integers needs beside lanes.h. Integers are bytes (V_STEP 4) or 16 bits (2).
#pragma once

#include "lanes.h"

#if V_STEP == 4
typedef int8_t small;
typedef int8_t vsmall __attribute__((vector_size(VL), aligned(1), may_alias));
#    define SMALL_BITS 8
#    define SMALL_MASK 255
#    define KEY_BIAS   V_BIAS // keys are the unsigned side of x86's dot product; ARM's has two signed ones
// weights are always unsigned: ARM's dot product then wants unsigned values; with products of matrices comes one that
// takes both
#    define VALUE_BIAS (V_MATRIX ? 0 : 128 - V_BIAS)
#else
typedef int16_t small;
typedef int16_t vsmall __attribute__((vector_size(2 * VL), aligned(2), may_alias));
#    define SMALL_BITS 16
#    define SMALL_MASK 65535
#    define KEY_BIAS   0
#    define VALUE_BIAS 0
#endif

// nearest integers, ties to even. An instruction, not v_round: that addition could be fused with the product before it.
INL vi v_nearest(vf x) {
#if VL == 16 && defined(__AVX512F__)
    return (vi) _mm512_cvtps_epi32((__m512) x);
#elif VL == 16
    union {
        vf f;
        __m256 h[2];
        __m256i r[2];
        vi i;
    } u = { x };
    for (int i = 0; i < 2; i++) u.r[i] = _mm256_cvtps_epi32(u.h[i]);
    return u.i;
#elif VL == 8
    return (vi) _mm256_cvtps_epi32((__m256) x);
#elif defined(__SSE2__)
    return (vi) _mm_cvtps_epi32((__m128) x);
#elif defined(__aarch64__)
    return (vi) vcvtnq_s32_f32((float32x4_t) x);
#else
    vi r;
    for (int i = 0; i < VL; i++) r[i] = (int32_t) rintf(x[i]);
    return r;
#endif
}

// a*b + c rounded once, whatever the compiler makes of v_fma: the integers depend on it
INL vf v_fused(vf a, vf b, vf c) {
#if VL == 16 && defined(__AVX512F__)
    return (vf) _mm512_fmadd_ps((__m512) a, (__m512) b, (__m512) c);
#elif VL == 8
    return (vf) _mm256_fmadd_ps((__m256) a, (__m256) b, (__m256) c);
#elif VL == 4 && defined(__aarch64__)
    return (vf) vfmaq_f32((float32x4_t) c, (float32x4_t) a, (float32x4_t) b);
#else
    for (int i = 0; i < VL; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

INL vf v_magnitude(vf x) { return (vf) ((vi) x & 0x7fffffff); }

// the low bits of VL integers
INL void v_store_small(void * p, vi a) {
#if VL == 16 && defined(__AVX512F__) && V_STEP == 4
    _mm_storeu_si128(p, _mm512_cvtepi32_epi8((__m512i) a));
#elif VL == 16 && defined(__AVX512F__)
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16((__m512i) a));
#elif VL == 8 && V_STEP == 4
    const __m256i low = _mm256_set1_epi64x((int64_t) 0xffffffff0c080400), t = _mm256_shuffle_epi8((__m256i) a, low);
    const __m128i r = _mm_unpacklo_epi32(_mm256_castsi256_si128(t), _mm256_extracti128_si256(t, 1));
    _mm_storel_epi64(p, r);
#elif VL == 8
    _mm_storeu_si128(p, _mm_packs_epi32(_mm256_castsi256_si128((__m256i) a), _mm256_extracti128_si256((__m256i) a, 1)));
#else
    *(vsmall *) p = __builtin_convertvector(a, vsmall);
#endif
}

// as v_dot, x being weights, w values with VALUE_BIAS
INL vi v_dot_values(vi acc, vi x, vi w) {
#if V_MATRIX && defined(__ARM_FEATURE_MATMUL_INT8)
    return (vi) vusdotq_s32((int32x4_t) acc, (uint8x16_t) x, (int8x16_t) w);
#elif V_MATRIX
    UNROLL for (int i = 0; i < 4; i++) acc += (x >> 8 * i & 255) * (w << (24 - 8 * i) >> 24);
    return acc;
#elif V_STEP == 4 && defined(__ARM_FEATURE_DOTPROD)
    return (vi) vdotq_u32((uint32x4_t) acc, (uint8x16_t) x, (uint8x16_t) w);
#else
    return v_dot(acc, x, w);
#endif
}

// the same; the bias comes off: sum x (w + 128) - 128 sum x
INL vi v_dot_weights(vi acc, vi x, vi w) {
    acc = v_dot_values(acc, x, w);
    return VALUE_BIAS ? acc - VALUE_BIAS * v_dot_values(v_set1_i(0), x, v_set1_i(0x01010101)) : acc;
}

// log2 of normal x > 0
INL vf v_log2(vf x) {
    static const float p[7] = MRA_INT8_LOG2;
    const vi b = (vi) x;
    const vf e = v_to_float((b >> 23) - 127), f = (vf) ((b & 0x7fffff) | 0x3f800000) - v_set1(1.5f);
    vf r = v_set1(p[0]);
    UNROLL for (int i = 1; i < 7; i++) r = v_fused(r, f, v_set1(p[i]));
    return r + e;
}

#if V_STEP == 4
static const struct mra_int8_form int8_form = MRA_INT8_BYTES;
#else
static const struct mra_int8_form int8_form = MRA_INT8_WORDS;
#endif

// 2^x as the form has it, x <= 20
INL vf v_exp2_form(vf x) {
    x = v_max(v_set1(-120.0f), x);
    const vf magic = v_set1(12582912.0f), r = x + magic, f = x - (r - magic);
    vf p = v_set1(int8_form.exp2[0]);
    UNROLL for (int i = 1; i < int8_form.n_exp2; i++) p = v_fused(p, f, v_set1(int8_form.exp2[i]));
    return (vf) ((vu) p + ((vu) r << 23));
}

// Rows of V_STEP keys, 4*VL bytes (wide) or 16 bytes of each, to dst [channel][V_STEP]. A wide piece of a row has its
// words of 4*V_STEP bytes in the order of value_word, so that channels come out in order.
#if VL == 16 && defined(__AVX512BW__)
#    define V_WIDE_LANES 4
#elif VL == 8
#    define V_WIDE_LANES 2
#else
#    define V_WIDE_LANES 1
#endif
#define V_WIDE (16 * V_WIDE_LANES) // bytes
#define ZIP(T, LOAD, STORE, LO8, HI8, LO16, HI16) \
    do { \
        const T a = LOAD((const void *) row[0]), b = LOAD((const void *) row[1]); \
        if (V_STEP == 2) { \
            STORE((void *) dst, LO16(a, b)); \
            STORE((void *) (dst + sizeof(T)), HI16(a, b)); \
        } else { \
            const T c = LOAD((const void *) row[V_STEP - 2]), d = LOAD((const void *) row[V_STEP - 1]); \
            const T ab = LO8(a, b), AB = HI8(a, b), cd = LO8(c, d), CD = HI8(c, d); \
            STORE((void *) dst, LO16(ab, cd)); \
            STORE((void *) (dst + sizeof(T)), HI16(ab, cd)); \
            STORE((void *) (dst + 2 * sizeof(T)), LO16(AB, CD)); \
            STORE((void *) (dst + 3 * sizeof(T)), HI16(AB, CD)); \
        } \
    } while (0)
INL void v_zip_wide(char * dst, const char * const * row) {
#if VL == 16 && defined(__AVX512BW__)
    ZIP(__m512i, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8,
        _mm512_unpacklo_epi16, _mm512_unpackhi_epi16);
#elif VL == 8
    ZIP(__m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_unpacklo_epi8, _mm256_unpackhi_epi8,
        _mm256_unpacklo_epi16, _mm256_unpackhi_epi16);
#else
    (void) dst;
    (void) row;
#endif
}
INL void v_zip_16(char * dst, const char * const * row) {
#if defined(__SSE2__)
    ZIP(__m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpacklo_epi8, _mm_unpackhi_epi8, _mm_unpacklo_epi16,
        _mm_unpackhi_epi16);
#else
    for (int c = 0; c < 16; c += (int) sizeof(small))
        for (int i = 0; i < V_STEP; i++) memcpy(dst + c * V_STEP + i * sizeof(small), row[i] + c, sizeof(small));
#endif
}
#undef ZIP
