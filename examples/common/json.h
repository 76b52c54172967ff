// JSON Lines: finding the values of a few keys in one object without building a tree. Values keep their text, so that a
// large integer id comes back as it was, and strings keep their NULs.
#pragma once

#include "mra-error.h"

#include <stdbool.h>
#include <stddef.h>

struct json_span {
    const char * s;
    size_t n;
}; // the text of a value; s NULL: absent

// s[0 .. n) must be one JSON object and nothing else. values[i] is the value of keys[i]; a repeated key counts the last
// time.
enum mra_status json_object(
    const char * s, size_t n, const char * const * keys, struct json_span * values, int n_keys, struct mra_error * err);

// s[0 .. n) must be one JSON value and nothing else.
enum mra_status json_check(const char * s, size_t n, struct mra_error * err);

// The members of an object or an array that json_check has passed, one after the other; *at is 0 at first. key: of an
// object, with its quotes; of an array absent. false: there are no more.
bool json_next(struct json_span v, size_t * at, struct json_span * key, struct json_span * member);

bool json_is_string(struct json_span v);
bool json_is_integer(struct json_span v);
// Whether an escape in it is half a surrogate pair.
bool json_has_half(struct json_span v);
// Whether all of it is text: NULL, or what is not ("is not UTF-8", "has half a surrogate pair").
const char * json_not_text(struct json_span v);

// The string a span stands for, NUL-terminated and owned by the caller; lone surrogates become U+FFFD. NULL: no memory.
char * json_unquote(struct json_span v, size_t * len);

// s as a JSON string, NUL-terminated and owned by the caller; bytes that are not UTF-8 become U+FFFD. NULL: no memory.
char * json_quote(const char * s, size_t n);

// v as a whole number that is not negative, or -1
long long json_whole(struct json_span v);
