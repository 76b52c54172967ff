// Contenders as graphs on one engine, built and allocated once, and their times.
#pragma once

#include "common/compare.h"
#include "bench.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

// one backend and one thread pool for all
struct engine {
    ggml_backend_t cpu;
    struct ggml_threadpool * pool;
    int n_threads;
};
enum mra_status engine_new(struct engine * e, int n_threads, struct mra_error * err);
void engine_free(struct engine * e);

struct bench_graph {
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    struct ggml_tensor * out; // what it computes
    ggml_gallocr_t alloc;
    double scratch; // bytes besides the output
};

// A graph is begun, its nodes are built in g->ctx up to g->out, and it is allocated; what: in a message, "n = 512"
enum mra_status graph_begin(struct bench_graph * g, struct mra_error * err);
enum mra_status graph_allocate(
    struct bench_graph * g, const struct engine * e, const char * what, struct mra_error * err);
void graph_free(struct bench_graph * g);
double graph_run(const struct bench_graph * g, const struct engine * e); // seconds, negative: it failed

struct timing {
    double ms, min_ms;
    int reps;
}; // ms: median
// Times those of n graphs that are not NULL, taking turns. reps 0: as many as make sense.
enum mra_status measure(struct bench_graph * const * g, int n, const struct engine * e, int reps, struct timing * t,
    struct mra_error * err);
