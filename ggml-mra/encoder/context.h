// A context: backends, the scheduler that gives graphs their memory, and buffers that live between calls.
#pragma once

#include "ggml-mra-backend.h"
#include "graph.h"
#include "threads.h"

struct mra_context {
    const struct mra_model * model;
    struct mra_context_params params;
    struct mra_stats stats;

    ggml_backend_t backends[3];    // the model's device and its companion, where that is not the CPU; then the CPU
    ggml_backend_t companion;      // one of them, or NULL
    struct mra_error no_companion; // why, or ""
    int n_backends;
    struct ggml_threadpool *
        threads; // params.n_threads of them, asleep between graphs; NULL: one, or graphs start them
    bool shares; // the CPUs with other contexts
    struct mra_threads_user at_work;
    int n_threads; // of the next graph
    ggml_backend_sched_t sched;
    size_t sched_size;              // nodes it was made for
    const struct mra_graph * graph; // being computed, with
    const struct mra_graph_shape * shape;
    const int * seqs;  // the caller's numbers of its sequences
    double part_start; // profile: end of the last part
    double op_start;   // and of the last node

    void * meta; // ends of parts, tensor structs and graph of a pass
    size_t meta_cap;
    void * ints; // its inputs
    size_t ints_cap;
    float * rows; // of a device's result, on their way to their places
    size_t rows_cap;
    double * errors; // [n_errors][n_layer][n_head][MRA_ATTN_ERROR_SUMS]
    size_t errors_cap;
    int n_errors;       // sequences of the last mra_encode, 0: not measured
    struct mra_sought { // max_error: of each sequence of the last mra_encode
        int step;       // of mra_attention_step; -1: exact without a search
        int n;          // tokens
    } * sought;
    size_t sought_cap;
    int n_sought;
    float * head_shares; // [n_layer][n_head] of a pass
    size_t head_shares_cap;
    float * out; // result
    size_t out_cap;
    float * later; // result of a head that is computed of pooled rows
    size_t later_cap;
};

// how many threads the next graph gets; before it is built
void mra_context_choose_threads(struct mra_context * ctx);

// tokens whose feed-forward part is computed at a time
int mra_context_ffn_rows(const struct mra_context * ctx);

// grows *p to at least n bytes; contents are not kept
enum mra_status mra_context_reserve(void ** p, size_t * cap, size_t n, struct mra_error * err);

// the scheduler, able to hold n nodes and leafs, empty
enum mra_status mra_context_sched(struct mra_context * ctx, size_t n, struct mra_error * err);

// Memory for gf's tensors, as far as params.max_bytes and the machine allow it: measured, then taken, so that
// ggml_backend_sched_alloc_graph cannot fail behind it. The scheduler is empty again; of several backends gf is used
// up.
enum mra_status mra_context_reserve_graph(
    struct mra_context * ctx, struct ggml_cgraph * gf, int n_tokens, struct mra_error * err);
