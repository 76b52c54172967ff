// The loops of AVX-512 VNNI, and products of tiles of bfloat16.
#define PEAK_ISA  peak_amx
#define PEAK_NAME "amx"
#define PEAK_BF16 bf16_loop
#include <stdint.h>

enum { N_TILES = 4, TILE_LANES = 16 * 16, TILE_DEPTH = 32 }; // sums; 4 cover the latency of a product

// sum of all lanes, each TILE_DEPTH*n_step: multiples of 32, which floats count exactly up to 2^29
static double bf16_loop(int64_t n_step) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };
    static const uint32_t ones = 0x3f803f80;
    uint32_t in[TILE_LANES];
    float out[TILE_LANES];
    double sum = 0;
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = 16;
    }
    for (int i = 0; i < TILE_LANES; i++) in[i] = ones;
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm4\n\ttileloadd (%0,%1,1), %%tmm5\n\t"
                     "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::"r"(in),
                     "r"((int64_t) 64)
                     : "memory");
    for (int64_t s = 0; s < n_step; s++)
        __asm__ volatile("tdpbf16ps %tmm5, %tmm4, %tmm0\n\ttdpbf16ps %tmm5, %tmm4, %tmm1\n\t"
                         "tdpbf16ps %tmm5, %tmm4, %tmm2\n\ttdpbf16ps %tmm5, %tmm4, %tmm3");
#define ADD(t) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(out), "r"((int64_t) 64) : "memory"); \
    for (int i = 0; i < TILE_LANES; i++) sum += (double) out[i];
    ADD(0)
    ADD(1)
    ADD(2)
    ADD(3)
#undef ADD
    __asm__ volatile("tilerelease" ::: "memory");
    return sum;
}
#define PEAK_BF16_FLOPS (2.0 * N_TILES * TILE_LANES * TILE_DEPTH)
#include "bench-peak.inc"
