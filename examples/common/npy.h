// Arrays from .npy files (format 1 to 3), little-endian float32, float16 or int32 (read as float, exact below 2^24), C
// order.
#pragma once

#include "mra-error.h"

#include <stdint.h>

enum { NPY_MAX_DIMS = 8 };

struct npy {
    int n_dim;
    int64_t shape[NPY_MAX_DIMS]; // slowest first, as numpy prints it
    int64_t n;                   // product of the shape
    float * data;                // [n], owned
};

enum mra_status npy_read(struct npy * a, const char * path, struct mra_error * err);
void npy_free(struct npy * a);
