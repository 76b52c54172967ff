// What a test says to the emulator that runs CUDA kernels on the host, and what it learns from it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// In which order the threads of a block run between two points where they meet, and when an asynchronous copy really
// happens.
enum mra_host_order {
    MRA_HOST_LOWEST,  // lowest thread first; copies as late as possible
    MRA_HOST_HIGHEST, // highest thread first; copies at once
    MRA_HOST_RANDOM,  // both by chance
};
void mra_host_schedule(enum mra_host_order order, uint64_t seed);

// Memory that kernels may touch; only the checker looks at it. A name is kept as a pointer.
void mra_host_buffer(const void * p, size_t bytes, const char * name);
void mra_host_buffers_clear(void);

// Rules broken since the last call: barriers and collectives that not all threads reach, misalignment; with the checker
// also races, bounds, uninitialised shared memory, copies in flight. The first few are printed to stderr.
unsigned mra_host_findings(void);

// Thread blocks of launch number i since mra_host_only_list(true), behind which kernels are listed, and do not run.
struct mra_host_launch {
    const char * kernel;
    uint64_t blocks;
};
void mra_host_only_list(bool on);
bool mra_host_launch_get(int i, struct mra_host_launch * l); // false: no such launch

bool mra_host_checks(void); // is the checker built in?
int mra_host_arch(void);    // 750: no asynchronous copies, small tensor-core instruction; 800: both

// Shared memory passes and global memory sectors of what kernel number i (of those run so far) asked for, against the
// fewest possible; from its first blocks. False: no such kernel, no checker, or not compiled by gcc.
struct mra_host_traffic {
    const char * kernel;
    double shared, global;
}; // ratios, 1: none wasted; 0: no such access
bool mra_host_traffic_get(int i, struct mra_host_traffic * t);
void mra_host_traffic_print(int i, double limit); // its places above a limit, as addresses of the program

#ifdef __cplusplus
}
#endif
