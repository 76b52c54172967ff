// Normalization by SentencePiece's precompiled rules, one grapheme cluster after the other.
#include "tokenizer-impl.h"

#include <utf8proc.h>

static size_t char_len(char c) {
    const uint8_t b = (uint8_t) c;
    return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

// A replacement r of in[begin..end): its k-th character comes from the k-th of the replaced ones, what is left over
// from the last.
static bool put_replacement(
    const char * r, const struct mra_view * in, size_t begin, size_t end, struct mra_text * out) {
    size_t i = begin;

    while (*r) {
        const size_t len = char_len(*r);
        if (!mra_text_put(out, r, len, mra_view_span(in, i, char_len(in->s[i])))) { return false; }
        r += len;
        if (i + char_len(in->s[i]) < end) { i += char_len(in->s[i]); }
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
static bool put_cluster(
    const struct mra_charsmap * map, const struct mra_view * in, size_t begin, size_t end, struct mra_text * out) {
    const char * r = end - begin < 6 ? mra_charsmap_find(map, in->s + begin, end - begin) : NULL;

    if (r) { return put_replacement(r, in, begin, end, out); }
    for (size_t i = begin; i < end;) {
        const size_t len = char_len(in->s[i]);
        r = len == end - begin ? NULL : mra_charsmap_find(map, in->s + i, len);
        if (!(r ? put_replacement(r, in, i, i + len, out)
                : mra_text_put(out, in->s + i, len, mra_view_span(in, i, len)))) {
            return false;
        }
        i += len;
    }
    return true;
}

bool mra_charsmap_run(
    struct mra_work * w, const struct mra_view * in, size_t begin, size_t end, struct mra_text * out) {
    const struct mra_charsmap * map = &w->tok->charsmap;
    bool ok = true;

    if (!mra_text_reserve(out, end - begin)) { return false; }
    for (size_t i = begin; i < end && ok;) {
        const size_t next = grapheme_end(in->s, i, end);
        ok = put_cluster(map, in, i, next, out);
        i = next;
    }
    // the reference takes what is left behind dropped characters for the start of the text
    if (ok && out->n && mra_view_span(in, begin, 1).start == 0) { w->text_start = out->spans[0].start; }
    return ok;
}
