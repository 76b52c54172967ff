// Records in, a window of them tokenized and computed, results out in the order of the input. Memory is bounded by the
// window - at most about one batch of tokens - and by the longest text, not by the input. Windows begin small and take
// a twentieth of the time so far at most, a tenth of a second at least: what is lost when a run is killed is as much.
#pragma once

#include "fingerprint.h"
#include "report.h"
#include "resume.h"
#include "sink.h"
#include "window.h"

struct stream;

// What a program does with records. All may be NULL.
struct handlers {
    void (*record)(struct stream * s, struct item * it);  // before tokenizing; may fail the item
    void (*prepare)(struct stream * s, struct item * it); // behind it; may fail the item
    // rows of the item as computed -> item->result. NULL: nothing is computed
    void (*collect)(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols);
    // in the order of the input, writes one record to `out`; also for failed items if emit_failed
    void (*emit)(struct stream * s, struct item * it);
    bool emit_failed;
    void (*begin)(struct stream * s); // around all records
    void (*end)(struct stream * s);
    void (*flushed)(struct stream * s); // whenever a window is written
};

struct stream {
    const struct options * o;
    const char * program;
    void * user; // the program's own
    struct handlers on;
    struct mra_output want;
    struct text_rules rules;
    struct engine engine;
    struct input in;
    struct resume resume;
    struct fingerprint fingerprint;
    struct window window;
    int64_t window_tokens; // that the next window ends with
    double t_first;        // when the first one began, ms
    struct report report;
    struct sink out;
};

// Returns the exit code.
int stream_run(struct stream * s);

// encode.c: computes all items of the window that have not failed; stops at an interruption
void stream_encode(struct stream * s);

// estimate.c: --dry-run
extern const struct handlers estimate_handlers;

// ---- pieces of output (record-output.c) ----

// {"id": ..., "file": ..., "line": ... of a record, ready to be followed by more
void stream_json_head(struct stream * s, const struct item * it);
// , "attention": "...", "verify": {...}, "estimate": {...}}
void stream_json_tail(struct stream * s, const struct item * it);
void stream_line_end(struct stream * s); // and of the record
// the id without quotes, or the line (file:line where there are several files)
void stream_name(struct stream * s, const struct item * it);
// the same as text of its own, owned by the caller; NULL: no memory
char * record_name(const struct record * r);
// for programs that embed: where neither --prefix nor --prompt is given, the model's default prompt, if it has one
void stream_default_prompt(struct stream * s);
// a byte of a record's text, with what is put before it -> of the text as it was given
uint32_t stream_offset(const struct stream * s, uint32_t at);
