#define MRA_INT8 mra_int8_v4_amx
#include "amx.inc"
