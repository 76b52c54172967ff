// A target of the tests: graphs on a device, by ggml's scheduler with the companion backend; what it is called in the
// table of kernels is mra_kernels_cuda (cuda-target.h), so that the same programs serve.
#pragma once

#include "cuda-target.h"

// Opens a device of ggml's; false with a reason. fake: every node of ours has to run there, and ggml's too; else ggml's
// run on the CPU, so that only ours are judged.
bool device_target_open(const char * name, bool fake, struct mra_error * err);
void device_target_close(void);
bool device_target_takes(struct ggml_cgraph * cg); // one with nodes of ours
void * device_target_run(struct graph * g, struct ggml_tensor * out, struct ggml_cgraph * cg, int n_threads);

ggml_backend_t device_target_backend(void); // the device's own
ggml_backend_t device_target_companion(void);
ggml_backend_sched_t device_target_sched(void); // a new one: device, companion, CPU

extern double device_target_worst;  // largest error that was looked at
extern long device_target_nodes[2]; // of ours that ran on the CPU, on the device

// test-ops.c, test-attn.c, test-layers.c, test-rope.c and test-span-pool.c
int test_ops_main(int argc, char ** argv);
int test_attn_main(int argc, char ** argv);
int test_layers_main(void);
int test_rope_main(void);
int test_span_pool_main(void);

// called before every graph: lets a test change how the device behaves. May be NULL
extern void (*device_target_vary)(int n_threads);
