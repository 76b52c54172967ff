// A window of records through the model, all in one call; --verify: also with exact attention.
#include "clock.h"
#include "signals.h"
#include "stream.h"

#include <math.h>
#include <stdlib.h>

// ---- --verify ----

static void compare(struct item * it, const float * x, const float * y, int64_t n_rows, int64_t n_cols) {
    double diff2 = 0, all2 = 0;
    it->cosine = INFINITY;
    for (int64_t i = 0; i < n_rows; i++, x += n_cols, y += n_cols) {
        double xx = 0, yy = 0, xy = 0;
        for (int64_t c = 0; c < n_cols; c++) {
            const double d = (double) x[c] - y[c];
            xx += (double) x[c] * x[c];
            yy += (double) y[c] * y[c];
            xy += (double) x[c] * y[c];
            diff2 += d * d;
            it->max_err = fmax(it->max_err, fabs(d));
        }
        all2 += yy;
        it->cosine = fmin(it->cosine, xx > 0 && yy > 0 ? fmin(1, xy / sqrt(xx * yy)) : xx == yy);
    }
    it->rel_err = all2 > 0 ? sqrt(diff2 / all2) : sqrt(diff2);
}

// ---- items ----

static int64_t rows_of(const struct stream * s, const struct item * it) {
    switch (s->want.kind) {
        case MRA_OUTPUT_SPANS: return it->n_span;
        case MRA_OUTPUT_MLM: return it->n_at;
        case MRA_OUTPUT_TOKENS:
        case MRA_OUTPUT_TAGS:
        case MRA_OUTPUT_SPARSE:
        case MRA_OUTPUT_COLBERT: return it->n_tokens;
        default: return it->n_seq;
    }
}

// rows, exact : [n_rows][n_cols] of the item; exact may be NULL
static void finish_item(
    struct stream * s, struct item * it, const float * rows, const float * exact, int64_t n_rows, int64_t n_cols) {
    it->done = true;
    for (int64_t i = 0; i < n_rows * n_cols; i++) {
        if (!isfinite(rows[i])) {
            item_fail(it, MRA_ERR_FORMAT, "the model's result is not a finite number: its file may be damaged");
            return;
        }
    }
    if (exact) {
        compare(it, rows, exact, n_rows, n_cols);
        s->report.max_err = fmax(s->report.max_err, it->max_err);
        s->report.rel_err = fmax(s->report.rel_err, it->rel_err);
        s->report.cosine = fmin(s->report.cosine, it->cosine);
    }
    if (!*it->attention.text) it->attention = engine_attention(&s->engine, it->seqs, it->n_seq);
    engine_say_approximate(&s->engine, &it->attention);
    s->on.collect(s, it, rows, n_rows, n_cols);
}

// --estimate: sequences [seq, seq + it->n_seq) of the last call are the item's
static void estimate_item(struct stream * s, struct item * it, int seq) {
    const struct mra_model_info * info = &s->engine.info;
    for (int i = 0; i < it->n_seq; i++) {
        const double * sums = mra_context_errors(s->engine.ctx, seq + i);
        const struct mra_error_summary e = mra_error_summary_of(sums, info->n_layer, info->n_head);
        if (i == 0 || e.all.error > it->estimate.all.error) {
            it->estimate = e;
            it->attention = mra_context_attention(s->engine.ctx, seq + i); // all zero without --error
        }
        report_errors(&s->report, &s->engine, sums);
    }
    if (it->estimate.all.error > s->report.estimate.all.error) s->report.estimate = it->estimate;
}

// ---- one call ----

struct batch { // sequences, positions and spans of several items
    struct mra_seq * seqs;
    struct mra_at * at;
    struct mra_span * spans;
    int n_seq, n_at, n_span;
};

static void batch_free(struct batch * b) {
    free(b->seqs);
    free(b->at);
    free(b->spans);
}

static enum mra_status batch_fill(struct batch * b, struct item ** items, int n, struct mra_error * err) {
    for (int i = 0; i < n; i++) {
        b->n_seq += items[i]->n_seq;
        b->n_at += items[i]->n_at;
        b->n_span += items[i]->n_span;
    }
    b->seqs = malloc((size_t) b->n_seq * sizeof(*b->seqs));
    b->at = malloc((size_t) (b->n_at + 1) * sizeof(*b->at));
    b->spans = malloc((size_t) (b->n_span + 1) * sizeof(*b->spans));
    if (!b->seqs || !b->at || !b->spans) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    int seq = 0, at = 0, span = 0;
    for (int i = 0; i < n; i++) {
        const struct item * it = items[i];
        for (int j = 0; j < it->n_at; j++) b->at[at++] = (struct mra_at) { seq, it->at[j] };
        for (int j = 0; j < it->n_span; j++)
            b->spans[span++] = (struct mra_span) { seq + it->spans[j].seq, it->spans[j].first, it->spans[j].n };
        for (int j = 0; j < it->n_seq; j++) b->seqs[seq++] = it->seqs[j];
    }
    return MRA_OK;
}

static enum mra_status encode(struct stream * s, struct item ** items, int n, struct mra_error * err) {
    struct batch b = { 0 };
    struct mra_result r = { 0 }, exact = { 0 };
    enum mra_status st = batch_fill(&b, items, n, err);
    struct mra_output want = s->want;
    want.at = b.at;
    want.n_at = b.n_at;
    want.spans = b.spans;
    want.n_span = b.n_span;
    if (st == MRA_OK) st = mra_encode(s->engine.ctx, b.seqs, b.n_seq, &want, &r, err);
    const double t = now_ms();
    if (st == MRA_OK && s->engine.exact) st = mra_encode(s->engine.exact, b.seqs, b.n_seq, &want, &exact, err);
    if (st == MRA_OK) {
        const struct mra_stats stats = mra_context_stats(s->engine.ctx);
        report_encoded(&s->report, &stats, now_ms() - t);
        const float *x = r.data, *y = exact.data;
        for (int i = 0, seq = 0; i < n; seq += items[i++]->n_seq) {
            if (s->o->estimate) estimate_item(s, items[i], seq);
            const int64_t n_rows = rows_of(s, items[i]);
            finish_item(s, items[i], x, y, n_rows, r.n_cols);
            x += n_rows * r.n_cols;
            if (y) y += n_rows * r.n_cols;
        }
    }
    batch_free(&b);
    return st;
}

void stream_encode(struct stream * s) {
    struct item ** items = malloc((size_t) (s->window.n_items + 1) * sizeof(*items));
    if (!items) fatal(s->program, "out of memory");
    int n = 0;
    for (int i = 0; i < s->window.n_items; i++)
        if (!s->window.items[i].failed) items[n++] = &s->window.items[i];
    struct mra_error err;
    enum mra_status st = n > 0 && !interrupted() ? encode(s, items, n, &err) : MRA_OK;
    if (st != MRA_OK && n == 1 && !interrupted()) item_fail(items[0], err.code, err.msg);
    for (int i = 0; st != MRA_OK && n > 1 && i < n && !interrupted(); i++) // which of them?
        if (encode(s, items + i, 1, &err) != MRA_OK && !interrupted()) item_fail(items[i], err.code, err.msg);
    free(items);
}
