// real_text against printf: 2 million random floats of all sizes, and the edges.
#include "../examples/common/real.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static long n_checks, n_bad;

static void check(float x) {
    char got[REAL_TEXT_SIZE], want[64];
    const int n = real_text(got, x), n_want = snprintf(want, sizeof(want), "%.9g", (double) x);
    n_checks++;
    if (n == n_want && strcmp(got, want) == 0) return;
    if (n_bad++ < 10) printf("FAILED: %s, not %s (%a)\n", got, want, (double) x);
}

int main(void) {
    static const float edges[] = { 0, 1, 10, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f, 1e8f, .01f, .001f, 999999936, 1e9f, 1e10f, 123456784, .1f, .5f, 1e-4f, 9.9999997e-5f,
        1.5e-4f, 1e-5f, 1e-38f, 1e-45f, 3.4e38f, 16777216, 33554432.5f, 0.99999994f, 9.9999995e8f, 2097151.875f };
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        check(edges[i]);
        check(-edges[i]);
        check(nextafterf(edges[i], INFINITY));
        check(nextafterf(edges[i], 0));
    }
    check(NAN);
    check(INFINITY);
    check(-INFINITY);
    uint64_t s = 1;
    for (int i = 0; i < 2000000; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        uint32_t bits = (uint32_t) (s >> 32);
        if (i % 4) bits = (bits & 0x807fffffu) | (110 + (bits >> 23) % 50) << 23; // most of about 1e-5 to 1e9
        float x;
        memcpy(&x, &bits, 4);
        check(x);
    }
    printf("test-real: %ld checks, %ld failed\n", n_checks, n_bad);
    return n_bad != 0;
}
