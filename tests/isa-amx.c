// Dense layers and attention by tiles of bfloat16, the tiles in plain C: for their results, not their speed.
#define MRA_VL     16
#define MRA_STEP   4
#define MRA_DENSE  mra_dense_plain_tiles
#define MRA_INT8   mra_int8_plain_tiles
#define MRA_FLOATS mra_kernels_wide
#include "../ggml-mra/src/cpu/amx.inc"
