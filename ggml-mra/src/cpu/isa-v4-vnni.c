#define MRA_DENSE mra_dense_v4_vnni
#include "dense.inc"
