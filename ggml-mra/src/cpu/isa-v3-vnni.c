#define MRA_DENSE mra_dense_v3_vnni
#include "dense.inc"
