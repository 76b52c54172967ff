#include "reader.h"

#include <stdlib.h>
#include <string.h>

enum { READ_SIZE = 1 << 16 };

enum mra_status reader_open(struct reader * r, const char * path, bool as_is, struct mra_error * err) {
    *r = (struct reader) { 0 };
    return source_open(&r->source, path, as_is, err);
}

void reader_close(struct reader * r) {
    source_close(&r->source);
    free(r->buf);
    r->buf = NULL;
    r->at = r->n = r->cap = r->seen = 0;
}

// reads more into buf; INPUT_RECORD: there is more, or r->ended
static enum input_state fill(struct reader * r, bool wait, struct mra_error * err) {
    if (r->at > 0) {
        memmove(r->buf, r->buf + r->at, r->n - r->at);
        r->n -= r->at;
        r->seen -= r->at;
        r->at = 0;
    }
    if (r->cap - r->n < READ_SIZE) {
        char * p = realloc(r->buf, 2 * r->cap + READ_SIZE);
        if (!p) {
            mra_fail(err, MRA_ERR_MEMORY, "%s: no memory for line %lld", r->source.name, (long long) r->line + 1);
            return INPUT_FAILED;
        }
        r->buf = p;
        r->cap = 2 * r->cap + READ_SIZE;
    }
    size_t n = 0;
    const enum input_state st = source_read(&r->source, r->buf + r->n, r->cap - r->n, &n, wait, err);
    if (st == INPUT_END) r->ended = true;
    else if (st != INPUT_RECORD) return st;
    r->n += n;
    return INPUT_RECORD;
}

static enum input_state fail(struct reader * r, const char * why, struct mra_error * err) {
    mra_fail(err, MRA_ERR_FORMAT, "%s: %s at byte %lld", r->source.name, why,
        (long long) (r->offset + (int64_t) (r->seen - r->at)) + 1);
    return INPUT_FAILED;
}

// hands out buf[at .. end) and skips `skip` bytes behind it
static enum input_state hand_out(struct reader * r, size_t end, size_t skip, const char ** piece, size_t * n) {
    *piece = r->buf + r->at;
    *n = end - r->at;
    r->offset += (int64_t) (end + skip - r->at);
    r->at = r->seen = end + skip;
    return INPUT_RECORD;
}

enum input_state reader_line(struct reader * r, const char ** piece, size_t * n, bool wait, struct mra_error * err) {
    for (;;) {
        const char * nl = r->n > r->seen ? memchr(r->buf + r->seen, '\n', r->n - r->seen) : NULL;
        if (nl || (r->ended && r->n > r->at)) {
            hand_out(r, nl ? (size_t) (nl - r->buf) : r->n, nl != NULL, piece, n);
            r->line++;
            if (r->dropping) *n = SIZE_MAX; // its end is here, the rest is gone
            r->dropping = false;
            return INPUT_RECORD;
        }
        if (r->ended) return INPUT_END;
        r->seen = r->n;
        if (r->n - r->at > READER_MAX) { // keep the last byte: the line still has to end
            r->dropping = true;
            r->offset += (int64_t) (r->n - r->at) - 1;
            r->at = r->n - 1;
        }
        const enum input_state st = fill(r, wait, err);
        if (st != INPUT_RECORD) return st;
    }
}

static bool is_delimiter(const struct reader * r, char ch) {
    return r->delimiter ? ch == r->delimiter : ch == ',' || ch == ';' || ch == '\t';
}

// whether a field is open behind ch
static enum csv_state next_state(const struct reader * r, char ch) {
    if (r->csv == CSV_QUOTED) return ch == '"' ? CSV_CLOSED : CSV_QUOTED;
    if (ch == '"' && r->csv != CSV_PLAIN) return CSV_QUOTED; // "" inside a quoted field closes and opens it
    return is_delimiter(r, ch) || ch == '\n' ? CSV_START : CSV_PLAIN;
}

enum input_state reader_row(struct reader * r, const char ** piece, size_t * n, bool wait, struct mra_error * err) {
    for (;;) {
        for (; r->seen < r->n; r->seen++) {
            const char ch = r->buf[r->seen];
            if (r->offset == 0 && r->seen < 3 && ch == "\xef\xbb\xbf"[r->seen]) continue; // a byte order mark
            r->csv = next_state(r, ch);
            if (ch != '\n') continue;
            r->line++;
            if (r->csv != CSV_QUOTED) return hand_out(r, r->seen, 1, piece, n);
        }
        if (r->ended && r->n > r->at) {
            r->line++;
            return hand_out(r, r->n, 0, piece, n);
        }
        if (r->ended) return INPUT_END;
        if (r->n - r->at > READER_MAX) return fail(r, "a row of more than 256 MiB; is a quote missing?", err);
        const enum input_state st = fill(r, wait, err);
        if (st != INPUT_RECORD) return st;
    }
}

enum input_state reader_all(struct reader * r, const char ** piece, size_t * n, struct mra_error * err) {
    while (!r->ended) {
        if (r->n > READER_MAX) {
            mra_fail(err, MRA_ERR_TOO_LONG, "%s has more than 256 MiB", r->source.name);
            return INPUT_FAILED;
        }
        const enum input_state st = fill(r, true, err);
        if (st != INPUT_RECORD) return st;
    }
    return hand_out(r, r->n, 0, piece, n);
}

// ---- JSON ----

static bool is_space(char ch) { return ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n'; }

static void skip_byte(struct reader * r) {
    if (r->buf[r->at] == '\n') r->line++;
    r->at++;
    r->offset++;
    r->seen = r->at;
}

// What stands between values, up to the first byte of one; *why: what is wrong.
// false: more bytes are needed, or the end of the input is reached.
static bool find_value(struct reader * r, const char ** why) {
    for (; r->at < r->n; skip_byte(r)) {
        const char ch = r->buf[r->at];
        if (is_space(ch) || (r->offset < 3 && strchr("\xef\xbb\xbf", ch) && ch)) continue;
        if (r->closed) *why = "something behind the array";
        else if (ch == '[' && !r->in_array && !r->after_value) {
            r->in_array = true;
            continue;
        } else if (ch == ']' && r->in_array) {
            r->closed = true;
            continue;
        } else if (ch == ',' && r->in_array && r->after_value) {
            r->after_value = false;
            continue;
        } else if (r->in_array && r->after_value) *why = "no comma between two values";
        else if (!r->in_array && (ch == ',' || ch == ']'))
            *why = ch == ',' ? "a comma outside an array" : "a ] without its [";
        return true;
    }
    return false;
}

// Moves `seen` behind the value that begins at `at`; false: more bytes are needed.
static bool find_end(struct reader * r) {
    for (; r->seen < r->n; r->seen++) {
        const char ch = r->buf[r->seen];
        if (r->escaped) r->escaped = false;
        else if (r->quoted) {
            r->escaped = ch == '\\';
            r->quoted = ch != '"';
            if (!r->quoted && r->depth == 0) {
                r->seen++;
                return true;
            }
        } else if (ch == '"') r->quoted = true;
        else if (ch == '{' || ch == '[') r->depth++;
        else if ((ch == '}' || ch == ']') && r->depth > 0) {
            if (--r->depth > 0) continue;
            r->seen++;
            return true;
        } else if (r->depth == 0 && (is_space(ch) || ch == ',' || ch == ']')) return true; // of a number or a word
    }
    return r->ended && r->depth == 0 && !r->quoted;
}

enum input_state reader_value(struct reader * r, const char ** piece, size_t * n, bool wait, struct mra_error * err) {
    for (;;) {
        const char * why = NULL;
        if (!r->begun && find_value(r, &why)) {
            if (why) return fail(r, why, err);
            r->begun = true;
        }
        if (r->begun && find_end(r)) {
            r->begun = false;
            r->after_value = true;
            for (size_t i = r->at; i < r->seen; i++) r->line += r->buf[i] == '\n';
            return hand_out(r, r->seen, 0, piece, n);
        }
        if (r->ended) {
            if (r->begun) return fail(r, "the end of the file inside a value", err);
            return r->in_array && !r->closed ? fail(r, "the end of the file inside the array", err) : INPUT_END;
        }
        if (r->n - r->at > READER_MAX) return fail(r, "a value of more than 256 MiB", err);
        const enum input_state st = fill(r, wait, err);
        if (st != INPUT_RECORD) return st;
    }
}
