// A file that is written under a temporary name and renamed when it is complete.
#pragma once

#include "mra-error.h"

#include <stddef.h>
#include <stdio.h>

struct mra_writer {
    const char * path;
    char * tmp;
    FILE * file;
};

// in: what is being read, which out must not be; *w is zero before
enum mra_status mra_writer_open(struct mra_writer * w, const char * in, const char * out, struct mra_error * err);
// data, and zeros up to the next multiple of align
enum mra_status mra_write_bytes(
    struct mra_writer * w, const void * data, size_t n, size_t align, struct mra_error * err);
// st MRA_OK: puts the file in its place; else removes what there is of it
enum mra_status mra_writer_close(struct mra_writer * w, enum mra_status st, struct mra_error * err);
