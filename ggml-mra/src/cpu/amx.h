// Intel AMX: eight tiles of 16 rows x 64 bytes, and the vectors of bfloat16 that fill them. Where the compiler does not
// target AMX, the same in plain C, for its results.
#pragma once

#include "lanes.h"

enum { TILE_ROWS = 16, TILE_BYTES = 64, TILE_SIZE = TILE_ROWS * TILE_BYTES };
enum { AMX_DEPTH = 32, AMX_TILE = 512 }; // bfloat16 of a row, of a tile

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

// All of them clobber memory: the compiler must not move what a tile is loaded from or stored to.
//   TILE_LOAD, TILE_STORE: 16 rows of 64 bytes, `stride` bytes apart; TILE_STREAM: as TILE_LOAD, of what should not
//   push other data out of the first-level cache
//   TILE_BF16: c[16][16] += a[16][32] b, floats += bfloat16 * bfloat16; b [16][16][2] has rows 2r, 2r + 1 of a matrix
//   side by side
#if defined(__AMX_BF16__) && !defined(MRA_VL)
#    define TILE_CONFIG(p)     __asm__ volatile("ldtilecfg %0" ::"m"(*(p)) : "memory")
#    define TILE_CONFIGURED(p) __asm__ volatile("sttilecfg %0" : "=m"(*(p)))
#    define TILE_ZERO(t)       __asm__ volatile("tilezero %%tmm" #    t ::: "memory")
#    define TILE_LOAD(t, p, stride) \
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((int64_t) (stride)) : "memory")
#    define TILE_STREAM(t, p, stride) \
        __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #t ::"r"(p), "r"((int64_t) (stride)) : "memory")
#    define TILE_STORE(t, p, stride) \
        __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((int64_t) (stride)) : "memory")
#    define TILE_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #    b ", %%tmm" #    a ", %%tmm" #    c ::: "memory")
#else
static _Thread_local union {
    uint32_t bits[TILE_ROWS][TILE_BYTES / 4];
    float f[TILE_ROWS][TILE_BYTES / 4];
} tile_data[8];
#    define TILE_CONFIG(p)           ((void) (p), memset(tile_data, 0xff, sizeof(tile_data)))
#    define TILE_CONFIGURED(p)       memset(p, 0, sizeof(*(p)))
#    define TILE_ZERO(t)             memset(&tile_data[t], 0, sizeof(tile_data[t]))
#    define TILE_LOAD(t, p, stride)  tile_load(t, (const char *) (p), stride)
#    define TILE_STREAM              TILE_LOAD
#    define TILE_STORE(t, p, stride) tile_store(t, (char *) (p), stride)
#    define TILE_BF16(c, a, b)       tile_bf16(c, a, b)

static inline void tile_load(int t, const char * p, int64_t stride) {
    for (int r = 0; r < TILE_ROWS; r++) memcpy(tile_data[t].bits[r], p + r * stride, TILE_BYTES);
}
static inline void tile_store(int t, char * p, int64_t stride) {
    for (int r = 0; r < TILE_ROWS; r++) memcpy(p + r * stride, tile_data[t].bits[r], TILE_BYTES);
}
// denormals count as 0
static inline float tile_number(uint32_t high_bits) {
    float f;
    const uint32_t bits = high_bits & 0x7f800000 ? high_bits : 0;
    memcpy(&f, &bits, 4);
    return f;
}
static inline void tile_bf16(int c, int a, int b) {
    for (int m = 0; m < TILE_ROWS; m++) {
        float even[16] = { 0 }, odd[16] = { 0 };
        for (int k = 0; k < 16; k++) {
            const uint32_t x = tile_data[a].bits[m][k];
            const float x0 = tile_number(x << 16), x1 = tile_number(x & 0xffff0000);
            for (int n = 0; n < 16; n++) {
                const uint32_t y = tile_data[b].bits[k][n];
                even[n] += x0 * tile_number(y << 16);
                odd[n] += x1 * tile_number(y & 0xffff0000);
            }
        }
        for (int n = 0; n < 16; n++) tile_data[c].f[m][n] += even[n] + odd[n];
    }
}
#endif

// Configures all tiles for this thread, until tile_end, which each kernel calls before it returns: it restores what was
// there before, because others, such as ggml's own products by tiles, configure them once and for all.
static inline struct tile_config tile_start(void) {
    struct tile_config before, c = { .palette = 1 };
    TILE_CONFIGURED(&before);
    for (int t = 0; t < 8; t++) {
        c.row_bytes[t] = TILE_BYTES;
        c.rows[t] = TILE_ROWS;
    }
    TILE_CONFIG(&c);
    return before;
}
static inline void tile_end(const struct tile_config * before) { TILE_CONFIG(before); }

INL v16 v_load_words(const void * p) { return (v16) v_load_i(p); }
INL void v_store_words(void * p, v16 x) { v_store_i(p, (vi) x); }

// the nearest bfloat16 of a, then of b; ties to even, denormals count as 0, NaN stays NaN
INL v16 v_to_bf16(vf a, vf b) {
#if VL == 16 && defined(__AVX512BF16__)
    return (v16) _mm512_cvtne2ps_pbh((__m512) b, (__m512) a);
#else
    v16 r;
    for (int i = 0; i < 2 * VL; i++) {
        const uint32_t x = ((vu) (i < VL ? a : b))[i % VL], nan = (x & 0x7fffffff) > 0x7f800000;
        const uint32_t near = x & 0x7f800000 ? x + 0x7fff + (x >> 16 & 1) : x & 0x80000000;
        r[i] = (int16_t) ((nan ? x | 0x400000 : near) >> 16);
    }
    return r;
#endif
}

// acc_i + w_2i x_2i + w_2i+1 x_2i+1
INL vf v_dot_bf16(vf acc, v16 w, v16 x) {
#if VL == 16 && defined(__AVX512BF16__)
    return (vf) _mm512_dpbf16_ps((__m512) acc, (__m512bh) w, (__m512bh) x);
#else
    for (int i = 0; i < VL; i++) {
        const uint32_t a = (uint32_t) ((vi) w)[i], b = (uint32_t) ((vi) x)[i];
        float f[4];
        const uint32_t bits[4] = { a & 0xffff0000, b & 0xffff0000, a << 16, b << 16 };
        for (int k = 0; k < 4; k++) {
            const uint32_t normal = bits[k] & 0x7f800000 ? bits[k] : 0;
            memcpy(&f[k], &normal, 4);
        }
        acc[i] += f[0] * f[1];
        acc[i] += f[2] * f[3];
    }
    return acc;
#endif
}

// 2*VL words: of each 128-bit part of a and b in turn, the 4 words of a, then those of b; numbers that are less than 0
// or more than 65535 become these
INL v16 v_pack_words(vi a, vi b) {
#if VL == 16 && defined(__AVX512BW__)
    return (v16) _mm512_packus_epi32((__m512i) a, (__m512i) b);
#else
    v16 r;
    for (int i = 0; i < VL; i++) {
        const int at = i / 4 * 8 + i % 4;
        r[at] = (int16_t) (a[i] < 0 ? 0 : a[i] > 65535 ? 65535 : a[i]);
        r[at + 4] = (int16_t) (b[i] < 0 ? 0 : b[i] > 65535 ? 65535 : b[i]);
    }
    return r;
#endif
}

// a and b being the 16 words of x's halves: a0 b0 a1 b1 ...
INL v16 v_interleave(v16 x) {
    return __builtin_shufflevector(x, x, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26,
        11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
// x's halves as v_pack_words has a and b
INL v16 v_by_fours(v16 x) {
    return __builtin_shufflevector(x, x, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23, 8, 9, 10, 11, 24, 25,
        26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
}
// words in the order of v_pack_words -> a0 b0 a1 b1 ...
INL v16 v_pairs(v16 x) {
    return __builtin_shufflevector(x, x, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15, 16, 20, 17, 21, 18, 22,
        19, 23, 24, 28, 25, 29, 26, 30, 27, 31);
}
// a0 b0 a1 b1 ... of the first, of the second 16 words; a and b as v_by_fours leaves them
INL v16 v_zip_first(v16 a, v16 b) {
    return __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 8, 40, 9, 41, 10, 42, 11, 43, 16, 48, 17, 49, 18,
        50, 19, 51, 24, 56, 25, 57, 26, 58, 27, 59);
}
INL v16 v_zip_second(v16 a, v16 b) {
    return __builtin_shufflevector(a, b, 4, 36, 5, 37, 6, 38, 7, 39, 12, 44, 13, 45, 14, 46, 15, 47, 20, 52, 21, 53, 22,
        54, 23, 55, 28, 60, 29, 61, 30, 62, 31, 63);
}

// x + table[bits 2 to 7 of x], halved; table: 64 bytes
INL v16 v_add_listed(v16 x, vi table) {
#if VL == 16 && defined(__AVX512VBMI__)
    const __m512i from = _mm512_set1_epi64(0x3a322a221a120a02), i = _mm512_multishift_epi64_epi8(from, (__m512i) x),
                  add = _mm512_maskz_permutexvar_epi8(0x5555555555555555, i, (__m512i) table);
    return (v16) _mm512_srli_epi16(_mm512_add_epi16((__m512i) x, add), 1);
#else
    uint8_t t[4 * VL];
    memcpy(t, &table, sizeof(t));
    for (int i = 0; i < 2 * VL; i++) {
        const uint16_t w = (uint16_t) x[i];
        x[i] = (int16_t) ((uint16_t) (w + t[w >> 2 & 63]) >> 1);
    }
    return x;
#endif
}
