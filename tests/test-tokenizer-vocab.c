// Vocabularies made here: options, pairs, decoding, and damage that must be refused with a reason.
#include "mra-tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_failed = 0;

static void check(bool ok, const char * what, const char * detail) {
    if (!ok) {
        n_failed++;
        printf("FAIL %s: %s\n", what, detail);
    }
}

static void print_list(char * buf, size_t size, const struct mra_token_list * list) {
    size_t n = 0;

    buf[0] = 0;
    for (size_t i = 0; i < list->n && n < size; i++) {
        const struct mra_token * t = &list->data[i];
        n += (size_t) snprintf(
            buf + n, size - n, "%s%d:%u:%u", i ? " " : "", (int) t->id, (unsigned) t->start, (unsigned) t->end);
    }
}

#define STR(s) \
    { s, sizeof(s) - 1 }
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define META "\xE2\x96\x81"

static const struct mra_str words[] = { STR("[UNK]"), STR("[CLS]"), STR("[SEP]"), STR(META "the"), STR("re"),
    STR(META "x"), STR(""), STR(META "i"), STR("\xCC\x87") };
static const int32_t word_types[] = { 3, 3, 3, 1, 1, 1, 1, 1, 1 };

static const struct mra_str pieces[] = { STR("<s>"), STR("</s>"), STR("<unk>"), STR(META), STR(META "a"), STR("a"),
    STR("ab"), STR("<mask>"), STR("\n"), STR("b"), STR("bb"), STR("e"), STR("ef"), STR("gh"), STR("fg"), STR("[PAD]"),
    STR("i"), STR("ij"), STR("jk"), STR("kl") };
static const int32_t piece_types[] = { 3, 3, 2, 1, 1, 1, 1, 3, 4, 1, 1, 1, 1, 1, 1, 5, 1, 1, 1, 1 };
static const float piece_scores[] = { 0, 0, 0, -3, -2, -4, -5, 0, 0, -4, -8, -4, -50, -50, -5, -10000, -4, -50, -5,
    -15 };

static const struct mra_str bytes[] = { STR("a"), STR("b"), STR("ab"), STR("\xC4\xA0"),
    STR("\xC4\xA0"
        "ab"),
    STR("<s>"), STR("\xC3\xA9"), STR("aa"), STR("1"), STR("\xC3\x82"), STR("1\xC3\x82"), STR("c"), STR("d"), STR("bc"),
    STR("bcd"), STR("abc") };
static const int32_t byte_types[] = { 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static const struct mra_str merges[] = { STR("b c"), STR("a b"), STR("\xC4\xA0 ab"), STR("a a"), STR("1 \xC3\x82"),
    STR("bc d"), STR("a bc") };

static struct mra_vocab small_wordpiece(void) {
    struct mra_vocab v = mra_vocab_init(MRA_VOCAB_WORDPIECE);
    v.n_tokens = COUNT(words), v.tokens = words, v.types = word_types;
    v.unk = 0, v.cls = 1, v.sep = 2, v.add_bos = v.add_eos = v.lowercase = v.strip_accents = v.split_cjk = true;
    return v;
}

static struct mra_vocab small_unigram(void) {
    struct mra_vocab v = mra_vocab_init(MRA_VOCAB_UNIGRAM);
    v.n_tokens = COUNT(pieces), v.tokens = pieces, v.types = piece_types, v.scores = piece_scores;
    v.bos = 0, v.eos = 1, v.unk = 2, v.mask = 7,
    v.add_bos = v.add_eos = v.add_space_prefix = v.remove_extra_whitespaces = true;
    return v;
}

static struct mra_vocab small_bpe(void) {
    struct mra_vocab v = mra_vocab_init(MRA_VOCAB_BPE);
    v.n_tokens = COUNT(bytes), v.tokens = bytes, v.types = byte_types, v.n_merges = COUNT(merges), v.merges = merges;
    return v;
}

static struct mra_vocab small(enum mra_vocab_kind kind) {
    return kind == MRA_VOCAB_BPE ? small_bpe() : kind == MRA_VOCAB_WORDPIECE ? small_wordpiece() : small_unigram();
}

static void test_small(
    const char * what, const struct mra_vocab * v, const char * a, const char * b, unsigned flags, const char * want) {
    struct mra_error err;
    struct mra_token_list list = { 0 };
    char have[4096];
    struct mra_tokenizer * tok = mra_tokenizer_create(v, &err);

    check(tok != NULL, what, err.msg);
    if (tok) {
        mra_tokenize(tok, a, strlen(a), b, b ? strlen(b) : 0, flags, &list, &err);
        print_list(have, sizeof(have), &list);
        check(strcmp(have, want) == 0, what, have);
    }
    mra_token_list_free(&list);
    mra_tokenizer_free(tok);
}

static void test_options(void) {
    struct mra_vocab v = small_unigram();

    test_small("plain mask is text", &v, "a<mask>", NULL, MRA_TOKENIZE_PLAIN, "4:0:1 2:1:3 5:3:4 2:4:7");
    test_small("special mask", &v, "a <mask>", NULL, 0, "4:0:1 7:1:8");
    test_small("mask behind a token that is white space", &v, "a\n<mask>", NULL, 0, "4:0:1 8:1:2 7:2:8");
    test_small("a tie goes to the path found first", &v, "bb", NULL, 0, "3:0:1 10:0:2");
    test_small("unused tokens do not lower the unknown score", &v, "efgh", NULL, 0, "3:0:1 11:0:1 14:1:3 2:3:4");
    test_small("unknown is ten below the lowest score", &v, "ijkl", NULL, 0, "3:0:1 17:0:2 19:2:4");
    v.add_space_prefix = false;
    test_small("no prefix", &v, " ab  a", NULL, 0, "6:1:3 4:5:6");
    v.remove_extra_whitespaces = false;
    test_small("spaces kept, no prefix", &v, "ab  a", NULL, 0, "6:0:2 3:2:3 4:3:5");
    v.add_space_prefix = true;
    test_small("spaces kept, prefix", &v, "a ab ", NULL, 0, "4:0:1 4:1:3 9:3:4 3:4:5");
    v.add_bos = false;
    test_small("only eos, pair", &v, "a", "a", MRA_TOKENIZE_ADD_SPECIAL, "4:0:1 1:0:0 1:0:0 4:0:1 1:0:0");
    v = small_wordpiece();
    v.strip_accents = false;
    test_small("lower case of two characters", &v, "\xC4\xB0", NULL, 0, "7:0:2 8:0:2");
    v = small_bpe();
    test_small("bytes without a token are dropped", &v, "ab xb", NULL, 0, "2:0:2 3:3:3 1:4:5");
    test_small("the leftmost of equal merges first", &v, "aaa", NULL, 0, "7:0:2 0:2:3");
    test_small("a pair that has changed waits for its own rank", &v, "abcd", NULL, 0, "0:0:1 14:1:4");
    test_small("a fraction is a number", &v, "1\xC2\xBD", NULL, 0, "10:0:3");
    v.unk = 5;
    test_small("or unknown", &v, "x\xC3\xA9", NULL, 0, "5:0:1 5:1:3 5:1:3");
}

static void put_u32(uint8_t * p, uint32_t v) {
    for (int i = 0; i < 4; i++) { p[i] = (uint8_t) (v >> 8 * i); }
}

// a -> b, with an offset beyond 2^21, as only large maps have it; all other characters lead out of the array or to
// empty units
static void test_large_charsmap(void) {
    const uint32_t at = 1u << 21, n_units = at + 256;
    struct mra_vocab v = small_unigram();
    uint8_t * map = calloc(1, 4 + 4 * (size_t) n_units + 2);

    put_u32(map, 4 * n_units);
    put_u32(map + 4, at << 2 | 1u << 9);                         // root: offset at, shifted
    put_u32(map + 4 + 4 * (at ^ 'a'), 'a' | 1u << 8 | 1u << 10); // 'a': has a leaf, offset 1
    put_u32(map + 4 + 4 * (at ^ 'a' ^ 1), 1u << 31);             // the leaf: value 0
    memcpy(map + 4 + 4 * (size_t) n_units, "b", 2);
    v.charsmap = map, v.n_charsmap = 4 + 4 * (size_t) n_units + 2;
    test_small("large charsmap", &v, "abe", NULL, 0, "3:0:1 10:0:2 11:2:3");
    put_u32(map, 4);
    put_u32(map + 4, 0);
    memcpy(map + 8, "b", 2);
    v.n_charsmap = 10;
    test_small("one unit", &v, "ab", NULL, 0, "4:0:1 9:1:2");
    free(map);
}

static void test_segments(void) {
    static const int16_t texts[] = { -1, 0, -1, 1, -1 };
    static const int16_t segments[] = { 0, 0, 0, 1, 1 };
    struct mra_vocab v = small_wordpiece();
    struct mra_token_list list = { 0 };
    struct mra_tokenizer * tok = mra_tokenizer_create(&v, NULL);

    mra_tokenize(tok, "The", 3, "X", 1, MRA_TOKENIZE_ADD_SPECIAL, &list, NULL);
    check(list.n == 5, "segments", "count");
    for (size_t i = 0; i < list.n && i < 5; i++) {
        check(list.data[i].text == texts[i] && list.data[i].segment == segments[i], "segments", "text or segment");
    }
    mra_tokenize(tok, NULL, 0, NULL, 0, 0, &list, NULL);
    check(list.n == 0, "segments", "empty text");
    check(mra_tokenize(tok, NULL, 3, NULL, 0, 0, &list, NULL) == MRA_ERR_ARG, "segments", "missing text");
    mra_token_list_free(&list);
    mra_tokenizer_free(tok);
}

static void test_find_and_text(void) {
    static const struct {
        enum mra_vocab_kind kind;
        const char * token;
        int32_t id;
        const char * text;
    } cases[] = {
        { MRA_VOCAB_BPE,
            "\xC4\xA0"
            "ab",
            4, " ab" },
        { MRA_VOCAB_BPE, "<s>", 5, "<s>" },
        { MRA_VOCAB_BPE, "\xC3\xA9", 6, "\xE9" },
        { MRA_VOCAB_BPE, "abx", -1, "" },
        { MRA_VOCAB_BPE, "", -1, "" },
        { MRA_VOCAB_WORDPIECE, META "the", 3, " the" },
        { MRA_VOCAB_WORDPIECE, "re", 4, "re" },
        { MRA_VOCAB_UNIGRAM, "<mask>", 7, "<mask>" },
        { MRA_VOCAB_UNIGRAM, META, 3, " " },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct mra_vocab v = small(cases[i].kind);
        struct mra_tokenizer * tok = mra_tokenizer_create(&v, NULL);
        char buf[64];
        const int32_t id = mra_tokenizer_find(tok, cases[i].token, strlen(cases[i].token));
        const size_t n = mra_tokenizer_text(tok, id, buf, sizeof(buf));
        check(id == cases[i].id, "find", cases[i].token);
        check(n == strlen(cases[i].text) && memcmp(buf, cases[i].text, n) == 0, "text", cases[i].token);
        check(mra_tokenizer_text(tok, id, NULL, 0) == n, "length of text", cases[i].token);
        check(mra_tokenizer_text(tok, mra_tokenizer_n_tokens(tok), buf, 64) == 0, "text", "id out of range");
        mra_tokenizer_free(tok);
    }
}

// ---- settings

static const int32_t single_ids[] = { -1 }, pair_ids[] = { -2, 5, -1 }, pair_types[] = { 3, 1, 2 };

static struct mra_settings bpe_settings(const int32_t * split) {
    return (struct mra_settings) {
        .n_split = 1,
        .split = split,
        .single = { 1, single_ids, pair_types },
        .pair = { 3, pair_ids, pair_types },
        .unk = -1,
    };
}

static void test_settings(void) {
    static const int32_t words[] = { MRA_SPLIT_BYTE_WORDS }, prefix[] = { MRA_SPLIT_BYTE_WORDS_PREFIX };
    static const struct mra_added strip[] = { { 5, MRA_ADDED_LSTRIP | MRA_ADDED_RSTRIP } },
                                  single[] = { { 5, MRA_ADDED_SINGLE_WORD } };
    struct mra_vocab v = small_bpe();
    struct mra_settings s = bpe_settings(words);

    v.settings = &s;
    test_small("offsets with their space", &v, "ab ab", NULL, 0, "2:0:2 4:2:5");
    test_small("what is not added is text", &v, "<s>ab", NULL, 0, "2:3:5");
    test_small("the second text first", &v, "a", "b", MRA_TOKENIZE_ADD_SPECIAL, "1:0:1 5:0:0 0:0:1");
    s.trim_offsets = true;
    test_small("offsets without it", &v, "ab ab", NULL, 0, "2:0:2 4:3:5");
    s.split = prefix;
    test_small("prefix", &v, "ab ab", NULL, 0, "4:0:2 4:3:5");
    s.n_added = 1, s.added = strip;
    test_small("prefix behind a token that strips", &v, "ab <s> ab", NULL, 0, "4:0:2 5:3:6 4:7:9");
    s.trim_offsets = false;
    test_small("a token with its white space", &v, "ab <s> ab", NULL, 0, "4:0:2 5:2:7 4:7:9");
    s.added = single, s.split = words;
    test_small("a whole word", &v, "<s> a", NULL, 0, "5:0:3 3:3:4 0:4:5");
    test_small("no whole word", &v, "a<s>", NULL, 0, "0:0:1");
}

static void refuse_settings(const char * message, const struct mra_settings * s) {
    struct mra_vocab v = small_bpe();
    struct mra_error err = { 0 };

    v.settings = s;
    struct mra_tokenizer * tok = mra_tokenizer_create(&v, &err);
    check(!tok, message, "was accepted");
    check(tok || strstr(err.msg, message), message, err.msg);
    mra_tokenizer_free(tok);
}

static void test_bad_settings(void) {
    static const int32_t words[] = { MRA_SPLIT_BYTE_WORDS, MRA_SPLIT_DIGITS }, none[] = { 99 }, maps[17] = { 13, 13 },
                         outside[] = { 16, -1 }, twice[] = { -1, -1 };
    static const struct mra_added id[] = { { 16, 0 } }, flags[] = { { 5, 64 } }, same[] = { { 5, 0 }, { 5, 1 } };
    struct mra_settings s;

#define REFUSE(message, ...) \
    do { \
        s = bpe_settings(words); \
        __VA_ARGS__; \
        refuse_settings(message, &s); \
    } while (0)
    REFUSE("step 99 to split", s.split = none);
    REFUSE("step 99 to normalize", (s.normalize = none, s.n_normalize = 1));
    REFUSE("17 steps to normalize", (s.normalize = maps, s.n_normalize = 17));
    REFUSE("a charsmap is applied 2 times", (s.normalize = maps, s.n_normalize = 2));
    REFUSE("bytes are the last step", s.n_split = 2);
    REFUSE("bytes are the last step", s.n_split = 0);
    REFUSE("is token 16", (s.single.ids = outside, s.single.n = 2));
    REFUSE("each text once", (s.single.ids = twice, s.single.n = 2));
    REFUSE("each text once", s.pair.n = 2);
    REFUSE("a template of 65 parts", s.pair.n = 65);
    REFUSE("has id 16", (s.added = id, s.n_added = 1));
    REFUSE("flags 64", (s.added = flags, s.n_added = 1));
    REFUSE("token 5 is added twice", (s.added = same, s.n_added = 2));
    REFUSE("unknown token 16", s.unk = 16);
    REFUSE("at most -1 characters", s.max_word_chars = -1);
}

// ---- damaged vocabularies

struct damage {
    const char * what;
    enum mra_vocab_kind kind;
    const char * message; // a part of it
    enum mra_status code;
};

static const struct damage damages[] = {
    { "no tokens", MRA_VOCAB_BPE, "0 tokens", MRA_ERR_FORMAT },
    { "id too large", MRA_VOCAB_BPE, "mask token is 16", MRA_ERR_FORMAT },
    { "NUL", MRA_VOCAB_BPE, "token 0 contains NUL", MRA_ERR_FORMAT },
    { "not UTF-8", MRA_VOCAB_BPE, "token 0 is not UTF-8", MRA_ERR_FORMAT },
    { "duplicate", MRA_VOCAB_BPE, "occurs twice", MRA_ERR_FORMAT },
    { "type", MRA_VOCAB_BPE, "token 0 has type 9", MRA_ERR_FORMAT },
    { "long token", MRA_VOCAB_BPE, "5000 bytes", MRA_ERR_FORMAT },
    { "merge without space", MRA_VOCAB_BPE, "merge 0 is not", MRA_ERR_FORMAT },
    { "merge of unknown", MRA_VOCAB_BPE, "merge 0 names", MRA_ERR_FORMAT },
    { "merge into unknown", MRA_VOCAB_BPE, "merge 0 names", MRA_ERR_FORMAT },
    { "merge twice", MRA_VOCAB_BPE, "merges 0 and 1", MRA_ERR_FORMAT },
    { "no first token", MRA_VOCAB_BPE, "first token", MRA_ERR_FORMAT },
    { "no last token", MRA_VOCAB_BPE, "last token", MRA_ERR_FORMAT },
    { "kind", MRA_VOCAB_BPE, "model 9", MRA_ERR_UNSUPPORTED },
    { "no unknown token", MRA_VOCAB_WORDPIECE, "unknown", MRA_ERR_FORMAT },
    { "no unknown token", MRA_VOCAB_UNIGRAM, "unknown", MRA_ERR_FORMAT },
    { "no scores", MRA_VOCAB_UNIGRAM, "scores", MRA_ERR_FORMAT },
    { "score not finite", MRA_VOCAB_UNIGRAM, "score of token 0", MRA_ERR_FORMAT },
    { "charsmap short", MRA_VOCAB_UNIGRAM, "too short", MRA_ERR_FORMAT },
    { "charsmap size", MRA_VOCAB_UNIGRAM, "its trie has", MRA_ERR_FORMAT },
    { "charsmap end", MRA_VOCAB_UNIGRAM, "NUL", MRA_ERR_FORMAT },
    { "charsmap UTF-8", MRA_VOCAB_UNIGRAM, "UTF-8", MRA_ERR_FORMAT },
    { "charsmap long", MRA_VOCAB_UNIGRAM, "too long", MRA_ERR_FORMAT },
};

static void damage_charsmap(struct mra_vocab * v, const char * what, uint8_t map[512]) {
    memset(map, 'x', 512);
    memcpy(map, "\4\0\0\0\0\0\0\0", 8);
    map[511] = 0;
    v->charsmap = map;
    v->n_charsmap = 512;
    if (strcmp(what, "charsmap short") == 0) {
        v->n_charsmap = 3;
    } else if (strcmp(what, "charsmap size") == 0) {
        map[1] = 2; // 516 bytes
    } else if (strcmp(what, "charsmap end") == 0) {
        v->n_charsmap = 20;
    } else if (strcmp(what, "charsmap UTF-8") == 0) {
        map[9] = 0xFF;
    }
}

static void apply(
    const char * what, struct mra_vocab * v, struct mra_str * t, int32_t * types, float * scores, struct mra_str * m) {
    static char long_token[5000];

    memset(long_token, 'a', sizeof(long_token));
    if (strcmp(what, "no tokens") == 0) v->n_tokens = 0;
    if (strcmp(what, "id too large") == 0) v->mask = 16;
    if (strcmp(what, "NUL") == 0) t[0] = (struct mra_str) STR("a\0b");
    if (strcmp(what, "not UTF-8") == 0) t[0] = (struct mra_str) STR("\xC3");
    if (strcmp(what, "duplicate") == 0) t[0] = t[1];
    if (strcmp(what, "type") == 0) types[0] = 9;
    if (strcmp(what, "long token") == 0) t[0] = (struct mra_str) { long_token, sizeof(long_token) };
    if (strcmp(what, "merge without space") == 0) m[0] = (struct mra_str) STR("ab");
    if (strcmp(what, "merge of unknown") == 0) m[0] = (struct mra_str) STR("a c");
    if (strcmp(what, "merge into unknown") == 0) m[0] = (struct mra_str) STR("b a");
    if (strcmp(what, "merge twice") == 0) m[1] = m[0];
    if (strcmp(what, "no first token") == 0) v->add_bos = true;
    if (strcmp(what, "no last token") == 0) v->add_eos = true;
    if (strcmp(what, "kind") == 0) v->kind = (enum mra_vocab_kind) 9;
    if (strcmp(what, "no unknown token") == 0) v->unk = -1;
    if (strcmp(what, "no scores") == 0) v->scores = NULL;
    if (strcmp(what, "score not finite") == 0) scores[0] = NAN;
}

static void test_damage(const struct damage * d) {
    struct mra_vocab v = small(d->kind);
    struct mra_str t[32], m[8];
    int32_t types[32];
    float scores[32] = { 0 };
    uint8_t map[512];
    struct mra_error err = { 0 };

    memcpy(t, v.tokens, v.n_tokens * sizeof(*t));
    memcpy(types, v.types, v.n_tokens * sizeof(*types));
    v.tokens = t, v.types = types;
    if (v.scores) {
        memcpy(scores, v.scores, v.n_tokens * sizeof(*scores));
        v.scores = scores;
    }
    if (v.merges) {
        memcpy(m, v.merges, v.n_merges * sizeof(*m));
        v.merges = m;
    }
    apply(d->what, &v, t, types, scores, m);
    if (strncmp(d->what, "charsmap", 8) == 0) { damage_charsmap(&v, d->what, map); }
    struct mra_tokenizer * tok = mra_tokenizer_create(&v, &err);
    check(!tok, d->what, "was accepted");
    check(tok || (err.code == d->code && strstr(err.msg, d->message)), d->what, err.msg);
    mra_tokenizer_free(tok);
}

int main(void) {
    test_options();
    test_large_charsmap();
    test_segments();
    test_settings();
    test_bad_settings();
    test_find_and_text();
    for (size_t i = 0; i < COUNT(damages); i++) { test_damage(&damages[i]); }
    printf(n_failed ? "%d checks failed\n" : "all passed\n", n_failed);
    return n_failed != 0;
}
