// Creation and checks of a tokenizer, special tokens in the text, and the tokens put around it.
#include "tokenizer-impl.h"

#include <math.h>
#include <string.h>

#define MAX_TOKEN_BYTES 4096               // bounds the work per byte of text
#define MAX_TEXT_BYTES  ((size_t) 1 << 29) // indices into repaired text fit in 31 bits

struct mra_vocab mra_vocab_init(enum mra_vocab_kind kind) {
    return (struct mra_vocab) {
        .kind = kind,
        .bos = -1,
        .eos = -1,
        .unk = -1,
        .sep = -1,
        .pad = -1,
        .mask = -1,
        .cls = -1,
    };
}

bool mra_reserve(void ** data, size_t * cap, size_t n, size_t size) {
    if (n <= *cap) { return true; }
    size_t m = *cap + *cap / 2 + 16;
    m = m < n ? n : m;
    if (m > SIZE_MAX / 2 / size) { return false; }
    void * p = realloc(*data, m * size);
    if (!p) { return false; }
    *data = p;
    *cap = m;
    return true;
}

void mra_token_list_free(struct mra_token_list * list) {
    free(list->data);
    *list = (struct mra_token_list) { 0 };
}

static enum mra_status check_token(const struct mra_vocab * v, size_t i, struct mra_error * err) {
    const struct mra_str s = v->tokens[i];

    if (s.len > MAX_TOKEN_BYTES) {
        return mra_fail(err, MRA_ERR_FORMAT, "token %zu has %zu bytes, more than %d", i, s.len, MAX_TOKEN_BYTES);
    }
    if (s.len && (!s.data || memchr(s.data, 0, s.len))) {
        return mra_fail(err, MRA_ERR_FORMAT, "token %zu contains NUL", i);
    }
    if (!mra_utf8_valid(s.data, s.len)) { return mra_fail(err, MRA_ERR_FORMAT, "token %zu is not UTF-8", i); }
    if (v->types && (v->types[i] < MRA_TOKEN_NORMAL || v->types[i] > MRA_TOKEN_BYTE)) {
        return mra_fail(err, MRA_ERR_FORMAT, "token %zu has type %d", i, (int) v->types[i]);
    }
    if (v->scores && !isfinite(v->scores[i])) {
        return mra_fail(err, MRA_ERR_FORMAT, "the score of token %zu is not finite", i);
    }
    return MRA_OK;
}

#define N_IDS 7

static void special_ids(const struct mra_vocab * v, int32_t ids[N_IDS]) {
    const int32_t all[N_IDS] = { v->bos, v->eos, v->unk, v->sep, v->pad, v->mask, v->cls };
    memcpy(ids, all, sizeof(all));
}

static enum mra_status check_vocab(const struct mra_vocab * v, struct mra_error * err) {
    static const char * const names[N_IDS] = { "bos", "eos", "unknown", "separator", "padding", "mask", "cls" };
    int32_t ids[N_IDS];

    if (v->kind != MRA_VOCAB_BPE && v->kind != MRA_VOCAB_WORDPIECE && v->kind != MRA_VOCAB_UNIGRAM) {
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "tokenizer model %d", (int) v->kind);
    }
    if (v->n_tokens == 0 || v->n_tokens > INT32_MAX || !v->tokens) {
        return mra_fail(err, MRA_ERR_FORMAT, "the vocabulary has %zu tokens", v->n_tokens);
    }
    if (v->n_merges > INT32_MAX / 4 || (v->n_merges && !v->merges)) {
        return mra_fail(err, MRA_ERR_FORMAT, "the vocabulary has %zu merges", v->n_merges);
    }
    special_ids(v, ids);
    for (int k = 0; k < N_IDS; k++) {
        if (ids[k] >= 0 && (size_t) ids[k] >= v->n_tokens) {
            return mra_fail(err, MRA_ERR_FORMAT, "the %s token is %d, but there are %zu tokens", names[k], (int) ids[k],
                v->n_tokens);
        }
    }
    for (size_t i = 0; i < v->n_tokens; i++) {
        const enum mra_status st = check_token(v, i, err);
        if (st) { return st; }
    }
    return MRA_OK;
}

// tokens and is_special, in memory of the tokenizer's own
static bool copy_tokens(struct mra_tokenizer * tok, const struct mra_vocab * v) {
    int32_t ids[N_IDS];
    size_t total = 0;

    for (size_t i = 0; i < v->n_tokens; i++) { total += v->tokens[i].len; }
    tok->n_tokens = (int32_t) v->n_tokens;
    tok->bytes = malloc(total + 1);
    tok->begin = malloc((v->n_tokens + 1) * sizeof(*tok->begin));
    tok->is_special = calloc(v->n_tokens, sizeof(*tok->is_special));
    if (!tok->bytes || !tok->begin || !tok->is_special) { return false; }
    total = 0;
    for (size_t i = 0; i < v->n_tokens; i++) {
        const int32_t type = v->types ? v->types[i] : MRA_TOKEN_NORMAL;
        tok->begin[i] = total;
        tok->is_special[i] = type == MRA_TOKEN_UNKNOWN || type == MRA_TOKEN_CONTROL || type == MRA_TOKEN_USER;
        if (v->tokens[i].len) { memcpy(tok->bytes + total, v->tokens[i].data, v->tokens[i].len); }
        total += v->tokens[i].len;
    }
    tok->begin[v->n_tokens] = total;
    special_ids(v, ids);
    for (int k = 0; k < N_IDS; k++) {
        if (ids[k] >= 0) { tok->is_special[ids[k]] = true; }
    }
    return true;
}

static enum mra_status build_tries(struct mra_tokenizer * tok, const struct mra_vocab * v, struct mra_error * err) {
    struct mra_trie_key * keys = malloc(v->n_tokens * sizeof(*keys));
    enum mra_status st = MRA_OK;

    if (!keys) { return mra_fail(err, MRA_ERR_MEMORY, "out of memory"); }
    for (int pass = 0; pass < 2 && !st; pass++) {
        size_t n = 0;
        for (size_t i = 0; i < v->n_tokens; i++) {
            const size_t len = tok->begin[i + 1] - tok->begin[i];
            const bool unused = v->types && v->types[i] == MRA_TOKEN_UNUSED;
            // an empty token can be decoded, but never found
            if (len && (tok->is_special[i] || (pass == 0 && !unused))) {
                keys[n++] = (struct mra_trie_key) { tok->bytes + tok->begin[i], (uint32_t) len, (int32_t) i };
            }
        }
        st = mra_trie_build(pass == 0 ? &tok->trie : &tok->special, keys, n, err);
    }
    free(keys);
    return st;
}

static enum mra_status set_special(struct mra_tokenizer * tok, const struct mra_vocab * v, struct mra_error * err) {
    const bool bert = v->kind == MRA_VOCAB_WORDPIECE;
    const int32_t first = bert ? (v->cls >= 0 ? v->cls : v->bos) : (v->bos >= 0 ? v->bos : v->cls);
    const int32_t last = bert ? (v->sep >= 0 ? v->sep : v->eos) : (v->eos >= 0 ? v->eos : v->sep);

    if (v->add_bos && first < 0) {
        return mra_fail(err, MRA_ERR_FORMAT, "a first token is to be added, but the vocabulary names none");
    }
    if (v->add_eos && last < 0) {
        return mra_fail(err, MRA_ERR_FORMAT, "a last token is to be added, but the vocabulary names none");
    }
    tok->first = v->add_bos ? first : -1;
    tok->last = v->add_eos ? last : -1;
    tok->mask = bert || v->mask < 0 ? -1 : v->mask;
    tok->unk = v->unk < 0 ? -1 : v->unk;
    return MRA_OK;
}

struct mra_tokenizer * mra_tokenizer_create(const struct mra_vocab * vocab, struct mra_error * err) {
    struct mra_tokenizer * tok = NULL;

    if (check_vocab(vocab, err)) { return NULL; }
    tok = calloc(1, sizeof(*tok));
    if (!tok || !copy_tokens(tok, vocab)) {
        mra_fail(err, MRA_ERR_MEMORY, "out of memory");
        goto fail;
    }
    tok->kind = vocab->kind;
    if (build_tries(tok, vocab, err) || set_special(tok, vocab, err)) { goto fail; }
    if (vocab->kind == MRA_VOCAB_BPE             ? mra_bpe_init(tok, vocab, err)
            : vocab->kind == MRA_VOCAB_WORDPIECE ? mra_wordpiece_init(tok, vocab, err)
                                                 : mra_unigram_init(tok, vocab, err)) {
        goto fail;
    }
    return tok;
fail:
    mra_tokenizer_free(tok);
    return NULL;
}

void mra_tokenizer_free(struct mra_tokenizer * tok) {
    if (!tok) { return; }
    mra_trie_free(&tok->trie);
    mra_trie_free(&tok->special);
    mra_charsmap_free(&tok->charsmap);
    free(tok->bytes);
    free(tok->begin);
    free(tok->is_special);
    free(tok->merges);
    free(tok->scores);
    free(tok);
}

int32_t mra_tokenizer_n_tokens(const struct mra_tokenizer * tok) { return tok->n_tokens; }

int32_t mra_tokenizer_find(const struct mra_tokenizer * tok, const char * token, size_t len) {
    return mra_trie_find(&tok->trie, token, len);
}

// U+2581 as a space
static size_t metaspace_text(const char * token, size_t len, char * buf, size_t size) {
    size_t n = 0;

    for (size_t i = 0; i < len;) {
        const bool meta = len - i >= 3 && memcmp(token + i, "\xE2\x96\x81", 3) == 0;
        if (n < size) { buf[n] = meta ? ' ' : token[i]; }
        n++;
        i += meta ? 3 : 1;
    }
    return n;
}

size_t mra_tokenizer_text(const struct mra_tokenizer * tok, int32_t id, char * buf, size_t size) {
    if (id < 0 || id >= tok->n_tokens) { return 0; }
    const char * token = tok->bytes + tok->begin[id];
    const size_t len = tok->begin[id + 1] - tok->begin[id];

    if (tok->is_special[id]) {
        if (len && size) { memcpy(buf, token, len < size ? len : size); }
        return len;
    }
    return tok->kind == MRA_VOCAB_BPE ? mra_bpe_text(token, len, buf, size) : metaspace_text(token, len, buf, size);
}

static bool run_model(const struct mra_tokenizer * tok, const char * s, size_t begin, size_t end, unsigned flags,
    struct mra_token_list * list) {
    if (begin == end) { return true; }
    switch (tok->kind) {
        case MRA_VOCAB_BPE: return mra_bpe_run(tok, s, begin, end, flags, list);
        case MRA_VOCAB_WORDPIECE: return mra_wordpiece_run(tok, s, begin, end, flags, list);
        case MRA_VOCAB_UNIGRAM: return mra_unigram_run(tok, s, begin, end, flags, list);
    }
    return false;
}

// The longest special token at the start of s, -1: none.
static int32_t match_special(const struct mra_tokenizer * tok, const char * s, size_t n, size_t * len) {
    int32_t id = -1;
    uint32_t node = 0;

    for (size_t i = 0; i < n; i++) {
        node = mra_trie_step(&tok->special, node, (uint8_t) s[i]);
        if (!node) { break; }
        if (tok->special.value[node] >= 0) {
            id = tok->special.value[node];
            *len = i + 1;
        }
    }
    return id;
}

// The start of the white space that ends at `end`, not before `begin`.
static size_t skip_space_back(const char * s, size_t begin, size_t end) {
    while (end > begin) {
        size_t i = end - 1;
        int32_t cp;
        while (i > begin && (s[i] & 0xC0) == 0x80) { i--; }
        mra_utf8_decode(s + i, end - i, &cp);
        if (!mra_is_space(cp)) { break; }
        end = i;
    }
    return end;
}

static bool split_special(
    const struct mra_tokenizer * tok, const char * s, size_t n, unsigned flags, struct mra_token_list * list) {
    size_t done = 0;

    for (size_t i = 0; i < n && !(flags & MRA_TOKENIZE_PLAIN);) {
        size_t len = 0;
        const int32_t id = tok->special.root[(uint8_t) s[i]] ? match_special(tok, s + i, n - i, &len) : -1;
        if (id < 0) {
            i++;
            continue;
        }
        const size_t start = id == tok->mask ? skip_space_back(s, done, i) : i;
        // RoBERTa trims the white space off the offsets, XLM-R does not
        const size_t shown = tok->kind == MRA_VOCAB_BPE ? i : start;
        if (!run_model(tok, s, done, start, flags, list) || !mra_emit(list, id, shown, i + len)) { return false; }
        i += len;
        done = i;
    }
    return run_model(tok, s, done, n, flags, list);
}

static bool tokenize_one(const struct mra_tokenizer * tok, const char * s, size_t n, int16_t text, int16_t segment,
    unsigned flags, struct mra_token_list * list) {
    struct mra_utf8_text t;
    const size_t first = list->n;

    if (!mra_utf8_text_init(&t, s, n)) { return false; }
    const bool ok = split_special(tok, t.s, t.n, flags, list);
    for (size_t i = first; i < list->n; i++) {
        struct mra_token * token = &list->data[i];
        token->text = text;
        token->segment = segment;
        if (t.map) {
            token->start = t.map[token->start];
            token->end = t.map[token->end];
        }
    }
    mra_utf8_text_free(&t);
    return ok;
}

static bool add_special(struct mra_token_list * list, int32_t id, int16_t segment) {
    if (id < 0) { return true; }
    if (!mra_emit(list, id, 0, 0)) { return false; }
    list->data[list->n - 1].text = -1;
    list->data[list->n - 1].segment = segment;
    return true;
}

enum mra_status mra_tokenize(const struct mra_tokenizer * tok, const char * a, size_t n_a, const char * b, size_t n_b,
    unsigned flags, struct mra_token_list * list, struct mra_error * err) {
    const bool bert = tok->kind == MRA_VOCAB_WORDPIECE;
    const int16_t segment = bert ? 1 : 0; // of the second text
    const int32_t first = flags & MRA_TOKENIZE_ADD_SPECIAL ? tok->first : -1;
    const int32_t last = flags & MRA_TOKENIZE_ADD_SPECIAL ? tok->last : -1;

    list->n = 0;
    if ((n_a && !a) || n_a > MAX_TEXT_BYTES || (b && n_b > MAX_TEXT_BYTES)) {
        return mra_fail(err, MRA_ERR_ARG, "a text is missing or longer than %zu bytes", MAX_TEXT_BYTES);
    }
    bool ok = add_special(list, first, 0) && tokenize_one(tok, a, n_a, 0, 0, flags, list) && add_special(list, last, 0);
    if (b) {
        ok = ok && (bert || add_special(list, last, 0)) && tokenize_one(tok, b, n_b, 1, segment, flags, list) &&
            add_special(list, last, segment);
    }
    if (!ok) {
        list->n = 0;
        return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    }
    return MRA_OK;
}
