// The 16-lane code of the AVX-512 kernels, in two AVX2 halves: runs where AVX-512 does not, for its results, not its
// speed.
#define MRA_VL       16
#define MRA_KERNELS  mra_kernels_wide
#define MRA_ISA_NAME "v4 in halves"
#include "../ggml-mra/src/cpu/kernels.inc"
