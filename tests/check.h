// A count of checks, for tests that need no ggml.
#pragma once

#include <stdio.h>
#include <stdlib.h>

// where MRA_FAIL_FAST is set the first failure ends the program
static int n_checks, n_failed;
#define CHECK(ok, ...) \
    do { \
        n_checks++; \
        if (!(ok)) { \
            n_failed++; \
            printf("FAIL: " __VA_ARGS__); \
            printf("\n"); \
            if (getenv("MRA_FAIL_FAST")) exit(1); \
        } \
    } while (0)
