// The dense layers and integer attention of CPUs with products of matrices of bytes (neon-i8mm), these in plain C: for
// their results, not their speed.
#define MRA_VL   4
#define MRA_STEP 4
#define MRA_MATRIX
#define MRA_DENSE mra_dense_plain_matrix
#define MRA_INT8  mra_int8_plain_matrix
#include "../ggml-mra/src/cpu/dense.inc"
