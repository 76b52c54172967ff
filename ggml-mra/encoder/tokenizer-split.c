// Splitting: text -> words, step by step.
#include "tokenizer-impl.h"

#include <string.h>

enum char_class { CLASS_GAP, CLASS_ALONE, CLASS_RUN, CLASS_OTHER_RUN };

static bool add_piece(struct mra_pieces * p, size_t begin, size_t end) {
    if (begin == end) { return true; }
    if (p->n == p->cap) {
        void * data = p->data;
        if (!mra_reserve(&data, &p->cap, p->n + 1, sizeof(*p->data))) { return false; }
        p->data = data;
    }
    p->data[p->n++] = (struct mra_piece) { (uint32_t) begin, (uint32_t) end };
    return true;
}

static enum char_class classify(enum mra_split step, int32_t cp) {
    switch (step) {
        case MRA_SPLIT_WORDS: return mra_is_space(cp) ? CLASS_GAP : mra_is_word(cp) ? CLASS_RUN : CLASS_OTHER_RUN;
        case MRA_SPLIT_BERT: return mra_is_space(cp) ? CLASS_GAP : mra_is_punctuation(cp) ? CLASS_ALONE : CLASS_RUN;
        case MRA_SPLIT_PUNCTUATION: return mra_is_punctuation(cp) ? CLASS_ALONE : CLASS_RUN;
        case MRA_SPLIT_DIGITS: return mra_is_number(cp) ? CLASS_ALONE : CLASS_RUN;
        case MRA_SPLIT_DIGIT_RUNS: return mra_is_number(cp) ? CLASS_OTHER_RUN : CLASS_RUN;
        default: return mra_is_space(cp) ? CLASS_GAP : CLASS_RUN;
    }
}

// Words are runs of one class, or single characters; gaps vanish.
static bool split_classes(enum mra_split step, const char * s, size_t begin, size_t end, struct mra_pieces * out) {
    enum char_class last = CLASS_GAP;
    size_t start = begin;

    enum char_class ascii[128];

    for (int c = 0; c < 128 && end - begin > 64; c++) { ascii[c] = classify(step, c); }
    for (size_t i = begin; i < end;) {
        int32_t cp;
        const size_t len = (size_t) mra_utf8_decode(s + i, end - i, &cp);
        const enum char_class c = cp < 0x80 && end - begin > 64 ? ascii[cp] : classify(step, cp);
        if (c != last || c == CLASS_ALONE) {
            if (last != CLASS_GAP && !add_piece(out, start, i)) { return false; }
            start = i;
            last = c;
        }
        i += len;
    }
    return last == CLASS_GAP || add_piece(out, start, end);
}

static bool split_pattern(
    size_t (*match)(const char * s, size_t n), const char * s, size_t begin, size_t end, struct mra_pieces * out) {
    for (size_t i = begin; i < end;) {
        const size_t len = match(s + i, end - i);
        if (!add_piece(out, i, i + len)) { return false; }
        i += len;
    }
    return true;
}

// ---- steps that change the text: the words are pieces of w->split_text then

// A space before the bytes of each word that does not begin with one.
static bool prefix_bytes(
    struct mra_work * w, const struct mra_view * in, const struct mra_piece * p, bool words, struct mra_pieces * out) {
    struct mra_text * t = &w->split_text;
    const size_t begin = t->n;
    const uint32_t at = mra_view_span(in, p->begin, 1).start;

    if (in->s[p->begin] != ' ' && !mra_text_put(t, " ", 1, (struct mra_span) { at, at })) { return false; }
    for (size_t i = p->begin; i < p->end;) {
        int32_t cp;
        const size_t len = (size_t) mra_utf8_decode(in->s + i, p->end - i, &cp);
        if (!mra_text_put(t, in->s + i, len, mra_view_span(in, i, len))) { return false; }
        i += len;
    }
    return words ? split_pattern(mra_bpe_match, t->s, begin, t->n, out) : add_piece(out, begin, t->n);
}

static bool meta_prefix(const struct mra_work * w, enum mra_split step, size_t index, uint32_t start) {
    switch (step) {
        case MRA_SPLIT_META_ALWAYS:
        case MRA_SPLIT_META_ALWAYS_WHOLE: return true;
        case MRA_SPLIT_META_FIRST:
        case MRA_SPLIT_META_FIRST_WHOLE: return start == 0 || start == w->text_start;
        case MRA_SPLIT_META_LATER: return index > 0;
        default: return false;
    }
}

static bool split_meta(struct mra_work * w, enum mra_split step, const struct mra_view * in, const struct mra_piece * p,
    size_t index, struct mra_pieces * out) {
    static const char meta[] = "\xE2\x96\x81";
    const bool whole = step >= MRA_SPLIT_META_ALWAYS_WHOLE;
    struct mra_text * t = &w->split_text;
    size_t begin = t->n;

    for (size_t i = p->begin; i < p->end;) {
        int32_t cp;
        const size_t len = (size_t) mra_utf8_decode(in->s + i, p->end - i, &cp);
        const struct mra_span span = mra_view_span(in, i, len);
        const bool is_meta = cp == ' ' || cp == MRA_METASPACE;
        if (is_meta && !whole) {
            if (!add_piece(out, begin, t->n)) { return false; }
            begin = t->n;
        }
        // the prefix comes from the character it precedes
        if (i == p->begin && !is_meta && meta_prefix(w, step, index, span.start) && !mra_text_put(t, meta, 3, span)) {
            return false;
        }
        if (!mra_text_put(t, is_meta ? meta : in->s + i, is_meta ? 3 : len, span)) { return false; }
        i += len;
    }
    return add_piece(out, begin, t->n);
}

static bool changes_text(enum mra_split step) {
    return step == MRA_SPLIT_BYTES_PREFIX || step == MRA_SPLIT_BYTE_WORDS_PREFIX || step >= MRA_SPLIT_META_ALWAYS;
}

bool mra_split_run(struct mra_work * w, const struct mra_view * in, size_t begin, size_t end, struct mra_view * out,
    const struct mra_pieces ** pieces) {
    struct mra_pieces * from = &w->pieces[0];
    struct mra_pieces * to = &w->pieces[1];
    bool ok;

    *out = *in;
    from->n = 0;
    w->split_text.n = 0;
    ok = add_piece(from, begin, end);
    for (size_t k = 0; k < w->tok->n_split && ok; k++) {
        const enum mra_split step = (enum mra_split) w->tok->split[k];
        to->n = 0;
        for (size_t i = 0; i < from->n && ok; i++) {
            const struct mra_piece p = from->data[i];
            if (step >= MRA_SPLIT_META_ALWAYS) {
                ok = split_meta(w, step, out, &p, i, to);
            } else if (changes_text(step)) {
                ok = prefix_bytes(w, out, &p, step == MRA_SPLIT_BYTE_WORDS_PREFIX, to);
            } else if (step == MRA_SPLIT_BYTE_WORDS || step == MRA_SPLIT_LLAMA3) {
                ok = split_pattern(
                    step == MRA_SPLIT_LLAMA3 ? mra_llama3_match : mra_bpe_match, out->s, p.begin, p.end, to);
            } else if (step == MRA_SPLIT_BYTES) {
                ok = add_piece(to, p.begin, p.end);
            } else {
                ok = split_classes(step, out->s, p.begin, p.end, to);
            }
        }
        if (changes_text(step)) { *out = (struct mra_view) { w->split_text.s, w->split_text.spans }; }
        struct mra_pieces * t = from;
        from = to;
        to = t;
    }
    *pieces = from;
    return ok;
}
