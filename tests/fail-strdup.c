// LD_PRELOAD: strdup finds no memory.
#include <stddef.h>

char * strdup(const char * s);

char * strdup(const char * s) {
    (void) s;
    return NULL;
}
