#include "real.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 9, LEAST_EXPONENT = -4 }; // %g writes smaller numbers with an exponent

// |x| = digits * 10^(exponent - 8), digits of DIGITS decimal places. The product is exact: 24 bits of a float times the
// 28 bits of 5^12 fit the 53 of a double. So rint decides ties as printf does.
static int64_t digits_of(double x, int * exponent) {
    static const double power[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12 };
    int e = LEAST_EXPONENT;
    while (e < DIGITS - 1 && x * power[DIGITS - 1 - e] >= 1e9) e++;
    *exponent = e;
    return (int64_t) rint(x * power[DIGITS - 1 - e]); // below 1e9: no float is so close below a power of ten
}

int real_text(char to[REAL_TEXT_SIZE], float x) {
    const double a = fabs((double) x);
    if (!(a >= 1e-4 && a < 999999999)) return snprintf(to, REAL_TEXT_SIZE, "%.9g", (double) x);
    int e;
    int64_t n = digits_of(a, &e);
    char digits[DIGITS];
    for (int i = DIGITS - 1; i >= 0; i--, n /= 10) digits[i] = (char) ('0' + n % 10);
    int last = DIGITS; // without zeros at the end
    while (last > 1 && digits[last - 1] == '0') last--;
    char * p = to;
    if (x < 0) *p++ = '-';
    if (e < 0) {
        *p++ = '0';
        *p++ = '.';
        for (int i = -1; i > e; i--) *p++ = '0';
    }
    for (int i = 0; i < last || i <= e; i++) {
        if (i == e + 1 && e >= 0) *p++ = '.';
        *p++ = i < last ? digits[i] : '0';
    }
    *p = 0;
    return (int) (p - to);
}
