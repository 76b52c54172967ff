// WordPiece (BERT): take the longest known piece of a word again and again. A word that cannot be covered, or has too
// many characters, is one unknown token.
#include "tokenizer-impl.h"

#include <string.h>

bool mra_vocab_is_cased(const struct mra_vocab * vocab) {
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        const struct mra_str s = vocab->tokens[i];
        if (s.len > 3 && memcmp(s.data, "\xE2\x96\x81", 3) == 0 && s.data[3] >= 'A' && s.data[3] <= 'Z') {
            return true;
        }
    }
    return false;
}

enum mra_status mra_wordpiece_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err) {
    char meta[4];
    const int n = mra_utf8_encode(MRA_METASPACE, meta);

    (void) vocab;
    if (tok->unk < 0) { return mra_fail(err, MRA_ERR_FORMAT, "a WordPiece vocabulary needs an unknown token"); }
    for (int i = 0; i < n && (i == 0 || tok->word_start); i++) {
        tok->word_start = mra_trie_step(&tok->trie, tok->word_start, (uint8_t) meta[i]);
    }
    return MRA_OK;
}

// The longest token at the start of s[0..n), 0: none. node: where the trie is entered.
static size_t longest_from(const struct mra_tokenizer * tok, uint32_t node, const char * s, size_t n, int32_t * id) {
    const bool initial = node != 0;
    size_t best = 0;

    for (size_t i = 0; i < n; i++) {
        node = mra_trie_step(&tok->trie, node, (uint8_t) s[i]);
        // what is stored behind U+2581 starts a word, it does not go on with one
        if (!node || (!initial && node == tok->word_start)) { break; }
        const int32_t v = tok->trie.value[node];
        if (v >= 0 && !tok->is_no_piece[v]) {
            best = i + 1;
            *id = v;
        }
    }
    return best;
}

static size_t longest_piece(const struct mra_tokenizer * tok, const char * s, size_t n, bool initial, int32_t * id) {
    if (!initial) { return longest_from(tok, 0, s, n, id); }
    size_t best = tok->word_start ? longest_from(tok, tok->word_start, s, n, id) : 0;
    // a word may itself be spelled `##x`, and is the token of that name then
    if (n > 2 && s[0] == '#' && s[1] == '#') {
        int32_t other = -1;
        const size_t len = longest_from(tok, 0, s + 2, n - 2, &other);
        if (len && len + 2 > best) {
            best = len + 2;
            *id = other;
        }
    }
    return best;
}

static bool is_too_long(const char * s, size_t n, int64_t max_chars) {
    int64_t n_chars = 0;

    if ((int64_t) n <= max_chars) { return false; }
    for (size_t i = 0; i < n; i++) { n_chars += (s[i] & 0xC0) != 0x80; }
    return n_chars > max_chars;
}

bool mra_wordpiece_word(struct mra_work * w, const struct mra_view * v, size_t begin, size_t end) {
    const struct mra_tokenizer * tok = w->tok;
    const size_t first = w->list->n;
    bool known = !is_too_long(v->s + begin, end - begin, tok->max_word_chars);

    for (size_t i = begin; i < end && known;) {
        int32_t id = -1;
        const size_t len = longest_piece(tok, v->s + i, end - i, i == begin, &id);
        known = len > 0;
        if (!known) { break; }
        const uint32_t stop = v->spans ? v->spans[i + len - 1].end : (uint32_t) (i + len);
        if (!mra_emit(w->list, id, mra_view_span(v, i, 1).start, stop)) { return false; }
        i += len;
    }
    if (known) { return true; }
    w->list->n = first;
    const uint32_t stop = v->spans ? v->spans[end - 1].end : (uint32_t) end;
    return mra_emit(w->list, tok->unk, mra_view_span(v, begin, 1).start, stop);
}
