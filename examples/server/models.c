#include "models.h"

#include "common/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what a sequence costs ----

double served_gflop(const struct served * m, int n_tokens) {
    const struct mra_model_info * i = &m->engine.info;
    return engine_gflop(i, n_tokens, mra_attention_of(m->engine.model, &m->engine.params, n_tokens).work);
}

// One sequence of the usual length: the context gets its memory, and the queue a first idea of the speed.
static void measure(struct served * m) {
    struct mra_error err;
    int32_t ids[128];
    const int n = m->engine.limit < 128 ? m->engine.limit : 128, n_seq = 4;
    for (int i = 0; i < n; i++) ids[i] = i % m->engine.info.n_vocab;
    struct mra_seq seqs[4];
    for (int i = 0; i < n_seq; i++) seqs[i] = (struct mra_seq) { .n = n, .ids = ids };
    const struct mra_output want = { .kind = MRA_OUTPUT_POOLED };
    struct mra_result r;
    double ms = INFINITY;
    for (int i = 0; i < 2; i++) {
        if (mra_encode(m->engine.ctx, seqs, n_seq, &want, &r, &err) != MRA_OK)
            fatal(m->engine.program, "%s: %s", m->id, err.msg);
        ms = fmin(ms, mra_context_stats(m->engine.ctx).total_ms);
    }
    m->measured_gflop = n_seq * served_gflop(m, n);
    atomic_store(&m->ms_per_gflop, ms / m->measured_gflop);
}

// ---- all of them ----

static char * name_of(const char * path) {
    const char * base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const size_t n = strlen(base), cut = n > 5 && strcmp(base + n - 5, ".gguf") == 0 ? 5 : 0;
    return strndup(base, n - cut);
}

static bool is_name(const struct served * m, const char * name, size_t n) {
    const char * names[] = { m->id, m->alias, m->engine.info.name };
    for (int i = 0; i < 3; i++)
        if (names[i] && *names[i] && strlen(names[i]) == n && memcmp(names[i], name, n) == 0) return true;
    return false;
}

static void say(const struct served * m) {
    const struct mra_model_info * i = &m->engine.info;
    fprintf(stderr, "%s: %s: %s, %s, %d numbers, texts up to %d tokens", m->engine.program, m->id,
        *i->family ? i->family : "bert", i->type, i->n_embd, m->engine.limit);
    if (served_is_cross_encoder(m)) fprintf(stderr, ", reranks");
    else if (i->n_class) fprintf(stderr, ", %d labels", i->n_class);
    fprintf(stderr, "; kernels %s\n", mra_isa());
}

static void open_one(
    struct served * m, const char * program, const struct settings * s, int i, bool (*stop)(void *), void * user) {
    struct options o = s->o;
    o.model = s->models[i].path;
    o.verbose = false; // of a call, not of a model
    engine_open(&m->engine, program, &o);
    m->engine.params.stop = stop;
    m->engine.params.stop_user = user;
    engine_start(&m->engine, &o);
    m->alias = s->models[i].alias;
    m->id = name_of(o.model);
    if (!m->id) fatal(program, "out of memory");
    m->prefix = o.prefix ? o.prefix : mra_model_prompt(m->engine.model, o.prompt);
    measure(m);
    say(m);
}

struct models models_open(const char * program, const struct settings * s, bool (*stop)(void *), void * user) {
    struct models m = { .list = calloc((size_t) s->n_models, sizeof(*m.list)), .sparse = s->sparse };
    if (!m.list) fatal(program, "out of memory");
    for (m.n = 0; m.n < s->n_models; m.n++) {
        struct served * new = &m.list[m.n];
        open_one(new, program, s, m.n, stop, user);
        for (int i = 0; i < m.n; i++) {
            const char * name = is_name(&m.list[i], new->id, strlen(new->id))       ? new->id
                : new->alias && is_name(&m.list[i], new->alias, strlen(new->alias)) ? new->alias
                                                                                    : NULL;
            if (name) usage_error(program, "two models are called %s: give one an --alias and another file name", name);
        }
    }
    bool can_sparse = !s->sparse;
    for (int i = 0; i < m.n; i++) can_sparse = can_sparse || m.list[i].engine.info.has_mlm;
    if (!can_sparse) fatal(program, "--sparse: no model has a masked-language-model head");
    return m;
}

void models_free(struct models * m) {
    for (int i = 0; i < m->n; i++) {
        engine_close(&m->list[i].engine);
        free(m->list[i].id);
    }
    free(m->list);
}

bool served_is_cross_encoder(const struct served * m) {
    return m->engine.info.n_class == 1 || m->engine.info.n_class == 2;
}

// ---- which of them ----

static bool can(const struct models * all, const struct served * m, enum use use) {
    switch (use) {
        case USE_CLASSIFY: return m->engine.info.n_class > 0;
        case USE_SPARSE: return all->sparse && m->engine.info.has_mlm;
        default: return true; // any encoder embeds, and cosines rank
    }
}

// of several that can: embeddings of a cross-encoder and ranks by cosine mean little
static bool prefers(const struct served * m, enum use use) {
    return use == USE_EMBED ? m->engine.info.n_class == 0 : use == USE_RERANK ? served_is_cross_encoder(m) : true;
}

static void fail_name(const struct models * m, const char * name, size_t n, struct mra_error * err) {
    char names[160] = "";
    for (int i = 0; i < m->n; i++) {
        const size_t at = strlen(names);
        snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "", m->list[i].id);
    }
    mra_fail(err, MRA_ERR_ARG, "no model '%.*s' here; there is %s", n < 60 ? (int) n : 60, name, names);
}

struct served * models_find(
    const struct models * m, enum use use, const char * name, size_t n_name, struct mra_error * err) {
    static const char * const lacks[] = { "", "", "has no classifier", "gives no sparse embeddings" };
    struct served * found = NULL;
    for (int i = 0; i < m->n; i++) {
        struct served * x = &m->list[i];
        if (name && is_name(x, name, n_name)) {
            if (can(m, x, use)) return x;
            mra_fail(err, MRA_ERR_UNSUPPORTED, "%s %s", x->id, lacks[use]);
            return NULL;
        }
        if (can(m, x, use) && (!found || (prefers(x, use) && !prefers(found, use)))) found = x;
    }
    if (name) {
        fail_name(m, name, n_name, err);
        return NULL;
    }
    if (!found)
        mra_fail(err, MRA_ERR_UNSUPPORTED, "%s %s%s", m->n == 1 ? m->list[0].id : "every model here", lacks[use],
            use == USE_SPARSE && !m->sparse ? " (mra-server --sparse: for models trained as SPLADE)" : "");
    return found;
}
