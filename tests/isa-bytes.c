// The dense layers and integer attention of CPUs with dot products of bytes, in AVX2 halves (16 lanes) or lane by lane
// (8): for their results, not their speed.
#define MRA_VL    16
#define MRA_STEP  4
#define MRA_DENSE mra_dense_wide_bytes
#define MRA_INT8  mra_int8_wide_bytes
#include "../ggml-mra/src/cpu/dense.inc"
