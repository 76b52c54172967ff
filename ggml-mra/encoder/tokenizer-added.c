// Added tokens: cut out of the raw text, then of the normalized text; what is between them is split into words and
// goes to the model.
#include "tokenizer-impl.h"

#include <string.h>

#define STRETCH_BYTES 4096 // of text that is normalized at a time: stays in the cache, and bounds the memory

// GGUF spells WordPiece's tokens in its own way: `##x` as `x`, `x` as U+2581 + `x`, unless they are control tokens.
static size_t spelling(const struct mra_tokenizer * tok, int32_t id, bool raw, const char ** prefix, const char ** s) {
    size_t len = tok->begin[id + 1] - tok->begin[id];

    *s = tok->bytes + tok->begin[id];
    *prefix = "";
    if (tok->kind != MRA_VOCAB_WORDPIECE || raw) { return len; }
    if (len >= 3 && memcmp(*s, "\xE2\x96\x81", 3) == 0) {
        *s += 3;
        return len - 3;
    }
    *prefix = "##";
    return len;
}

// What the added token looks like in the text, appended to out.
static bool put_spelling(struct mra_work * w, const struct mra_added * a, bool raw, struct mra_text * out) {
    struct mra_text plain = { 0 };
    const char *prefix, *s;
    const size_t len = spelling(w->tok, a->id, raw, &prefix, &s);
    bool ok = mra_text_put(&plain, prefix, strlen(prefix), (struct mra_span) { 0, 0 }) &&
        mra_text_put(&plain, s, len, (struct mra_span) { 0, 0 });

    struct mra_view in = { plain.s, NULL }, view = in;
    size_t begin = 0, end = plain.n;
    if (ok && (a->flags & MRA_ADDED_NORMALIZED)) { ok = mra_normalize_run(w, &in, &begin, &end, &view); }
    ok = ok && (begin == end || mra_text_put(out, view.s + begin, end - begin, (struct mra_span) { 0, 0 }));
    free(plain.s);
    free(plain.spans);
    return ok;
}

static enum mra_status build_tries(struct mra_tokenizer * tok, const struct mra_text * text, const size_t * at,
    struct mra_trie_key * keys, struct mra_error * err) {
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        for (size_t i = 0; i < tok->n_added; i++) {
            // an empty token can be decoded, but never found
            if (!!(tok->added[i].flags & MRA_ADDED_NORMALIZED) == pass && at[i + 1] > at[i]) {
                keys[n++] = (struct mra_trie_key) { text->s + at[i], (uint32_t) (at[i + 1] - at[i]), (int32_t) i };
            }
        }
        const enum mra_status st = mra_trie_build(pass ? &tok->normalized : &tok->raw, keys, n, err);
        if (st) { return st; }
    }
    return MRA_OK;
}

enum mra_status mra_added_init(struct mra_tokenizer * tok, const bool * is_raw, struct mra_error * err) {
    struct mra_work w = { .tok = tok };
    struct mra_text text = { 0 };
    size_t * at = malloc((tok->n_added + 1) * sizeof(*at));
    struct mra_trie_key * keys = malloc((tok->n_added + 1) * sizeof(*keys));
    bool ok = at && keys;

    for (size_t i = 0; i < tok->n_added && ok; i++) {
        at[i] = text.n;
        ok = put_spelling(&w, &tok->added[i], is_raw[tok->added[i].id], &text);
    }
    if (ok) { at[tok->n_added] = text.n; }
    const enum mra_status st = ok ? build_tries(tok, &text, at, keys, err)
                                  : mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    mra_work_free(&w);
    free(text.s);
    free(text.spans);
    free(at);
    free(keys);
    return st;
}

// ---- finding them

// The longest token of the trie at the start of s, -1: none.
static int32_t match(const struct mra_trie * trie, const char * s, size_t n, size_t * len) {
    int32_t value = -1;
    uint32_t node = 0;

    for (size_t i = 0; i < n; i++) {
        node = mra_trie_step(trie, node, (uint8_t) s[i]);
        if (!node) { break; }
        if (trie->value[node] >= 0) {
            value = trie->value[node];
            *len = i + 1;
        }
    }
    return value;
}

// The last character of s[begin..end), begin < end: its start.
static size_t last_char(const char * s, size_t begin, size_t end, int32_t * cp) {
    size_t i = end - 1;

    while (i > begin && (s[i] & 0xC0) == 0x80) { i--; }
    mra_utf8_decode(s + i, end - i, cp);
    return i;
}

static bool touches_word(const char * s, size_t begin, size_t end, size_t from, size_t to) {
    int32_t cp;

    if (from > begin) {
        last_char(s, begin, from, &cp);
        if (mra_is_word(cp)) { return true; }
    }
    if (to == end) { return false; }
    mra_utf8_decode(s + to, end - to, &cp);
    return mra_is_word(cp);
}

// from and to, widened over white space as the flags say; not before begin or behind end.
static void widen(const char * s, size_t begin, size_t end, int32_t flags, size_t * from, size_t * to) {
    int32_t cp;

    while ((flags & MRA_ADDED_LSTRIP) && *from > begin) {
        const size_t i = last_char(s, begin, *from, &cp);
        if (!mra_is_space(cp)) { break; }
        *from = i;
    }
    while ((flags & MRA_ADDED_RSTRIP) && *to < end) {
        const size_t len = (size_t) mra_utf8_decode(s + *to, end - *to, &cp);
        if (!mra_is_space(cp)) { break; }
        *to += len;
    }
}

typedef bool (*between_fn)(struct mra_work * w, const struct mra_view * v, size_t begin, size_t end);

// Emits the tokens of the trie in v[begin..end), and hands on what is between them.
static bool cut_out(struct mra_work * w, const struct mra_trie * trie, const struct mra_view * v, size_t begin,
    size_t end, between_fn between) {
    const struct mra_tokenizer * tok = w->tok;
    size_t done = begin;

    for (size_t i = begin; i < end && trie->n_nodes > 1 && !(w->flags & MRA_TOKENIZE_PLAIN);) {
        size_t len = 0;
        const int32_t k = trie->root[(uint8_t) v->s[i]] ? match(trie, v->s + i, end - i, &len) : -1;
        if (k < 0) {
            i++;
            continue;
        }
        const struct mra_added * a = &tok->added[k];
        size_t from = i, to = i + len;
        i = to;
        if ((a->flags & MRA_ADDED_SINGLE_WORD) && touches_word(v->s, begin, end, from, to)) { continue; }
        const size_t shown_from = from, shown_to = to;
        // white space that the token before has taken is gone
        widen(v->s, from < done ? from : done, end, a->flags, &from, &to);
        const size_t first = tok->trim_offsets ? shown_from : from, last = tok->trim_offsets ? shown_to : to;
        if (from > done && !between(w, v, done, from)) { return false; }
        const uint32_t start = mra_view_span(v, first, 1).start;
        const uint32_t stop = v->spans ? v->spans[last - 1].end : (uint32_t) last;
        if (!mra_emit(w->list, a->id, start, stop)) { return false; }
        done = to;
    }
    return done >= end || between(w, v, done, end);
}

static bool run_words(struct mra_work * w, const struct mra_view * v, size_t begin, size_t end) {
    struct mra_view view;
    const struct mra_pieces * pieces;
    bool ok = mra_split_run(w, v, begin, end, &view, &pieces);

    for (size_t i = 0; ok && i < pieces->n; i++) {
        const struct mra_piece p = pieces->data[i];
        switch (w->tok->kind) {
            case MRA_VOCAB_BPE: ok = mra_bpe_word(w, &view, p.begin, p.end); break;
            case MRA_VOCAB_WORDPIECE: ok = mra_wordpiece_word(w, &view, p.begin, p.end); break;
            case MRA_VOCAB_UNIGRAM: ok = mra_unigram_word(w, &view, p.begin, p.end); break;
        }
    }
    return ok;
}

// The end of a stretch of s[begin..end): between a letter and a space.
static size_t stretch_end(const char * s, size_t begin, size_t end) {
    if (end - begin <= STRETCH_BYTES) { return end; }
    for (size_t i = begin + STRETCH_BYTES; i < end; i++) {
        const char last = s[i - 1] | 0x20;
        if (s[i] == ' ' && last >= 'a' && last <= 'z') { return i; }
    }
    return end;
}

static bool run_normalized(struct mra_work * w, const struct mra_view * v, size_t begin, size_t end) {
    while (begin < end) {
        const size_t next = w->tok->can_cut ? stretch_end(v->s, begin, end) : end;
        struct mra_view out;
        size_t from = begin, to = next;
        if (!mra_normalize_run(w, v, &from, &to, &out)) { return false; }
        if (!cut_out(w, &w->tok->normalized, &out, from, to, run_words)) { return false; }
        begin = next;
    }
    return true;
}

bool mra_added_run(struct mra_work * w, const char * s, size_t n) {
    const struct mra_view v = { s, NULL };
    return cut_out(w, &w->tok->raw, &v, 0, n, run_normalized);
}
