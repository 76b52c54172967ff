#define MRA_DENSE mra_dense_neon_dot
#define MRA_INT8  mra_int8_neon_dot
#include "dense.inc"
