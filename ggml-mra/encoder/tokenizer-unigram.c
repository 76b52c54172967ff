// Unigram (SentencePiece, XLM-R): normalize, put U+2581 before each word, and take the pieces whose scores have the
// largest sum:
//     best(j) = max over pieces s[i..j) of best(i) + score(piece)
#include "tokenizer-impl.h"

#include <string.h>
#include <utf8proc.h>

#define UNK_PENALTY 10.0 // below the lowest score, for a character no piece covers

struct node {
    double score;
    uint32_t from; // where the last piece starts
    int32_t id;    // of the last piece; -1: not reached
};

struct span {
    uint32_t start;
    uint32_t end;
};

struct work {
    const struct mra_tokenizer * tok;
    struct mra_token_list * list;
    bool plain;
    bool prefix; // the next word starts with U+2581

    // the current word: its normalized bytes, and where each byte comes from
    char * word;
    struct span * spans;
    struct node * nodes; // [n + 1]
    size_t n;
    size_t cap_word;
    size_t cap_spans;
    size_t cap_nodes;
};

enum mra_status mra_unigram_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err) {
    double min = 0.0;
    bool any = false;

    if (tok->unk < 0) { return mra_fail(err, MRA_ERR_FORMAT, "a unigram vocabulary needs an unknown token"); }
    if (!vocab->scores) { return mra_fail(err, MRA_ERR_FORMAT, "a unigram vocabulary needs scores"); }
    tok->scores = malloc((size_t) tok->n_tokens * sizeof(*tok->scores));
    if (!tok->scores) { return mra_fail(err, MRA_ERR_MEMORY, "out of memory"); }
    for (int32_t i = 0; i < tok->n_tokens; i++) {
        tok->scores[i] = vocab->scores[i];
        // converters pad vocabularies with unused tokens of absurd scores
        if (!(vocab->types && vocab->types[i] == MRA_TOKEN_UNUSED) && (!any || tok->scores[i] < min)) {
            min = tok->scores[i];
            any = true;
        }
    }
    tok->unk_score = min - UNK_PENALTY;
    tok->add_space_prefix = vocab->add_space_prefix;
    tok->remove_extra_whitespaces = vocab->remove_extra_whitespaces;
    return mra_charsmap_init(&tok->charsmap, vocab->charsmap, vocab->n_charsmap, err);
}

static void relax(struct node * to, double score, size_t from, int32_t id) {
    if (to->id < 0 || score > to->score) { *to = (struct node) { .score = score, .from = (uint32_t) from, .id = id }; }
}

static size_t char_len(char c) {
    const uint8_t b = (uint8_t) c;
    return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

static void search(struct work * w) {
    const struct mra_tokenizer * tok = w->tok;
    const struct mra_trie * trie = &tok->trie;

    for (size_t i = 0; i <= w->n; i++) { w->nodes[i].id = -1; }
    w->nodes[0].score = 0.0;
    for (size_t i = 0; i < w->n;) {
        const size_t len = char_len(w->word[i]);
        const double score = w->nodes[i].score;
        bool single = false; // a piece covers this character alone
        uint32_t node = 0;
        for (size_t j = i; j < w->n;) {
            node = mra_trie_step(trie, node, (uint8_t) w->word[j++]);
            if (!node) { break; }
            const int32_t id = trie->value[node];
            if (id < 0 || (w->plain && tok->is_special[id])) { continue; }
            relax(&w->nodes[j], score + tok->scores[id], i, id);
            single = single || j - i == len;
        }
        if (!single) { relax(&w->nodes[i + len], score + tok->unk_score, i, tok->unk); }
        i += len;
    }
}

// Appends the best path; unknown characters in a row are one token.
static bool flush_word(struct work * w) {
    struct mra_token_list * list = w->list;
    const size_t first = list->n;
    void * nodes = w->nodes;

    if (w->n == 0) { return true; }
    if (!mra_reserve(&nodes, &w->cap_nodes, w->n + 1, sizeof(*w->nodes))) { return false; }
    w->nodes = nodes;
    search(w);
    for (size_t end = w->n; end > 0;) {
        const struct node * node = &w->nodes[end];
        if (node->id == w->tok->unk && list->n > first && list->data[list->n - 1].id == w->tok->unk) {
            list->data[list->n - 1].start = w->spans[node->from].start;
        } else if (!mra_emit(list, node->id, w->spans[node->from].start, w->spans[end - 1].end)) {
            return false;
        }
        end = node->from;
    }
    for (size_t i = first, j = list->n - 1; i < j; i++, j--) {
        const struct mra_token t = list->data[i];
        list->data[i] = list->data[j];
        list->data[j] = t;
    }
    w->n = 0;
    return true;
}

static bool append(struct work * w, const char * s, size_t len, struct span span) {
    void * word = w->word;
    void * spans = w->spans;

    if (w->n + len > INT32_MAX) { return false; }
    const bool ok = mra_reserve(&word, &w->cap_word, w->n + len, 1) &&
        mra_reserve(&spans, &w->cap_spans, w->n + len, sizeof(*w->spans));
    w->word = word;
    w->spans = spans;
    if (!ok) { return false; }
    for (size_t i = 0; i < len; i++) {
        w->word[w->n] = s[i];
        w->spans[w->n++] = span;
    }
    return true;
}

// one character of the normalized text
static bool put(struct work * w, const char * s, size_t len, struct span span) {
    static const char meta[] = "\xE2\x96\x81";
    int32_t cp;

    mra_utf8_decode(s, len, &cp);
    if (w->tok->remove_extra_whitespaces && mra_is_space(cp)) {
        w->prefix = w->prefix || w->n > 0;
        return flush_word(w);
    }
    if (cp == ' ' || cp == MRA_METASPACE) { return flush_word(w) && append(w, meta, 3, span); }
    // the prefix comes from the character it precedes
    if (w->n == 0 && w->prefix && !append(w, meta, 3, span)) { return false; }
    return append(w, s, len, span);
}

// A replacement: its k-th character comes from the k-th of the replaced ones, what is left over from the last.
static bool put_replacement(struct work * w, const char * r, const char * s, size_t begin, size_t end) {
    struct span span = { (uint32_t) begin, (uint32_t) (begin + char_len(s[begin])) };

    while (*r) {
        const size_t len = char_len(*r);
        if (!put(w, r, len, span)) { return false; }
        r += len;
        if (span.end < end) {
            span.start = span.end;
            span.end += (uint32_t) char_len(s[span.start]);
        }
    }
    return true;
}

// The end of the grapheme cluster at s[begin].
static size_t grapheme_end(const char * s, size_t begin, size_t end) {
    utf8proc_int32_t state = 0;
    int32_t cp;
    size_t i = begin + (size_t) mra_utf8_decode(s + begin, end - begin, &cp);

    while (i < end) {
        int32_t next;
        const size_t len = (size_t) mra_utf8_decode(s + i, end - i, &next);
        // below U+0300 only CR LF stays together
        if (cp < 0x300 && next < 0x300 ? !(cp == '\r' && next == '\n')
                                       : utf8proc_grapheme_break_stateful(cp, next, &state)) {
            break;
        }
        cp = next;
        i += len;
    }
    return i;
}

// A cluster of less than six bytes is looked up as a whole - where the shortest rule that fits replaces all of it -,
// then each character by itself. That is how the reference implementation reads the map, and what models were trained
// with.
static bool normalize_cluster(struct work * w, const char * s, size_t begin, size_t end) {
    const struct mra_charsmap * map = &w->tok->charsmap;
    const char * r = end - begin < 6 ? mra_charsmap_find(map, s + begin, end - begin) : NULL;

    if (r) { return put_replacement(w, r, s, begin, end); }
    for (size_t i = begin; i < end;) {
        const size_t len = char_len(s[i]);
        const struct span span = { (uint32_t) i, (uint32_t) (i + len) };
        r = len == end - begin ? NULL : mra_charsmap_find(map, s + i, len);
        if (!(r ? put_replacement(w, r, s, i, i + len) : put(w, s + i, len, span))) { return false; }
        i += len;
    }
    return true;
}

bool mra_unigram_run(const struct mra_tokenizer * tok, const char * s, size_t begin, size_t end, unsigned flags,
    struct mra_token_list * list) {
    struct work w = { .tok = tok, .list = list, .plain = flags & MRA_TOKENIZE_PLAIN, .prefix = tok->add_space_prefix };
    bool ok = true;

    for (size_t i = begin; i < end && ok;) {
        const size_t next = grapheme_end(s, i, end);
        ok = normalize_cluster(&w, s, i, next);
        i = next;
    }
    ok = ok && flush_word(&w);
    free(w.word);
    free(w.spans);
    free(w.nodes);
    return ok;
}
