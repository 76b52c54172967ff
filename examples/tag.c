// mra-tag: texts -> entities: labels of tokens or words, with the bytes of the text they are of.
#include "common/program.h"

#include <stdlib.h>
#include <string.h>

enum { OPT_AGGREGATION = 2000, OPT_IGNORE };

static const struct arg_opt opts[] = {
    { OPT_AGGREGATION, "aggregation", "HOW",
        "how tokens become entities: none, simple, first, average, max\n(default: simple)" },
    { OPT_IGNORE, "ignore", "LABEL", "leave entities of this label out (default: O; \"\": none)" },
};

static const char notes[] =
    "aggregation:\n"
    "  none     every token, with its best label\n"
    "  simple   neighbouring tokens of one label are an entity; B-X begins another one than the X before it\n"
    "  first    the same with words, whose label is that of their first token ...\n"
    "  average  ... the best of the mean of their tokens' probabilities ...\n"
    "  max      ... or that of their surest token\n"
    "  As transformers' token-classification pipeline has them.\n"
    "\n"
    "output:\n"
    "  A line per entity: id or line number, label, score, start and end in bytes of the text, its text; separated\n"
    "  by tabs. A text without entities gives none. --json: a line per record.\n"
    "\n"
    "examples:\n"
    "  mra-tag -m ner.gguf \"Ada Lovelace lived in London.\"\n"
    "  mra-tag -m ner.gguf -f articles.jsonl --aggregation first --json -o entities.jsonl\n"
    "\n";

struct tag {
    enum mra_aggregation aggregation;
    const char * ignore; // NULL: the default
};

struct found {
    int n;
    struct mra_entity entities[]; // offsets within the text as it was given
};

// rows : [n_tokens][n_tag]
static void collect(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols) {
    const struct tag * t = s->user;
    const struct record * r = &it->rec;
    const uint32_t prefix = s->rules.prefix ? (uint32_t) strlen(s->rules.prefix) : 0;
    struct mra_entity_list list = { 0 };
    (void) n_cols;
    if (mra_entities(s->engine.model, r->text, r->n_text, it->list.data, (int) n_rows, rows, t->aggregation, t->ignore,
            &list, &it->err) != MRA_OK) {
        it->failed = true;
        return;
    }
    struct found * f = it->result = malloc(sizeof(*f) + list.n * sizeof(f->entities[0]));
    if (f) f->n = 0;
    else item_fail(it, MRA_ERR_MEMORY, "out of memory");
    for (size_t i = 0; f && i < list.n; i++) {
        struct mra_entity e = list.data[i];
        if (e.end <= prefix && prefix > 0) continue; // of what was put before the text
        e.start = stream_offset(s, e.start);
        e.end = stream_offset(s, e.end);
        f->entities[f->n++] = e;
    }
    mra_entity_list_free(&list);
}

static void emit_entity(struct stream * s, const struct item * it, const struct mra_entity * e) {
    const char * text = it->rec.text + (s->rules.prefix ? strlen(s->rules.prefix) : 0);
    if (s->o->json) {
        sink_text(&s->out, "{\"label\": ");
        sink_json(&s->out, e->label, strlen(e->label));
        sink_printf(&s->out, ", \"score\": %.6g, \"start\": %u, \"end\": %u, \"text\": ", e->score, e->start, e->end);
        sink_json(&s->out, text + e->start, e->end - e->start);
        sink_text(&s->out, "}");
        return;
    }
    stream_name(s, it);
    sink_printf(&s->out, "\t%s\t%.4f\t%u\t%u\t", e->label, e->score, e->start, e->end);
    for (uint32_t i = e->start; i < e->end; i++) { // stays in its column
        const char c = text[i];
        sink_write(&s->out, c == '\t' || c == '\n' || c == '\r' ? " " : &text[i], 1);
    }
    sink_text(&s->out, "\n");
}

static void emit(struct stream * s, struct item * it) {
    const struct found * f = it->result;
    if (s->o->json) {
        stream_json_head(s, it);
        sink_printf(&s->out, "\"tokens\": %lld, \"entities\": [", (long long) it->n_tokens);
    }
    for (int i = 0; i < f->n; i++) {
        if (s->o->json && i) sink_text(&s->out, ", ");
        emit_entity(s, it, &f->entities[i]);
    }
    if (s->o->json) {
        sink_text(&s->out, "]");
        stream_json_tail(s, it);
        stream_line_end(s);
    } else sink_commit(&s->out);
}

static void option(void * user, struct options * o, const struct args * a, int id) {
    struct tag * t = user;
    (void) o;
    switch (id) {
        case OPT_AGGREGATION:
            t->aggregation = (enum mra_aggregation) args_choice(a, "none|simple|first|average|max");
            break;
        case OPT_IGNORE: t->ignore = a->value; break;
    }
}

static void ready(struct stream * s) {
    const struct mra_model_info * info = &s->engine.info;
    if (info->n_tag == 0)
        fatal(s->program, "%s has no token classifier%s", s->o->model,
            info->n_class ? "; it labels whole texts: mra-classify" : "");
    s->want.kind = MRA_OUTPUT_TAGS;
}

static const struct program program = {
    .name = "mra-tag",
    .usage = "-m MODEL [options] [TEXT... | -f FILE | -]",
    .about = "Entities of texts: what a token classifier finds, with byte offsets.",
    .notes = notes,
    .opts = opts,
    .n_opt = sizeof(opts) / sizeof(opts[0]),
    .option = option,
    .ready = ready,
    .on = { .collect = collect, .emit = emit },
};

int main(int argc, char ** argv) {
    struct tag t = { .aggregation = MRA_AGGREGATION_SIMPLE };
    return program_main(&program, &t, argc, argv);
}
