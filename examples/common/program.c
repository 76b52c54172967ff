#include "bus.h"
#include "ending.h"
#include "program.h"
#include "signals.h"

#include <stdio.h>
#include <string.h>

enum { MAX_COMMON = 64 };

// text with tabs or JSON Lines
static void choose_lines(const struct program * p, struct options * o, const struct args * a) {
    const enum ending ending = o->out ? ending_of(o->out) : ENDING_OTHER;
    if (ending == ENDING_JSONL) o->json = true;
    const bool fits = ending == ENDING_OTHER || ending == ENDING_TEXT ||
        ending == (o->json ? ENDING_JSONL : ENDING_TSV);
    o->lines = o->json;
    if (!fits)
        usage_error(a->program, "-o %s: %s writes %s", o->out, o->dry_run ? "--dry-run" : p->name,
            o->json ? "JSON Lines: .jsonl" : "text with tabs (.txt, .tsv) or JSON Lines (.jsonl)");
}

static void parse(const struct program * p, void * user, struct options * o, struct args * a, int argc, char ** argv) {
    *o = options_default();
    for (int id; (id = args_next(a, argc, argv)) != -1;) {
        options_say(o, a, id);
        if (!options_take(o, a, id)) p->option(user, o, a, id);
    }
    options_end(o, a, argc, argv);
    if (o->truncate == TRUNCATE_CHUNK && !p->can_chunk)
        usage_error(a->program, "--truncate chunk is for mra-embed; use error or right");
    if (!p->own_formats || o->dry_run) choose_lines(p, o, a);
    if (p->check) p->check(user, o, a);
}

// the options of all programs that this one has, too -> to; returns how many
static int common_of(const struct program * p, struct arg_opt * to, int max) {
    int n = 0;
    for (int i = 0; i < n_common_options && n < max; i++) {
        const size_t len = strlen(common_options[i].name);
        const char * at = p->without;
        while (at && !(strncmp(at, common_options[i].name, len) == 0 && (at[len] == '|' || !at[len])))
            at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL;
        if (!at) to[n++] = common_options[i];
    }
    return n;
}

void program_open(
    const struct program * p, void * user, struct stream * s, struct options * o, int argc, char ** argv) {
    char notes[4096];
    struct arg_opt common[MAX_COMMON];
    snprintf(notes, sizeof(notes), "%s%s", p->notes, p->own_notes ? "" : common_notes);
    struct args a = {
        .program = p->name,
        .usage = p->usage,
        .about = p->about,
        .opts = p->opts,
        .n_opt = p->n_opt,
        .common = common,
        .n_common = common_of(p, common, MAX_COMMON),
        .notes = notes,
    };
    parse(p, user, o, &a, argc, argv);
    signals_catch();
    bus_catch(p->name);
    *s = (struct stream) { .o = o, .program = p->name, .user = user, .on = p->on };
    engine_open(&s->engine, p->name, o);
    s->rules = (struct text_rules) {
        .engine = &s->engine,
        .truncate = o->truncate,
        .prefix = o->prompt ? mra_model_prompt(s->engine.model, o->prompt) : o->prefix,
        .can_chunk = p->can_chunk,
    };
}

int program_main(const struct program * p, void * user, int argc, char ** argv) {
    struct options o;
    struct stream s;
    program_open(p, user, &s, &o, argc, argv);
    p->ready(&s);
    const int code = stream_run(&s);
    options_free(&o);
    return code;
}
