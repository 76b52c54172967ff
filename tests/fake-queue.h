// A device's stream without threads. Work runs in order, but when is the test's choice: as soon as it may, or not
// before the host or another queue waits for it. A device may do either, so a missing dependency gives a wrong result
// every time, not now and then.
#pragma once

#include <stdbool.h>

struct fake_queue;

// happens when the first `at` jobs of q have run; {0}: has happened
struct fake_event {
    struct fake_queue * q;
    long at;
};

struct fake_queue * fake_queue_new(bool eager);
void fake_queue_free(struct fake_queue * q);                                  // runs what is left
void fake_queue_push(struct fake_queue * q, void (*run)(void *), void * job); // run frees job
void fake_queue_wait(struct fake_queue * q, struct fake_event e);             // what follows in q starts after e
struct fake_event fake_queue_record(struct fake_queue * q);
void fake_event_sync(struct fake_event e); // the host waits
void fake_queue_sync(struct fake_queue * q);
