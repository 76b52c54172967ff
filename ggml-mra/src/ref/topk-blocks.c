// idx = positions of the m largest of x[n], ascending, ties to the lower position
#include "common.h"

int mra_ref_topk_blocks(int32_t * idx, float * x, int n, int m) {
    // t: the m-th largest value, found by going down the distinct values
    float t = INFINITY;
    int n_gt = 0, n_eq = 0, n_out = 0;
    if (m <= 0) return 0;
    for (bool top = true;; top = false) {
        float next = -INFINITY;
        int count = 0;
        for (int i = 0; i < n; i++) {
            if (!(x[i] >= -FLT_MAX) || !(top ? x[i] <= t : x[i] < t)) continue;
            if (x[i] > next) {
                next = x[i];
                count = 1;
            } else count += x[i] == next;
        }
        if (!count) break; // fewer than m can be taken
        n_gt += n_eq;
        n_eq = count;
        t = next;
        if (n_gt + n_eq >= m) break;
    }
    if (n_eq == 0) return 0;
    int left = m - n_gt; // of those equal to t
    for (int i = 0; i < n; i++) {
        if (x[i] > t || (x[i] == t && left-- > 0)) idx[n_out++] = i;
    }
    return n_out;
}
