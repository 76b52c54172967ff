// What the tokenizer's own files share.
#pragma once

#include "charsmap.h"
#include "mra-tokenizer.h"
#include "trie.h"
#include "utf8.h"

#include <stdlib.h>

struct mra_merge {
    int32_t left; // -1: the slot is empty
    int32_t right;
    int32_t id; // of left + right
    int32_t rank;
};

struct mra_tokenizer {
    enum mra_vocab_kind kind;
    int32_t n_tokens;
    char * bytes;      // all tokens, one after the other
    size_t * begin;    // [n_tokens + 1]
    bool * is_special; // [n_tokens] recognised as a whole in the text

    struct mra_trie trie;    // every token that can be produced
    struct mra_trie special; // those recognised as a whole

    int32_t first, last; // put around a text, -1: none
    int32_t mask;        // takes the white space before it along; -1: none does
    int32_t unk;

    int32_t byte_id[256];      // BPE; -1: not in the vocabulary
    struct mra_merge * merges; // BPE: open addressing, a power of two of slots
    uint32_t merge_mask;

    bool lowercase, strip_accents, split_cjk; // WordPiece
    uint32_t word_start;                      // WordPiece: trie node behind U+2581, 0: there is none

    bool add_space_prefix, remove_extra_whitespaces; // unigram
    double * scores;                                 // unigram
    double unk_score;
    struct mra_charsmap charsmap;
};

// Each model: fill its part of the tokenizer, and tokenize s[begin..end), valid UTF-8 without special tokens, appending
// to the list with offsets in s. False: out of memory.
enum mra_status mra_bpe_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err);
bool mra_bpe_run(const struct mra_tokenizer * tok, const char * s, size_t begin, size_t end, unsigned flags,
    struct mra_token_list * list);
size_t mra_bpe_text(const char * token, size_t len, char * buf, size_t size);

enum mra_status mra_wordpiece_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err);
bool mra_wordpiece_run(const struct mra_tokenizer * tok, const char * s, size_t begin, size_t end, unsigned flags,
    struct mra_token_list * list);

enum mra_status mra_unigram_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err);
bool mra_unigram_run(const struct mra_tokenizer * tok, const char * s, size_t begin, size_t end, unsigned flags,
    struct mra_token_list * list);

// Makes room for n elements of `size` bytes in *data; false: out of memory, and nothing changed.
bool mra_reserve(void ** data, size_t * cap, size_t n, size_t size);

static inline bool mra_emit(struct mra_token_list * list, int32_t id, size_t start, size_t end) {
    if (list->n == list->cap) {
        void * data = list->data;
        if (!mra_reserve(&data, &list->cap, list->n + 1, sizeof(*list->data))) { return false; }
        list->data = data;
    }
    list->data[list->n++] = (struct mra_token) { .id = id, .start = (uint32_t) start, .end = (uint32_t) end };
    return true;
}
