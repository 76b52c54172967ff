// A window of records: tokens and passes of each, then batches of similar length through the model.
#include "stream.h"
#include "output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- tokens ----

// --truncate chunk: passes of at most `limit` tokens, each with the special tokens of the whole text around it
static bool cut_into_passes(struct stream * s, struct item * it) {
    const struct mra_token * t = it->list.data;
    const int64_t n = (int64_t) it->list.n;
    int64_t head = 0, tail = 0;
    while (head < n && t[head].text < 0) head++;
    while (tail < n - head && t[n - 1 - tail].text < 0) tail++;
    const int64_t body = n - head - tail, room = s->limit - head - tail;
    if (room < 1) {
        item_fail(it, MRA_ERR_TOO_LONG, "the limit leaves no room for special tokens");
        return false;
    }
    it->n_seq = (int) ((body + room - 1) / room);
    it->seqs = calloc((size_t) it->n_seq, sizeof(*it->seqs));
    it->passes = malloc((size_t) (body + it->n_seq * (head + tail)) * sizeof(*t));
    if (!it->seqs || !it->passes) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return false;
    }
    struct mra_token * to = it->passes;
    for (int i = 0; i < it->n_seq; i++) { // of even length
        const int64_t a = body * i / it->n_seq, b = body * (i + 1) / it->n_seq;
        it->seqs[i] = (struct mra_seq) { .n = (int) (head + b - a + tail), .tokens = to };
        memcpy(to, t, (size_t) head * sizeof(*t));
        memcpy(to + head, t + head + a, (size_t) (b - a) * sizeof(*t));
        memcpy(to + head + b - a, t + n - tail, (size_t) tail * sizeof(*t));
        to += it->seqs[i].n;
        it->n_tokens += it->seqs[i].n;
    }
    return true;
}

static void too_long(struct stream * s, struct item * it) {
    char why[256], more[64] = "";
    if (s->limit < s->info.n_ctx) snprintf(more, sizeof(more), "--max-tokens up to %d, ", s->info.n_ctx);
    snprintf(why, sizeof(why), "%zu tokens, the limit is %d: %s--truncate right%s", it->list.n, s->limit, more,
        s->want.kind == MRA_OUTPUT_POOLED ? " or chunk" : "");
    item_fail(it, MRA_ERR_TOO_LONG, why);
}

void item_tokenize(struct stream * s, struct item * it) {
    struct record * r = &it->rec;
    if (!s->pairs) {
        free(r->pair);
        r->pair = NULL;
        r->n_pair = 0;
    }
    if (s->pair && !r->pair && (r->pair = strdup(s->pair))) r->n_pair = strlen(s->pair);
    if (mra_tokenize(mra_model_tokenizer(s->model), r->text, r->n_text, r->pair, r->n_pair, MRA_TOKENIZE_ADD_SPECIAL,
            &it->list, &it->err) != MRA_OK) {
        it->failed = true;
        return;
    }
    for (size_t i = 0; i < it->list.n; i++)
        if (it->list.data[i].segment >= s->info.n_types) it->list.data[i].segment = 0;
    if (it->list.n > (size_t) s->limit) {
        if (s->o->truncate == TRUNCATE_CHUNK) {
            cut_into_passes(s, it);
            return;
        }
        if (s->o->truncate == TRUNCATE_ERROR) {
            too_long(s, it);
            return;
        }
        if (mra_model_tokenize(s->model, r->text, r->n_text, r->pair, r->n_pair, s->limit, &it->list, &it->err) !=
            MRA_OK) {
            it->failed = true;
            return;
        }
    }
    if (it->list.n == 0) {
        item_fail(it, MRA_ERR_ARG, "no tokens: the text is empty");
        return;
    }
    it->seqs = calloc(1, sizeof(*it->seqs));
    if (!it->seqs) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    it->n_seq = 1;
    it->n_tokens = (int64_t) it->list.n;
    it->seqs[0] = (struct mra_seq) { .n = (int) it->list.n, .tokens = it->list.data };
}

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

// ---- batches ----

static int64_t rows_of(const struct stream * s, const struct item * it) {
    return s->want.kind == MRA_OUTPUT_TOKENS ? it->n_tokens : s->want.kind == MRA_OUTPUT_MLM ? it->n_at : it->n_seq;
}

static void add_stats(struct stream * s, const struct mra_stats * st) {
    s->n_computed += st->n_tokens;
    s->build_ms += st->build_ms;
    for (int i = 0; i < MRA_PART_COUNT; i++) s->part_ms[i] += st->part_ms[i];
    if (st->compute_bytes > s->compute_bytes) s->compute_bytes = st->compute_bytes;
}

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
        s->max_err = fmax(s->max_err, it->max_err);
        s->rel_err = fmax(s->rel_err, it->rel_err);
        s->cosine = fmin(s->cosine, it->cosine);
    }
    s->collect(s, it, rows, n_rows, n_cols);
}

// items[0 .. n) in one call
static enum mra_status encode(struct stream * s, struct item ** items, int n, struct mra_error * err) {
    int n_seq = 0, n_at = 0;
    for (int i = 0; i < n; i++) {
        n_seq += items[i]->n_seq;
        n_at += items[i]->n_at;
    }
    struct mra_seq * seqs = malloc((size_t) n_seq * sizeof(*seqs));
    struct mra_at * at = malloc((size_t) (n_at + 1) * sizeof(*at));
    enum mra_status st = seqs && at ? MRA_OK : mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    n_seq = n_at = 0;
    for (int i = 0; st == MRA_OK && i < n; i++) {
        for (int j = 0; j < items[i]->n_at; j++) at[n_at++] = (struct mra_at) { n_seq, items[i]->at[j] };
        for (int j = 0; j < items[i]->n_seq; j++) seqs[n_seq++] = items[i]->seqs[j];
    }
    struct mra_output want = s->want;
    want.at = at;
    want.n_at = n_at;
    struct mra_result r = { 0 }, e = { 0 };
    const double t0 = now_ms();
    if (st == MRA_OK) st = mra_encode(s->ctx, seqs, n_seq, &want, &r, err);
    const double t1 = now_ms();
    if (st == MRA_OK && s->exact) st = mra_encode(s->exact, seqs, n_seq, &want, &e, err);
    if (st == MRA_OK) {
        const struct mra_stats stats = mra_context_stats(s->ctx);
        add_stats(s, &stats);
        s->encode_ms += t1 - t0;
        s->exact_ms += now_ms() - t1;
        int64_t row = 0;
        for (int i = 0; i < n; i++) {
            const int64_t n_rows = rows_of(s, items[i]);
            finish_item(
                s, items[i], r.data + row * r.n_cols, e.data ? e.data + row * r.n_cols : NULL, n_rows, r.n_cols);
            row += n_rows;
        }
    }
    free(seqs);
    free(at);
    return st;
}

static int by_length(const void * a, const void * b) {
    const struct item *x = *(struct item *const *) a, *y = *(struct item *const *) b;
    return x->n_tokens != y->n_tokens ? (x->n_tokens < y->n_tokens ? -1 : 1) : x < y ? -1 : x > y;
}

void window_encode(struct stream * s) {
    struct item ** order = malloc((size_t) (s->n_items + 1) * sizeof(*order));
    if (!order) fatal(s->program, "out of memory");
    int n = 0;
    int64_t all = 0, done = 0, bytes = 0;
    for (int i = 0; i < s->n_items; i++)
        if (!s->items[i].failed) {
            order[n++] = &s->items[i];
            all += s->items[i].n_tokens;
        }
    if (s->n_items) bytes = s->items[s->n_items - 1].rec.end - s->done_bytes;
    qsort(order, (size_t) n, sizeof(*order), by_length);
    const int64_t most = s->o->batch_tokens ? s->o->batch_tokens : 8192;
    for (int a = 0, b; a < n && !interrupted(); a = b) {
        int64_t tokens = order[a]->n_tokens;
        for (b = a + 1; b < n && tokens + order[b]->n_tokens <= most; b++) tokens += order[b]->n_tokens;
        struct mra_error err;
        enum mra_status st = encode(s, order + a, b - a, &err);
        for (int i = a; st != MRA_OK && i < b && !interrupted(); i++) { // which of them?
            if (b - a == 1 || encode(s, order + i, 1, &err) != MRA_OK) item_fail(order[i], err.code, err.msg);
        }
        done += tokens;
        const double f = (double) s->done_bytes + (double) bytes * (double) done / (double) (all > 0 ? all : 1);
        progress_records(s->n_done + s->n_failed, s->in.size > 0 ? f / (double) s->in.size : -1);
    }
    free(order);
}
