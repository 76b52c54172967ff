// mra-bench model: workers, which own a model each, and what they are asked.
#pragma once

#include "bench.h"

#include <stdio.h>
#include <sys/types.h>

struct cJSON;

// Reads a job per line of `in`, writes an answer per line to `out`, until the end of `in`. The first answer, before any
// job, is about the model. Returns an exit code. Jobs and answers are JSON objects:
//   {"frame": "columns", "budget": 0.125, "ids": [0, ...]} and optionally "threads": 1, "isa": "ref", "profile": true
//   {"seconds", "work", "isa", "threads", "peak_mb", "embedding": [mean of the last hidden states]}, with profile also
//   "parts_ms", "ops_ms", "dense_ms", "attention_ms", "rest_ms"; or {"error": "what went wrong"}
// "isa": "ref-rounded" stands for kernels_rounded().
int worker_main(const char * model, int n_threads, bool no_mmap, FILE * in, FILE * out);

// A worker in a process of its own: its peak memory is that of what it was asked to do.
struct worker {
    pid_t pid;
    FILE *in, *out;
};
// The worker's first answer; *reply is the caller's
enum mra_status worker_start(
    struct worker * w, const char * model, int n_threads, bool no_mmap, struct cJSON ** reply, struct mra_error * err);
// job is freed. *reply is the caller's, NULL on failure
enum mra_status worker_ask(struct worker * w, struct cJSON * job, struct cJSON ** reply, struct mra_error * err);
void worker_stop(struct worker * w); // a zeroed one is fine

// bench-model-rounded.c: the reference kernels where x is rounded to 8 bits before it meets quantized weights
const struct mra_kernels * kernels_rounded(void);
