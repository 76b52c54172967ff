// (a, b) -> (a cos - b sin, b cos + a sin) for the pairs of channels of each head
#include "common.h"

void mra_ref_rope(float * x, const float * table, int n_head, int d, int n_rot, bool interleaved) {
    const int r = n_rot / 2, step = interleaved ? 2 : 1, other = interleaved ? 1 : r;
    for (int h = 0; h < n_head; h++, x += d)
        for (int c = 0; c < r; c++) {
            const double a = x[c * step], b = x[c * step + other], cos = table[c], sin = table[r + c];
            x[c * step] = (float) (a * cos - b * sin);
            x[c * step + other] = (float) (b * cos + a * sin);
        }
}
