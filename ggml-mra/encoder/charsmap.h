// SentencePiece's precompiled_charsmap: a darts-clone double array (u32 size in bytes, then its units) from UTF-8
// strings to offsets into NUL-terminated replacements behind it.
#pragma once

#include "mra-error.h"

#include <stddef.h>
#include <stdint.h>

struct mra_charsmap {
    uint32_t * units; // NULL: no rules
    size_t n_units;
    char * text; // replacements, valid UTF-8, the last byte is NUL
    size_t n_text;
};

// Copies and checks data; n = 0 gives an empty map.
enum mra_status mra_charsmap_init(struct mra_charsmap * m, const uint8_t * data, size_t n, struct mra_error * err);
void mra_charsmap_free(struct mra_charsmap * m);

// The replacement (NUL-terminated) of the shortest prefix of s[0..n) that has one, or NULL.
const char * mra_charsmap_find(const struct mra_charsmap * m, const char * s, size_t n);
