#include "window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void item_free(struct item * it) {
    record_free(&it->rec);
    mra_token_list_free(&it->list);
    free(it->passes);
    free(it->seqs);
    free(it->spans);
    free(it->at);
    free(it->result);
    memset(it, 0, sizeof(*it));
}

struct item * window_add(struct window * w) {
    if (w->n_items == w->cap_items) {
        const int cap = 2 * w->cap_items + 16;
        struct item * items = realloc(w->items, (size_t) cap * sizeof(*items));
        if (!items) return NULL;
        w->items = items;
        w->cap_items = cap;
    }
    struct item * it = &w->items[w->n_items++];
    *it = (struct item) { 0 };
    return it;
}

void window_drop_last(struct window * w) { item_free(&w->items[--w->n_items]); }

void window_clear(struct window * w) {
    while (w->n_items > 0) window_drop_last(w);
}

void window_free(struct window * w) {
    window_clear(w);
    free(w->items);
}

void item_fail(struct item * it, enum mra_status code, const char * why) {
    it->failed = true;
    mra_fail(&it->err, code, "%s", why);
}

void item_add_prefix(struct item * it, const struct text_rules * rules) {
    if (!rules->prefix) return;
    struct record * r = &it->rec;
    const size_t n = strlen(rules->prefix);
    char * p = malloc(n + r->n_text + 1);
    if (!p) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    memcpy(p, rules->prefix, n);
    memcpy(p + n, r->text, r->n_text + 1);
    free(r->text);
    r->text = p;
    r->n_text += n;
}

// ---- tokens ----

// --truncate chunk: passes of at most `limit` tokens, each with the special tokens of the whole text around it
static void cut_into_passes(struct item * it, int limit) {
    const struct mra_token * t = it->list.data;
    const int64_t n = (int64_t) it->list.n;
    int64_t head = 0, tail = 0;
    while (head < n && t[head].text < 0) head++;
    while (tail < n - head && t[n - 1 - tail].text < 0) tail++;
    const int64_t body = n - head - tail, room = limit - head - tail;
    if (room < 1) {
        item_fail(it, MRA_ERR_TOO_LONG, "the limit leaves no room for special tokens");
        return;
    }
    it->n_seq = (int) ((body + room - 1) / room);
    it->seqs = calloc((size_t) it->n_seq, sizeof(*it->seqs));
    it->passes = malloc((size_t) (body + it->n_seq * (head + tail)) * sizeof(*t));
    if (!it->seqs || !it->passes) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    struct mra_token * to = it->passes;
    for (int i = 0; i < it->n_seq; i++) { // of even length
        const int64_t a = body * i / it->n_seq, b = body * (i + 1) / it->n_seq;
        it->seqs[i] = (struct mra_seq) { .n = (int) (head + b - a + tail), .tokens = to };
        memcpy(to, t, (size_t) head * sizeof(*t));
        memcpy(to + head, t + head + a, (size_t) (b - a) * sizeof(*t));
        memcpy(to + head + b - a, t + n - tail, (size_t) tail * sizeof(*t));
        to += it->seqs[i].n;
        it->n_tokens += it->seqs[i].n;
    }
    mra_token_list_free(&it->list);
}

static void too_long(struct item * it, const struct text_rules * rules) {
    const struct engine * e = rules->engine;
    char why[256], more[64] = "";
    if (e->limit < e->info.n_ctx) snprintf(more, sizeof(more), "--max-tokens up to %d, ", e->info.n_ctx);
    snprintf(why, sizeof(why), "%zu tokens, the limit is %d: %s--truncate right%s", it->list.n, e->limit, more,
        rules->can_chunk ? " or chunk" : "");
    item_fail(it, MRA_ERR_TOO_LONG, why);
}

static void one_pass(struct item * it) {
    if (it->list.n == 0) {
        item_fail(it, MRA_ERR_ARG, "no tokens: the text is empty");
        return;
    }
    it->seqs = calloc(1, sizeof(*it->seqs));
    if (!it->seqs) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    it->n_seq = 1;
    it->n_tokens = (int64_t) it->list.n;
    it->seqs[0] = (struct mra_seq) { .n = (int) it->list.n, .tokens = it->list.data };
}

void item_tokenize(struct item * it, const struct text_rules * rules) {
    const struct engine * e = rules->engine;
    const struct record * r = &it->rec;
    const bool own = rules->pairs && r->pair;
    it->pair = own ? r->pair : rules->pair;
    const size_t n_pair = own ? r->n_pair : it->pair ? strlen(it->pair) : 0;
    it->failed = mra_tokenize(mra_model_tokenizer(e->model), r->text, r->n_text, it->pair, n_pair,
                     MRA_TOKENIZE_ADD_SPECIAL, &it->list, &it->err) != MRA_OK;
    if (it->failed) return;
    for (size_t i = 0; i < it->list.n; i++)
        if (it->list.data[i].segment >= e->info.n_types) it->list.data[i].segment = 0;
    if (it->list.n > (size_t) e->limit) {
        if (rules->truncate == TRUNCATE_CHUNK) {
            cut_into_passes(it, e->limit);
            return;
        }
        if (rules->truncate == TRUNCATE_ERROR) {
            too_long(it, rules);
            return;
        }
        it->failed = mra_model_tokenize(
                         e->model, r->text, r->n_text, it->pair, n_pair, e->limit, &it->list, &it->err) != MRA_OK;
        if (it->failed) return;
    }
    one_pass(it);
}
