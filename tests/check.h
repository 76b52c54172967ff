// A count of checks, for tests that need no ggml.
#pragma once

#include <stdio.h>

static int n_checks, n_failed;
#define CHECK(ok, ...) \
    do { \
        n_checks++; \
        if (!(ok)) { \
            n_failed++; \
            printf("FAIL: " __VA_ARGS__); \
            printf("\n"); \
        } \
    } while (0)
