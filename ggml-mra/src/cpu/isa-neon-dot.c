#define MRA_DENSE mra_dense_neon_dot
#include "dense.inc"
