#define MRA_DENSE  mra_dense_v4_amx
#define MRA_INT8   mra_int8_v4_amx
#define MRA_FLOATS mra_kernels_v4
#include "amx.inc"
