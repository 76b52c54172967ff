#define MRA_KERNELS  mra_kernels_base
#define MRA_ISA_NAME "base"
#define MRA_SCRATCH_SIZES
#include "kernels.inc"
