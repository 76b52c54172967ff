#include "queue.h"

#include "common/clock.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct queue_limits limits;
    struct job *first, *last; // by age
    int n_jobs, n_admitted;   // admitted ones may not wait yet
    double ms;                // predicted work of all that is admitted and not yet computed
    bool closed, shortest_turn;
    struct job ** order; // [max_jobs], scratch
    struct pollfd * fds; // [max_jobs], scratch
    int64_t n_gone, n_late;
};

struct queue * queue_new(const struct queue_limits * limits) {
    struct queue * q = calloc(1, sizeof(*q));
    if (!q) return NULL;
    q->order = calloc((size_t) limits->max_jobs, sizeof(*q->order));
    q->fds = calloc((size_t) limits->max_jobs, sizeof(*q->fds));
    if (!q->order || !q->fds) {
        free(q->order);
        free(q->fds);
        free(q);
        return NULL;
    }
    q->limits = *limits;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->more, NULL);
    return q;
}

void queue_free(struct queue * q) {
    if (!q) return;
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->more);
    free(q->order);
    free(q->fds);
    free(q);
}

// ---- in ----

bool queue_admit(struct queue * q, struct job * j, int * retry_s) {
    pthread_mutex_lock(&q->lock);
    const bool good = q->ms <= q->limits.max_ms && q->n_admitted < q->limits.max_jobs && !q->closed;
    if (good) {
        q->ms += j->left_ms;
        q->n_admitted++;
    } else *retry_s = (int) ceil(fmin(fmax((q->ms - q->limits.max_ms / 2) / 1e3, 1), 600));
    pthread_mutex_unlock(&q->lock);
    return good;
}

void queue_put(struct queue * q, struct job * j) {
    pthread_mutex_lock(&q->lock);
    j->arrived = now_ms();
    j->deadline = j->arrived + q->limits.timeout_ms;
    j->before = q->last;
    if (q->last) q->last->after = j;
    else q->first = j;
    q->last = j;
    q->n_jobs++;
    atomic_fetch_add(&j->n_refs, 1); // the queue's own
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
}

// ---- out; the lock is held ----

// The job is no longer waiting. The caller wakes it when the lock is free, then releases it.
static void remove_job(struct queue * q, struct job * j, enum job_state state) {
    if (j->before) j->before->after = j->after;
    else q->first = j->after;
    if (j->after) j->after->before = j->before;
    else q->last = j->before;
    q->n_jobs--;
    q->n_admitted--;
    q->ms = fmax(q->ms - j->left_ms, 0); // sequences that are with the encoder are counted off there
    j->left_ms = 0;
    j->done = now_ms();
    atomic_store(&j->state, state);
}

static void wake(struct job * j) {
    j->wake(j->wake_user);
    job_release(j);
}

// ---- batches ----

static int by_work(const void * a, const void * b) {
    const struct job *x = *(struct job *const *) a, *y = *(struct job *const *) b;
    return x->left_ms != y->left_ms ? (x->left_ms < y->left_ms ? -1 : 1)
                                    : (x->arrived > y->arrived) - (x->arrived < y->arrived);
}

static bool same_pass(const struct job * a, const struct job * b) {
    return a->model == b->model && !a->sparse && !b->sparse && a->want.kind == b->want.kind &&
        a->want.pooling == b->want.pooling && a->want.normalize == b->want.normalize &&
        a->want.n_dims == b->want.n_dims;
}

// sequences of j that still fit; *ms: the batch's work so far
static int take_some(const struct queue * q, struct job * j, double * ms) {
    int n = 0;
    while (j->n_taken < j->n_seq && (*ms == 0 || *ms + j->seqs[j->n_taken].ms <= q->limits.batch_ms)) {
        const double one = fmax(j->seqs[j->n_taken].ms, 1e-9);
        *ms += one;
        j->left_ms -= one;
        j->n_taken++;
        n++;
        if (j->sparse) break; // a row of all words per token: one at a time
    }
    return n;
}

static int form_batch(struct queue * q, struct piece * pieces, int max) {
    int n_order = 0, n = 0;
    for (struct job * j = q->first; j; j = j->after) q->order[n_order++] = j;
    if (q->shortest_turn) qsort(q->order, (size_t) n_order, sizeof(*q->order), by_work);
    q->shortest_turn = !q->shortest_turn;
    double ms = 0;
    for (int i = 0; i < n_order && n < max; i++) {
        struct job * j = q->order[i];
        if (i > 0 && !same_pass(q->order[0], j)) continue;
        const int first = j->n_taken, n_seq = take_some(q, j, &ms);
        if (n_seq == 0) continue;
        if (first == 0) j->taken = now_ms();
        atomic_fetch_add(&j->n_refs, 1);
        pieces[n++] = (struct piece) { j, first, n_seq };
    }
    return n;
}

int queue_take(struct queue * q, struct piece * pieces, int max) {
    int n = 0;
    pthread_mutex_lock(&q->lock);
    while (n == 0) {
        while (!q->first && !q->closed) pthread_cond_wait(&q->more, &q->lock);
        if (!q->first) break;
        n = form_batch(q, pieces, max);
    }
    pthread_mutex_unlock(&q->lock);
    return n;
}

void queue_done(struct queue * q, struct piece * pieces, int n) {
    for (int i = 0; i < n; i++) {
        struct job * j = pieces[i].job;
        bool done = false;
        pthread_mutex_lock(&q->lock);
        for (int s = 0; s < pieces[i].n; s++) q->ms = fmax(q->ms - j->seqs[pieces[i].first + s].ms, 0);
        j->n_done += pieces[i].n;
        if (atomic_load(&j->state) == JOB_WAITING && j->n_done == j->n_seq) {
            remove_job(q, j, JOB_DONE);
            done = true;
        }
        pthread_mutex_unlock(&q->lock);
        if (done) wake(j);
        job_release(j);
    }
}

void queue_fail(struct queue * q, struct job * j, int status, const struct mra_error * err) {
    pthread_mutex_lock(&q->lock);
    const bool waiting = atomic_load(&j->state) == JOB_WAITING;
    if (waiting) {
        j->status = status;
        j->err = *err;
        remove_job(q, j, JOB_FAILED);
    }
    pthread_mutex_unlock(&q->lock);
    if (waiting) wake(j);
}

// ---- clients that have left, time that is up ----

// the lock is held; lost : [max]
static int find_lost(struct queue * q, struct job ** lost, int max) {
    int n = 0, n_lost = 0;
    for (struct job * j = q->first; j; j = j->after) {
        q->order[n] = j;
        q->fds[n++] = (struct pollfd) { .fd = j->fd, .events = POLLRDHUP };
    }
    if (n > 0) poll(q->fds, (nfds_t) n, 0);
    const double now = now_ms();
    for (int i = 0; i < n && n_lost < max; i++) {
        struct job * j = q->order[i];
        const bool gone = q->fds[i].revents != 0;
        if (!gone && now < j->deadline) continue;
        if (gone) q->n_gone++;
        else {
            q->n_late++;
            j->status = 503;
            mra_fail(&j->err, MRA_ERR_STOPPED, "not finished within %g s", q->limits.timeout_ms / 1e3);
        }
        remove_job(q, j, gone ? JOB_GONE : JOB_FAILED);
        lost[n_lost++] = j;
    }
    return n_lost;
}

void queue_watch(struct queue * q) {
    enum { SOME = 64 };
    struct job * lost[SOME];
    int n;
    do {
        pthread_mutex_lock(&q->lock);
        n = find_lost(q, lost, SOME);
        pthread_mutex_unlock(&q->lock);
        for (int i = 0; i < n; i++) wake(lost[i]);
    } while (n == SOME);
}

void queue_close(struct queue * q) {
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->more);
    pthread_mutex_unlock(&q->lock);
}

struct queue_state queue_state(struct queue * q) {
    pthread_mutex_lock(&q->lock);
    const struct queue_state s = { q->n_jobs, q->ms, q->n_gone, q->n_late };
    pthread_mutex_unlock(&q->lock);
    return s;
}
