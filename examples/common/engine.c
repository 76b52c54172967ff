#include "engine.h"
#include "clock.h"
#include "output.h"
#include "signals.h"

#include "ggml-backend.h"

#include <stdio.h>
#include <string.h>

static void quiet(enum ggml_log_level level, const char * text, void * user) {
    if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
    (void) user;
}

static void check_prompt(const struct engine * e, const struct options * o) {
    if (!o->prompt || mra_model_prompt(e->model, o->prompt)) return;
    char names[512] = "";
    const char * name;
    for (int i = 0; (name = mra_model_prompt_name(e->model, i)); i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "; it has ", name);
    }
    fatal(e->program, "--prompt %s: %s has no prompt of that name%s", o->prompt, o->model, names);
}

static void load(struct engine * e, const struct options * o) {
    struct mra_error err;
    struct mra_model_params p = { .device = o->device, .no_mmap = o->no_mmap };
    const bool any = strcmp(p.device, "auto") == 0;
    if (any) p.device = "cuda";
    e->model = mra_model_load(o->model, &p, &err);
    if (!e->model && any && err.code == MRA_ERR_DEVICE) {
        if (ggml_backend_reg_by_name("CUDA")) // else nobody expects one
            fprintf(stderr, "%s: %s; using the CPU\n", e->program, err.msg);
        p.device = "cpu";
        e->model = mra_model_load(o->model, &p, &err);
    }
    if (!e->model && err.code == MRA_ERR_DEVICE)
        fatal(e->program, "--device %s: %s; use --device cpu or auto", o->device, err.msg);
    if (!e->model) fatal(e->program, "%s", err.msg);
    e->info = mra_model_info(e->model);
    if (*e->info.note) fprintf(stderr, "%s: %s\n", e->program, e->info.note);
    check_prompt(e, o);
}

static void print_model(const struct engine * e) {
    const struct mra_model_info * i = &e->info;
    fprintf(stderr, "%s: %s%s%s, %s, %.1fM parameters, %d layers, width %d, %d heads, %d positions", e->program,
        i->name, *i->name ? ": " : "", *i->family ? i->family : "bert", i->type, (double) i->n_params / 1e6, i->n_layer,
        i->n_embd, i->n_head, i->n_ctx);
    if (i->max_length < i->n_ctx) fprintf(stderr, ", texts up to %d tokens", i->max_length);
    if (i->has_mlm) fprintf(stderr, ", fill-mask");
    if (i->n_class) fprintf(stderr, ", %d labels", i->n_class);
    if (mra_model_plan(e->model)) fprintf(stderr, ", a plan of keys per head");
    if (i->n_tag) fprintf(stderr, ", %d labels of tokens", i->n_tag);
    fprintf(stderr, "; %s, kernels %s, attention in %s\n", i->device, mra_isa(),
        mra_attn_numbers(mra_attention_of(e->model, &e->params, i->n_ctx).attn.type));
}

static void load_plan(struct engine * e, const struct options * o) {
    struct mra_error err;
    e->params.no_plan = o->plan && strcmp(o->plan, "none") == 0;
    if (!o->plan || e->params.no_plan) return;
    e->params.plan = e->plan = mra_plan_load(o->plan, e->model, &err);
    if (!e->plan) fatal(e->program, "--plan: %s", err.msg);
}

static bool stop(void * user) {
    (void) user;
    return interrupted();
}

void engine_open(struct engine * e, const char * program, const struct options * o) {
    const double t = now_ms();
    *e = (struct engine) { .program = program, .params = mra_context_params_default() };
    ggml_log_set(quiet, NULL);
    load(e, o);
    e->load_ms = now_ms() - t;
    e->params.n_threads = o->n_threads;
    e->params.attention = o->attention;
    e->params.attention_type = o->attention_type;
    e->params.attn = o->attn;
    e->params.n_batch = o->batch_tokens;
    load_plan(e, o);
    e->params.profile = o->verbose;
    e->params.n_error_rows = o->estimate ? -1 : 0;
    e->params.max_error = o->max_error;
    e->params.stop = stop;
    e->limit = o->max_tokens ? o->max_tokens : o->truncate == TRUNCATE_CHUNK ? e->info.n_ctx : e->info.max_length;
    if (e->limit > e->info.n_ctx)
        fatal(program, "--max-tokens %d: the model has %d positions", e->limit, e->info.n_ctx);
    if (o->verbose) print_model(e);
    if (o->attention_type == MRA_ATTENTION_TYPE_INT8 && mra_attn_type_runs(MRA_ATTN_INT8) != MRA_ATTN_INT8)
        fprintf(stderr, "%s: --attn-type int8: kernels %s have none; attention is computed in floats\n", program,
            mra_isa());
}

// what --max-memory leaves for each context
static size_t memory_left(const struct engine * e, const struct options * o) {
    if (!o->max_memory) return 0;
    if (o->max_memory <= e->info.n_bytes)
        fatal(e->program, "--max-memory of %.1f MB: the model alone takes %.1f MB", (double) o->max_memory / 1e6,
            (double) e->info.n_bytes / 1e6);
    return (o->max_memory - e->info.n_bytes) / (o->verify ? 2 : 1);
}

void engine_start(struct engine * e, const struct options * o) {
    struct mra_error err;
    e->params.max_bytes = memory_left(e, o);
    if (!(e->ctx = mra_context_new(e->model, &e->params, &err))) fatal(e->program, "%s", err.msg);
    if (*mra_context_note(e->ctx))
        fprintf(stderr, "%s: attention runs on the CPU: %s\n", e->program, mra_context_note(e->ctx));
    if (!o->verify) return;
    struct mra_context_params p = e->params;
    p.attention = MRA_ATTENTION_EXACT;
    p.attention_type = MRA_ATTENTION_TYPE_FLOAT;
    p.profile = false;
    p.n_error_rows = 0;
    p.max_error = 0;
    if (!(e->exact = mra_context_new(e->model, &p, &err))) fatal(e->program, "%s", err.msg);
}

void engine_close(struct engine * e) {
    mra_context_free(e->ctx);
    mra_context_free(e->exact);
    mra_plan_free(e->plan);
    mra_model_free(e->model);
}

struct mra_attention_choice engine_attention(const struct engine * e, const struct mra_seq * seqs, int n_seq) {
    struct mra_attention_choice c = mra_attention_of(e->model, &e->params, seqs[0].n);
    for (int i = 1; i < n_seq && c.exact; i++)
        if (seqs[i].n != seqs[i - 1].n) c = mra_attention_of(e->model, &e->params, seqs[i].n);
    return c;
}

void engine_say_approximate(struct engine * e, const struct mra_attention_choice * c) {
    if (c->exact || c->trained || e->params.attention != MRA_ATTENTION_AUTO || e->said_approximate) return;
    e->said_approximate = true;
    progress_clear();
    fprintf(stderr, "%s: above %d tokens attention is approximate (%s); --attn exact computes it exactly\n", e->program,
        c->exact_up_to, c->text);
}

double engine_gflop(const struct mra_model_info * info, int n_tokens, double attn_work) {
    const double n = n_tokens, d = info->n_embd, dense = 2 * n * (4 * d * d + 2 * d * info->n_ff),
                 attn = 4 * n * n * d * attn_work;
    return (dense + attn) * info->n_layer / 1e9;
}
