// mra_fail: one printf into struct mra_error, made one line.
#include "mra-error.h"

#include <stdarg.h>
#include <stdio.h>

// Names from files hold anything. Control characters (those of C1, too: UTF-8 c2 80..9f) become ?: a message is one
// line, and no command to a terminal.
static void make_plain(char * s) {
    for (; *s; s++) {
        const unsigned char c = (unsigned char) s[0], next = (unsigned char) s[1];
        if (c < 0x20 || c == 0x7f) *s = '?';
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) s[0] = s[1] = '?';
    }
}

enum mra_status mra_fail(struct mra_error * err, enum mra_status code, const char * fmt, ...) {
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
        va_end(ap);
        make_plain(err->msg);
        err->code = code;
    }
    return code;
}
