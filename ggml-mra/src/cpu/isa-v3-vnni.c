#define MRA_DENSE mra_dense_v3_vnni
#define MRA_INT8  mra_int8_v3_vnni
#include "dense.inc"
