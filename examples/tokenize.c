// mra-tokenize: the tokens of a text, their ids and the bytes they stand for.
#include "common/program.h"

#include <stdio.h>
#include <string.h>

enum { OPT_PAIR = 2000, OPT_COUNT, OPT_IDS };

static const struct arg_opt opts[] = {
    { OPT_PAIR, "pair", "TEXT", "second text of every pair (JSON Lines: \"text_pair\")" },
    { OPT_COUNT, "count", NULL, "print the number of tokens of each text only" },
    { OPT_IDS, "ids", NULL, "print the ids only, a line per text" },
};

static const char notes[] = "output:\n"
                            "  A line per token: id, first byte, end, token, separated by tabs; an empty line behind "
                            "each text. Special tokens that\n"
                            "  the tokenizer added have no bytes (-). Texts of any length are shown whole, unless "
                            "--max-tokens says otherwise.\n"
                            "\n"
                            "examples:\n"
                            "  mra-tokenize -m roberta.gguf \"Hello world\"\n"
                            "  mra-tokenize -m roberta.gguf -f docs.txt --count | sort -n | tail -1\n"
                            "\n";

struct tokenize {
    bool count, ids;
    const char * pair;
};

static uint32_t offset(const struct stream * s, const struct mra_token * t, uint32_t at) {
    return t->text == 0 ? stream_offset(s, at) : at;
}

static void emit_json(struct stream * s, struct item * it) {
    const struct mra_tokenizer * tok = mra_model_tokenizer(s->engine.model);
    stream_json_head(s, it);
    sink_text(&s->out, "\"tokens\": [");
    for (size_t i = 0; i < it->list.n; i++) {
        const struct mra_token * t = &it->list.data[i];
        char word[512];
        const size_t n = mra_tokenizer_text(tok, t->id, word, sizeof(word));
        sink_printf(&s->out, "%s{\"id\": %d, \"token\": ", i ? ", " : "", t->id);
        sink_json(&s->out, word, n < sizeof(word) ? n : sizeof(word));
        if (t->text >= 0)
            sink_printf(&s->out, ", \"start\": %u, \"end\": %u", offset(s, t, t->start), offset(s, t, t->end));
        if (it->pair && t->text >= 0) sink_printf(&s->out, ", \"text\": %d", t->text);
        sink_text(&s->out, "}");
    }
    sink_text(&s->out, "]");
    stream_json_tail(s, it);
    stream_line_end(s);
}

static void emit_text(struct stream * s, struct item * it) {
    const struct mra_tokenizer * tok = mra_model_tokenizer(s->engine.model);
    for (size_t i = 0; i < it->list.n; i++) {
        const struct mra_token * t = &it->list.data[i];
        char word[512];
        const size_t n = mra_tokenizer_text(tok, t->id, word, sizeof(word));
        sink_printf(&s->out, "%d\t", t->id);
        if (t->text < 0) sink_text(&s->out, "-\t-\t");
        else sink_printf(&s->out, "%u\t%u\t", offset(s, t, t->start), offset(s, t, t->end));
        sink_json(&s->out, word, n < sizeof(word) ? n : sizeof(word)); // quotes show spaces
        sink_text(&s->out, "\n");
    }
    stream_line_end(s);
}

static void emit(struct stream * s, struct item * it) {
    const struct tokenize * t = s->user;
    if (t->count) {
        if (s->o->json) {
            stream_json_head(s, it);
            sink_printf(&s->out, "\"count\": %zu", it->list.n);
            stream_json_tail(s, it);
        } else sink_printf(&s->out, "%zu", it->list.n);
        stream_line_end(s);
    } else if (t->ids) {
        if (s->o->json) {
            stream_json_head(s, it);
            sink_text(&s->out, "\"ids\": [");
        }
        for (size_t i = 0; i < it->list.n; i++)
            sink_printf(&s->out, "%s%d", i ? (s->o->json ? ", " : " ") : "", it->list.data[i].id);
        if (s->o->json) {
            sink_text(&s->out, "]");
            stream_json_tail(s, it);
        }
        stream_line_end(s);
    } else if (s->o->json) {
        emit_json(s, it);
    } else {
        emit_text(s, it);
    }
}

static void option(void * user, struct options * o, const struct args * a, int id) {
    struct tokenize * t = user;
    (void) o;
    switch (id) {
        case OPT_PAIR: t->pair = args_text(a); break;
        case OPT_COUNT: t->count = true; break;
        case OPT_IDS: t->ids = true; break;
    }
}

static void ready(struct stream * s) {
    const struct tokenize * t = s->user;
    if (!s->o->max_tokens && s->o->truncate == TRUNCATE_ERROR && !s->o->dry_run) s->engine.limit = INT32_MAX;
    s->rules.pairs = true;
    s->rules.pair = t->pair;
}

static const struct program program = {
    .name = "mra-tokenize",
    .usage = "-m MODEL [options] [TEXT... | -f FILE | -]",
    .about = "Tokens, ids and byte offsets of texts.",
    .notes = notes,
    .opts = opts,
    .n_opt = sizeof(opts) / sizeof(opts[0]),
    .option = option,
    .ready = ready,
    .on = { .emit = emit },
};

int main(int argc, char ** argv) {
    struct tokenize t = { 0 };
    return program_main(&program, &t, argc, argv);
}
