#include "input.h"
#include "csv.h"
#include "json.h"
#include "path-list.h"
#include "record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- opening ----

static enum mra_status list_files(struct input * in, struct mra_error * err) {
    in->found = calloc(1, sizeof(*in->found));
    if (!in->found) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    for (int i = 0; i < in->o.n_names; i++) {
        const enum mra_status st = path_list_add(in->found, in->o.names[i], in->o.pattern, err);
        if (st != MRA_OK) return st;
    }
    in->o.names = in->found->paths;
    in->o.n_names = in->found->n;
    in->size = in->found->n;
    return MRA_OK;
}

// so that a wrong name is an error before anything is computed
static enum mra_status check_files(struct input * in, struct mra_error * err) {
    in->size = 0;
    for (int i = 0; i < in->o.n_names; i++) {
        const char * path = in->o.names[i];
        struct stat st;
        const bool std = strcmp(path, "-") == 0;
        if ((std ? fstat(STDIN_FILENO, &st) : stat(path, &st)) != 0 || (!std && access(path, R_OK) != 0))
            return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
        if (S_ISDIR(st.st_mode)) return mra_fail(err, MRA_ERR_IO, "%s is a folder; --files takes folders", path);
        if (!S_ISREG(st.st_mode)) in->size = -1;
        if (in->size >= 0) in->size += st.st_size;
    }
    return MRA_OK;
}

enum mra_status input_open(struct input * in, const struct input_options * o, struct mra_error * err) {
    *in = (struct input) { .o = *o, .size = o->n_names };
    return o->from == FROM_FILES ? list_files(in, err) : o->from == FROM_LINES ? check_files(in, err) : MRA_OK;
}

static void close_file(struct input * in) {
    if (!in->is_open) return;
    in->done += in->reader.source.n_read;
    reader_close(&in->reader);
    in->is_open = false;
}

void input_close(struct input * in) {
    close_file(in);
    if (in->found) path_list_free(in->found);
    free(in->found);
    in->found = NULL;
}

// ---- which kind of file ----

static enum input_kind kind_of_name(const char * path) {
    static const struct {
        const char * ending;
        enum input_kind kind;
    } known[] = {
        { ".jsonl", INPUT_JSONL },
        { ".ndjson", INPUT_JSONL },
        { ".json", INPUT_JSON },
        { ".csv", INPUT_CSV },
        { ".tsv", INPUT_TSV },
    };
    size_t n = strlen(path);
    if (n > 3 && strcasecmp(path + n - 3, ".gz") == 0) n -= 3;
    else if (n > 4 && strcasecmp(path + n - 4, ".zst") == 0) n -= 4;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const size_t m = strlen(known[i].ending);
        if (n >= m && strncasecmp(path + n - m, known[i].ending, m) == 0) return known[i].kind;
    }
    return INPUT_AUTO;
}

static bool is_blank(const char * s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", s[i]) || !s[i]) return false;
    return true;
}

// Whether a first line begins an array of strings or objects: [ alone, or whole values, then ] or a comma
static bool begins_array(const char * s, size_t n) {
    struct mra_error err;
    while (n > 0 && strchr(" \t\r", s[n - 1]) && s[n - 1]) n--;
    if (n == 0 || s[0] != '[') return false;
    size_t i = 1;
    while (i < n && (s[i] == ' ' || s[i] == '\t')) i++;
    if (i == n || (s[i] == '{' && (i + 1 == n || strchr("\" \t", s[i + 1])))) return true;
    if (s[i] != '"') return false;
    char * whole = malloc(n + 1);
    if (!whole) return false;
    memcpy(whole, s, n);
    if (s[n - 1] == ',') whole[n - 1] = ']';
    else if (s[n - 1] != ']') whole[n++] = ']';
    const bool good = json_check(whole, n, &err) == MRA_OK;
    free(whole);
    return good;
}

// the first line that is not blank decides
static enum mra_status kind_of_line(struct input * in, const char * line, size_t n, struct mra_error * err) {
    const char * const key = in->o.column ? in->o.column : "text";
    struct json_span text = { 0 };
    struct mra_error e;
    if (json_object(line, n, &key, &text, 1, &e) == MRA_OK) {
        in->kind = INPUT_JSONL;
        if (text.s) return MRA_OK;
        return mra_fail(err, MRA_ERR_FORMAT,
            "%s: its first line is a JSON object without \"%s\": --column names the key of the text, --input text "
            "takes the lines as they are",
            in->reader.source.name, key);
    }
    in->kind = begins_array(line, n) ? INPUT_JSON : INPUT_TEXT;
    if (in->kind == INPUT_TEXT && in->o.column) {
        return mra_fail(err, MRA_ERR_ARG, "%s: --column %s needs CSV or JSON, this is text (or say --input csv)",
            in->reader.source.name, in->o.column);
    }
    return MRA_OK;
}

// ---- CSV ----

static int find_column(const struct csv_row * row, const char * name) {
    for (int i = 0; i < row->n; i++)
        if (strcmp(row->fields[i], name) == 0) return i;
    return -1;
}

// the column's number, from 0; -1: name is not the number of one
static int column_number(const struct csv_row * row, const char * name) {
    char * end;
    const long i = strtol(name, &end, 10);
    return *name && !*end && i >= 1 && i <= row->n ? (int) i - 1 : -1;
}

static enum mra_status no_column(const struct input * in, const struct csv_row * row, struct mra_error * err) {
    char names[160] = "";
    size_t n = 0;
    for (int i = 0; i < row->n && !in->o.no_header && n < sizeof(names) - 1; i++)
        n += (size_t) snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : ": ", row->fields[i]);
    const char *column = in->o.column, *name = in->reader.source.name;
    if (column) return mra_fail(err, MRA_ERR_ARG, "%.60s: no column '%.40s' among %d%s", name, column, row->n, names);
    return mra_fail(
        err, MRA_ERR_ARG, "%.60s: --column NAME or N says which of %d columns is the text%s", name, row->n, names);
}

// the first row says where the text is
static enum mra_status read_header(struct input * in, const char * line, size_t n, struct mra_error * err) {
    struct csv_row row;
    struct mra_error e;
    struct csv_columns * c = &in->columns;
    in->reader.delimiter = in->kind == INPUT_TSV ? '\t' : csv_delimiter(line, n);
    if (csv_parse(&row, line, n, in->reader.delimiter, &e) != MRA_OK)
        return mra_fail(err, e.code, "%s: its first row: %s", in->reader.source.name, e.msg);
    *c = (struct csv_columns) { row.n, -1, -1, -1 };
    if (!in->o.no_header) {
        c->text = find_column(&row, in->o.column ? in->o.column : "text");
        c->id = find_column(&row, "id");
        c->pair = find_column(&row, "text_pair");
    }
    if (c->text < 0 && in->o.column) c->text = column_number(&row, in->o.column);
    if (c->text < 0 && !in->o.column && row.n == 1) c->text = 0;
    const enum mra_status st = c->text < 0 ? no_column(in, &row, err) : MRA_OK;
    csv_free(&row);
    return st;
}

// ---- records ----

// without a byte order mark at the beginning of a file
static void skip_mark(const char ** s, size_t * n) {
    if (*n < 3 || memcmp(*s, "\xef\xbb\xbf", 3) != 0) return;
    *s += 3;
    *n -= 3;
}
// without the '\r' of a line from Windows
static void drop_cr(const char * s, size_t * n) {
    if (*n > 0 && s[*n - 1] == '\r') --*n;
}

static enum input_state next_row(struct input * in, struct record * r, bool wait, struct mra_error * err) {
    const char * row;
    size_t n;
    for (;;) {
        const int64_t line = in->reader.line + 1;
        const enum input_state st = reader_row(&in->reader, &row, &n, wait, err);
        if (st != INPUT_RECORD) return st;
        if (line == 1) skip_mark(&row, &n);
        drop_cr(row, &n);
        if (is_blank(row, n) && in->reader.delimiter != '\t') continue;
        if (n == 0) continue;
        r->line = line;
        if (in->columns.n > 0) break;
        if (read_header(in, row, n, err) != MRA_OK) return INPUT_FAILED;
        if (in->o.no_header) break;
    }
    record_from_row(r, row, n, in->reader.delimiter, &in->columns);
    return INPUT_RECORD;
}

static enum input_state next_element(struct input * in, struct record * r, bool wait, struct mra_error * err) {
    const char * value;
    size_t n;
    const enum input_state st = reader_value(&in->reader, &value, &n, wait, err);
    if (st != INPUT_RECORD) return st;
    r->place = "element";
    r->line = ++in->line;
    record_from_element(r, value, n, in->o.column);
    return INPUT_RECORD;
}

static enum input_state next_line(struct input * in, struct record * r, bool wait, struct mra_error * err) {
    const char * line;
    size_t n;
    do {
        const int64_t line_before = in->reader.line, offset_before = in->reader.offset;
        const enum input_state st = reader_line(&in->reader, &line, &n, wait, err);
        if (st != INPUT_RECORD) return st;
        r->line = in->reader.line;
        if (n == SIZE_MAX) {
            record_fail(r, MRA_ERR_TOO_LONG, "the line has more than 256 MiB");
            return INPUT_RECORD;
        }
        if (in->reader.line == 1) skip_mark(&line, &n);
        drop_cr(line, &n);
        if (in->kind != INPUT_AUTO || is_blank(line, n)) continue;
        if (kind_of_line(in, line, n, err) != MRA_OK) return INPUT_FAILED;
        if (in->kind != INPUT_JSON) continue;
        in->reader.at = in->reader.seen = (size_t) (line - in->reader.buf); // read it again, as JSON
        in->reader.offset = offset_before;
        in->reader.line = line_before;
        return next_element(in, r, wait, err);
    } while (in->kind == INPUT_JSONL && is_blank(line, n));
    if (in->kind == INPUT_JSONL) record_from_json(r, line, n, in->o.column);
    else record_from_text(r, line, n);
    return INPUT_RECORD;
}

static enum mra_status open_next(struct input * in, struct mra_error * err) {
    const char * path = in->o.names[in->i_name++];
    const enum mra_status st = reader_open(&in->reader, path, false, err);
    in->is_open = true; // closes what there is of it
    in->kind = in->o.kind == INPUT_AUTO ? kind_of_name(path) : in->o.kind;
    in->columns = (struct csv_columns) { 0 };
    in->line = 0;
    if (in->kind == INPUT_TSV) in->reader.delimiter = '\t';
    return st;
}

static enum input_state next_in_files(struct input * in, struct record * r, bool wait, struct mra_error * err) {
    for (;;) {
        if (!in->is_open) {
            if (in->i_name == in->o.n_names) return INPUT_END;
            if (open_next(in, err) != MRA_OK) return INPUT_FAILED;
        }
        r->file = in->o.n_names > 1 ? in->o.names[in->i_name - 1] : NULL;
        r->place = "line";
        const enum input_state st = in->kind == INPUT_JSON   ? next_element(in, r, wait, err)
            : in->kind == INPUT_CSV || in->kind == INPUT_TSV ? next_row(in, r, wait, err)
                                                             : next_line(in, r, wait, err);
        if (st != INPUT_END) {
            const bool packed = in->reader.source.packing != PACKING_NONE;
            r->end = in->done + (packed ? in->reader.source.n_read : in->reader.offset);
            return st;
        }
        close_file(in);
    }
}

// the next file as one record; what is wrong with it is wrong with the record
static enum input_state whole_file(struct input * in, struct record * r, struct mra_error * err) {
    const char *path = in->o.names[in->i_name++], *text;
    size_t n;
    struct reader reader;
    r->place = "file";
    r->line = r->end = in->i_name;
    r->id = json_quote(path, strlen(path));
    enum input_state st = INPUT_FAILED;
    err->code = MRA_OK;
    if (reader_open(&reader, path, false, err) == MRA_OK) st = reader_all(&reader, &text, &n, err);
    if (st == INPUT_RECORD) {
        skip_mark(&text, &n);
        if (n > 0 && text[n - 1] == '\n') { // ends the last line, and is no part of the text
            n--;
            drop_cr(text, &n);
        }
        record_from_text(r, text, n);
    } else { // the id says which file
        const size_t k = strlen(path);
        const bool named = strncmp(err->msg, path, k) == 0 && strncmp(err->msg + k, ": ", 2) == 0;
        record_fail(r, err->code, named ? err->msg + k + 2 : err->msg);
    }
    if (!r->id) record_fail(r, MRA_ERR_MEMORY, "out of memory");
    reader_close(&reader);
    return st == INPUT_FAILED && err->code == MRA_OK ? INPUT_FAILED : INPUT_RECORD;
}

enum input_state input_next(struct input * in, struct record * r, bool wait, struct mra_error * err) {
    memset(r, 0, sizeof(*r));
    enum input_state st = INPUT_RECORD;
    if (in->o.from == FROM_LINES) st = next_in_files(in, r, wait, err);
    else if (in->i_name == in->o.n_names) return INPUT_END;
    else if (in->o.from == FROM_FILES) st = whole_file(in, r, err);
    else {
        const char * text = in->o.names[in->i_name++];
        r->place = "argument";
        r->line = r->end = in->i_name;
        record_from_text(r, text, strlen(text));
    }
    if (st != INPUT_RECORD) return st;
    if (r->status == MRA_OK && !in->o.replace) record_check_text(r);
    r->number = ++in->number;
    in->n_bytes += (int64_t) (r->n_text + r->n_pair);
    return INPUT_RECORD;
}
