#include "stream.h"
#include "clock.h"
#include "output.h"
#include "signals.h"

#include <stdio.h>
#include <stdlib.h>

// a window ends with the record that makes it a batch; many short or empty records end it, too
enum { WINDOW_ITEMS = 1024, WINDOW_BYTES = 64 << 20 };
enum { FIRST_TOKENS = 512, LEAST_TOKENS = 64, LEAST_MS = 100, OF_ALL = 20 }; // of a window; its part of the time so far

static void read_tokens(struct stream * s, struct item * it) {
    const double t = now_ms();
    if (it->rec.status != MRA_OK) item_fail(it, it->rec.status, it->rec.error);
    if (!it->failed) item_add_prefix(it, &s->rules);
    if (!it->failed && s->on.record) s->on.record(s, it);
    if (!it->failed) item_tokenize(it, &s->rules);
    if (!it->failed && s->on.prepare) s->on.prepare(s, it);
    s->report.tokenize_ms += now_ms() - t;
}

// the next records, as many as make a window or as there are for now
static enum input_state fill_window(struct stream * s) {
    struct window * w = &s->window;
    const int64_t from = s->in.n_bytes;
    int64_t n_tokens = 0;
    while (w->n_items < WINDOW_ITEMS && n_tokens < s->window_tokens && s->in.n_bytes - from < WINDOW_BYTES) {
        const bool first = w->n_items == 0;
        struct item * it = window_add(w);
        if (!it) fatal(s->program, "out of memory");
        struct mra_error err;
        const enum input_state st = input_next(&s->in, &it->rec, first, &err);
        if (st == INPUT_FAILED && err.code != MRA_OK) { // what came before it is still done
            progress_clear();
            fprintf(stderr, "%s: %s\n", s->program, err.msg);
        }
        if (st != INPUT_RECORD || interrupted()) {
            window_drop_last(w);
            return st == INPUT_RECORD ? INPUT_FAILED : st == INPUT_NOT_YET ? INPUT_RECORD : st;
        }
        if (resume_has(&s->resume, &it->rec)) {
            s->report.n_skipped++;
            s->report.done_bytes = it->rec.end;
            window_drop_last(w);
            continue;
        }
        read_tokens(s, it);
        n_tokens += it->n_tokens;
    }
    return INPUT_RECORD;
}

static void report_failed(struct stream * s, const struct item * it) {
    progress_clear();
    const struct record * r = &it->rec;
    fprintf(stderr, "%s: %s%s%s %lld", s->program, r->file ? r->file : "", r->file ? ": " : "", r->place,
        (long long) r->line);
    if (r->id) fprintf(stderr, " (id %.200s)", r->id);
    fprintf(stderr, ": %s\n", it->err.msg);
}

// writes the window up to the first record that an interruption left undone; false: no more can be written
static bool emit_window(struct stream * s) {
    const double t = now_ms();
    progress_clear(); // stdout may be the same terminal
    for (int i = 0; i < s->window.n_items && (s->window.items[i].done || s->window.items[i].failed); i++) {
        struct item * it = &s->window.items[i];
        if (it->failed) {
            s->report.n_failed++;
            report_failed(s, it);
        } else s->report.n_done++;
        if (s->on.emit && (!it->failed || s->on.emit_failed)) s->on.emit(s, it);
        if (s->out.error) break;
        s->report.done_bytes = it->rec.end;
    }
    const bool good = sink_flush(&s->out);
    if (good && s->on.flushed) s->on.flushed(s);
    s->report.write_ms += now_ms() - t;
    return good;
}

// how large the next window is, after one of n_tokens that took ms
static void size_window(struct stream * s, int64_t n_tokens, double ms) {
    const double so_far = (now_ms() - s->t_first) / OF_ALL, want = so_far > LEAST_MS ? so_far : LEAST_MS;
    const double n = ms > 0 ? (double) n_tokens * want / ms : s->o->batch_tokens;
    s->window_tokens = n > s->o->batch_tokens ? s->o->batch_tokens : n < LEAST_TOKENS ? LEAST_TOKENS : (int64_t) n;
    if (s->window_tokens > s->o->batch_tokens) s->window_tokens = s->o->batch_tokens;
}

static int64_t tokens_of(const struct window * w) {
    int64_t n = 0;
    for (int i = 0; i < w->n_items; i++) n += w->items[i].n_tokens;
    return n;
}

static void show_progress(const struct stream * s) {
    const struct report * r = &s->report;
    progress_records(r->n_done + r->n_failed, s->in.size > 0 ? (double) r->done_bytes / (double) s->in.size : -1);
}

static void open_all(struct stream * s) {
    struct mra_error err;
    if (s->o->dry_run) {
        const struct handlers own = s->on;
        s->on = estimate_handlers;
        s->on.record = own.record;
        s->on.prepare = own.prepare;
    } else if (s->on.collect) {
        engine_start(&s->engine, s->o);
    }
    if (input_open(&s->in, &s->o->input, &err) != MRA_OK) fatal(s->program, "%s", err.msg);
    for (int i = 0; i < s->in.o.n_names && s->in.o.from == FROM_FILES; i++)
        if (same_file(s->in.o.names[i], s->o->out))
            usage_error(s->program, "-o %s is one of the files to read", s->o->out);
    fingerprint_make(&s->fingerprint, s->program, s->o);
    if (s->o->resume) fingerprint_check(&s->fingerprint, s->program, s->o);
    if (sink_open(&s->out, s->o->out, &err) != MRA_OK) fatal(s->program, "%s", err.msg); // others can no longer write
    const int64_t keep = s->o->resume ? resume_read(&s->resume, s->program, s->o->resume) : 0;
    if (!fingerprint_write(&s->fingerprint) && s->o->resume) fatal(s->program, "cannot write %s", s->fingerprint.path);
    if (sink_start(&s->out, keep, &err) != MRA_OK) fatal(s->program, "%s", err.msg);
}

static int finish(struct stream * s, bool failed) {
    progress_clear();
    const int error = s->out.error;
    if (error) sink_retry(&s->out); // a full disk: what is there still gets its end
    if (s->on.end) s->on.end(s);
    if (error && !sink_flush(&s->out) && sink_back(&s->out) && s->on.end) s->on.end(s);
    sink_flush(&s->out);
    if (error) s->out.error = error;
    if (!sink_close(&s->out, s->program)) failed = true;
    report_end(&s->report, &s->engine, s->o);
    input_close(&s->in);
    free(s->report.errors);
    window_free(&s->window);
    resume_free(&s->resume);
    if (!failed && !interrupted() && !s->o->resume) fingerprint_remove(&s->fingerprint);
    fingerprint_free(&s->fingerprint);
    engine_close(&s->engine);
    return failed ? 1 : report_exit_code(&s->report);
}

int stream_run(struct stream * s) {
    open_all(s);
    report_begin(&s->report, &s->engine);
    if (s->on.begin) s->on.begin(s);
    show_progress(s);
    bool failed = s->out.error != 0;
    s->t_first = now_ms();
    s->window_tokens = s->on.collect && s->o->batch_tokens > FIRST_TOKENS ? FIRST_TOKENS : s->o->batch_tokens;
    for (enum input_state st = INPUT_RECORD; st == INPUT_RECORD && !failed && !interrupted();) {
        st = fill_window(s);
        if (st == INPUT_FAILED && !interrupted()) failed = true;
        const double t = now_ms();
        if (s->on.collect) stream_encode(s);
        else
            for (int i = 0; i < s->window.n_items; i++) s->window.items[i].done = true;
        const bool good = emit_window(s);
        if (s->on.collect && s->window.n_items > 0) size_window(s, tokens_of(&s->window), now_ms() - t);
        window_clear(&s->window);
        if (!good) break; // sink_close says why, and whether that is a failure
        show_progress(s);
    }
    return finish(s, failed);
}
