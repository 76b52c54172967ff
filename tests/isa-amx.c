// Attention by tiles of bfloat16, the tiles in plain C: for its results, not its speed.
#define MRA_VL   16
#define MRA_INT8 mra_int8_plain_tiles
#include "../ggml-mra/src/cpu/amx.inc"
