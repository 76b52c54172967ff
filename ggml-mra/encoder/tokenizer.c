// Creation and checks of a tokenizer, and the template that puts texts and special tokens together.
#include "tokenizer-impl.h"

#include <math.h>
#include <string.h>

#define MAX_TEXT_BYTES ((size_t) 1 << 29) // indices into repaired text fit in 31 bits

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

    if (s.len > MRA_MAX_TOKEN_BYTES) {
        return mra_fail(err, MRA_ERR_FORMAT, "token %zu has %zu bytes, more than %d", i, s.len, MRA_MAX_TOKEN_BYTES);
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

static enum mra_status check_vocab(const struct mra_vocab * v, struct mra_error * err) {
    static const char * const names[N_IDS] = { "bos", "eos", "unknown", "separator", "padding", "mask", "cls" };
    const int32_t ids[N_IDS] = { v->bos, v->eos, v->unk, v->sep, v->pad, v->mask, v->cls };

    if (v->kind != MRA_VOCAB_BPE && v->kind != MRA_VOCAB_WORDPIECE && v->kind != MRA_VOCAB_UNIGRAM) {
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "tokenizer model %d", (int) v->kind);
    }
    if (v->n_tokens == 0 || v->n_tokens > INT32_MAX || !v->tokens) {
        return mra_fail(err, MRA_ERR_FORMAT, "the vocabulary has %zu tokens", v->n_tokens);
    }
    if (v->n_merges > INT32_MAX / 4 || (v->n_merges && !v->merges)) {
        return mra_fail(err, MRA_ERR_FORMAT, "the vocabulary has %zu merges", v->n_merges);
    }
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

// tokens, in memory of the tokenizer's own
static bool copy_tokens(struct mra_tokenizer * tok, const struct mra_vocab * v) {
    size_t total = 0;

    for (size_t i = 0; i < v->n_tokens; i++) { total += v->tokens[i].len; }
    tok->n_tokens = (int32_t) v->n_tokens;
    tok->bytes = malloc(total + 1);
    tok->begin = malloc((v->n_tokens + 1) * sizeof(*tok->begin));
    tok->is_special = calloc(v->n_tokens, sizeof(*tok->is_special));
    tok->is_no_piece = calloc(v->n_tokens, sizeof(*tok->is_no_piece));
    if (!tok->bytes || !tok->begin || !tok->is_special || !tok->is_no_piece) { return false; }
    total = 0;
    for (size_t i = 0; i < v->n_tokens; i++) {
        tok->begin[i] = total;
        if (v->tokens[i].len) { memcpy(tok->bytes + total, v->tokens[i].data, v->tokens[i].len); }
        total += v->tokens[i].len;
    }
    tok->begin[v->n_tokens] = total;
    return true;
}

static bool has_type(const struct mra_vocab * v, size_t i, enum mra_token_type type) {
    return v->types && v->types[i] == (int32_t) type;
}

static enum mra_status build_trie(struct mra_tokenizer * tok, const struct mra_vocab * v, struct mra_error * err) {
    struct mra_trie_key * keys = malloc(v->n_tokens * sizeof(*keys));
    size_t n = 0;

    if (!keys) { return mra_fail(err, MRA_ERR_MEMORY, "out of memory"); }
    for (size_t i = 0; i < v->n_tokens; i++) {
        const size_t len = tok->begin[i + 1] - tok->begin[i];
        // an empty token can be decoded, but never found
        if (len && (tok->is_special[i] || !has_type(v, i, MRA_TOKEN_UNUSED))) {
            keys[n++] = (struct mra_trie_key) { tok->bytes + tok->begin[i], (uint32_t) len, (int32_t) i };
        }
    }
    const enum mra_status st = mra_trie_build(&tok->trie, keys, n, err);
    free(keys);
    return st;
}

// Control tokens are spelled as they are, also by WordPiece, and are no part of its words therefore.
static enum mra_status init_added(struct mra_tokenizer * tok, const struct mra_vocab * v, struct mra_error * err) {
    bool * is_raw = malloc(v->n_tokens * sizeof(*is_raw));

    if (!is_raw) { return mra_fail(err, MRA_ERR_MEMORY, "out of memory"); }
    for (size_t i = 0; i < v->n_tokens; i++) {
        const bool control = has_type(v, i, MRA_TOKEN_CONTROL) || has_type(v, i, MRA_TOKEN_UNKNOWN);
        is_raw[i] = !v->settings || control;
        if (v->kind == MRA_VOCAB_WORDPIECE && control) { tok->is_no_piece[i] = true; }
    }
    const enum mra_status st = mra_added_init(tok, is_raw, err);
    free(is_raw);
    return st;
}

static enum mra_status init_model(struct mra_tokenizer * tok, const struct mra_vocab * v, struct mra_error * err) {
    switch (v->kind) {
        case MRA_VOCAB_BPE: return mra_bpe_init(tok, v, err);
        case MRA_VOCAB_WORDPIECE: return mra_wordpiece_init(tok, v, err);
        default: return mra_unigram_init(tok, v, err);
    }
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
    if (mra_charsmap_init(&tok->charsmap, vocab->charsmap, vocab->n_charsmap, err) ||
        mra_settings_init(tok, vocab, err) || build_trie(tok, vocab, err) || init_added(tok, vocab, err) ||
        init_model(tok, vocab, err)) {
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
    mra_trie_free(&tok->raw);
    mra_trie_free(&tok->normalized);
    mra_charsmap_free(&tok->charsmap);
    free(tok->bytes);
    free(tok->begin);
    free(tok->is_special);
    free(tok->is_no_piece);
    free(tok->added);
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

    if (tok->is_special[id] && (tok->is_no_piece[id] || tok->kind != MRA_VOCAB_WORDPIECE)) {
        if (len && size) { memcpy(buf, token, len < size ? len : size); }
        return len;
    }
    return tok->kind == MRA_VOCAB_BPE ? mra_bpe_text(token, len, buf, size) : metaspace_text(token, len, buf, size);
}

void mra_work_free(struct mra_work * w) {
    struct mra_text * const texts[] = { &w->text[0], &w->text[1], &w->split_text };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        free(texts[i]->s);
        free(texts[i]->spans);
    }
    for (int i = 0; i < 2; i++) {
        free(w->pieces[i].data);
        free(w->model[i]);
    }
}

static bool tokenize_one(struct mra_work * w, const char * s, size_t n, int16_t text, int16_t segment) {
    struct mra_token_list * list = w->list;
    struct mra_utf8_text t;
    const size_t first = list->n;

    if (!mra_utf8_text_init(&t, s, n)) { return false; }
    const bool ok = mra_added_run(w, t.s, t.n);
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
    if (!mra_emit(list, id, 0, 0)) { return false; }
    list->data[list->n - 1].text = -1;
    list->data[list->n - 1].segment = segment;
    return true;
}

enum mra_status mra_tokenize(const struct mra_tokenizer * tok, const char * a, size_t n_a, const char * b, size_t n_b,
    unsigned flags, struct mra_token_list * list, struct mra_error * err) {
    const struct mra_parts * parts = b ? &tok->pair : &tok->single;
    struct mra_work w = { .tok = tok, .list = list, .flags = flags };
    bool ok = true;

    list->n = 0;
    if ((n_a && !a) || n_a > MAX_TEXT_BYTES || (b && n_b > MAX_TEXT_BYTES)) {
        return mra_fail(err, MRA_ERR_ARG, "a text is missing or longer than %zu bytes", MAX_TEXT_BYTES);
    }
    for (size_t i = 0; i < parts->n && ok; i++) {
        const int32_t id = parts->ids[i];
        if (id == MRA_TEMPLATE_A) {
            ok = tokenize_one(&w, a, n_a, 0, parts->types[i]);
        } else if (id == MRA_TEMPLATE_B) {
            ok = tokenize_one(&w, b, n_b, 1, parts->types[i]);
        } else if (flags & MRA_TOKENIZE_ADD_SPECIAL) {
            ok = add_special(list, id, parts->types[i]);
        }
    }
    mra_work_free(&w);
    if (!ok) {
        list->n = 0;
        return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    }
    return MRA_OK;
}

static size_t n_chars(const char * s, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; count++) {
        int32_t cp;
        i += (size_t) mra_utf8_decode(s + i, n - i, &cp);
    }
    return count;
}

// characters of a WordPiece token as Hugging Face spells it: words as they are, ##x inside of one
static size_t n_wordpiece_chars(const struct mra_tokenizer * tok, int32_t id) {
    const char * token = tok->bytes + tok->begin[id];
    const size_t len = tok->begin[id + 1] - tok->begin[id], n = n_chars(token, len);
    int32_t cp = 0;
    if (len) { mra_utf8_decode(token, len, &cp); }
    return cp == MRA_METASPACE ? n - 1 : tok->is_special[id] ? n : n + 2;
}

bool mra_token_goes_on(const struct mra_tokenizer * tok, const struct mra_token * t, const char * text, size_t n) {
    if (t->id < 0 || t->id >= tok->n_tokens || t->id == tok->unk || t->start > t->end || t->end > n) { return false; }
    if (tok->kind == MRA_VOCAB_WORDPIECE) {
        return n_wordpiece_chars(tok, t->id) != n_chars(text + t->start, t->end - t->start);
    }
    return t->start > 0 && text[t->start - 1] != ' ' && (t->start == n || text[t->start] != ' ');
}
