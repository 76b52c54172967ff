#define MRA_KERNELS  mra_kernels_v3
#define MRA_ISA_NAME "v3"
#include "kernels.inc"
