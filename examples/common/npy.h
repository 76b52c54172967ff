// Arrays from .npy files (format 1 to 3), little-endian float32, float16 or int32 (read as float, exact below 2^24), C
// order; and the header of such a file.
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

enum { NPY_HEADER = 128 };
// The bytes before the values of an array of n_rows x n_cols, or of n_rows where n_cols is 0. descr: "<f4"
void npy_header(char head[NPY_HEADER], const char * descr, int64_t n_rows, int64_t n_cols);
// the same of any shape, slowest first, n_dim <= 4
void npy_header_of(char head[NPY_HEADER], const char * descr, const int64_t * shape, int n_dim);
