#include "fake-queue.h"

#include <stdlib.h>

struct job {
    void (*run)(void *);
    void * job;
    struct fake_event after;
};

struct fake_queue {
    bool used, eager;
    struct job * jobs;
    long first;   // job of jobs[0]
    long n, done; // ever pushed, ever started; not reset: an event may outlive its queue
};

static struct fake_queue queues[256];

static void run_until(struct fake_queue * q, long at) {
    while (q->done < at) {
        const struct job j = q->jobs[q->done++ - q->first];
        fake_event_sync(j.after);
        if (j.run) j.run(j.job);
    }
}

struct fake_queue * fake_queue_new(bool eager) {
    for (int i = 0; i < 256; i++)
        if (!queues[i].used) {
            queues[i].used = true;
            queues[i].eager = eager;
            return &queues[i];
        }
    abort();
}

void fake_queue_free(struct fake_queue * q) {
    fake_queue_sync(q);
    free(q->jobs);
    q->jobs = NULL;
    q->first = q->n;
    q->used = false;
}

static void push(struct fake_queue * q, struct job j) {
    q->jobs = realloc(q->jobs, (size_t) (q->n + 1 - q->first) * sizeof(j));
    q->jobs[q->n++ - q->first] = j;
    if (q->eager) fake_queue_sync(q);
}

void fake_queue_push(struct fake_queue * q, void (*run)(void *), void * job) {
    push(q, (struct job) { .run = run, .job = job });
}
void fake_queue_wait(struct fake_queue * q, struct fake_event e) { push(q, (struct job) { .after = e }); }
struct fake_event fake_queue_record(struct fake_queue * q) {
    return (struct fake_event) { q, q->n };
}
void fake_event_sync(struct fake_event e) {
    if (e.q) run_until(e.q, e.at);
}
void fake_queue_sync(struct fake_queue * q) { run_until(q, q->n); }
