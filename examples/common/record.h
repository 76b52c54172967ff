// A record from a line, a JSON value or a row of CSV. What is wrong with it is said in the record.
#pragma once

#include "input.h"

void record_fail(struct record * r, enum mra_status st, const char * why);
// fails where a text is not UTF-8
void record_check_text(struct record * r);
void record_from_text(struct record * r, const char * text, size_t n);
// {"id", column (NULL: "text"), "text_pair"}
void record_from_json(struct record * r, const char * value, size_t n, const char * column);
// a string, or that
void record_from_element(struct record * r, const char * value, size_t n, const char * column);
void record_from_row(struct record * r, const char * row, size_t n, char delimiter, const struct csv_columns * columns);
