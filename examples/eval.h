// mra-eval: what its parts share.
#pragma once

#include "common/attn-graph.h"
#include "common/program.h"

enum { EVAL_LENGTHS = 16, EVAL_FRAMES = 16, EVAL_BUDGETS = 8, EVAL_SETTINGS = EVAL_FRAMES * EVAL_BUDGETS };

struct setting {
    const char * name; // of the frame
    struct mra_attn_params attn;
};

// a length with a setting, over heads of all layers and texts
struct eval_cell {
    int n_heads, n_runs; // runs: layers of texts
    double sum, worst;   // of heads' relative errors
    double e2, r2;       // squares of all heads, of the error and of exact attention
    double ms, bytes;    // sum over runs; largest
};

struct eval_head {
    int length, text, layer, head; // length: index; text, layer and head from 0
    double entropy;
    float error[EVAL_SETTINGS];
};

struct eval {
    int64_t lengths[EVAL_LENGTHS];
    int n_lengths, n_texts, reps; // texts of each length, at most
    const char * frames[EVAL_FRAMES];
    double budgets[EVAL_BUDGETS];
    int n_frames, n_budgets;
    struct setting settings[EVAL_SETTINGS];
    int n_settings;
    int done[EVAL_LENGTHS]; // texts
    bool by_head, json;
    int n_threads;
    struct eval_cell cells[EVAL_LENGTHS][EVAL_SETTINGS];
    struct eval_head * heads;
    int n_heads, cap_heads;
    int n_near;           // layers with a window or ALiBi, left out
    struct mra_error err; // of a study that failed
    // --capture
    const char * capture;
    float * qkv; // [3][n_captured][n][d]
    int n_captured, every, captured_n, captured_d;
};

// eval-study.c: on_attention of the study; user: struct eval
void eval_study(void * user, const struct mra_attention_input * x);
// eval-capture.c: of --capture; and the file. layers, heads of the model
void eval_capture_begin(struct eval * e, const struct mra_model_info * info, const char * program);
void eval_capture(void * user, const struct mra_attention_input * x);
void eval_capture_write(const struct eval * e, const char * program);
// eval-output.c
void eval_print(struct eval * e, const char * model);
