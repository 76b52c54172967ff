// What the lanes of a warp do together - shuffles, votes, matrix instructions - and asynchronous copies.
#include "emu.h"

#include <cmath>
#include <cstring>
#if defined(__F16C__)
#    include <immintrin.h>
#endif

namespace emu {

enum { OP_BALLOT = 50, OP_MMA_16 = 60, OP_MMA_8, OP_LDMATRIX = 70, OP_LDMATRIX_T, OP_SYNC = 100 };

float half_to_float(uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    const int e = h >> 10 & 31, m = h & 1023;
    const float mag = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf(1024 + m, e - 25) : ldexpf(m, -24);
    return h >> 15 ? -mag : mag;
#endif
}

uint16_t float_to_half(float f) {
#if defined(__F16C__)
    return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
#else
    const uint16_t sign = std::signbit(f) ? 0x8000 : 0;
    const float a = fabsf(f);
    if (std::isnan(f)) return sign | 0x7e00;
    if (a >= 65520) return sign | 0x7c00;
    int e;
    frexpf(a, &e);                                  // a = m 2^e, m in [1/2, 1)
    const int step = e - 11 < -24 ? -24 : e - 11;   // the last place of the fraction
    const int bits = (int) rintf(ldexpf(a, -step)); // up to 2048
    return sign | (uint16_t) (step == -24 ? bits : bits + ((step + 24) << 10));
#endif
}

void sync_warp(unsigned mask) {
    collective(OP_SYNC, mask, nullptr, [](void **, unsigned) { block.warp_epoch[block.current >> 5]++; });
}

uint64_t shuffle(uint64_t v, int from, unsigned mask, int op) {
    struct share {
        uint64_t v, out;
        int from;
    } s = { v, 0, from };
    collective(op, mask, &s, [](void ** lanes, unsigned m) {
        for (unsigned k = m; k; k &= k - 1) {
            share * a = (share *) lanes[__builtin_ctz(k)];
            if (m >> (a->from & 31) & 1) {
                a->out = ((share *) lanes[a->from & 31])->v;
                continue;
            }
            finding("a shuffle reads lane %d, which is not in its mask", a->from);
            a->out = 0x7fffffff7fffffffull;
        }
    });
    return s.out;
}

unsigned ballot(bool p, unsigned mask) {
    struct share {
        bool p;
        unsigned out;
    } s = { p, 0 };
    collective(OP_BALLOT, mask, &s, [](void ** lanes, unsigned m) {
        unsigned r = 0;
        for (unsigned k = m; k; k &= k - 1) r |= (unsigned) ((share *) lanes[__builtin_ctz(k)])->p << __builtin_ctz(k);
        for (unsigned k = m; k; k &= k - 1) ((share *) lanes[__builtin_ctz(k)])->out = r;
    });
    return s.out;
}

// Fragments as the PTX ISA lays them out: a: row lane/4 (+8), column 2*(lane%4) (+8); b: row 2*(lane%4) (+8), column
// lane/4.
struct mma_share {
    float * d;
    uint32_t a[4], b[2];
};
template <int K> static void mma_all(void ** lanes, unsigned mask) {
    if (mask != 0xffffffffu) {
        finding("mma.sync by a part of a warp");
        return;
    }
    alignas(32) float a[16][K], b[K][8], d[16][8];
    for (int l = 0; l < 32; l++) {
        const mma_share & s = *(mma_share *) lanes[l];
        const int g = l >> 2, t = (l & 3) * 2;
        for (int i = 0; i < K / 4; i++) {
            float * p = &a[g + (i & 1) * 8][t + (i >> 1) * 8];
            p[0] = half_to_float(s.a[i] & 0xffff);
            p[1] = half_to_float(s.a[i] >> 16);
        }
        for (int i = 0; i < K / 8; i++) {
            b[t + i * 8][g] = half_to_float(s.b[i] & 0xffff);
            b[t + i * 8 + 1][g] = half_to_float(s.b[i] >> 16);
        }
        for (int i = 0; i < 4; i++) d[g + (i >> 1) * 8][t + (i & 1)] = s.d[i];
    }
    for (int r = 0; r < 16; r++)
        for (int k = 0; k < K; k++)
            for (int c = 0; c < 8; c++) d[r][c] += a[r][k] * b[k][c];
    for (int l = 0; l < 32; l++) {
        mma_share & s = *(mma_share *) lanes[l];
        for (int i = 0; i < 4; i++) s.d[i] = d[(l >> 2) + (i >> 1) * 8][(l & 3) * 2 + (i & 1)];
    }
}
void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_share s = { d, { a[0], a[1], a[2], a[3] }, { b[0], b[1] } };
    collective(OP_MMA_16, 0xffffffffu, &s, mma_all<16>);
}
void mma_16x8x8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
    mma_share s = { d, { a0, a1 }, { b0 } };
    collective(OP_MMA_8, 0xffffffffu, &s, mma_all<8>);
}

struct ldmatrix_share {
    const uint16_t * row;
    uint32_t * r;
};
template <bool transpose> static void ldmatrix_all(void ** lanes, unsigned mask) {
    if (mask != 0xffffffffu) {
        finding("ldmatrix by a part of a warp");
        return;
    }
    const void * rows[32];
    for (int l = 0; l < 32; l++) rows[l] = ((ldmatrix_share *) lanes[l])->row;
    if (hook.ldmatrix) hook.ldmatrix(rows);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) {
            const uint16_t * const * m = (const uint16_t * const *) rows + i * 8;
            const int a = l >> 2, b = (l & 3) * 2;
            const uint16_t lo = transpose ? m[b][a] : m[a][b], hi = transpose ? m[b + 1][a] : m[a][b + 1];
            ((ldmatrix_share *) lanes[l])->r[i] = lo | (uint32_t) hi << 16;
        }
}
void ldmatrix_x4(uint32_t (&r)[4], const void * row, bool transpose) {
    if ((uintptr_t) row & 15) finding("a row of ldmatrix is not 16-byte aligned");
    const unsigned char * p = (const unsigned char *) row;
    if (p < block.shared || p + 16 > block.shared + block.shared_bytes)
        finding("a row of ldmatrix is not in shared memory");
    if (hook.access) hook.access(row, 16, ACCESS_READ, nullptr);
    ldmatrix_share s = { (const uint16_t *) row, r };
    if (transpose) collective(OP_LDMATRIX_T, 0xffffffffu, &s, ldmatrix_all<true>);
    else collective(OP_LDMATRIX, 0xffffffffu, &s, ldmatrix_all<false>);
}

static void do_copy(const pending_copy & c) {
    memcpy(c.dst, c.src, c.from);
    memset((char *) c.dst + c.from, 0, 16 - c.from);
}

// A copy happens as late, as early, or as randomly as the memory model allows.
void copy16(void * dst, const void * src, int from) {
    if (((uintptr_t) dst | (uintptr_t) src) & 15) finding("a copy is not 16-byte aligned");
    if (from != 0 && from != 16) {
        finding("a copy of %d bytes", from);
        return;
    }
    if (hook.access) {
        const void * pc = __builtin_return_address(0);
        if (from) hook.access(src, from, ACCESS_READ, pc);
        hook.access(dst, 16, ACCESS_COPY_ISSUE, pc);
    }
    const bool now = option.order == MRA_HOST_HIGHEST || (option.order == MRA_HOST_RANDOM && (random_bits() & 1));
    const pending_copy c = { dst, src, from, now };
    if (now) do_copy(c);
    else memset(dst, 0x7f, 16);
    fibers[block.current].open.push_back(c);
}
void copy_commit() {
    fiber & f = fibers[block.current];
    f.groups.push_back(f.open);
    f.open.clear();
}
void copy_wait(int n) {
    fiber & f = fibers[block.current];
    while ((int) f.groups.size() > n) {
        for (const pending_copy & c : f.groups.front()) {
            if (!c.done) do_copy(c);
            if (hook.access) hook.access(c.dst, 16, ACCESS_COPY_DONE, nullptr);
        }
        f.groups.erase(f.groups.begin());
    }
}

void touch_atomic(void * p, int bytes) {
    if (hook.access) hook.access(p, bytes, ACCESS_ATOMIC, __builtin_return_address(0));
}

} // namespace emu
