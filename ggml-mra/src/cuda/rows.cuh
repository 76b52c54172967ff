// Rows of floats that lie evenly apart, whatever the shape they are in.
#pragma once

#include "../node-params.h"
#include "common.cuh"

struct even_rows {
    char * data;
    size_t nb; // bytes from row to row
    int64_t n;
};
static inline struct even_rows rows_of(const struct mra_tensor & t) {
    return { t.data, t.nb[1], t.ne[1] * t.ne[2] * t.ne[3] };
}
MRA_DEVICE float * row_at(const struct even_rows & r, int64_t i) { return (float *) (r.data + i * r.nb); }
