// Patterns that cut a text into words before byte-level BPE. GPT-2's and RoBERTa's:
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// Llama 3's and EuroBERT's:
//     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//     ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
#include "tokenizer-impl.h"

#include <string.h>
#include <utf8proc.h>

enum char_class { CLASS_OTHER, CLASS_LETTER, CLASS_NUMBER, CLASS_SPACE };

static enum char_class classify(const char * s, size_t n, size_t * len) {
    const uint8_t c = (uint8_t) s[0];
    int32_t cp;

    if (c < 0x80) {
        *len = 1;
        return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? CLASS_LETTER
            : c >= '0' && c <= '9'                    ? CLASS_NUMBER
            : mra_is_space(c)                         ? CLASS_SPACE
                                                      : CLASS_OTHER;
    }
    *len = (size_t) mra_utf8_decode(s, n, &cp);
    if (mra_is_space(cp)) { return CLASS_SPACE; }
    const utf8proc_category_t cat = utf8proc_category(cp);
    return cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO ? CLASS_LETTER
        : cat >= UTF8PROC_CATEGORY_ND && cat <= UTF8PROC_CATEGORY_NO  ? CLASS_NUMBER
                                                                      : CLASS_OTHER;
}

static size_t match_contraction(const char * s, size_t n, bool any_case) {
    static const char * const ends[] = { "s", "t", "re", "ve", "m", "ll", "d" };

    if (s[0] != '\'') { return 0; }
    for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++) {
        const size_t len = strlen(ends[k]);
        size_t same = 0;
        while (same < len && same + 1 < n && (any_case ? s[same + 1] | 0x20 : s[same + 1]) == ends[k][same]) { same++; }
        if (same == len) { return len + 1; }
    }
    return any_case && n > 2 && memcmp(s + 1, "\xC5\xBF", 2) == 0 ? 3 : 0; // U+017F, a long s
}

// letters, or what else has the class of the first character, from s[i] on; at most max characters
static size_t run_end(const char * s, size_t n, size_t i, enum char_class c, size_t max) {
    size_t len;

    while (i < n && max-- > 0 && classify(s + i, n - i, &len) == c) { i += len; }
    return i;
}

size_t mra_bpe_match(const char * s, size_t n) {
    size_t len = 0;
    size_t i = match_contraction(s, n, false);
    size_t last = 0;
    const enum char_class c = classify(s, n, &len);

    if (i) { return i; }
    if (c != CLASS_SPACE || (s[0] == ' ' && n > 1 && classify(s + 1, n - 1, &len) != CLASS_SPACE)) {
        i = c == CLASS_SPACE ? 1 : 0;
        const enum char_class cw = classify(s + i, n - i, &len);
        do { i += len; } while (i < n && classify(s + i, n - i, &len) == cw);
        return i;
    }
    // white space; its last character belongs to the word that follows
    len = c == CLASS_SPACE && s[0] == ' ' ? 1 : len;
    do {
        last = i;
        i += len;
    } while (i < n && classify(s + i, n - i, &len) == CLASS_SPACE);
    return i < n && last > 0 ? last : i;
}

static bool is_line_end(char c) { return c == '\r' || c == '\n'; }

size_t mra_llama3_match(const char * s, size_t n) {
    size_t len, next, i = match_contraction(s, n, true), last = 0, line = 0;
    const enum char_class c = classify(s, n, &len);

    if (i) { return i; }
    if (c == CLASS_LETTER) { return run_end(s, n, 0, c, n); }
    if (c == CLASS_NUMBER) { return run_end(s, n, 0, c, 3); }
    if (!is_line_end(s[0]) && len < n && classify(s + len, n - len, &next) == CLASS_LETTER) {
        return run_end(s, n, len, CLASS_LETTER, n);
    }
    i = s[0] == ' ' && n > 1 && classify(s + 1, n - 1, &next) == CLASS_OTHER;
    if (c == CLASS_OTHER || i) {
        i = run_end(s, n, i, CLASS_OTHER, n);
        while (i < n && is_line_end(s[i])) { i++; }
        return i;
    }
    // white space: up to its last line end, or all but its last character, which belongs to the word that follows
    while (i < n && classify(s + i, n - i, &len) == CLASS_SPACE) {
        last = i;
        i += len;
        if (is_line_end(s[last])) { line = i; }
    }
    return line ? line : i < n && last > 0 ? last : i;
}
