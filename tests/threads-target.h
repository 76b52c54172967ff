// A target of the tests: our nodes by threads that the thread sanitizer knows, ggml's own nodes by ggml with one
// thread. ggml's threads wait for each other in ways that it does not see where ggml itself is not compiled with it.
#pragma once

#include "harness.h"

bool threads_target_compute(ggml_backend_t cpu, struct ggml_cgraph * cg, int n_threads);
