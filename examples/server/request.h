// Reading a request's JSON. What is not understood is refused by name: fields that no handler knows, wrong types,
// values out of range. Functions return false when they have failed the call. A field that is null counts as absent.
#pragma once

#include "routes.h"

struct field {
    const char * name;
    struct json_span value; // s NULL: absent
};

// The body as an object that has no other fields than these.
bool request_fields(struct call * c, struct field * fields, int n);
// The same of an object within it; what: its name.
bool request_object(struct call * c, const char * what, struct json_span v, struct field * fields, int n);

// Absent fields leave *to as it is.
bool request_bool(struct call * c, const struct field * f, bool * to);
bool request_int(struct call * c, const struct field * f, int lo, int hi, int * to);
// The index in "first|second|..."; case counts.
bool request_choice(struct call * c, const struct field * f, const char * names, int * to);
// A text that must be there; the caller frees it.
bool request_text(struct call * c, const struct field * f, struct text * to);
// A text or a list of texts, one at least. single: it was no list; NULL: a list is needed.
bool request_texts(struct call * c, const struct field * f, struct text_list * to, bool * single);
// One text of a list: an element of field `name`
bool request_element(struct call * c, const char * name, int i, struct json_span v, struct text * to);
bool request_count(struct call * c, const char * name, int n); // against --max-inputs

// The model that the field names, or the first for this use.
struct served * request_model(struct call * c, const struct field * f, enum use use);
// prompt_name, truncate and truncation_direction; any may be NULL
bool request_way(struct call * c, const struct served * m, const struct field * prompt, const struct field * truncate,
    const struct field * direction, struct text_way * way);

// Makes c->job; false: no memory, or the reply would be too large.
bool request_job(struct call * c, struct served * m, const struct mra_output * want);
// Adds a text or a pair to it; what: the field's name, i: its place there, -1: it is no list
bool request_add(
    struct call * c, const char * what, int i, struct text a, const struct text * b, const struct text_way * way);
// The same of all texts of a list.
bool request_add_all(
    struct call * c, const char * what, const struct text_list * l, bool single, const struct text_way * way);
// After the last: the reply has n numbers; false: too many
bool request_size(struct call * c, int64_t n);
