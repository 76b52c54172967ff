// A target of the tests: our nodes by the CUDA kernels, emulated on the host; ggml's own nodes on the CPU.
#pragma once

#include "harness.h"

extern const struct mra_kernels mra_kernels_cuda; // only its name and select are CUDA's

// every number of threads stands for another schedule of the emulator
bool cuda_target_compute(ggml_backend_t cpu, struct ggml_cgraph * cg, int n_threads);
void cuda_target_summary(void); // counts what the checker found as failures
