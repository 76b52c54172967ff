// Pieces of output that all programs write.
#include "json.h"
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stream_json_head(struct stream * s, const struct item * it) {
    sink_text(&s->out, "{");
    if (it->rec.id) {
        sink_text(&s->out, "\"id\": ");
        sink_text(&s->out, it->rec.id);
        sink_text(&s->out, ", ");
    }
    if (s->in.o.from != FROM_LINES) return;
    if (it->rec.file) {
        sink_text(&s->out, "\"file\": ");
        sink_json(&s->out, it->rec.file, strlen(it->rec.file));
        sink_text(&s->out, ", ");
    }
    sink_printf(&s->out, "\"%s\": %lld, ", it->rec.place, (long long) it->rec.line);
}

void stream_json_tail(struct stream * s, const struct item * it) {
    if (s->engine.ctx) sink_printf(&s->out, ", \"attention\": \"%s\"", it->attention.text);
    if (s->engine.exact) {
        sink_printf(&s->out, ", \"verify\": {\"max_error\": %.3g, \"relative_error\": %.3g, \"cosine\": ", it->max_err,
            it->rel_err);
        sink_real(&s->out, it->cosine, 7);
        sink_text(&s->out, "}");
    }
    if (s->engine.ctx && s->o->estimate) {
        const struct mra_error_summary * e = &it->estimate;
        sink_printf(&s->out,
            ", \"estimate\": {\"error\": %.3g, \"interval\": [%.3g, %.3g], \"heads_mean\": %.3g, \"heads_max\": %.3g",
            e->all.error, e->all.low, e->all.high, e->mean, e->worst_head.error);
        if (e->n_heads)
            sink_printf(&s->out, ", \"worst\": {\"layer\": %d, \"head\": %d, \"interval\": [%.3g, %.3g]}", e->layer,
                e->head, e->worst_head.low, e->worst_head.high);
        sink_text(&s->out, "}");
    }
    sink_text(&s->out, "}");
}

void stream_line_end(struct stream * s) {
    sink_text(&s->out, "\n");
    sink_commit(&s->out);
}

void stream_name(struct stream * s, const struct item * it) {
    const size_t n = it->rec.id ? strlen(it->rec.id) : 0;
    if (n >= 2 && it->rec.id[0] == '"') sink_write(&s->out, it->rec.id + 1, n - 2);
    else if (n) sink_text(&s->out, it->rec.id);
    else {
        if (it->rec.file) sink_text(&s->out, it->rec.file);
        sink_printf(&s->out, "%s%lld", it->rec.file ? ":" : "", (long long) it->rec.line);
    }
}

char * record_name(const struct record * r) {
    char * name = NULL;
    size_t n;
    if (r->id && r->id[0] == '"') return json_unquote((struct json_span) { r->id, strlen(r->id) }, &n);
    if (r->id) return strdup(r->id);
    const int got = r->file ? asprintf(&name, "%s:%lld", r->file, (long long) r->line)
                            : asprintf(&name, "%lld", (long long) r->line);
    return got < 0 ? NULL : name;
}

void stream_default_prompt(struct stream * s) {
    if (!s->o->prefix && !s->o->prompt) s->rules.prefix = mra_model_prompt(s->engine.model, NULL);
}

uint32_t stream_offset(const struct stream * s, uint32_t at) {
    const size_t n = s->rules.prefix ? strlen(s->rules.prefix) : 0;
    return at > n ? at - (uint32_t) n : 0;
}
