// Tokenizers of BERT-family encoders: text -> ids and byte offsets, as Hugging Face's `tokenizers` does it.
//
//     struct mra_tokenizer * tok  = mra_tokenizer_create(&vocab, &err);           // NULL: err.msg says why
//     struct mra_token_list  list = {0};
//     mra_tokenize(tok, text, len, NULL, 0, MRA_TOKENIZE_ADD_SPECIAL, &list, &err);
//     ... list.data[i].id, text[list.data[i].start .. list.data[i].end) ...
//     mra_token_list_free(&list);
//     mra_tokenizer_free(tok);
//
// Three models: byte-level BPE (RoBERTa), WordPiece (BERT), unigram (XLM-R). Around each of them, in this order:
//     added tokens of the raw text are cut out -> normalize -> added tokens of the normalized text are cut out
//     -> split into words -> the model, word by word -> the template's special tokens are put around the result
// struct mra_settings says what each step does. A tokenizer is immutable after creation, so any number of threads may
// use it, each with a list of its own. Text need not be UTF-8: each maximal ill-formed part counts as one U+FFFD, as in
// Python's bytes.decode("utf-8", "replace").
//
// Where results differ from tokenizers 0.23.3 (tests/golden/{fuzz,sweep}_tokenizers.py compare both):
// - Unicode tables. Ours are utf8proc's (2.8: Unicode 15). The reference knows Unicode 16 where it cuts BPE's words,
//   but only Unicode 8 where BERT's marks and punctuation are concerned. Only characters assigned or reclassified in
//   between differ.
// - Offsets, where the reference loses track: unigram, after a character the charsmap drops at the start of a text or
//   behind one replaced by a longer string; WordPiece, a spacing mark that NFD moves. Ours stay with the token's own
//   characters.
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

// What is done to a text before it is split, in this order as often as the settings say. The names are those of
// mra_normalize_find, and of the key mra.tokenizer.normalize in a GGUF file.
enum mra_normalize {
    MRA_NORMALIZE_CLEAN, // "clean": control characters vanish, white space becomes spaces
    MRA_NORMALIZE_CJK,   // "cjk": a space before and behind each ideograph
    MRA_NORMALIZE_NFC,   // "nfc", "nfd", "nfkc", "nfkd": Unicode's normal forms
    MRA_NORMALIZE_NFD,
    MRA_NORMALIZE_NFKC,
    MRA_NORMALIZE_NFKD,
    MRA_NORMALIZE_STRIP_MN,   // "strip_mn": nonspacing marks vanish (BertNormalizer, behind nfd)
    MRA_NORMALIZE_STRIP_M,    // "strip_m": all marks vanish (StripAccents)
    MRA_NORMALIZE_LOWERCASE,  // "lowercase"
    MRA_NORMALIZE_STRIP_LEFT, // "strip_left", "strip_right": white space at the ends vanishes
    MRA_NORMALIZE_STRIP_RIGHT,
    MRA_NORMALIZE_SPACES,         // "spaces": two or more spaces in a row become one ...
    MRA_NORMALIZE_SPACES_TO_META, // "spaces_to_meta": ... or one U+2581
    MRA_NORMALIZE_CHARSMAP,       // "charsmap": SentencePiece's precompiled rules, once
    MRA_NORMALIZE_COUNT
};

// How a text becomes words. Each step splits what the one before left; names as above, key mra.tokenizer.split.
enum mra_split {
    MRA_SPLIT_WHITESPACE,   // "whitespace": at white space, which vanishes
    MRA_SPLIT_WORDS,        // "words": letters, digits and marks in a row, or other characters in a row
    MRA_SPLIT_BERT,         // "bert": at white space, and each punctuation character is a word
    MRA_SPLIT_PUNCTUATION,  // "punctuation": each punctuation character is a word
    MRA_SPLIT_DIGITS,       // "digits": each number character is a word
    MRA_SPLIT_DIGIT_RUNS,   // "digit_runs": number characters in a row are a word
    MRA_SPLIT_LLAMA3,       // "llama3": by Llama 3's pattern: at most three digits, a mark before letters is theirs
    MRA_SPLIT_BYTES,        // "bytes": BPE, last: not split
    MRA_SPLIT_BYTES_PREFIX, // "bytes_prefix": the same, with a space in front where there is none
    MRA_SPLIT_BYTE_WORDS,   // "byte_words": BPE, last: by GPT-2's pattern
    MRA_SPLIT_BYTE_WORDS_PREFIX, // "byte_words_prefix"
    // spaces become U+2581, and a word begins at each; "always": one more in front where there is none,
    // "first": only at the start of the text, "later": in front of all words but the first
    MRA_SPLIT_META_ALWAYS,       // "meta_always"
    MRA_SPLIT_META_FIRST,        // "meta_first"
    MRA_SPLIT_META_NEVER,        // "meta_never"
    MRA_SPLIT_META_LATER,        // "meta_later"
    MRA_SPLIT_META_ALWAYS_WHOLE, // "meta_always_whole", ...: the same, but not split
    MRA_SPLIT_META_FIRST_WHOLE,
    MRA_SPLIT_META_NEVER_WHOLE,
    MRA_SPLIT_COUNT
};

// The step of a name, -1: there is none.
int mra_normalize_find(const char * name);
int mra_split_find(const char * name);

// A token that is found in the text as a whole.
enum mra_added_flags {
    MRA_ADDED_LSTRIP = 1,      // takes the white space before it along
    MRA_ADDED_RSTRIP = 2,      // and behind it
    MRA_ADDED_SINGLE_WORD = 4, // only where no letter, digit, mark or underscore touches it
    MRA_ADDED_NORMALIZED = 8,  // its normalized form is looked for in the normalized text
    MRA_ADDED_SPECIAL = 16,    // of no meaning here
    MRA_ADDED_ONLY = 32,       // not in the model's own vocabulary
};

struct mra_added {
    int32_t id;
    int32_t flags;
};

enum { MRA_TEMPLATE_A = -1, MRA_TEMPLATE_B = -2 };

// What is put together, with special tokens: ids[i] is a token, or one of the texts; types[i] its token type.
struct mra_template {
    size_t n;
    const int32_t * ids;
    const int32_t * types;
};

// All that a vocabulary alone does not say. Nothing is kept by mra_tokenizer_create.
struct mra_settings {
    size_t n_normalize, n_split, n_added;
    const int32_t * normalize;        // [n_normalize] enum mra_normalize
    const int32_t * split;            // [n_split] enum mra_split
    const struct mra_added * added;   // [n_added]
    struct mra_template single, pair; // each text of it once
    int32_t unk;                      // for what the model cannot spell; -1 (BPE): nothing
    int64_t max_word_chars;           // WordPiece: a longer word is unknown
    bool trim_offsets;                // offsets without the white space at a token's ends (BPE)
    bool whole_words;                 // a word that is a token is that token, whatever the merges make of it (BPE)
    const double * scores;            // unigram: [n_tokens], where float is not exact; may be NULL
};

// How a file of another converter says that a text is split before BPE: its tokenizer.ggml.pre.
enum mra_bpe_pre {
    MRA_BPE_ROBERTA,     // GPT-2's pattern; pairs as RoBERTa has them
    MRA_BPE_MODERN_BERT, // the same after NFC; pairs with one token between
    MRA_BPE_LLAMA3,      // Llama 3's pattern, whole words; pairs with one token between
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

    enum mra_bpe_pre pre; // BPE

    bool add_bos; // bos (BERT: cls) before the text ...
    bool add_eos; // ... and eos (BERT: sep) after it, when special tokens are asked for

    bool add_space_prefix;         // unigram: the first word too starts with U+2581
    bool remove_extra_whitespaces; // unigram: runs of white space count as one, and as none at the ends

    bool lowercase;     // WordPiece
    bool strip_accents; // WordPiece: NFD, then without nonspacing marks
    bool split_cjk;     // WordPiece: each ideograph is a word

    const uint8_t * charsmap; // SentencePiece's precompiled normalization rules; may be NULL
    size_t n_charsmap;

    // Everything said; add_* to split_cjk above do not count then, nor do types as to what is found in the text.
    // NULL: what the kind and these flags mean, in files of other converters.
    const struct mra_settings * settings;
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

// Whether token t of text[0 .. n) goes on with the word of the token before it, as transformers' token-classification
// pipeline has it. WordPiece: the token's spelling (##x) has not as many characters as the text it stands for. Others:
// there is no space before it or at its start. An unknown token is a word of its own.
bool mra_token_goes_on(const struct mra_tokenizer * tok, const struct mra_token * t, const char * text, size_t n);

#ifdef __cplusplus
}
#endif
