// The thread that computes: batches of the queue through mra_encode.
#pragma once

#include "metrics.h"

struct worker;

// mra_encode's stop function for all models: nobody waits for the batch any more. user: a struct worker *
bool worker_stop(void * user);

struct worker * worker_new(void); // NULL: no memory
// Starts the thread; false: there is none to be had.
bool worker_start(struct worker * w, struct queue * q, struct metrics * m);
// Waits until the queue is closed and empty, then frees.
void worker_end(struct worker * w);
