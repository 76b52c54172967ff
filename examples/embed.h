// mra-embed: what its two files share.
#pragma once

#include "common/program.h"

enum embed_format { FORMAT_TEXT, FORMAT_JSON, FORMAT_JSONL, FORMAT_NPY, FORMAT_RAW, FORMAT_OPENAI };

struct embed {
    enum embed_format format;
    int format_option; // what --format says, -1: nothing
    enum mra_pooling pooling;
    int normalize; // 1 yes, -1 no, 0 what the model says
    int dims;      // of an embedding
    int chunk;     // tokens per embedding; 0: one embedding per text
    bool similarity;
    // while writing
    int64_t n_rows, n_tokens;
    float * all; // --similarity: [n_rows][dims]
};

struct chunk {
    uint32_t start, end;
    int n_tokens;
}; // bytes of the text

struct embedding { // struct item's result
    int n;
    struct chunk * chunks; // [n], NULL: the whole text
    float * data;          // [n][dims]
};

// sets begin, emit, end of s->on by the format
void embed_output(struct stream * s);
