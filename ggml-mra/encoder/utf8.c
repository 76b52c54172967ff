// UTF-8: decode, encode, repair; character classes.
#include "utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

// The second byte's range depends on the first (Unicode, table 3-7): it excludes overlong forms, surrogates and >
// U+10FFFF.
int mra_utf8_decode(const char * str, size_t n, int32_t * cp) {
    const uint8_t * s = (const uint8_t *) str;
    const uint8_t c = s[0];
    uint8_t lo = 0x80;
    uint8_t hi = 0xBF;
    int len;
    int32_t v;

    if (c < 0x80) {
        *cp = c;
        return 1;
    }
    *cp = -1;
    if (c < 0xC2 || c > 0xF4) { return 1; }
    if (c < 0xE0) {
        len = 2;
        v = c & 0x1F;
    } else if (c < 0xF0) {
        len = 3;
        v = c & 0x0F;
        lo = c == 0xE0 ? 0xA0 : lo;
        hi = c == 0xED ? 0x9F : hi;
    } else {
        len = 4;
        v = c & 0x07;
        lo = c == 0xF0 ? 0x90 : lo;
        hi = c == 0xF4 ? 0x8F : hi;
    }
    for (int i = 1; i < len; i++) {
        if ((size_t) i >= n || s[i] < lo || s[i] > hi) { return i; }
        v = v << 6 | (s[i] & 0x3F);
        lo = 0x80;
        hi = 0xBF;
    }
    *cp = v;
    return len;
}

int mra_utf8_encode(int32_t cp, char * out) {
    if (cp < 0x80) {
        out[0] = (char) cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char) (0xC0 | cp >> 6);
        out[1] = (char) (0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char) (0xE0 | cp >> 12);
        out[1] = (char) (0x80 | (cp >> 6 & 0x3F));
        out[2] = (char) (0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char) (0xF0 | cp >> 18);
    out[1] = (char) (0x80 | (cp >> 12 & 0x3F));
    out[2] = (char) (0x80 | (cp >> 6 & 0x3F));
    out[3] = (char) (0x80 | (cp & 0x3F));
    return 4;
}

// first byte that is not part of a well-formed character, or n
static size_t valid_prefix(const char * s, size_t n) {
    size_t i = 0;

    while (i < n) {
        int32_t cp;
        const int len = mra_utf8_decode(s + i, n - i, &cp);
        if (cp < 0) { break; }
        i += (size_t) len;
    }
    return i;
}

bool mra_utf8_valid(const char * s, size_t n) { return valid_prefix(s, n) == n; }

bool mra_is_space(int32_t cp) {
    if (cp < 0x80) { return cp == ' ' || (cp >= 0x09 && cp <= 0x0D); }
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
        cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool mra_is_word(int32_t cp) {
    if (cp < 0x80) { return ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z') || (cp >= '0' && cp <= '9') || cp == '_'; }
    switch (utf8proc_category(cp)) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_MC:
        case UTF8PROC_CATEGORY_ME:
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_PC: return true;
        // joiners, and the circled and squared letters, which are Alphabetic
        default:
            return cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
                (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
    }
}

bool mra_is_number(int32_t cp) {
    if (cp < 0x80) { return cp >= '0' && cp <= '9'; }
    const utf8proc_category_t cat = utf8proc_category(cp);
    return cat >= UTF8PROC_CATEGORY_ND && cat <= UTF8PROC_CATEGORY_NO;
}

bool mra_is_punctuation(int32_t cp) {
    if (cp < 0x80) {
        return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '@') || (cp >= '[' && cp <= '`') ||
            (cp >= '{' && cp <= '~');
    }
    const utf8proc_category_t cat = utf8proc_category(cp);
    return cat >= UTF8PROC_CATEGORY_PC && cat <= UTF8PROC_CATEGORY_PO;
}

bool mra_utf8_text_init(struct mra_utf8_text * t, const char * s, size_t n) {
    *t = (struct mra_utf8_text) { .s = s, .n = n };
    if (mra_utf8_valid(s, n)) { return true; }
    // U+FFFD has three bytes, what it stands for at least one
    t->owned = malloc(3 * n);
    t->map = malloc((3 * n + 1) * sizeof(*t->map));
    if (!t->owned || !t->map) {
        mra_utf8_text_free(t);
        return false;
    }
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        int32_t cp;
        const int len = mra_utf8_decode(s + i, n - i, &cp);
        const int m = mra_utf8_encode(cp < 0 ? 0xFFFD : cp, t->owned + k);
        for (int j = 0; j < m; j++) { t->map[k + (size_t) j] = (uint32_t) i; }
        k += (size_t) m;
        i += (size_t) len;
    }
    t->map[k] = (uint32_t) n;
    t->s = t->owned;
    t->n = k;
    return true;
}

void mra_utf8_text_free(struct mra_utf8_text * t) {
    free(t->owned);
    free(t->map);
    *t = (struct mra_utf8_text) { 0 };
}
