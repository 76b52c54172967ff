// Allocations that fail when asked to; MRA_COUNT_ALLOC names a file that gets their number.
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long n_calls;

static void write_count(void) {
    FILE * f = fopen(getenv("MRA_COUNT_ALLOC"), "w");
    if (!f) return;
    fprintf(f, "%ld\n", atomic_load(&n_calls));
    fclose(f);
}

static int fails(void) {
    static long wanted = -1;
    static int onwards;
    if (wanted < 0) {
        const char * s = getenv("MRA_FAIL_ALLOC");
        wanted = s ? atol(s) : 0;
        onwards = s && strchr(s, '+');
        if (getenv("MRA_COUNT_ALLOC")) atexit(write_count);
    }
    const long n = atomic_fetch_add(&n_calls, 1) + 1;
    if (wanted == 0 || (onwards ? n < wanted : n != wanted)) return 0;
    errno = ENOMEM;
    return 1;
}

void * inject_malloc(size_t n);
void * inject_calloc(size_t n, size_t size);
void * inject_realloc(void * p, size_t n);
char * inject_strdup(const char * s);
int inject_memalign(void ** p, size_t align, size_t n);
int inject_asprintf(char ** s, const char * fmt, ...);

void * inject_malloc(size_t n) { return fails() ? NULL : malloc(n); }
void * inject_calloc(size_t n, size_t size) { return fails() ? NULL : calloc(n, size); }
void * inject_realloc(void * p, size_t n) { return fails() ? NULL : realloc(p, n); }
char * inject_strdup(const char * s) { return fails() ? NULL : strdup(s); }
int inject_memalign(void ** p, size_t align, size_t n) { return fails() ? ENOMEM : posix_memalign(p, align, n); }

int inject_asprintf(char ** s, const char * fmt, ...) {
    if (fails()) return -1; // *s is then not defined: the caller must not look at it
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(s, fmt, ap);
    va_end(ap);
    return n;
}
