// mra-embed: what its files share.
#pragma once

#include "common/program.h"

enum embed_format {
    FORMAT_TEXT,
    FORMAT_JSON,
    FORMAT_JSONL,
    FORMAT_NPY,
    FORMAT_RAW,
    FORMAT_OPENAI,
    FORMAT_CSV,
    FORMAT_NPZ
};
#define EMBED_FORMATS "text|json|jsonl|npy|raw|openai|csv|npz" // in this order

struct name_list {
    char ** names; // [n], owned
    int64_t n, cap;
};

enum embed_what { WHAT_DENSE, WHAT_SPARSE, WHAT_COLBERT };

struct embed {
    enum embed_format format;
    int format_option; // what --format says, -1: nothing
    enum mra_pooling pooling;
    int normalize; // 1 yes, -1 no, 0 what the model says
    int dims;      // of an embedding
    int chunk;     // tokens per embedding; 0: one embedding per text
    bool similarity;
    enum embed_what what;
    // while writing
    int64_t n_rows, n_tokens;
    float * all;            // --similarity: [n_rows][dims]
    struct name_list names; // --similarity, npz: of the rows
    uint32_t * crcs;        // npz: [n_rows] of all rows up to this one
    int64_t cap_crcs;
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

// The format by --format, --json, --similarity and the output file's ending; ends the program where they contradict
// each other.
enum embed_format embed_choose_format(const struct embed * e, const struct options * o, const struct args * a);
// sets begin, emit, end of s->on by the format
void embed_output(struct stream * s);

// pieces of output
void embed_numbers(struct sink * out, const float * x, int n, const char * between);
void embed_csv_cell(struct sink * out, const char * text); // in quotes where it needs them
// the embedding of row i of an item, or one of nan; row : [dims], used for that
const float * embed_row(const struct embed * e, const struct item * it, int i, float * row);
int embed_n_rows(const struct item * it);
// ends the program where the output is no file that can be changed behind its end
void embed_need_file(struct stream * s, const char * format);
void embed_add_name(struct stream * s, const struct item * it);
void embed_free_names(struct embed * e);

struct token_weights { // struct item's result with --output sparse or colbert; what follows it is the handlers' own
    int n;
};

extern const struct handlers embed_npz, embed_similarity, embed_sparse, embed_colbert;
