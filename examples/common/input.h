// Records as they come: text arguments, one document per line, or JSON Lines {"id", "text", "text_pair"}. Only the
// current line is in memory.
#pragma once

#include "mra-error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum input_kind { INPUT_AUTO, INPUT_TEXT, INPUT_JSONL };

struct record {
    int64_t line;      // or number of the argument, from 1
    int64_t end;       // bytes of the input up to its end
    char * id;         // JSON text, NULL: none
    char *text, *pair; // NUL-terminated; pair NULL: a single text
    size_t n_text, n_pair;
    enum mra_status status; // not MRA_OK: the line cannot be used, text is NULL
    char error[256];
};
void record_free(struct record * r);

struct input {
    enum input_kind kind;
    const char * name; // for messages
    int fd;            // -1: arguments
    char ** args;
    int n_args, i_arg;
    char * buf;              // lines not yet handed out are buf[at .. n)
    size_t at, n, cap, seen; // seen: no newline in buf[at .. seen)
    bool ended, dropping;
    int64_t line, offset;
    int64_t size; // of the whole input, -1: not known
};

// path NULL: the arguments, "-": stdin
enum mra_status input_open(
    struct input * in, const char * path, char ** args, int n_args, enum input_kind kind, struct mra_error * err);
void input_close(struct input * in);

enum input_state { INPUT_END, INPUT_RECORD, INPUT_NOT_YET, INPUT_FAILED };
// wait false: INPUT_NOT_YET rather than waiting for whoever writes the other end of a pipe. INPUT_FAILED: err says why,
// or the read was interrupted by a signal (err->code is MRA_OK). The caller frees the record.
enum input_state input_next(struct input * in, struct record * r, bool wait, struct mra_error * err);
// the same, without looking into the line: line[0 .. n) is valid until the next call
enum input_state input_line(struct input * in, const char ** line, size_t * n, bool wait, struct mra_error * err);
