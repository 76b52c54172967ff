// Included before everything else in the sources of the programs under test: their allocations may fail, those of
// ggml and of the C library stay as they are. MRA_FAIL_ALLOC=K: the K-th fails, K+: all from there on.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void * inject_malloc(size_t n);
void * inject_calloc(size_t n, size_t size);
void * inject_realloc(void * p, size_t n);
char * inject_strdup(const char * s);
int inject_memalign(void ** p, size_t align, size_t n);
__attribute__((format(printf, 2, 3))) int inject_asprintf(char ** s, const char * fmt, ...);

#define malloc  inject_malloc
#define calloc  inject_calloc
#define realloc inject_realloc
#undef strdup
#define strdup         inject_strdup
#define posix_memalign inject_memalign
#define asprintf       inject_asprintf
