// Vocabularies and cases of the tokenizer tests: tab-separated lines, bytes outside 0x21..0x7E and the backslash as
// \xNN.
//     kind      bpe | wordpiece | unigram
//     flag      add_bos, lowercase, ...
//     id        mask  4
//     token     TYPE  SCORE  STRING                in the order of ids
//     merge     LEFT\x20RIGHT
//     charsmap  STRING                             may be repeated
#pragma once

#include "mra-tokenizer.h"

#include <stdio.h>

struct vocab_file {
    struct mra_vocab vocab; // points into this struct
    struct mra_str * tokens;
    float * scores;
    int32_t * types;
    struct mra_str * merges;
    uint8_t * charsmap;
    size_t cap_tokens, cap_merges, cap_charsmap;
};

// All exit with a message on failure.
void vocab_file_read(struct vocab_file * f, const char * path);
void vocab_file_free(struct vocab_file * f);
char * file_read(const char * path, size_t * n); // NUL-terminated, to be freed

// Undoes the escapes in place; returns the length.
size_t unescape(char * s);

// The next line of *p, its fields NUL-terminated; the number of fields, 0 for an empty line, -1 at the end.
int next_line(char ** p, char ** fields, int max_fields);
