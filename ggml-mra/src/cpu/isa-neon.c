#define MRA_KERNELS  mra_kernels_neon
#define MRA_ISA_NAME "neon"
#include "kernels.inc"
