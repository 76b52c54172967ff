// What the tokenizer's own files share.
#pragma once

#include "charsmap.h"
#include "mra-tokenizer.h"
#include "trie.h"
#include "utf8.h"

#include <stdlib.h>

#define MRA_MAX_STEPS       16
#define MRA_MAX_TEMPLATE    64
#define MRA_MAX_TOKEN_BYTES 4096 // bounds the work per byte of text

struct mra_merge {
    int32_t left; // -1: the slot is empty
    int32_t right;
    int32_t id; // of left + right
    int32_t rank;
};

struct mra_parts { // a template in memory of the tokenizer's own
    size_t n;
    int32_t ids[MRA_MAX_TEMPLATE];
    int16_t types[MRA_MAX_TEMPLATE];
};

struct mra_tokenizer {
    enum mra_vocab_kind kind;
    int32_t n_tokens;
    char * bytes;         // all tokens, one after the other
    size_t * begin;       // [n_tokens + 1]
    bool * is_special;    // [n_tokens] found in the text as a whole
    bool * is_no_piece;   // [n_tokens] never a part of a word
    struct mra_trie trie; // every token of the vocabulary that has a use

    size_t n_normalize, n_split;
    int32_t normalize[MRA_MAX_STEPS];
    int32_t split[MRA_MAX_STEPS];
    bool can_cut; // a text may be cut between a letter and a space, and gives the same tokens

    struct mra_added * added; // [n_added] values of the tries below are indices of it
    size_t n_added;
    struct mra_trie raw, normalized; // tokens found in the raw and in the normalized text

    struct mra_parts single, pair;
    int32_t unk; // -1: none
    bool trim_offsets;
    bool whole_words;

    int32_t byte_id[256];      // BPE; -1: not in the vocabulary
    struct mra_merge * merges; // BPE: open addressing, a power of two of slots
    uint32_t merge_mask;

    uint32_t word_start;    // WordPiece: trie node behind U+2581, 0: there is none
    int64_t max_word_chars; // WordPiece

    double * scores; // unigram
    double unk_score;
    struct mra_charsmap charsmap;
};

struct mra_span {
    uint32_t start;
    uint32_t end;
};

// A text that was made from another: where each byte comes from.
struct mra_text {
    char * s;
    struct mra_span * spans;
    size_t n;
    size_t cap_s, cap_spans;
};

// s with where it comes from. spans NULL: it is the text itself.
struct mra_view {
    const char * s;
    const struct mra_span * spans;
};

struct mra_piece {
    uint32_t begin;
    uint32_t end;
};

struct mra_pieces {
    struct mra_piece * data;
    size_t n, cap;
};

// The memory of one call of mra_tokenize.
struct mra_work {
    const struct mra_tokenizer * tok;
    struct mra_token_list * list;
    unsigned flags;
    struct mra_text text[2];    // normalizing reads one and writes the other
    struct mra_text split_text; // where splitting changes the text
    uint32_t text_start; // where the first character comes from that a charsmap left; 0: none was dropped before it
    struct mra_pieces pieces[2];
    void * model[2]; // the model's own
    size_t cap_model[2];
};
void mra_work_free(struct mra_work * w);

// Makes room for n elements of `size` bytes in *data; false: out of memory, and nothing changed.
bool mra_reserve(void ** data, size_t * cap, size_t n, size_t size);

// Room for n more bytes.
bool mra_text_reserve(struct mra_text * t, size_t n);

// Appends n bytes that come from span; false: out of memory.
bool mra_text_put(struct mra_text * t, const char * s, size_t n, struct mra_span span);

// Where the character at byte i comes from; len: its bytes.
static inline struct mra_span mra_view_span(const struct mra_view * v, size_t i, size_t len) {
    return v->spans ? v->spans[i] : (struct mra_span) { (uint32_t) i, (uint32_t) (i + len) };
}

// tokenizer-settings.c: checks the settings, or makes those that the flags of a vocabulary mean, and takes them over.
enum mra_status mra_settings_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err);

// tokenizer-normalize.c: all steps over in[begin..end). *out is in itself with [*begin..*end) where there are none.
bool mra_normalize_run(
    struct mra_work * w, const struct mra_view * in, size_t * begin, size_t * end, struct mra_view * out);

// tokenizer-charsmap.c: one of the steps
bool mra_charsmap_run(struct mra_work * w, const struct mra_view * in, size_t begin, size_t end, struct mra_text * out);

// tokenizer-split.c: the words of in[begin..end), which are pieces of *out.
bool mra_split_run(struct mra_work * w, const struct mra_view * in, size_t begin, size_t end, struct mra_view * out,
    const struct mra_pieces ** pieces);

// tokenizer-added.c: the tries; and, as mra_tokenize needs it, the tokens of a text.
// is_raw: [n_tokens] control tokens, which GGUF spells as they are.
enum mra_status mra_added_init(struct mra_tokenizer * tok, const bool * is_raw, struct mra_error * err);
bool mra_added_run(struct mra_work * w, const char * s, size_t n);

// Each model: fill its part of the tokenizer, and tokenize the word v[begin..end), appending to w's list with offsets
// in the text it comes from. False: out of memory.
enum mra_status mra_bpe_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err);
bool mra_bpe_word(struct mra_work * w, const struct mra_view * v, size_t begin, size_t end);
size_t mra_bpe_text(const char * token, size_t len, char * buf, size_t size);
size_t mra_bpe_match(const char * s, size_t n);    // the length of the word at the start of s, n > 0
size_t mra_llama3_match(const char * s, size_t n); // the same by Llama 3's pattern

enum mra_status mra_wordpiece_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err);
bool mra_wordpiece_word(struct mra_work * w, const struct mra_view * v, size_t begin, size_t end);

enum mra_status mra_unigram_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err);
bool mra_unigram_word(struct mra_work * w, const struct mra_view * v, size_t begin, size_t end);

static inline bool mra_emit(struct mra_token_list * list, int32_t id, size_t start, size_t end) {
    if (list->n == list->cap) {
        void * data = list->data;
        if (!mra_reserve(&data, &list->cap, list->n + 1, sizeof(*list->data))) { return false; }
        list->data = data;
    }
    list->data[list->n++] = (struct mra_token) { .id = id, .start = (uint32_t) start, .end = (uint32_t) end };
    return true;
}
