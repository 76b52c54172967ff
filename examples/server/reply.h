// Pieces of replies.
#pragma once

#include "routes.h"

void reply_floats(struct sink * out, const float * x, int64_t n); // [1, 2, ...]
void reply_base64(struct sink * out, const float * x, int64_t n); // of the bytes, little-endian, in quotes
void reply_real(struct sink * out, double x);                     // as a float; null where it is not finite
// "usage": {...}, "attention": "...", "truncated": [...] of c->job; its texts begin behind `n_before` others
void reply_usage(struct sink * out, const struct call * c, int n_before);
void reply_text(struct sink * out, const char * text); // as JSON
double reply_dot(const float * x, const float * y, int64_t n);
