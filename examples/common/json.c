#include "json.h"
#include "utf8-length.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

struct scan {
    const char *start, *s, *end;
    struct mra_error * err;
    int depth;
};

static bool bad(struct scan * c, const char * what) {
    mra_fail(c->err, MRA_ERR_FORMAT, "not JSON: %s at byte %zu", what, (size_t) (c->s - c->start) + 1);
    return false;
}

static void skip_space(struct scan * c) {
    while (c->s < c->end && (*c->s == ' ' || *c->s == '\t' || *c->s == '\r' || *c->s == '\n')) c->s++;
}

static int hex4(const char * s) {
    int x = 0;
    for (int i = 0; i < 4; i++) {
        const char ch = s[i];
        const int d = ch >= '0' && ch <= '9' ? ch - '0'
            : ch >= 'a' && ch <= 'f'         ? ch - 'a' + 10
            : ch >= 'A' && ch <= 'F'         ? ch - 'A' + 10
                                             : -1;
        if (d < 0) return -1;
        x = x * 16 + d;
    }
    return x;
}

static bool skip_string(struct scan * c) {
    for (c->s++; c->s < c->end; c->s++) {
        const unsigned char ch = (unsigned char) *c->s;
        if (ch == '"') {
            c->s++;
            return true;
        }
        if (ch < 0x20) return bad(c, "a control character in a string");
        if (ch != '\\') continue;
        if (++c->s == c->end) break;
        if (*c->s == 'u') {
            if (c->end - c->s < 5 || hex4(c->s + 1) < 0) return bad(c, "a wrong \\u");
            c->s += 4;
        } else if (!strchr("\"\\/bfnrt", *c->s) || !*c->s) {
            return bad(c, "an unknown escape");
        }
    }
    return bad(c, "a string without its end");
}

static bool skip_digits(struct scan * c) {
    const char * s = c->s;
    while (c->s < c->end && *c->s >= '0' && *c->s <= '9') c->s++;
    return c->s > s;
}
static bool skip_number(struct scan * c) {
    if (*c->s == '-') c->s++;
    const char * first = c->s;
    if (!skip_digits(c) || (*first == '0' && c->s - first > 1)) return bad(c, "a wrong value");
    if (c->s < c->end && *c->s == '.') {
        c->s++;
        if (!skip_digits(c)) return bad(c, "a wrong number");
    }
    if (c->s < c->end && (*c->s == 'e' || *c->s == 'E')) {
        c->s++;
        if (c->s < c->end && (*c->s == '+' || *c->s == '-')) c->s++;
        if (!skip_digits(c)) return bad(c, "a wrong number");
    }
    return true;
}

static bool skip_word(struct scan * c, const char * word) {
    const size_t n = strlen(word);
    if ((size_t) (c->end - c->s) < n || memcmp(c->s, word, n) != 0) return bad(c, "a wrong value");
    c->s += n;
    return true;
}

typedef bool (*member_fn)(struct scan * c, void * user, struct json_span key, struct json_span value);
static bool skip_members(struct scan * c, member_fn on_member, void * user);

static bool skip_value(struct scan * c) {
    if (c->s == c->end) return bad(c, "nothing where a value should be");
    switch (*c->s) {
        case '"': return skip_string(c);
        case '{':
        case '[': return skip_members(c, NULL, NULL);
        case 't': return skip_word(c, "true");
        case 'f': return skip_word(c, "false");
        case 'n': return skip_word(c, "null");
        default: return skip_number(c);
    }
}

// an object or an array
static bool skip_members(struct scan * c, member_fn on_member, void * user) {
    const char close = *c->s == '{' ? '}' : ']';
    if (++c->depth > MAX_DEPTH) return bad(c, "too many levels");
    c->s++;
    skip_space(c);
    if (c->s < c->end && *c->s == close) {
        c->s++;
        c->depth--;
        return true;
    }
    for (;;) {
        struct json_span key = { c->s, 0 };
        if (close == '}') {
            if (c->s == c->end || *c->s != '"') return bad(c, "no key");
            if (!skip_string(c)) return false;
            key.n = (size_t) (c->s - key.s);
            skip_space(c);
            if (c->s == c->end || *c->s++ != ':') {
                c->s--;
                return bad(c, "no colon");
            }
            skip_space(c);
        }
        struct json_span value = { c->s, 0 };
        if (!skip_value(c)) return false;
        value.n = (size_t) (c->s - value.s);
        if (on_member && !on_member(c, user, key, value)) return false;
        skip_space(c);
        if (c->s == c->end) return bad(c, "the end of the line");
        const char ch = *c->s++;
        if (ch == close) {
            c->depth--;
            return true;
        }
        if (ch != ',') {
            c->s--;
            return bad(c, "no comma");
        }
        skip_space(c);
    }
}

struct wanted {
    const char * const * keys;
    struct json_span * values;
    int n;
};

static bool on_member(struct scan * c, void * user, struct json_span key, struct json_span value) {
    (void) c;
    const struct wanted * w = user;
    for (int i = 0; i < w->n; i++) {
        if (key.n == strlen(w->keys[i]) + 2 && memcmp(key.s + 1, w->keys[i], key.n - 2) == 0) w->values[i] = value;
    }
    return true;
}

enum mra_status json_object(const char * s, size_t n, const char * const * keys, struct json_span * values, int n_keys,
    struct mra_error * err) {
    struct scan c = { .start = s, .s = s, .end = s + n, .err = err };
    struct wanted w = { keys, values, n_keys };
    for (int i = 0; i < n_keys; i++) values[i] = (struct json_span) { 0 };
    skip_space(&c);
    if (c.s == c.end || *c.s != '{') {
        bad(&c, "no object");
        return MRA_ERR_FORMAT;
    }
    if (!skip_members(&c, on_member, &w)) return MRA_ERR_FORMAT;
    skip_space(&c);
    if (c.s < c.end) {
        bad(&c, "more than one value");
        return MRA_ERR_FORMAT;
    }
    return MRA_OK;
}

enum mra_status json_check(const char * s, size_t n, struct mra_error * err) {
    struct scan c = { .start = s, .s = s, .end = s + n, .err = err };
    skip_space(&c);
    if (!skip_value(&c)) return MRA_ERR_FORMAT;
    skip_space(&c);
    if (c.s < c.end) {
        bad(&c, "more than one value");
        return MRA_ERR_FORMAT;
    }
    return MRA_OK;
}

bool json_next(struct json_span v, size_t * at, struct json_span * key, struct json_span * member) {
    struct scan c = { .start = v.s, .s = v.s + (*at ? *at : 1), .end = v.s + v.n };
    skip_space(&c);
    if (*c.s == ',') c.s++;
    skip_space(&c);
    if (*c.s == '}' || *c.s == ']') return false;
    *key = (struct json_span) { 0 };
    if (*v.s == '{') {
        key->s = c.s;
        skip_string(&c);
        key->n = (size_t) (c.s - key->s);
        skip_space(&c);
        c.s++; // the colon
        skip_space(&c);
    }
    member->s = c.s;
    skip_value(&c);
    member->n = (size_t) (c.s - member->s);
    *at = (size_t) (c.s - v.s);
    return true;
}

bool json_is_string(struct json_span v) { return v.s && v.n >= 2 && v.s[0] == '"'; }

bool json_is_integer(struct json_span v) {
    const size_t sign = v.n > 0 && v.s[0] == '-';
    for (size_t i = sign; i < v.n; i++)
        if (v.s[i] < '0' || v.s[i] > '9') return false;
    return v.n > sign;
}

// the code of the escape \uXXXX at s, with that of the low half behind a high one; *s moves to its last character
static unsigned escaped(const char ** s, const char * end) {
    const unsigned x = (unsigned) hex4(*s + 2);
    *s += 5;
    const char * next = *s + 1;
    const int low = x >= 0xd800 && x < 0xdc00 && end - next > 5 && next[0] == '\\' && next[1] == 'u' ? hex4(next + 2)
                                                                                                     : -1;
    if (low < 0xdc00 || low >= 0xe000) return x;
    *s += 6;
    return 0x10000 + ((x - 0xd800) << 10) + ((unsigned) low - 0xdc00);
}
static bool is_half(unsigned code) { return code >= 0xd800 && code < 0xe000; }

bool json_has_half(struct json_span v) {
    for (const char *s = v.s, *end = v.s + v.n; s < end; s++) {
        if (*s != '\\') continue;
        if (s[1] != 'u') s++;
        else if (is_half(escaped(&s, end))) return true;
    }
    return false;
}

const char * json_not_text(struct json_span v) {
    return utf8_end(v.s, v.n) < v.n ? "is not UTF-8" : json_has_half(v) ? "has half a surrogate pair" : NULL;
}

long long json_whole(struct json_span v) {
    if (!v.s || v.n == 0 || v.n > 18) return -1;
    long long x = 0;
    for (size_t i = 0; i < v.n; i++) {
        if (v.s[i] < '0' || v.s[i] > '9') return -1;
        x = x * 10 + (v.s[i] - '0');
    }
    return x;
}

static char * put_utf8(char * to, unsigned x) {
    if (x < 0x80) {
        *to++ = (char) x;
        return to;
    }
    if (x < 0x800) *to++ = (char) (0xc0 | x >> 6);
    else {
        if (x < 0x10000) *to++ = (char) (0xe0 | x >> 12);
        else {
            *to++ = (char) (0xf0 | x >> 18);
            *to++ = (char) (0x80 | (x >> 12 & 63));
        }
        *to++ = (char) (0x80 | (x >> 6 & 63));
    }
    *to++ = (char) (0x80 | (x & 63));
    return to;
}

char * json_unquote(struct json_span v, size_t * len) {
    char *out = malloc(v.n), *to = out;
    if (!out) return NULL;
    for (const char *s = v.s + 1, *end = v.s + v.n - 1; s < end; s++) {
        if (*s != '\\') {
            *to++ = *s;
            continue;
        }
        static const char from[] = "bfnrt", is[] = "\b\f\n\r\t";
        if (s[1] != 'u') {
            const char * at = strchr(from, *++s);
            *to++ = at ? is[at - from] : *s;
            continue;
        }
        const unsigned code = escaped(&s, end);
        to = put_utf8(to, is_half(code) ? 0xfffd : code); // never longer than the escape
    }
    *to = 0;
    *len = (size_t) (to - out);
    return out;
}

char * json_quote(const char * s, size_t n) {
    char * out = malloc(6 * n + 3); // \u0000 is the longest a byte can become
    if (!out) return NULL;
    char * to = out;
    *to++ = '"';
    for (size_t i = 0; i < n;) {
        const unsigned char ch = (unsigned char) s[i];
        const size_t len = utf8_length((const unsigned char *) s + i, n - i);
        if (len == 0) to = put_utf8(to, 0xfffd);
        else if (ch == '"' || ch == '\\') {
            *to++ = '\\';
            *to++ = (char) ch;
        } else if (ch < 0x20 || ch == 0x7f) to += sprintf(to, "\\u%04x", ch);
        else {
            memcpy(to, s + i, len);
            to += len;
        }
        i += len ? len : 1;
    }
    *to++ = '"';
    *to = 0;
    return out;
}
