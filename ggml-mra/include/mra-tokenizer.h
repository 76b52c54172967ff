// Tokenizers of BERT-family encoders: text -> ids and byte offsets, as Hugging Face's `tokenizers` does it.
//
//     struct mra_tokenizer * tok  = mra_tokenizer_create(&vocab, &err);           // NULL: err.msg says why
//     struct mra_token_list  list = {0};
//     mra_tokenize(tok, text, len, NULL, 0, MRA_TOKENIZE_ADD_SPECIAL, &list, &err);
//     ... list.data[i].id, text[list.data[i].start .. list.data[i].end) ...
//     mra_token_list_free(&list);
//     mra_tokenizer_free(tok);
//
// Three models: byte-level BPE (RoBERTa), WordPiece (BERT), unigram (XLM-R). A tokenizer is immutable after creation,
// so any number of threads may use it, each with a list of its own. Text need not be UTF-8: each maximal ill-formed
// part counts as one U+FFFD, as in Python's bytes.decode("utf-8", "replace").
//
// Where results differ from tokenizers 0.22.1 (tests/golden/{fuzz,sweep}_tokenizers.py compare both):
// - Unicode tables. Ours are utf8proc's (2.8: Unicode 15). The reference knows Unicode 16 where it cuts BPE's words,
// but only
//   Unicode 8 where BERT's marks and punctuation are concerned. Only characters assigned or reclassified in between
//   differ.
// - Offsets, where the reference loses track: unigram, after a character the charsmap drops at the start of a text or
// behind
//   one replaced by a longer string; WordPiece, a spacing mark that NFD moves. Ours stay with the token's own
//   characters.
// - Tokens of type USER are looked for before normalization, as special tokens are.
#pragma once

#include "mra-error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum mra_vocab_kind {
    MRA_VOCAB_BPE,       // GGUF "gpt2"
    MRA_VOCAB_WORDPIECE, // GGUF "bert": `##x` stored as `x`, `x` as U+2581 + `x`
    MRA_VOCAB_UNIGRAM,   // GGUF "t5"
};

// GGUF's tokenizer.ggml.token_type
enum mra_token_type {
    MRA_TOKEN_NORMAL = 1,
    MRA_TOKEN_UNKNOWN = 2,
    MRA_TOKEN_CONTROL = 3,
    MRA_TOKEN_USER = 4,
    MRA_TOKEN_UNUSED = 5, // never produced, except where a special id names it
    MRA_TOKEN_BYTE = 6,
};

struct mra_str {
    const char * data;
    size_t len;
};

// A vocabulary as read from a file. All of it is untrusted and checked by mra_tokenizer_create; nothing is kept.
struct mra_vocab {
    enum mra_vocab_kind kind;

    size_t n_tokens;
    const struct mra_str * tokens; // [n_tokens] UTF-8
    const float * scores;          // [n_tokens], unigram only
    const int32_t * types;         // [n_tokens] enum mra_token_type; NULL: all are normal
    size_t n_merges;
    const struct mra_str * merges; // [n_merges] "left right", best first; BPE only

    int32_t bos, eos, unk, sep, pad, mask, cls; // ids; negative: there is none

    bool add_bos; // bos (BERT: cls) before the text ...
    bool add_eos; // ... and eos (BERT: sep) after it, when special tokens are asked for

    bool add_space_prefix;         // unigram: the first word too starts with U+2581
    bool remove_extra_whitespaces; // unigram: runs of white space count as one, and as none at the ends

    bool lowercase;     // WordPiece
    bool strip_accents; // WordPiece: NFD, then without nonspacing marks
    bool split_cjk;     // WordPiece: each ideograph is a word

    const uint8_t * charsmap; // unigram: SentencePiece's precompiled normalization rules; may be NULL
    size_t n_charsmap;
};

// All false, all ids absent.
struct mra_vocab mra_vocab_init(enum mra_vocab_kind kind);

// Whether a WordPiece vocabulary has words in upper case. GGUF does not say whether BERT is cased, but its vocabulary
// does: without them set lowercase and strip_accents.
bool mra_vocab_is_cased(const struct mra_vocab * vocab);

struct mra_token {
    int32_t id;
    uint32_t start; // bytes of the text it stands for; 0, 0 where the tokenizer added it
    uint32_t end;
    int16_t text;    // 0 or 1: which of the two texts; -1: added
    int16_t segment; // token type id: 1 in the second half of a BERT pair, else 0
};

// Growable. {0} is an empty list.
struct mra_token_list {
    struct mra_token * data;
    size_t n;
    size_t cap;
};

void mra_token_list_free(struct mra_token_list * list);

struct mra_tokenizer;

struct mra_tokenizer * mra_tokenizer_create(const struct mra_vocab * vocab, struct mra_error * err);
void mra_tokenizer_free(struct mra_tokenizer * tok);

enum mra_tokenize_flags {
    MRA_TOKENIZE_ADD_SPECIAL = 1, // <s>A</s>, <s>A</s></s>B</s>; BERT: [CLS]A[SEP], [CLS]A[SEP]B[SEP]
    MRA_TOKENIZE_PLAIN = 2,       // `<mask>` and the like in the text are text
};

// Replaces what is in the list. b may be NULL: a single text. On failure the list is empty.
enum mra_status mra_tokenize(const struct mra_tokenizer * tok, const char * a, size_t n_a, const char * b, size_t n_b,
    unsigned flags, struct mra_token_list * list, struct mra_error * err);

int32_t mra_tokenizer_n_tokens(const struct mra_tokenizer * tok);

// The id of a token as the vocabulary spells it ("<mask>", "\u2581the"), or -1.
int32_t mra_tokenizer_find(const struct mra_tokenizer * tok, const char * token, size_t len);

// The text of a token: bytes decoded, U+2581 as a space. Writes at most size bytes, no NUL; returns the full length.
// An id out of range has no text.
size_t mra_tokenizer_text(const struct mra_tokenizer * tok, int32_t id, char * buf, size_t size);

#ifdef __cplusplus
}
#endif
