// What is served, and how it goes: /v1/models, /info, /tokenize, /health, /metrics, the page.
#include "reply.h"
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// files.c, made from page.html and openapi.json
extern const unsigned char page_html[], openapi_json[];
extern const unsigned int page_html_len, openapi_json_len;

void health(struct call * c) {
    if (atomic_load(&c->server->stopping)) call_fail(c, 503, NULL, "stopping");
    else {
        call_reply(c, 200);
        sink_text(&c->out, "{\"status\": \"ok\"}");
    }
}

void metrics(struct call * c) {
    call_reply(c, 200);
    c->type = "text/plain; version=0.0.4";
    metrics_print(&c->server->metrics, c->server->queue, route_label, &c->out);
}

void page(struct call * c) {
    call_reply(c, 200);
    c->type = "text/html; charset=utf-8";
    sink_write(&c->out, page_html, page_html_len);
}

void openapi(struct call * c) {
    call_reply(c, 200);
    sink_write(&c->out, openapi_json, openapi_json_len);
}

// ---- models ----

static void print_uses(struct sink * out, const struct served * m) {
    sink_text(out, "[\"embed\"");
    if (served_is_cross_encoder(m)) sink_text(out, ", \"rerank\"");
    if (m->engine.info.n_class) sink_text(out, ", \"classify\"");
    sink_text(out, "]");
}

void openai_models(struct call * c) {
    const struct models * all = &c->server->models;
    call_reply(c, 200);
    struct sink * out = &c->out;
    sink_text(out, "{\"object\": \"list\", \"data\": [");
    for (int i = 0; i < all->n; i++) {
        const struct served * m = &all->list[i];
        const struct mra_model_info * info = &m->engine.info;
        sink_text(out, i ? ", {\"id\": " : "{\"id\": ");
        reply_text(out, m->id);
        sink_text(out, ", \"object\": \"model\", \"created\": 0, \"owned_by\": \"ggml-mra\", \"name\": ");
        reply_text(out, info->name);
        sink_text(out, ", \"alias\": ");
        if (m->alias) reply_text(out, m->alias);
        else sink_text(out, "null");
        sink_text(out, ", \"uses\": ");
        print_uses(out, m);
        sink_printf(out, ", \"dimensions\": %d, \"max_tokens\": %d, \"parameters\": %lld, \"type\": ", info->n_pooled,
            m->engine.limit, (long long) info->n_params);
        reply_text(out, info->type);
        sink_text(out, "}");
    }
    sink_text(out, "]}");
}

static void print_labels(struct sink * out, const struct served * m, bool by_id) {
    sink_text(out, "{");
    for (int i = 0; i < m->engine.info.n_class; i++) {
        const char * label = mra_model_label(m->engine.model, i);
        char number[32];
        snprintf(number, sizeof(number), "LABEL_%d", i);
        if (!label) label = number;
        if (i) sink_text(out, ", ");
        if (by_id) {
            sink_printf(out, "\"%d\": ", i);
            reply_text(out, label);
        } else {
            reply_text(out, label);
            sink_printf(out, ": %d", i);
        }
    }
    sink_text(out, "}");
}

void tei_info(struct call * c) {
    static const char * const pooling[] = { "mean", "mean", "cls", "last_token", "max", "mean_sqrt" };
    const struct served * m = &c->server->models.list[0];
    const struct settings * s = &c->server->settings;
    const struct mra_model_info * info = &m->engine.info;
    call_reply(c, 200);
    struct sink * out = &c->out;
    sink_text(out, "{\"model_id\": ");
    reply_text(out, m->id);
    sink_text(out, ", \"model_sha\": null, \"model_dtype\": ");
    reply_text(out, info->type);
    sink_text(out, ", \"model_type\": ");
    if (!info->n_class) sink_printf(out, "{\"embedding\": {\"pooling\": \"%s\"}}", pooling[info->pooling]);
    else {
        sink_printf(out, "{\"%s\": {\"id2label\": ", info->n_class == 1 ? "reranker" : "classifier");
        print_labels(out, m, true);
        sink_text(out, ", \"label2id\": ");
        print_labels(out, m, false);
        sink_text(out, "}}");
    }
    sink_printf(out,
        ", \"max_concurrent_requests\": %d, \"max_input_length\": %d, \"max_batch_tokens\": %d, "
        "\"max_batch_requests\": null, \"max_client_batch_size\": %d, \"auto_truncate\": %s, "
        "\"tokenization_workers\": %d, \"version\": \"%s\", \"sha\": null, \"docker_label\": null, \"attention\": ",
        s->max_connections, m->engine.limit, s->o.batch_tokens, s->max_inputs,
        s->o.truncate == TRUNCATE_RIGHT ? "true" : "false", s->http_threads, MRA_VERSION);
    reply_text(out, mra_attention_of(m->engine.model, &m->engine.params, m->engine.limit).text);
    sink_text(out, "}");
}

// ---- tokens ----

// text : [n] bytes -> to[i]: characters before byte i, for i = 0 .. n
static void count_characters(const char * text, size_t n, uint32_t * to) {
    uint32_t chars = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && ((unsigned char) text[i] & 0xc0) != 0x80) chars++;
        to[i] = chars;
    }
    to[n] = n ? chars + 1 : 0;
}

static void print_token(struct call * c, const struct mra_tokenizer * tok, const struct mra_token * t,
    const struct text * text, const uint32_t * chars) {
    char word[512];
    struct sink * out = &c->out;
    sink_printf(out, "{\"id\": %d, \"text\": ", t->id);
    if (t->text >= 0) sink_json(out, text->s + t->start, t->end - t->start);
    else {
        const size_t n = mra_tokenizer_text(tok, t->id, word, sizeof(word));
        sink_json(out, word, n < sizeof(word) ? n : sizeof(word));
    }
    if (t->text < 0) sink_text(out, ", \"special\": true, \"start\": null, \"stop\": null}");
    else sink_printf(out, ", \"special\": false, \"start\": %u, \"stop\": %u}", chars[t->start], chars[t->end]);
}

static bool tokenize_text(struct call * c, const struct served * m, const struct text * t, bool special) {
    const struct mra_tokenizer * tok = mra_model_tokenizer(m->engine.model);
    struct mra_token_list list = { 0 };
    struct mra_error err;
    uint32_t * chars = malloc((t->n + 1) * sizeof(*chars));
    if (!chars) return call_fail(c, 500, NULL, "out of memory");
    count_characters(t->s, t->n, chars);
    const bool good = mra_tokenize(tok, t->s, t->n, NULL, 0, special ? MRA_TOKENIZE_ADD_SPECIAL : 0, &list, &err) ==
        MRA_OK;
    if (!good) call_fail(c, 422, "inputs", "%s", err.msg);
    sink_text(&c->out, good ? "[" : "");
    for (size_t i = 0; good && i < list.n; i++) {
        if (i) sink_text(&c->out, ", ");
        print_token(c, tok, &list.data[i], t, chars);
    }
    sink_text(&c->out, good ? "]" : "");
    free(chars);
    mra_token_list_free(&list);
    return good;
}

void tei_tokenize(struct call * c) {
    enum { INPUTS, SPECIAL, PROMPT, N };
    struct field f[N] = { { "inputs", { 0 } }, { "add_special_tokens", { 0 } }, { "prompt_name", { 0 } } };
    bool special = true;
    struct text_way way;
    if (!request_fields(c, f, N)) return;
    struct served * m = request_model(c, NULL, USE_EMBED);
    if (!m || !request_bool(c, &f[SPECIAL], &special) || !request_way(c, m, &f[PROMPT], NULL, NULL, &way) ||
        !request_texts(c, &f[INPUTS], &c->ask.texts, &c->ask.single))
        return;
    if (!f[PROMPT].value.s) way.prefix = NULL;
    call_reply(c, 200);
    sink_text(&c->out, "[");
    for (int i = 0; i < c->ask.texts.n; i++) {
        struct text * t = &c->ask.texts.data[i];
        const size_t n = way.prefix ? strlen(way.prefix) : 0;
        if (n) { // the prompt is part of the text
            char * s = realloc(t->s, n + t->n + 1);
            if (!s) {
                call_fail(c, 500, NULL, "out of memory");
                return;
            }
            memmove(s + n, s, t->n + 1);
            memcpy(s, way.prefix, n);
            *t = (struct text) { s, n + t->n };
        }
        if (i) sink_text(&c->out, ", ");
        if (!tokenize_text(c, m, t, special)) return;
    }
    sink_text(&c->out, "]");
}

// ---- POST /: what the first model is for ----

void tei_root(struct call * c) {
    if (c->server->models.list[0].engine.info.n_class) tei_predict(c);
    else tei_embed(c);
}

void tei_root_reply(struct call * c) {
    if (c->job->want.kind == MRA_OUTPUT_CLASS) tei_predict_reply(c);
    else tei_embed_reply(c);
}
