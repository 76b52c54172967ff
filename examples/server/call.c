#include "routes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_list_free(struct text_list * l) {
    for (int i = 0; i < l->n; i++) free(l->data[i].s);
    free(l->data);
    *l = (struct text_list) { 0 };
}

void call_free(struct call * c) {
    job_release(c->job);
    text_list_free(&c->ask.texts);
    free(c->body);
    free(c->out.buf);
    free(c);
}

void call_reply(struct call * c, int status) {
    c->status = status;
    c->type = "application/json";
    c->out.n = 0;
    c->out.error = 0;
}

static const struct kind {
    int status;
    const char *openai, *code, *tei;
} kinds[] = {
    { 400, "invalid_request_error", NULL, "Validation" },
    { 401, "authentication_error", "invalid_api_key", "Unauthorized" },
    { 404, "invalid_request_error", "not_found", "NotFound" },
    { 405, "invalid_request_error", "method_not_allowed", "Validation" },
    { 408, "invalid_request_error", "request_timeout", "Validation" },
    { 413, "invalid_request_error", "body_too_large", "Validation" },
    { 422, "invalid_request_error", NULL, "Validation" }, { 424, "server_error", "model_failed", "Backend" },
    { 429, "overloaded_error", "overloaded", "Overloaded" }, { 503, "server_error", "unavailable", "Unhealthy" },
    { 500, "server_error", "internal_error", "Backend" }, // all others
};

bool call_fail(struct call * c, int status, const char * param, const char * fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    const struct kind * k = kinds;
    while (k->status != status && k->status != 500) k++;
    call_reply(c, status);
    struct sink * out = &c->out;
    if (c->route && c->route->shape == SHAPE_TEI) {
        sink_text(out, "{\"error\": ");
        sink_json(out, text, strlen(text));
        sink_printf(out, ", \"error_type\": \"%s\"}", k->tei);
        return false;
    }
    sink_text(out, "{\"error\": {\"message\": ");
    sink_json(out, text, strlen(text));
    sink_printf(out, ", \"type\": \"%s\", \"param\": ", k->openai);
    if (param) sink_json(out, param, strlen(param));
    else sink_text(out, "null");
    if (k->code) sink_printf(out, ", \"code\": \"%s\"}}", k->code);
    else sink_text(out, ", \"code\": null}}");
    return false;
}
