#include "program.h"
#include "signals.h"

#include <stdio.h>

static void parse(const struct program * p, void * user, struct options * o, struct args * a, int argc, char ** argv) {
    *o = options_default();
    for (int id; (id = args_next(a, argc, argv)) != -1;)
        if (!options_take(o, a, id)) p->option(user, o, a, id);
    options_end(o, a, argc, argv);
    if (o->truncate == TRUNCATE_CHUNK && !p->can_chunk)
        usage_error(a->program, "--truncate chunk is for mra-embed; use error or right");
    if (p->check) p->check(user, o, a);
}

int program_main(const struct program * p, void * user, int argc, char ** argv) {
    char notes[4096];
    snprintf(notes, sizeof(notes), "%s%s", p->notes, common_notes);
    struct args a = {
        .program = p->name,
        .usage = p->usage,
        .about = p->about,
        .opts = p->opts,
        .n_opt = p->n_opt,
        .common = common_options,
        .n_common = n_common_options,
        .notes = notes,
    };
    struct options o;
    parse(p, user, &o, &a, argc, argv);
    signals_catch();
    struct stream s = { .o = &o, .program = p->name, .user = user, .on = p->on };
    engine_open(&s.engine, p->name, &o);
    s.rules = (struct text_rules) {
        .engine = &s.engine,
        .truncate = o.truncate,
        .prefix = o.prompt ? mra_model_prompt(s.engine.model, o.prompt) : o.prefix,
        .can_chunk = p->can_chunk,
    };
    p->ready(&s);
    return stream_run(&s);
}
