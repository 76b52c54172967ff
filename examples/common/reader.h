// A source in pieces: lines, rows of CSV, values of JSON. Only the current piece is in memory.
#pragma once

#include "source.h"

// where a row of CSV has been read to: the start of a field, inside it, in its quotes, behind them
enum csv_state { CSV_START, CSV_PLAIN, CSV_QUOTED, CSV_CLOSED };

struct reader {
    struct source source;
    char * buf; // what is not yet handed out is buf[at .. n)
    size_t at, n, cap;
    size_t seen; // buf[at .. seen) holds no end of a piece
    bool ended, dropping;
    int64_t line;   // lines handed out
    int64_t offset; // bytes handed out, unpacked
    // CSV
    char delimiter; // 0: not known yet, any of , ; and tab
    enum csv_state csv;
    // JSON: brackets open at `seen`; it is inside a string; a backslash stands before it; a value has begun at `at`
    int depth;
    bool quoted, escaped, begun;
    bool in_array, after_value, closed; // '[' was the first character; a comma must follow; ']' was there
};

enum mra_status reader_open(struct reader * r, const char * path, bool as_is, struct mra_error * err);
void reader_close(struct reader * r);

// The next piece: piece[0 .. n) is valid until the next call. wait and the answer: source_read.
// A line without its '\n'. n SIZE_MAX: it has more than READER_MAX bytes and is gone.
enum { READER_MAX = 1 << 28 };
enum input_state reader_line(struct reader * r, const char ** piece, size_t * n, bool wait, struct mra_error * err);
// Lines up to one that does not end inside a quoted field, without the last '\n'; r->line is its last line.
enum input_state reader_row(struct reader * r, const char ** piece, size_t * n, bool wait, struct mra_error * err);
// An element of the array that the source is, or one of the values it is a sequence of.
enum input_state reader_value(struct reader * r, const char ** piece, size_t * n, bool wait, struct mra_error * err);
// All of it; fails above READER_MAX bytes.
enum input_state reader_all(struct reader * r, const char ** piece, size_t * n, struct mra_error * err);
