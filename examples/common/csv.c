#include "csv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void csv_free(struct csv_row * row) {
    free(row->fields);
    free(row->sizes);
    free(row->text);
    *row = (struct csv_row) { 0 };
}

// A field without its quotes goes to *to, which moves behind it and its NUL. Returns where it ended in s, NULL: wrong.
static const char * take_field(const char * s, const char * end, char delimiter, char ** to, const char ** why) {
    if (s < end && *s == '"') {
        for (s++;; s++) {
            if (s == end) {
                *why = "a quoted field without its end";
                return NULL;
            }
            if (*s == '"' && (++s == end || *s != '"')) break;
            *(*to)++ = *s;
        }
        if (s < end && *s != delimiter) {
            *why = "something behind a closing quote";
            return NULL;
        }
    } else {
        while (s < end && *s != delimiter) *(*to)++ = *s++;
    }
    *(*to)++ = 0;
    return s;
}

enum mra_status csv_parse(struct csv_row * to, const char * row, size_t n, char delimiter, struct mra_error * err) {
    size_t most = 1;
    for (size_t i = 0; i < n; i++) most += row[i] == delimiter;
    *to = (struct csv_row) { .fields = malloc(most * sizeof(*to->fields)),
        .sizes = malloc(most * sizeof(*to->sizes)),
        .text = malloc(n + most + 1) };
    if (!to->fields || !to->sizes || !to->text) {
        csv_free(to);
        return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    }
    char * at = to->text;
    const char *s = row, *end = row + n, *why = NULL;
    for (;; s++) {
        char * field = at;
        s = take_field(s, end, delimiter, &at, &why);
        if (!s) {
            csv_free(to);
            return mra_fail(err, MRA_ERR_FORMAT, "not CSV: %s", why);
        }
        to->fields[to->n] = field;
        to->sizes[to->n++] = (size_t) (at - field) - 1;
        if (s == end) return MRA_OK;
    }
}

char csv_delimiter(const char * row, size_t n) {
    static const char known[] = ",;\t";
    size_t counts[3] = { 0 };
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (row[i] == '"') quoted = !quoted;
        const char * k = quoted || !row[i] ? NULL : strchr(known, row[i]);
        if (k) counts[k - known]++;
    }
    const int best = counts[1] > counts[0] ? 1 : 0;
    return known[counts[2] > counts[best] ? 2 : best];
}
