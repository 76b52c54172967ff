// Records as they come: text arguments; files of one document per line, JSON Lines, JSON arrays or CSV; or whole files.
// Only the current record is in memory.
#pragma once

#include "reader.h"

enum input_kind { INPUT_AUTO, INPUT_TEXT, INPUT_JSONL, INPUT_JSON, INPUT_CSV, INPUT_TSV };
enum input_from { FROM_ARGUMENTS, FROM_LINES, FROM_FILES };

struct record {
    int64_t number;     // in all of the input, from 1
    const char * file;  // borrowed; NULL: there is only one
    const char * place; // what `line` counts: "line", "element", "argument" or "file"
    int64_t line;       // in its file, from 1
    int64_t end;        // of the input up to its end, in the unit of struct input's size
    char * id;          // JSON text, NULL: none
    char *text, *pair;  // NUL-terminated; pair NULL: a single text
    size_t n_text, n_pair;
    bool half;              // a JSON string has half a surrogate pair
    enum mra_status status; // not MRA_OK: it cannot be used, text is NULL
    char error[256];
};
void record_free(struct record * r);

struct input_options {
    enum input_from from;
    char ** names; // [n_names] texts; files, "-" is standard input; or files and folders
    int n_names;
    enum input_kind kind;
    const char * column;  // the key or the column of the text; NULL: "text"
    const char * pattern; // of files in folders; NULL: all that are not hidden
    bool no_header;       // CSV
    bool replace;         // what is not UTF-8 counts as U+FFFD; else the record fails
};

struct csv_columns {
    int n, text, id, pair; // -1: there is none
};

struct input {
    struct input_options o;
    struct path_list * found; // FROM_FILES: what names stand for
    int i_name;               // the next one
    bool is_open;
    struct reader reader; // of the current file
    enum input_kind kind; // of the current file
    struct csv_columns columns;
    int64_t number, line; // records so far, in all and in this file (an element's or a file's number)
    int64_t n_bytes;      // of their texts
    int64_t done, size;   // bytes of the files before this one, of all (-1: not known); or arguments, files
};

// Borrows what o points to.
enum mra_status input_open(struct input * in, const struct input_options * o, struct mra_error * err);
void input_close(struct input * in);

// The next record; wait and the answer: source_read. The caller frees the record.
enum input_state input_next(struct input * in, struct record * r, bool wait, struct mra_error * err);
