#include "worker.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PIECES = 1024 };

struct worker {
    struct queue * q;
    struct metrics * m;
    pthread_t thread;
    bool started;
    struct piece batch[MAX_PIECES];
    int n_batch;
    const struct piece * now; // what mra_encode works on: [n_now]
    int n_now;
};

bool worker_stop(void * user) {
    const struct worker * w = user;
    for (int i = 0; i < w->n_now; i++)
        if (atomic_load(&w->now[i].job->state) == JOB_WAITING) return false;
    return w->n_now > 0;
}

// ---- rows of the encoder -> rows of a job ----

static bool finite_row(const float * x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

// x : [n_tokens][n_vocab] logits -> max over tokens of log(1 + max(0, x)), where that is not 0
static enum mra_status keep_weights(struct job_seq * s, const float * x, int64_t n_vocab, struct mra_error * err) {
    struct weight * w = malloc((size_t) n_vocab * sizeof(*w));
    if (!w) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    s->n_weights = 0;
    for (int64_t i = 0; i < n_vocab; i++) {
        float max = 0;
        for (size_t t = 0; t < s->list.n; t++) max = fmaxf(max, x[(int64_t) t * n_vocab + i]);
        if (max > 0) w[s->n_weights++] = (struct weight) { (int32_t) i, log1pf(max) };
    }
    s->weights = realloc(w, (size_t) (s->n_weights + 1) * sizeof(*w));
    if (!s->weights) s->weights = w;
    return MRA_OK;
}

static enum mra_status keep(
    const struct piece * p, const float * x, int64_t n_cols, int64_t n_rows, struct mra_error * err) {
    struct job * j = p->job;
    if (!finite_row(x, n_rows * n_cols))
        return mra_fail(err, MRA_ERR_FORMAT, "the model's result is not a finite number: its file may be damaged");
    if (j->sparse) return keep_weights(&j->seqs[p->first], x, n_cols, err);
    if (!j->rows) j->rows = malloc((size_t) (j->n_rows * n_cols) * sizeof(float));
    if (!j->rows) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    j->n_cols = n_cols;
    memcpy(j->rows + j->seqs[p->first].row * n_cols, x, (size_t) (n_rows * n_cols) * sizeof(float));
    return MRA_OK;
}

static int64_t rows_of(const struct piece * p) {
    const struct job * j = p->job;
    if (!j->sparse && j->want.kind != MRA_OUTPUT_TOKENS) return p->n;
    int64_t n = 0;
    for (int i = 0; i < p->n; i++) n += (int64_t) j->seqs[p->first + i].list.n;
    return n;
}

// ---- one call of mra_encode ----

static void fail_all(struct worker * w, const struct piece * pieces, int n, const struct mra_error * err) {
    for (int i = 0; i < n; i++) queue_fail(w->q, pieces[i].job, err->code == MRA_ERR_MEMORY ? 500 : 424, err);
}

static void note_speed(struct worker * w, struct served * m, const struct piece * pieces, int n, int n_seq) {
    const struct mra_stats stats = mra_context_stats(m->engine.ctx);
    double gflop = 0;
    for (int i = 0; i < n; i++)
        for (int s = 0; s < pieces[i].n; s++)
            gflop += served_gflop(m, (int) pieces[i].job->seqs[pieces[i].first + s].list.n);
    const double old = atomic_load(&m->ms_per_gflop);
    if (gflop > .25 * m->measured_gflop) // of smaller batches most is overhead, which does not grow with the work
        atomic_store(&m->ms_per_gflop, old + .1 * (stats.total_ms / gflop - old));
    metrics_batch(w->m, n_seq, stats.n_tokens, stats.total_ms / 1e3);
}

static enum mra_status encode(struct worker * w, const struct piece * pieces, int n, struct mra_error * err) {
    int n_seq = 0, at = 0;
    for (int i = 0; i < n; i++) n_seq += pieces[i].n;
    const struct job * lead = pieces[0].job;
    const int n_at = lead->sparse ? (int) lead->seqs[pieces[0].first].list.n : 0;
    struct mra_seq * seqs = malloc((size_t) n_seq * sizeof(*seqs) + (size_t) n_at * sizeof(struct mra_at));
    if (!seqs) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    struct mra_at * all = (struct mra_at *) (seqs + n_seq);
    for (int i = 0; i < n_at; i++) all[i] = (struct mra_at) { 0, i };
    for (int i = 0; i < n; i++)
        for (int s = 0; s < pieces[i].n; s++) {
            const struct mra_token_list * l = &pieces[i].job->seqs[pieces[i].first + s].list;
            seqs[at++] = (struct mra_seq) { .n = (int) l->n, .tokens = l->data };
        }
    struct mra_output want = lead->want;
    want.at = all;
    want.n_at = n_at;
    struct mra_result r;
    w->now = pieces;
    w->n_now = n;
    const enum mra_status st = mra_encode(lead->model->engine.ctx, seqs, n_seq, &want, &r, err);
    w->n_now = 0;
    free(seqs);
    if (st != MRA_OK) return st;
    note_speed(w, lead->model, pieces, n, n_seq);
    const float * x = r.data;
    for (int i = 0; i < n; i++) {
        const int64_t n_rows = rows_of(&pieces[i]);
        struct mra_error own;
        if (keep(&pieces[i], x, r.n_cols, n_rows, &own) != MRA_OK) fail_all(w, &pieces[i], 1, &own);
        x += n_rows * r.n_cols;
    }
    return MRA_OK;
}

static void run(struct worker * w) {
    struct mra_error err;
    const struct piece * p = w->batch;
    const enum mra_status st = encode(w, p, w->n_batch, &err);
    if (st == MRA_OK || st == MRA_ERR_STOPPED) return;
    if (w->n_batch == 1) fail_all(w, p, 1, &err);
    for (int i = 0; w->n_batch > 1 && i < w->n_batch; i++) { // which of them?
        const enum mra_status one = encode(w, &p[i], 1, &err);
        if (one != MRA_OK && one != MRA_ERR_STOPPED) fail_all(w, &p[i], 1, &err);
    }
}

static void * work(void * arg) {
    struct worker * w = arg;
    while ((w->n_batch = queue_take(w->q, w->batch, MAX_PIECES)) > 0) {
        run(w);
        queue_done(w->q, w->batch, w->n_batch);
    }
    return NULL;
}

struct worker * worker_new(void) {
    return calloc(1, sizeof(struct worker));
}

bool worker_start(struct worker * w, struct queue * q, struct metrics * m) {
    w->q = q;
    w->m = m;
    w->started = pthread_create(&w->thread, NULL, work, w) == 0;
    return w->started;
}

void worker_end(struct worker * w) {
    if (!w) return;
    if (w->started) pthread_join(w->thread, NULL);
    free(w);
}
