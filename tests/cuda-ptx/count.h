// What a program asks of the interpreter of PTX that stands behind launches.
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

void ptx_load(const char * path); // a file that nvcc -ptx wrote
// Of the launches of attend and columns only each n-th block runs, and counts n times: their outputs are then not
// whole.
void ptx_run_every(int n);

// Warp instructions of all launches of a kernel since ptx_clear, by kind, and bytes of global memory in whole sectors
// of each request.
struct ptx_count {
    const char * kernel;
    int launches;
    double mma, ldmatrix, shared, global, exchange, branch, rest;
    double move; // moves between registers, of parameters and between address spaces: most are gone in machine code
    double read, write;
};
bool ptx_get(int i, struct ptx_count * c); // false: no such kernel
void ptx_clear(void);

#ifdef __cplusplus
}
#endif
