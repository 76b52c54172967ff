// y = act(gate)*up
#include "common.h"

double mra_ref_activate(double x, int act) {
    switch (act) {
        case MRA_GLU_ACT_GELU: return x * 0.5 * erfc(-x * sqrt(0.5));
        case MRA_GLU_ACT_GELU_TANH: return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
        case MRA_GLU_ACT_RELU: return x > 0 || x != x ? x : 0;
        default: return x / (1 + exp(-x)); // MRA_GLU_ACT_SILU
    }
}

void mra_ref_glu(float * y, const float * gate, const float * up, int n, int act) {
    for (int c = 0; c < n; c++) y[c] = (float) (mra_ref_activate(gate[c], act) * up[c]);
}
