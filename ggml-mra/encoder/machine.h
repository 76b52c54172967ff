// What the machine has for this process: memory and CPUs. Asked before ggml needs it, which aborts where it gets none.
#pragma once

#include "mra-error.h"

#include <stddef.h>

// Bytes that this process may still take: the least of what the machine has available, what is left of its control
// groups (versions 1 and 2) and of RLIMIT_AS. SIZE_MAX: nothing says. root: "" or a folder that holds proc/ and sys/.
size_t mra_memory_free(const char * root);

// CPUs that this process may use: those of its affinity mask, and no more than its control groups give it time for.
int mra_cpu_count(const char * root);

// Whether malloc gives n bytes now, all of them given back. For the many small pieces that ggml takes without a look.
enum mra_status mra_memory_probe(size_t n, struct mra_error * err);

// Whether n threads start; they end at once. Their stacks stay with the C library for the next threads.
enum mra_status mra_threads_probe(int n, struct mra_error * err);
