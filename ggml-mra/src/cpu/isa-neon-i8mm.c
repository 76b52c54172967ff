#define MRA_DENSE mra_dense_neon_i8mm
#define MRA_INT8  mra_int8_neon_i8mm
#include "dense.inc"
