// As isa-bytes.c, with 8 lanes.
#define MRA_VL    8
#define MRA_STEP  4
#define MRA_DENSE mra_dense_v3_bytes
#define MRA_INT8  mra_int8_v3_bytes
#include "../ggml-mra/src/cpu/dense.inc"
