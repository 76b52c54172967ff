// A record from a line, a JSON value or a row of CSV.
#include "record.h"
#include "csv.h"
#include "json.h"
#include "utf8-length.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void record_free(struct record * r) {
    free(r->id);
    free(r->text);
    free(r->pair);
    memset(r, 0, sizeof(*r));
}

void record_fail(struct record * r, enum mra_status st, const char * why) {
    r->status = st;
    snprintf(r->error, sizeof(r->error), "%s", why);
}

void record_check_text(struct record * r) {
    static const char hint[] = "--utf8 replace takes U+FFFD for it";
    char why[128];
    const size_t at = utf8_end(r->text, r->n_text), at_pair = r->pair ? utf8_end(r->pair, r->n_pair) : 0;
    if (at < r->n_text) snprintf(why, sizeof(why), "not UTF-8 at byte %zu; %s", at + 1, hint);
    else if (at_pair < r->n_pair)
        snprintf(why, sizeof(why), "the second text is not UTF-8 at byte %zu; %s", at_pair + 1, hint);
    else if (r->half) snprintf(why, sizeof(why), "half a surrogate pair; %s", hint);
    else return;
    record_fail(r, MRA_ERR_FORMAT, why);
    free(r->text);
    free(r->pair);
    r->text = r->pair = NULL;
    r->n_text = r->n_pair = 0;
}

static char * copy(const char * s, size_t n) {
    char * p = malloc(n + 1);
    if (!p) return NULL;
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

void record_from_text(struct record * r, const char * text, size_t n) {
    if (memchr(text, 0, n)) {
        record_fail(r, MRA_ERR_FORMAT, "a NUL byte: not text");
        return;
    }
    r->text = copy(text, n);
    r->n_text = n;
    if (!r->text) record_fail(r, MRA_ERR_MEMORY, "out of memory");
}

static bool is_given(struct json_span v) { return v.s && !(v.n == 4 && memcmp(v.s, "null", 4) == 0); }

void record_from_json(struct record * r, const char * value, size_t n, const char * column) {
    const char * const keys[] = { "id", column ? column : "text", "text_pair" };
    struct json_span v[3];
    struct mra_error err;
    char why[256];
    if (json_object(value, n, keys, v, 3, &err) != MRA_OK) {
        record_fail(r, MRA_ERR_FORMAT, err.msg);
        return;
    }
    const bool has_id = is_given(v[0]), has_pair = is_given(v[2]);
    if (has_id && !json_is_string(v[0]) && !json_is_integer(v[0])) {
        record_fail(r, MRA_ERR_FORMAT, "\"id\" is neither a string nor a whole number");
        return;
    }
    const char * not_text = has_id ? json_not_text(v[0]) : NULL;
    if (not_text) { // it is written as it came
        snprintf(why, sizeof(why), "\"id\" %s", not_text);
        record_fail(r, MRA_ERR_FORMAT, why);
        return;
    }
    if (has_id) r->id = copy(v[0].s, v[0].n);
    if (!json_is_string(v[1])) {
        snprintf(why, sizeof(why), v[1].s ? "\"%.100s\" is not a string" : "there is no \"%.100s\"", keys[1]);
        record_fail(r, MRA_ERR_FORMAT, why);
        return;
    }
    if (has_pair && !json_is_string(v[2])) {
        record_fail(r, MRA_ERR_FORMAT, "\"text_pair\" is not a string");
        return;
    }
    r->half = json_has_half(v[1]) || (has_pair && json_has_half(v[2]));
    r->text = json_unquote(v[1], &r->n_text);
    if (has_pair) r->pair = json_unquote(v[2], &r->n_pair);
    if (!r->text || (has_pair && !r->pair) || (has_id && !r->id)) record_fail(r, MRA_ERR_MEMORY, "out of memory");
}

void record_from_element(struct record * r, const char * value, size_t n, const char * column) {
    struct mra_error err;
    if (n == 0 || value[0] != '"') {
        if (n > 0 && value[0] == '{') record_from_json(r, value, n, column);
        else record_fail(r, MRA_ERR_FORMAT, "neither a string nor an object");
        return;
    }
    if (json_check(value, n, &err) != MRA_OK) {
        record_fail(r, MRA_ERR_FORMAT, err.msg);
        return;
    }
    const struct json_span all = { value, n };
    r->half = json_has_half(all);
    r->text = json_unquote(all, &r->n_text);
    if (!r->text) record_fail(r, MRA_ERR_MEMORY, "out of memory");
}

static void from_fields(struct record * r, const struct csv_row * c, const struct csv_columns * columns) {
    const int id = columns->id, pair = columns->pair;
    if (id >= 0 && utf8_end(c->fields[id], c->sizes[id]) < c->sizes[id]) {
        record_fail(r, MRA_ERR_FORMAT, "the id is not UTF-8");
        return;
    }
    if (id >= 0) r->id = json_quote(c->fields[id], c->sizes[id]);
    record_from_text(r, c->fields[columns->text], c->sizes[columns->text]);
    if (pair >= 0) {
        r->pair = copy(c->fields[pair], c->sizes[pair]);
        r->n_pair = c->sizes[pair];
    }
    if ((id >= 0 && !r->id) || (pair >= 0 && !r->pair)) record_fail(r, MRA_ERR_MEMORY, "out of memory");
}

void record_from_row(
    struct record * r, const char * row, size_t n, char delimiter, const struct csv_columns * columns) {
    struct csv_row c;
    struct mra_error err;
    if (csv_parse(&c, row, n, delimiter, &err) != MRA_OK) {
        record_fail(r, err.code, err.msg);
        return;
    }
    if (c.n == columns->n) from_fields(r, &c, columns);
    else {
        char why[128];
        snprintf(why, sizeof(why), "%d fields, the first row has %d", c.n, columns->n);
        record_fail(r, MRA_ERR_FORMAT, why);
    }
    csv_free(&c);
}
