// WordPiece (BERT): clean and normalize the text, cut it at white space and around punctuation, then take the longest
// known piece of a word again and again. A word that cannot be covered, or has more than 100 characters, is one unknown
// token.
#include "tokenizer-impl.h"

#include <string.h>
#include <utf8proc.h>

#define MAX_WORD_CHARS 100

struct mark {
    int32_t cp;
    uint32_t start;
    uint32_t end;
    uint8_t ccc; // canonical combining class
};

struct work {
    const struct mra_tokenizer * tok;
    struct mra_token_list * list;

    // the current word: its normalized bytes, and where each byte comes from
    char word[4 * MAX_WORD_CHARS];
    uint32_t start[4 * MAX_WORD_CHARS];
    uint32_t end[4 * MAX_WORD_CHARS];
    size_t n_bytes;
    size_t n_chars; // may exceed MAX_WORD_CHARS: what is behind is not stored
    uint32_t word_end;

    // combining characters in a row, to be sorted by class
    struct mark * marks;
    size_t n_marks;
    size_t cap_marks;
};

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

    if (tok->unk < 0) { return mra_fail(err, MRA_ERR_FORMAT, "a WordPiece vocabulary needs an unknown token"); }
    tok->lowercase = vocab->lowercase;
    tok->strip_accents = vocab->strip_accents;
    tok->split_cjk = vocab->split_cjk;
    for (int i = 0; i < n && (i == 0 || tok->word_start); i++) {
        tok->word_start = mra_trie_step(&tok->trie, tok->word_start, (uint8_t) meta[i]);
    }
    return MRA_OK;
}

// The longest token at the start of s[0..n); 0: none.
static size_t longest_piece(const struct mra_tokenizer * tok, const char * s, size_t n, bool initial, int32_t * id) {
    uint32_t node = initial ? tok->word_start : 0;
    size_t best = 0;

    if (initial && !node) { return 0; }
    for (size_t i = 0; i < n; i++) {
        node = mra_trie_step(&tok->trie, node, (uint8_t) s[i]);
        // what is stored behind U+2581 starts a word, it does not go on with one
        if (!node || (!initial && node == tok->word_start)) { break; }
        const int32_t v = tok->trie.value[node];
        if (v >= 0 && !tok->is_special[v]) {
            best = i + 1;
            *id = v;
        }
    }
    return best;
}

static bool flush_word(struct work * w) {
    const struct mra_tokenizer * tok = w->tok;
    const size_t first = w->list->n;
    const size_t n = w->n_bytes;
    size_t i = w->n_chars > MAX_WORD_CHARS ? n + 1 : 0; // n + 1: unknown

    if (w->n_chars == 0) { return true; }
    w->n_bytes = 0;
    w->n_chars = 0;
    while (i < n) {
        int32_t id = -1;
        const size_t len = longest_piece(tok, w->word + i, n - i, i == 0, &id);
        if (len == 0) {
            i = n + 1;
        } else if (!mra_emit(w->list, id, w->start[i], w->end[i + len - 1])) {
            return false;
        } else {
            i += len;
        }
    }
    if (i == n) { return true; }
    w->list->n = first;
    return mra_emit(w->list, tok->unk, w->start[0], w->word_end);
}

static void append(struct work * w, int32_t cp, uint32_t start, uint32_t end) {
    if (w->n_chars++ < MAX_WORD_CHARS) {
        const int len = mra_utf8_encode(cp, w->word + w->n_bytes);
        for (int i = 0; i < len; i++) {
            w->start[w->n_bytes] = start;
            w->end[w->n_bytes++] = end;
        }
    }
    w->word_end = end;
}

static bool is_punctuation(int32_t cp) {
    if (cp < 0x80) {
        return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '@') || (cp >= '[' && cp <= '`') ||
            (cp >= '{' && cp <= '~');
    }
    const utf8proc_category_t cat = utf8proc_category(cp);
    return cat >= UTF8PROC_CATEGORY_PC && cat <= UTF8PROC_CATEGORY_PO;
}

// a character of the normalized text
static bool put(struct work * w, int32_t cp, uint32_t start, uint32_t end) {
    if (cp == ' ') { return flush_word(w); }
    if (is_punctuation(cp)) {
        if (!flush_word(w)) { return false; }
        append(w, cp, start, end);
        return flush_word(w);
    }
    append(w, cp, start, end);
    return true;
}

static bool put_lowercase(struct work * w, int32_t cp, uint32_t start, uint32_t end) {
    if (!w->tok->lowercase) { return put(w, cp, start, end); }
    if (cp == 0x130) { // the only character whose lower case has two
        return put(w, 'i', start, end) && put(w, 0x307, start, end);
    }
    return put(w, utf8proc_tolower(cp), start, end);
}

// The waiting marks, class by class: few classes occur, and linear time matters as a text may consist of nothing else.
static bool flush_marks(struct work * w) {
    bool ok = true;
    int last = 0;

    for (size_t left = w->n_marks; left && ok;) {
        int ccc = 256; // the next class
        for (size_t i = 0; i < w->n_marks; i++) {
            ccc = w->marks[i].ccc > last && w->marks[i].ccc < ccc ? w->marks[i].ccc : ccc;
        }
        for (size_t i = 0; i < w->n_marks && ok; i++) {
            if (w->marks[i].ccc == ccc) {
                ok = put_lowercase(w, w->marks[i].cp, w->marks[i].start, w->marks[i].end);
                left--;
            }
        }
        last = ccc;
    }
    w->n_marks = 0;
    return ok;
}

// NFD without nonspacing marks
static bool put_stripped(struct work * w, int32_t cp, uint32_t start, uint32_t end) {
    utf8proc_int32_t d[8];
    int boundclass = 0;
    const int n = (int) utf8proc_decompose_char(cp, d, 8, UTF8PROC_DECOMPOSE, &boundclass);

    for (int i = 0; i < n && i < 8; i++) {
        const utf8proc_property_t * p = utf8proc_get_property(d[i]);
        if (p->combining_class == 0 && !flush_marks(w)) { return false; }
        if (p->category == UTF8PROC_CATEGORY_MN) { continue; }
        if (p->combining_class == 0) {
            if (!put_lowercase(w, d[i], start, end)) { return false; }
            continue;
        }
        void * marks = w->marks;
        if (!mra_reserve(&marks, &w->cap_marks, w->n_marks + 1, sizeof(*w->marks))) { return false; }
        w->marks = marks;
        w->marks[w->n_marks++] = (struct mark) { d[i], start, end, (uint8_t) p->combining_class };
    }
    return true;
}

static bool is_cjk(int32_t cp) {
    return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) || (cp >= 0x20000 && cp <= 0x2A6DF) ||
        (cp >= 0x2A700 && cp <= 0x2B73F) || (cp >= 0x2B740 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) ||
        (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0x2F800 && cp <= 0x2FA1F);
}

// Control, format, private use: dropped. Tab and line ends are white space.
static bool is_dropped(int32_t cp) {
    if (cp < 0x80) { return (cp < 0x20 && cp != '\t' && cp != '\n' && cp != '\r') || cp == 0x7F; }
    const utf8proc_category_t cat = utf8proc_category(cp);
    return cp == 0xFFFD || cat == UTF8PROC_CATEGORY_CC || cat == UTF8PROC_CATEGORY_CF || cat == UTF8PROC_CATEGORY_CO;
}

static bool put_raw(struct work * w, int32_t cp, uint32_t start, uint32_t end) {
    if (is_dropped(cp)) { return true; }
    if (cp < 0x80 || mra_is_space(cp)) {
        const bool upper = w->tok->lowercase && cp >= 'A' && cp <= 'Z';
        return flush_marks(w) && put(w, mra_is_space(cp) ? ' ' : upper ? cp | 0x20 : cp, start, end);
    }
    const bool cjk = w->tok->split_cjk && is_cjk(cp);
    if (cjk && !(flush_marks(w) && flush_word(w))) { return false; }
    if (!(w->tok->strip_accents ? put_stripped(w, cp, start, end) : put_lowercase(w, cp, start, end))) { return false; }
    return !cjk || (flush_marks(w) && flush_word(w));
}

bool mra_wordpiece_run(const struct mra_tokenizer * tok, const char * s, size_t begin, size_t end, unsigned flags,
    struct mra_token_list * list) {
    struct work w = { .tok = tok, .list = list };
    bool ok = true;

    (void) flags;
    for (size_t i = begin; i < end && ok;) {
        int32_t cp;
        const size_t len = (size_t) mra_utf8_decode(s + i, end - i, &cp);
        ok = put_raw(&w, cp, (uint32_t) i, (uint32_t) (i + len));
        i += len;
    }
    ok = ok && flush_marks(&w) && flush_word(&w);
    free(w.marks);
    return ok;
}
