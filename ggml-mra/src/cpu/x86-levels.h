// CPUID words -> the instruction set levels of isa-*.c. A level needs every feature that its -march lets the compiler
// use, not only those that the kernels name.
#pragma once

#include <stdint.h>

struct mra_x86_words {
    uint32_t leaf1_ecx;                       // CPUID 1
    uint32_t leaf7_ebx, leaf7_ecx, leaf7_edx; // CPUID 7, 0
    uint32_t leaf7_1_eax;                     // CPUID 7, 1
    uint32_t ext1_ecx;                        // CPUID 0x80000001
    uint32_t xcr0;                            // registers that the system saves; 0 where it does not say
};

enum mra_x86_level { MRA_X86_V2, MRA_X86_V3, MRA_X86_V3_VNNI, MRA_X86_V4, MRA_X86_V4_VNNI, MRA_X86_V4_AMX };

// bits of the words
enum {
    X86_1C_V2 = 1 << 0 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23, // sse3 ssse3 cx16 sse4.1 sse4.2 popcnt
    X86_EC_V2 = 1 << 0,                                                  // lahf
    X86_1C_V3 = 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29,         // fma movbe osxsave avx f16c
    X86_7B_V3 = 1 << 3 | 1 << 5 | 1 << 8,                                // bmi1 avx2 bmi2
    X86_EC_V3 = 1 << 5,                                                  // lzcnt
    X86_XCR0_AVX = 1 << 1 | 1 << 2,                                      // xmm ymm
    X86_7A_VNNI = 1 << 4,                                                // avx_vnni
    X86_7C_VNNI = 1 << 11,                                               // avx512_vnni
    X86_XCR0_AVX512 = 1 << 5 | 1 << 6 | 1 << 7,                          // opmask, zmm 0 to 15, zmm 16 to 31
    X86_7C_AMX = 1 << 1,                                                 // avx512_vbmi
    X86_7A_AMX = 1 << 5,                                                 // avx512_bf16
    X86_7D_AMX = 1 << 22 | 1 << 24 | 1 << 25,                            // amx bf16, tile, int8
    X86_XCR0_AMX = 1 << 17 | 1 << 18,                                    // tile configuration, tiles
};
#define X86_7B_V4 (1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) // avx512 f dq cd bw vl

static inline int mra_x86_has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

// bit l: level l runs
static inline unsigned mra_x86_levels(struct mra_x86_words w) {
    const int v2 = mra_x86_has(w.leaf1_ecx, X86_1C_V2) && mra_x86_has(w.ext1_ecx, X86_EC_V2);
    const int v3 = v2 && mra_x86_has(w.leaf1_ecx, X86_1C_V3) && mra_x86_has(w.leaf7_ebx, X86_7B_V3) &&
        mra_x86_has(w.ext1_ecx, X86_EC_V3) && mra_x86_has(w.xcr0, X86_XCR0_AVX);
    const int v4 = v3 && mra_x86_has(w.leaf7_ebx, X86_7B_V4) && mra_x86_has(w.xcr0, X86_XCR0_AVX512);
    const int v4_vnni = v4 && mra_x86_has(w.leaf7_ecx, X86_7C_VNNI);
    unsigned levels = 0;
    if (v2) levels |= 1u << MRA_X86_V2;
    if (v3) levels |= 1u << MRA_X86_V3;
    if (v3 && mra_x86_has(w.leaf7_1_eax, X86_7A_VNNI)) levels |= 1u << MRA_X86_V3_VNNI;
    if (v4) levels |= 1u << MRA_X86_V4;
    if (v4_vnni) levels |= 1u << MRA_X86_V4_VNNI;
    if (v4_vnni && mra_x86_has(w.leaf7_ecx, X86_7C_AMX) && mra_x86_has(w.leaf7_1_eax, X86_7A_AMX) &&
        mra_x86_has(w.leaf7_edx, X86_7D_AMX) && mra_x86_has(w.xcr0, X86_XCR0_AMX))
        levels |= 1u << MRA_X86_V4_AMX;
    return levels;
}
