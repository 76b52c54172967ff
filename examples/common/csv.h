// Rows of comma-separated values (RFC 4180): fields in quotes may hold commas, line ends and doubled quotes.
#pragma once

#include "mra-error.h"

#include <stddef.h>

struct csv_row {
    char ** fields; // [n] NUL-terminated
    size_t * sizes; // [n] without the NUL
    int n;
    char * text; // what fields point into
};

// row[0 .. n) without its line end. On MRA_OK the caller frees.
enum mra_status csv_parse(struct csv_row * to, const char * row, size_t n, char delimiter, struct mra_error * err);
void csv_free(struct csv_row * row);

// Which of , ; and tab a header has most of, outside quotes.
char csv_delimiter(const char * row, size_t n);
