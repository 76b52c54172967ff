// Jobs that wait for the encoder.
//
// A batch is formed when the encoder is free, of sequences that need the same pass: as many as their predicted work
// fits `batch_ms`, a sequence above that alone. Batches take turns: one is led by the oldest job, the next by the one
// with the least work left. So nothing waits for ever, and a short text waits for one batch of long ones at most. Equal
// jobs are taken in their order.
//
// The queue is bounded in work: a job is refused where `max_ms` wait already, however many texts it has.
#pragma once

#include "job.h"

struct queue;

struct queue_limits {
    double batch_ms, max_ms, timeout_ms;
    int max_jobs;
};
struct queue_state {
    int n_jobs;
    double waiting_ms; // predicted
    int64_t n_gone, n_late;
};

struct queue * queue_new(const struct queue_limits * limits); // NULL: no memory
void queue_free(struct queue * q);

// Whether the job may come; its work counts from now on. false: not now, and *retry_s is when to ask again.
bool queue_admit(struct queue * q, struct job * j, int * retry_s);
// An admitted job waits. j->wake is called when it is done; that may be before this returns.
void queue_put(struct queue * q, struct job * j);

struct piece { // sequences [first, first + n) of a job
    struct job * job;
    int first, n;
};
// The encoder's side. Waits for work; returns the number of pieces, at most `max`, 0: the queue is closed and empty.
int queue_take(struct queue * q, struct piece * pieces, int max);
// The pieces are computed, or have failed (queue_fail); they are released.
void queue_done(struct queue * q, struct piece * pieces, int n);
void queue_fail(struct queue * q, struct job * j, int status, const struct mra_error * err);

// Fails jobs whose time is up and drops those whose client has left; called some times a second.
void queue_watch(struct queue * q);
// No jobs are admitted from now on; queue_take returns 0 when none is left.
void queue_close(struct queue * q);
struct queue_state queue_state(struct queue * q);
