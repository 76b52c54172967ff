#define MRA_DENSE mra_dense_v4_vnni
#define MRA_INT8  mra_int8_v4_vnni
#include "dense.inc"
