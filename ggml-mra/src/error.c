// mra_fail: one printf into struct mra_error.
#include "mra-error.h"

#include <stdarg.h>
#include <stdio.h>

enum mra_status mra_fail(struct mra_error * err, enum mra_status code, const char * fmt, ...) {
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
        va_end(ap);
        err->code = code;
    }
    return code;
}
