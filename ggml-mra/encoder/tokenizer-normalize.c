// Normalization: text -> text, step by step, each character with the place it comes from.
#include "tokenizer-impl.h"

#include <string.h>
#include <utf8proc.h>

#define MAX_DECOMPOSED 32 // Unicode's longest has 18

bool mra_text_reserve(struct mra_text * t, size_t n) {
    void * s = t->s;
    void * spans = t->spans;

    if (t->n + n <= t->cap_s && t->n + n <= t->cap_spans) { return true; }
    if (t->n + n > INT32_MAX) { return false; }
    const bool ok = mra_reserve(&s, &t->cap_s, t->n + n, 1) &&
        mra_reserve(&spans, &t->cap_spans, t->n + n, sizeof(*t->spans));
    t->s = s;
    t->spans = spans;
    return ok;
}

bool mra_text_put(struct mra_text * t, const char * s, size_t n, struct mra_span span) {
    if (!mra_text_reserve(t, n)) { return false; }
    for (size_t i = 0; i < n; i++) {
        t->s[t->n] = s[i];
        t->spans[t->n++] = span;
    }
    return true;
}

static bool put_char(struct mra_text * t, int32_t cp, struct mra_span span) {
    char s[4];
    return mra_text_put(t, s, (size_t) mra_utf8_encode(cp, s), span);
}

static struct mra_span join(struct mra_span a, struct mra_span b) {
    return (struct mra_span) { a.start < b.start ? a.start : b.start, a.end > b.end ? a.end : b.end };
}

// ---- character by character

static bool is_cjk(int32_t cp) {
    return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) || (cp >= 0x20000 && cp <= 0x2A6DF) ||
        (cp >= 0x2A700 && cp <= 0x2B73F) || (cp >= 0x2B740 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) ||
        (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0x2F800 && cp <= 0x2FA1F);
}

// Control, format, private use. Tab and line ends are white space.
static bool is_control(int32_t cp) {
    if (cp < 0x80) { return (cp < 0x20 && cp != '\t' && cp != '\n' && cp != '\r') || cp == 0x7F; }
    const utf8proc_category_t cat = utf8proc_category(cp);
    return cp == 0xFFFD || cat == UTF8PROC_CATEGORY_CC || cat == UTF8PROC_CATEGORY_CF || cat == UTF8PROC_CATEGORY_CO;
}

static bool put_lowercase(struct mra_text * out, int32_t cp, struct mra_span span) {
    if (cp == 0x130) { // the only character whose lower case has two
        return put_char(out, 'i', span) && put_char(out, 0x307, span);
    }
    return put_char(out, utf8proc_tolower(cp), span);
}

static bool put_step(enum mra_normalize step, struct mra_text * out, int32_t cp, struct mra_span span) {
    utf8proc_category_t cat;

    switch (step) {
        case MRA_NORMALIZE_CLEAN: return is_control(cp) || put_char(out, mra_is_space(cp) ? ' ' : cp, span);
        case MRA_NORMALIZE_CJK:
            if (!is_cjk(cp)) { return put_char(out, cp, span); }
            return put_char(out, ' ', span) && put_char(out, cp, span) && put_char(out, ' ', span);
        case MRA_NORMALIZE_STRIP_MN: return utf8proc_category(cp) == UTF8PROC_CATEGORY_MN || put_char(out, cp, span);
        case MRA_NORMALIZE_STRIP_M:
            cat = utf8proc_category(cp);
            return (cat >= UTF8PROC_CATEGORY_MN && cat <= UTF8PROC_CATEGORY_ME) || put_char(out, cp, span);
        default: return put_lowercase(out, cp, span);
    }
}

// What step makes of an ASCII character; -1: nothing.
static int ascii_step(enum mra_normalize step, uint8_t c) {
    if (step == MRA_NORMALIZE_CLEAN) { return is_control(c) ? -1 : mra_is_space(c) ? ' ' : c; }
    return step == MRA_NORMALIZE_LOWERCASE && c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

static bool each_char(
    enum mra_normalize step, const struct mra_view * in, size_t begin, size_t end, struct mra_text * out) {
    bool ok = true;

    for (size_t i = begin; i < end && ok;) {
        if (!mra_text_reserve(out, end - i)) { return false; }
        for (; i < end && (uint8_t) in->s[i] < 0x80; i++) {
            const int c = ascii_step(step, (uint8_t) in->s[i]);
            out->s[out->n] = (char) c;
            out->spans[out->n] = mra_view_span(in, i, 1);
            out->n += c >= 0;
        }
        if (i == end) { break; }
        int32_t cp;
        const size_t len = (size_t) mra_utf8_decode(in->s + i, end - i, &cp);
        ok = put_step(step, out, cp, mra_view_span(in, i, len));
        i += len;
    }
    return ok;
}

// ---- Unicode's normal forms

struct mark {
    int32_t cp;
    struct mra_span span;
    uint8_t ccc; // canonical combining class, 0: a starter
};

// A starter and the marks behind it, or marks alone at the start of a text.
struct segment {
    struct mra_text * out;
    bool compose;
    struct mark * marks;
    struct mark * sorted;
    int32_t * cps;
    size_t n, cap_marks, cap_sorted, cap_cps;
};

// Marks by class, those of the same class as they come. Counting, as a text may consist of nothing else.
static bool sort_marks(struct segment * seg) {
    size_t at[256] = { 0 };
    size_t first = seg->n && seg->marks[0].ccc == 0 ? 1 : 0, i = first;
    void * sorted = seg->sorted;

    while (i + 1 < seg->n && seg->marks[i].ccc <= seg->marks[i + 1].ccc) { i++; }
    if (i + 1 >= seg->n) { return true; }
    if (!mra_reserve(&sorted, &seg->cap_sorted, seg->n, sizeof(*seg->sorted))) { return false; }
    seg->sorted = sorted;
    for (i = first; i < seg->n; i++) { at[seg->marks[i].ccc]++; }
    for (size_t c = 0, sum = first; c < 256; c++) {
        const size_t n = at[c];
        at[c] = sum;
        sum += n;
    }
    for (i = first; i < seg->n; i++) { seg->sorted[at[seg->marks[i].ccc]++] = seg->marks[i]; }
    memcpy(seg->marks + first, seg->sorted + first, (seg->n - first) * sizeof(*seg->marks));
    return true;
}

// The starter takes the marks in that it can be composed with, and where they come from.
static bool compose_segment(struct segment * seg) {
    void * cps = seg->cps;

    if (seg->n < 2) { return true; }
    if (!mra_reserve(&cps, &seg->cap_cps, seg->n, sizeof(*seg->cps))) { return false; }
    seg->cps = cps;
    for (size_t i = 0; i < seg->n; i++) { seg->cps[i] = seg->marks[i].cp; }
    const utf8proc_ssize_t n = utf8proc_normalize_utf32(
        seg->cps, (utf8proc_ssize_t) seg->n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (n < 1 || (size_t) n == seg->n) { return n >= 1; }
    size_t from = 1;
    seg->marks[0].cp = seg->cps[0];
    for (utf8proc_ssize_t k = 1; k <= n; k++, from++) {
        while (from < seg->n && (k == n || seg->marks[from].cp != seg->cps[k])) {
            seg->marks[0].span = join(seg->marks[0].span, seg->marks[from++].span);
        }
        if (k < n) { seg->marks[k] = seg->marks[from]; }
    }
    seg->n = (size_t) n;
    return true;
}

static bool flush_segment(struct segment * seg) {
    bool ok = true;

    for (size_t i = 0; i < seg->n && ok; i++) { ok = put_char(seg->out, seg->marks[i].cp, seg->marks[i].span); }
    seg->n = 0;
    return ok;
}

static bool close_segment(struct segment * seg) { return sort_marks(seg) && (!seg->compose || compose_segment(seg)); }

static bool put_decomposed(struct segment * seg, struct mark m) {
    void * marks = seg->marks;

    if (m.ccc == 0) {
        if (!close_segment(seg)) { return false; }
        // some starters, such as Hangul's, are composed with the one before them
        if (seg->compose && seg->n == 1 && m.cp >= 0x300) {
            int32_t pair[2] = { seg->marks[0].cp, m.cp };
            if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == 1) {
                seg->marks[0] = (struct mark) { pair[0], join(seg->marks[0].span, m.span), seg->marks[0].ccc };
                return true;
            }
        }
        if (!flush_segment(seg)) { return false; }
    }
    if (!mra_reserve(&marks, &seg->cap_marks, seg->n + 1, sizeof(*seg->marks))) { return false; }
    seg->marks = marks;
    seg->marks[seg->n++] = m;
    return true;
}

static bool normal_form(
    enum mra_normalize step, const struct mra_view * in, size_t begin, size_t end, struct mra_text * out) {
    struct segment seg = { .out = out, .compose = step == MRA_NORMALIZE_NFC || step == MRA_NORMALIZE_NFKC };
    const utf8proc_option_t options = step == MRA_NORMALIZE_NFKC || step == MRA_NORMALIZE_NFKD
        ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
        : UTF8PROC_DECOMPOSE;
    bool ok = true;

    for (size_t i = begin; i < end && ok;) {
        utf8proc_int32_t d[MAX_DECOMPOSED];
        int32_t cp;
        int boundclass = 0;
        const size_t len = (size_t) mra_utf8_decode(in->s + i, end - i, &cp);
        const struct mra_span span = mra_view_span(in, i, len);
        const int n = cp < 0x80 ? 1 : (int) utf8proc_decompose_char(cp, d, MAX_DECOMPOSED, options, &boundclass);
        if (cp < 0x80) { d[0] = cp; }
        for (int k = 0; k < n && k < MAX_DECOMPOSED && ok; k++) {
            const uint8_t ccc = d[k] < 0x300 ? 0 : (uint8_t) utf8proc_get_property(d[k])->combining_class;
            ok = put_decomposed(&seg, (struct mark) { d[k], span, ccc });
        }
        i += len;
    }
    ok = ok && close_segment(&seg) && flush_segment(&seg);
    free(seg.marks);
    free(seg.sorted);
    free(seg.cps);
    return ok;
}

// ---- white space

static bool copy(const struct mra_view * in, size_t begin, size_t end, struct mra_text * out) {
    bool ok = true;

    for (size_t i = begin; i < end && ok;) {
        int32_t cp;
        const size_t len = (size_t) mra_utf8_decode(in->s + i, end - i, &cp);
        ok = mra_text_put(out, in->s + i, len, mra_view_span(in, i, len));
        i += len;
    }
    return ok;
}

static bool strip(
    enum mra_normalize step, const struct mra_view * in, size_t begin, size_t end, struct mra_text * out) {
    size_t last = begin;
    bool any = false;

    for (size_t i = begin; i < end;) {
        int32_t cp;
        const size_t len = (size_t) mra_utf8_decode(in->s + i, end - i, &cp);
        i += len;
        if (mra_is_space(cp)) { continue; }
        if (!any && step == MRA_NORMALIZE_STRIP_LEFT) { begin = i - len; }
        any = true;
        last = i;
    }
    if (!any) { return true; }
    return copy(in, begin, step == MRA_NORMALIZE_STRIP_RIGHT ? last : end, out);
}

static bool squeeze(
    enum mra_normalize step, const struct mra_view * in, size_t begin, size_t end, struct mra_text * out) {
    const int32_t to = step == MRA_NORMALIZE_SPACES ? ' ' : MRA_METASPACE;
    bool ok = true;

    for (size_t i = begin; i < end && ok;) {
        size_t next = i;
        while (next < end && in->s[next] == ' ') { next++; }
        if (next - i > 1) {
            ok = put_char(out, to, join(mra_view_span(in, i, 1), mra_view_span(in, next - 1, 1)));
            i = next;
            continue;
        }
        int32_t cp;
        const size_t len = (size_t) mra_utf8_decode(in->s + i, end - i, &cp);
        ok = mra_text_put(out, in->s + i, len, mra_view_span(in, i, len));
        i += len;
    }
    return ok;
}

static bool run_step(struct mra_work * w, enum mra_normalize step, const struct mra_view * in, size_t begin, size_t end,
    struct mra_text * out) {
    switch (step) {
        case MRA_NORMALIZE_NFC:
        case MRA_NORMALIZE_NFD:
        case MRA_NORMALIZE_NFKC:
        case MRA_NORMALIZE_NFKD: return normal_form(step, in, begin, end, out);
        case MRA_NORMALIZE_STRIP_LEFT:
        case MRA_NORMALIZE_STRIP_RIGHT: return strip(step, in, begin, end, out);
        case MRA_NORMALIZE_SPACES:
        case MRA_NORMALIZE_SPACES_TO_META: return squeeze(step, in, begin, end, out);
        case MRA_NORMALIZE_CHARSMAP: return mra_charsmap_run(w, in, begin, end, out);
        default: return each_char(step, in, begin, end, out);
    }
}

static bool is_ascii(const char * s, size_t begin, size_t end) {
    uint8_t bits = 0;

    for (size_t i = begin; i < end; i++) { bits |= (uint8_t) s[i]; }
    return bits < 0x80;
}

bool mra_normalize_run(
    struct mra_work * w, const struct mra_view * in, size_t * begin, size_t * end, struct mra_view * out) {
    size_t n_done = 0;

    *out = *in;
    w->text_start = 0;
    for (size_t k = 0; k < w->tok->n_normalize; k++) {
        const enum mra_normalize step = (enum mra_normalize) w->tok->normalize[k];
        struct mra_text * to = &w->text[n_done % 2];
        // of the steps from clean to strip_m only the first does anything to ASCII
        if (step > MRA_NORMALIZE_CLEAN && step < MRA_NORMALIZE_LOWERCASE && is_ascii(out->s, *begin, *end)) {
            continue;
        }
        n_done++;
        to->n = 0;
        if (!run_step(w, step, out, *begin, *end, to)) { return false; }
        *out = (struct mra_view) { to->s, to->spans };
        *begin = 0;
        *end = to->n;
    }
    return true;
}
