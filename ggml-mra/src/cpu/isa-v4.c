#define MRA_KERNELS  mra_kernels_v4
#define MRA_ISA_NAME "v4"
#include "kernels.inc"
