// UTF-8 and the few character classes tokenizers ask for.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MRA_METASPACE 0x2581 // what SentencePiece writes for a space

// Decodes the first character of s[0..n), n > 0, and returns its length. Where the bytes are not UTF-8, *cp is -1 and
// the length that of the maximal ill-formed part.
int mra_utf8_decode(const char * s, size_t n, int32_t * cp);

// Writes 1 to 4 bytes; returns how many.
int mra_utf8_encode(int32_t cp, char * out);

bool mra_utf8_valid(const char * s, size_t n);

// Unicode's White_Space
bool mra_is_space(int32_t cp);

// Regular expressions' \w: letters, marks, decimal digits, connectors
bool mra_is_word(int32_t cp);

// Numbers of any kind: 1, roman one, one half
bool mra_is_number(int32_t cp);

// ASCII's symbols, and Unicode's punctuation
bool mra_is_punctuation(int32_t cp);

// A text made valid. s is the text itself where it already was.
struct mra_utf8_text {
    const char * s;
    size_t n;
    char * owned;   // NULL: s is the caller's
    uint32_t * map; // [n + 1] offset in s of a character's start (or n) -> offset in the original; NULL: the same
};

// False: out of memory.
bool mra_utf8_text_init(struct mra_utf8_text * t, const char * s, size_t n);
void mra_utf8_text_free(struct mra_utf8_text * t);
