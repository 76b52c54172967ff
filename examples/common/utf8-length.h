// Which bytes are UTF-8.
#pragma once

#include <stddef.h>

// bytes of the well-formed UTF-8 character at s, 0: there is none
static inline size_t utf8_length(const unsigned char * s, size_t n) {
    const unsigned char a = s[0];
    const size_t len = a < 0x80 ? 1
        : a >= 0xc2 && a < 0xe0 ? 2
        : a >= 0xe0 && a < 0xf0 ? 3
        : a >= 0xf0 && a < 0xf5 ? 4
                                : 0;
    if (len == 0 || len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((a == 0xe0 && s[1] < 0xa0) || (a == 0xed && s[1] >= 0xa0) || (a == 0xf0 && s[1] < 0x90) ||
        (a == 0xf4 && s[1] >= 0x90))
        return 0;
    return len;
}

// where the first byte of s[0 .. n) is that is not part of well-formed UTF-8; n: all of it is
static inline size_t utf8_end(const char * s, size_t n) {
    size_t i = 0;
    for (size_t len; i < n; i += len) {
        len = utf8_length((const unsigned char *) s + i, n - i);
        if (len == 0) break;
    }
    return i;
}
