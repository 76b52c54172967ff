// A job: what a call wants of the encoder. Tokens in, rows out.
//
// The call owns a job, and so does a batch that computes it: job_release by the last of them frees it. While it waits,
// the queue alone changes it.
#pragma once

#include "models.h"

enum job_state {
    JOB_WAITING, // in the queue, or in parts with the encoder
    JOB_DONE,
    JOB_FAILED, // `status` and `err` say why
    JOB_GONE,   // the client has left
};

struct weight {
    int32_t index;
    float value;
};

struct job_seq {
    struct mra_token_list list;
    int n_whole;             // tokens before the text was cut
    double ms;               // predicted
    int64_t row;             // TOKENS: of its first token
    struct weight * weights; // sparse: [n_weights], owned
    int n_weights;
};

struct job {
    struct served * model;
    struct mra_output want; // sparse: MLM
    bool sparse;
    struct job_seq * seqs; // [n_seq], owned
    int n_seq, cap_seq;
    int64_t n_tokens;
    int64_t n_rows;

    float * rows; // the result: [n_rows][n_cols], owned
    int64_t n_cols;
    _Atomic int state; // enum job_state
    int status;        // HTTP
    struct mra_error err;

    // the queue's
    struct job *before, *after;
    atomic_int n_refs;
    int n_taken, n_done;                   // sequences
    double left_ms;                        // predicted, of those not taken
    double arrived, deadline, taken, done; // times
    int fd;                                // of the client, for noticing that it has left; -1: none
    void (*wake)(void * user);             // called once, by any thread, when the job is no longer waiting
    void * wake_user;
};

struct job * job_new(struct served * model, const struct mra_output * want); // NULL: no memory
void job_release(struct job * j);                                            // NULL is fine

// How a text becomes a sequence.
struct text_way {
    const char * prefix; // NULL: none
    bool truncate, left; // cut what is too long, at its end or (single texts) at its beginning
};
// Adds the sequence of a text or a pair (b NULL: a text). MRA_ERR_TOO_LONG: err.msg has the numbers.
enum mra_status job_add(struct job * j, const char * a, size_t n_a, const char * b, size_t n_b,
    const struct text_way * way, struct mra_error * err);
// The same of ids, as they are.
enum mra_status job_add_ids(struct job * j, const int32_t * ids, int n, bool truncate, struct mra_error * err);

bool job_is_truncated(const struct job * j, int i);
// Of the sequence with the least exact attention.
struct mra_attention_choice job_attention(const struct job * j);
