// What the programs have in common: records in, a window of them tokenized and sorted by length, computed batch by
// batch, results out in the order of the input. Memory is bounded by the window, not by the input.
//
//     struct stream s;
//     stream_open(&s, &args, &options);              // exits if the model cannot be loaded
//     s.want.kind = MRA_OUTPUT_CLASS; s.collect = collect; s.emit = emit;
//     return stream_run(&s);                         // the exit code
#pragma once

#include "options.h"
#include "sink.h"

struct item {
    struct record rec;
    struct mra_token_list list; // of the whole text
    struct mra_token * passes;  // tokens of all passes where there are several, else NULL
    struct mra_seq * seqs;      // [n_seq] passes over the text; one, except with --truncate chunk
    int n_seq;
    int64_t n_tokens; // of all passes
    int * at;         // MLM: [n_at] positions in the only pass
    int n_at;
    bool failed, done;
    struct mra_error err;
    double max_err, rel_err, cosine; // --verify: over all rows; the smallest cosine of a row
    void * result;                   // what collect made of the rows; freed with the item
};

struct stream {
    const struct options * o;
    const char * program;
    struct mra_model * model;
    struct mra_model_info info;
    struct mra_context *ctx, *exact; // exact: --verify
    int limit;                       // tokens of a pass
    struct input in;
    struct sink out;
    struct item * items; // [n_items] the window
    int n_items, cap_items;

    struct mra_output want;
    void * user;
    // all may be NULL. record: before tokenizing, prepare: behind it; both may fail the item. collect: rows of the item
    // as computed -> item->result; called in any order. emit: in the order of the input, writes one record to `out`;
    // also for failed items if emit_failed. begin and end: around all records.
    void (*record)(struct stream * s, struct item * it);
    void (*prepare)(struct stream * s, struct item * it);
    void (*collect)(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols);
    void (*emit)(struct stream * s, struct item * it);
    void (*begin)(struct stream * s);
    void (*end)(struct stream * s);
    void (*flushed)(struct stream * s); // whenever the window is written
    bool emit_failed;
    bool pairs;        // records may have a second text; else it is ignored
    bool embeds;       // the default prompt of the model is put before every text
    const char * pair; // the second text of all that have none; may be NULL

    uint32_t * finished; // --resume: [n_finished] hash of the id at a line of the input, 0: not done
    int64_t n_finished;
    int64_t n_done, n_failed, n_skipped, n_computed; // records; n_computed: tokens
    int64_t done_bytes;                              // of the input
    double t_start, load_ms, tokenize_ms, encode_ms, exact_ms, build_ms, write_ms, part_ms[MRA_PART_COUNT];
    double max_err, rel_err, cosine, gflop_exact, gflop;
    size_t compute_bytes;
};

void stream_open(struct stream * s, const struct args * a, const struct options * o);
int stream_run(struct stream * s);

void item_fail(struct item * it, enum mra_status code, const char * why);
// "id": ..., "line": ... of a record, ready to be followed by more
void stream_json_head(struct stream * s, const struct item * it);
// ..., "verify": {...}}
void stream_json_tail(struct stream * s, const struct item * it);
void stream_line_end(struct stream * s); // and of the record
// what is put before every text: --prefix, --prompt, or the default prompt of a model that embeds; NULL: nothing
const char * stream_prefix(const struct stream * s);
// a byte of a record's text, with stream_prefix in front of it -> of the text as it was given
uint32_t stream_offset(const struct stream * s, uint32_t at);
// the id without quotes, or the line
void stream_name(struct stream * s, const struct item * it);

// ---- between the parts of stream*.c ----
double now_ms(void);
bool interrupted(void);
// tokens and passes of a record's text
void item_tokenize(struct stream * s, struct item * it);
void item_free(struct item * it);
// computes all items of the window that have not failed; stops at an interruption
void window_encode(struct stream * s);
// --dry-run
void estimate_begin(struct stream * s);
void estimate_emit(struct stream * s, struct item * it);
void estimate_end(struct stream * s);
// --resume: reads o->resume; returns its length up to the end of the last whole record, 0 if there is no such file.
// Exits on failure.
int64_t resume_read(struct stream * s);
bool resume_has(struct stream * s, const struct record * r);
