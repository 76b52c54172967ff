#include "request.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBERS = 1 << 24 }; // of a reply: 64 MB as floats, about 200 MB as text

// what is wrong with a request: OpenAI says 400, text-embeddings-inference 422
static int wrong(const struct call * c) { return c->route->shape == SHAPE_OPENAI ? 400 : 422; }

// ---- objects ----

static bool is_null(struct json_span v) { return v.n == 4 && memcmp(v.s, "null", 4) == 0; }

static bool unknown(struct call * c, const char * what, struct json_span key, const struct field * fields, int n) {
    char names[256] = "", name[64];
    for (int i = 0; i < n; i++) {
        const size_t at = strlen(names);
        snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "", fields[i].name);
    }
    snprintf(name, sizeof(name), "%.*s", key.n < 60 ? (int) key.n : 60, key.s);
    return call_fail(c, wrong(c), NULL, "%s has an unknown field %s; there is %s", what, name, names);
}

static bool read_object(struct call * c, const char * what, struct json_span v, struct field * fields, int n) {
    struct json_span key, member;
    for (size_t at = 0; json_next(v, &at, &key, &member);) {
        int i = 0;
        while (i < n && (strlen(fields[i].name) + 2 != key.n || memcmp(fields[i].name, key.s + 1, key.n - 2) != 0)) i++;
        if (i == n) return unknown(c, what, key, fields, n);
        fields[i].value = is_null(member) ? (struct json_span) { 0 } : member;
    }
    return true;
}

bool request_fields(struct call * c, struct field * fields, int n) {
    struct mra_error err;
    struct json_span all = { c->body, c->n_body };
    while (all.n > 0 && strchr(" \t\r\n", *all.s)) {
        all.s++;
        all.n--;
    }
    if (all.n == 0) return call_fail(c, 400, NULL, "the body is empty; it must be a JSON object");
    if (json_check(all.s, all.n, &err) != MRA_OK) return call_fail(c, 400, NULL, "the body is %s", err.msg);
    const char * not_text = json_not_text(all);
    if (not_text) return call_fail(c, 400, NULL, "the body %s", not_text);
    return request_object(c, "the body", all, fields, n);
}

bool request_object(struct call * c, const char * what, struct json_span v, struct field * fields, int n) {
    if (!v.s || *v.s != '{') return call_fail(c, wrong(c), what, "%s must be an object", what);
    return read_object(c, what, v, fields, n);
}

// ---- values ----

bool request_bool(struct call * c, const struct field * f, bool * to) {
    if (!f->value.s) return true;
    if (*f->value.s != 't' && *f->value.s != 'f')
        return call_fail(c, wrong(c), f->name, "%s must be true or false", f->name);
    *to = *f->value.s == 't';
    return true;
}

bool request_int(struct call * c, const struct field * f, int lo, int hi, int * to) {
    if (!f->value.s) return true;
    struct json_span v = f->value; // 3.0 is a whole number, too
    while (v.n > 2 && v.s[v.n - 1] == '0' && memchr(v.s, '.', v.n)) v.n--;
    if (v.s[v.n - 1] == '.') v.n--;
    const long long x = json_whole(v);
    if (x < lo || x > hi) {
        const int n = f->value.n < 40 ? (int) f->value.n : 40;
        return call_fail(
            c, wrong(c), f->name, "%s is %.*s, not a whole number in %d..%d", f->name, n, f->value.s, lo, hi);
    }
    *to = (int) x;
    return true;
}

bool request_choice(struct call * c, const struct field * f, const char * names, int * to) {
    if (!f->value.s) return true;
    const size_t n = f->value.n - 2;
    const char * s = names;
    for (int i = 0; json_is_string(f->value); i++) {
        const char * end = strchrnul(s, '|');
        if ((size_t) (end - s) == n && memcmp(s, f->value.s + 1, n) == 0) {
            *to = i;
            return true;
        }
        if (!*end) break;
        s = end + 1;
    }
    return call_fail(c, wrong(c), f->name, "%s is not one of %s", f->name, names);
}

static bool unquote(struct call * c, struct json_span v, struct text * to) {
    to->s = json_unquote(v, &to->n);
    return to->s || call_fail(c, 500, NULL, "out of memory");
}

bool request_text(struct call * c, const struct field * f, struct text * to) {
    if (!f->value.s) return call_fail(c, wrong(c), f->name, "no %s", f->name);
    if (!json_is_string(f->value)) return call_fail(c, wrong(c), f->name, "%s must be a text", f->name);
    return unquote(c, f->value, to);
}

bool request_element(struct call * c, const char * name, int i, struct json_span v, struct text * to) {
    if (!json_is_string(v)) return call_fail(c, wrong(c), name, "%s[%d] must be a text", name, i);
    return unquote(c, v, to);
}

bool request_count(struct call * c, const char * name, int n) {
    const int most = c->server->settings.max_inputs;
    if (n == 0) return call_fail(c, wrong(c), name, "%s is an empty list", name);
    if (n > most)
        return call_fail(
            c, wrong(c), name, "%s has %d elements, the limit is %d (mra-server --max-inputs)", name, n, most);
    return true;
}

bool request_texts(struct call * c, const struct field * f, struct text_list * to, bool * single) {
    struct json_span v = f->value, key, member;
    if (!v.s) return call_fail(c, wrong(c), f->name, "no %s", f->name);
    const bool one = json_is_string(v);
    if ((one && !single) || (!one && *v.s != '['))
        return call_fail(c, wrong(c), f->name, "%s must be %sa list of texts", f->name, single ? "a text or " : "");
    int n = one;
    for (size_t at = 0; !one && json_next(v, &at, &key, &member);) n++;
    if (!request_count(c, f->name, n)) return false;
    if (!(to->data = calloc((size_t) n, sizeof(*to->data)))) return call_fail(c, 500, NULL, "out of memory");
    to->n = n;
    if (single) *single = one;
    if (one) return unquote(c, v, &to->data[0]);
    n = 0;
    for (size_t at = 0; json_next(v, &at, &key, &member); n++)
        if (!request_element(c, f->name, n, member, &to->data[n])) return false;
    return true;
}

// ---- models and texts ----

struct served * request_model(struct call * c, const struct field * f, enum use use) {
    struct text name = { 0 };
    struct mra_error err;
    if (f && f->value.s && !request_text(c, f, &name)) return NULL;
    struct served * m = models_find(&c->server->models, use, name.s, name.n, &err);
    free(name.s);
    if (!m) call_fail(c, err.code == MRA_ERR_ARG ? 404 : wrong(c), "model", "%s", err.msg);
    return m;
}

static bool no_prompt(struct call * c, const struct served * m, const char * name) {
    char names[256] = "";
    const char * s;
    for (int i = 0; (s = mra_model_prompt_name(m->engine.model, i)); i++) {
        const size_t at = strlen(names);
        snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "; it has ", s);
    }
    return call_fail(c, wrong(c), "prompt_name", "%s has no prompt '%.60s'%s", m->id, name, names);
}

bool request_way(struct call * c, const struct served * m, const struct field * prompt, const struct field * truncate,
    const struct field * direction, struct text_way * way) {
    struct text name = { 0 };
    int left = 0;
    *way = (struct text_way) { .prefix = m->prefix, .truncate = c->server->settings.o.truncate == TRUNCATE_RIGHT };
    if (truncate && !request_bool(c, truncate, &way->truncate)) return false;
    if (direction && !request_choice(c, direction, "Right|Left|right|left", &left)) return false;
    way->left = left % 2 == 1;
    if (!prompt || !prompt->value.s) return true;
    if (!request_text(c, prompt, &name)) return false;
    way->prefix = mra_model_prompt(m->engine.model, name.s);
    if (!way->prefix) no_prompt(c, m, name.s);
    free(name.s);
    return way->prefix != NULL;
}

bool request_job(struct call * c, struct served * m, const struct mra_output * want) {
    c->job = job_new(m, want);
    return c->job || call_fail(c, 500, NULL, "out of memory");
}

bool request_size(struct call * c, int64_t n) {
    if (n <= MAX_NUMBERS) return true;
    return call_fail(c, wrong(c), NULL,
        "the reply would have %lld numbers, the limit is %d: send fewer texts at a time", (long long) n, MAX_NUMBERS);
}

static bool bad_text(struct call * c, const char * what, int i, const struct mra_error * err) {
    char place[32] = "";
    if (i >= 0) snprintf(place, sizeof(place), "[%d]", i);
    if (err->code == MRA_ERR_MEMORY) return call_fail(c, 500, NULL, "out of memory");
    if (err->code == MRA_ERR_TOO_LONG)
        return call_fail(c, 422, what, "%s%s has %s; \"truncate\": true cuts it", what, place, err->msg);
    return call_fail(c, wrong(c), what, "%s%s: %s", what, place, err->msg);
}

bool request_add(
    struct call * c, const char * what, int i, struct text a, const struct text * b, const struct text_way * way) {
    struct mra_error err;
    const double t = now_ms();
    const enum mra_status st = job_add(c->job, a.s, a.n, b ? b->s : NULL, b ? b->n : 0, way, &err);
    c->tokenize_ms += now_ms() - t;
    return st == MRA_OK || bad_text(c, what, i, &err);
}

bool request_add_all(
    struct call * c, const char * what, const struct text_list * l, bool single, const struct text_way * way) {
    for (int i = 0; i < l->n; i++)
        if (!request_add(c, what, single ? -1 : i, l->data[i], NULL, way)) return false;
    return true;
}
