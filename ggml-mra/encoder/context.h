// A context: backends, the scheduler that gives graphs their memory, and buffers that live between calls.
#pragma once

#include "ggml-mra-backend.h"
#include "graph.h"

struct mra_context {
    const struct mra_model * model;
    struct mra_context_params params;
    struct mra_stats stats;

    ggml_backend_t backends[3];    // the model's device and its companion, where that is not the CPU; then the CPU
    ggml_backend_t companion;      // one of them, or NULL
    struct mra_error no_companion; // why, or ""
    int n_backends;
    struct ggml_threadpool * threads;
    ggml_backend_sched_t sched;
    size_t sched_size;              // nodes it was made for
    const struct mra_graph * graph; // being computed
    double part_start;              // profile: end of the last part
    double op_start;                // and of the last node

    void * meta; // ends of parts, tensor structs and graph of a pass
    size_t meta_cap;
    void * ints; // its inputs
    size_t ints_cap;
    float * rows; // hidden states on their way to a pool
    size_t rows_cap;
    float * out; // result
    size_t out_cap;
};

// grows *p to at least n bytes; contents are not kept
enum mra_status mra_context_reserve(void ** p, size_t * cap, size_t n, struct mra_error * err);

// the scheduler, able to hold n nodes and leafs, empty
enum mra_status mra_context_sched(struct mra_context * ctx, size_t n, struct mra_error * err);
