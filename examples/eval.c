// mra-eval: the paper's studies on Q, K and V of a model over given texts: how far each frame is from exact attention,
// at which work, time and memory, and how that depends on the entropy of the attention.
#include "eval.h"
#include "common/output.h"
#include "common/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_FRAME = 2000, OPT_BUDGET, OPT_TEXTS, OPT_CAPTURE, OPT_HEADS, OPT_REPS };

static const struct arg_opt opts[] = {
    { 'n', "length", "LIST", "lengths in tokens: texts that have as many are cut to them (default 512)" },
    { OPT_FRAME, "frame", "NAME",
        "frame to study, as in the other programs, or int8: exact in integers; may be given\nseveral times (default: "
        "mra2, mra2s, 16,4,1, 64,16,4,1, columns, sorted, int8)" },
    { OPT_BUDGET, "budget", "LIST", "work as fractions of exact attention's (default 1/16,1/8,1/4,1/2)" },
    { OPT_TEXTS, "texts", "N", "texts of each length, at most (default 4)" },
    { OPT_REPS, "reps", "N", "runs of each attention, of which the shortest is the time (default 1)" },
    { OPT_HEADS, "by-head", NULL, "errors and entropy of every head, not of fifths of them" },
    { OPT_CAPTURE, "capture", "FILE",
        "write Q, K, V of the first text as FILE.npy [3][heads][n][d] instead, for mra-bench attn\n--qkv; above 256 MB "
        "only some of the heads" },
};

static const char notes[] =
    "output:\n"
    "  A line per length, frame and budget, then errors by the entropy of the attention. --json: a JSON line for\n"
    "  each, and one for every head. Q, K and V are those of exact attention in floats. Layers that attend within\n"
    "  a window are left out.\n"
    "\n"
    "examples:\n"
    "  mra-eval -m roberta.gguf --files docs/ -n 512\n"
    "  mra-eval -m roberta-16k.gguf --files docs/ -n 1024,4096 --frame mra2 --frame sorted --budget 1/8,1/4 --json\n"
    "  mra-eval -m roberta.gguf -f texts.txt --capture qkv.npy && mra-bench attn --qkv qkv.npy -n 512\n"
    "\n"
    "input:\n"
    "  Texts as for the other programs (mra-embed --help): lines, JSON Lines, JSON, CSV, or with --files whole files.\n"
    "\n"
    "exit status:\n"
    "  0    all good\n"
    "  1    failed: model, input or output, or no text is long enough\n"
    "  2    wrong usage\n"
    "  3    some texts could not be read, each named on standard error; the others are done\n"
    "  130  interrupted; nothing is written";

static const char name[] = "mra-eval";

static void option(void * user, struct options * o, const struct args * a, int id) {
    struct eval * e = user;
    (void) o;
    switch (id) {
        case 'n': e->n_lengths = args_ints(a, 1, 1 << 20, e->lengths, EVAL_LENGTHS); break;
        case OPT_FRAME:
            if (e->n_frames == EVAL_FRAMES) usage_error(a->program, "--frame: more than %d", EVAL_FRAMES);
            e->frames[e->n_frames++] = a->value;
            break;
        case OPT_BUDGET: e->n_budgets = args_reals(a, 1e-6, 1, e->budgets, EVAL_BUDGETS); break;
        case OPT_TEXTS: e->n_texts = (int) args_int(a, 1, 1 << 20); break;
        case OPT_REPS: e->reps = (int) args_int(a, 1, 1000); break;
        case OPT_HEADS: e->by_head = true; break;
        case OPT_CAPTURE: e->capture = a->value; break;
    }
}

static void add_settings(struct eval * e, const char * frame, const struct args * a) {
    const bool int8 = strcmp(frame, "int8") == 0;
    struct mra_attn_params p = mra_attn_params_default();
    struct mra_error err;
    if (mra_attn_params_parse(&p, int8 ? "exact" : frame, &err) != MRA_OK)
        usage_error(a->program, "--frame: %s", err.msg);
    if (int8) p.type = MRA_ATTN_INT8;
    for (int i = 0; i < (p.frame == MRA_FRAME_EXACT ? 1 : e->n_budgets); i++) {
        p.budget = (float) e->budgets[i];
        e->settings[e->n_settings++] = (struct setting) { int8 ? "exact" : frame, p };
    }
}

static void check(void * user, struct options * o, const struct args * a) {
    static const char * const all[] = { "mra2", "mra2s", "16,4,1", "64,16,4,1", "columns", "sorted", "int8" };
    static const double budgets[] = { 1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2 };
    struct eval * e = user;
    if (!e->n_lengths) e->lengths[e->n_lengths++] = 512;
    if (!e->n_frames)
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) e->frames[e->n_frames++] = all[i];
    if (!e->n_budgets) {
        memcpy(e->budgets, budgets, sizeof(budgets));
        e->n_budgets = sizeof(budgets) / sizeof(budgets[0]);
    }
    for (int i = 0; i < e->n_frames; i++) add_settings(e, e->frames[i], a);
    for (int i = 0; i < e->n_lengths; i++)
        for (int k = 0; k < i; k++)
            if (e->lengths[i] == e->lengths[k])
                usage_error(a->program, "-n: %lld is there twice", (long long) e->lengths[i]);
    if (e->capture && e->n_lengths > 1) usage_error(a->program, "--capture takes one length, not %d", e->n_lengths);
    if (same_file(o->model, e->capture)) usage_error(a->program, "--capture %s would overwrite the model", e->capture);
    o->device = "cpu";
    e->json = o->json;
}

static const struct program program = {
    .name = name,
    .usage = "-m MODEL [options] [TEXT... | -f FILE | -]",
    .about = "The error of approximate attention on a model's own Q, K and V, against work, length and entropy.",
    .notes = notes,
    .own_notes = true,
    .opts = opts,
    .n_opt = sizeof(opts) / sizeof(opts[0]),
    .without = "output|resume|prompt|truncate|max-tokens|attn|attn-type|frame|budget|batch-tokens|device|verify|"
               "estimate|error|plan|dry-run|verbose",
    .own_formats = true,
    .option = option,
    .check = check,
};

// One text with each length that it has; false: stop. *longest: tokens of a text
static bool study_text(struct stream * s, const struct record * r, size_t * longest) {
    struct eval * e = s->user;
    const struct mra_output want = { .kind = MRA_OUTPUT_POOLED, .pooling = MRA_POOLING_MEAN };
    struct mra_error err = { 0 };
    for (int l = 0; l < e->n_lengths && !err.code; l++) {
        struct mra_token_list list = { 0 };
        struct mra_result result;
        if (e->done[l] == (e->capture ? 1 : e->n_texts)) continue;
        if (mra_model_tokenize(s->engine.model, r->text, r->n_text, NULL, 0, (int) e->lengths[l], &list, &err) ==
            MRA_OK) {
            const struct mra_seq seq = { .n = (int) list.n, .tokens = list.data };
            if (list.n > *longest) *longest = list.n;
            if ((int64_t) list.n == e->lengths[l]) {
                progress("%lld tokens, text %d", (long long) e->lengths[l], e->done[l] + 1);
                mra_encode(s->engine.ctx, &seq, 1, &want, &result, &err);
                e->done[l]++;
            }
        }
        mra_token_list_free(&list);
    }
    if (e->err.code) err = e->err;
    if (err.code && !interrupted()) {
        progress_clear();
        fatal(name, "%s %lld: %s", r->place, (long long) r->line, err.msg);
    }
    return !err.code;
}

static bool all_done(const struct eval * e) {
    for (int l = 0; l < e->n_lengths; l++)
        if (e->done[l] < (e->capture ? 1 : e->n_texts)) return false;
    return true;
}

// all texts; returns how many could not be used
static int study_texts(struct stream * s, size_t * longest) {
    const struct eval * e = s->user;
    struct mra_error err;
    int n_failed = 0;
    if (input_open(&s->in, &s->o->input, &err) != MRA_OK) fatal(name, "%s", err.msg);
    for (bool more = true; more && !interrupted() && !all_done(e);) {
        struct item it = { 0 };
        const enum input_state st = input_next(&s->in, &it.rec, true, &err);
        if (st == INPUT_FAILED && err.code != MRA_OK) fatal(name, "%s", err.msg);
        if (st != INPUT_RECORD) more = false;
        else if (it.rec.status != MRA_OK) {
            fprintf(stderr, "%s: %s %lld: %s\n", name, it.rec.place, (long long) it.rec.line, it.rec.error);
            n_failed++;
        } else {
            item_add_prefix(&it, &s->rules);
            more = study_text(s, &it.rec, longest);
        }
        record_free(&it.rec);
    }
    input_close(&s->in);
    progress_clear();
    return n_failed;
}

int main(int argc, char ** argv) {
    static struct eval e = { .n_texts = 4, .reps = 1 };
    struct options o;
    struct stream s;
    program_open(&program, &e, &s, &o, argc, argv);
    const struct mra_model_info * info = &s.engine.info;
    for (int l = 0; l < e.n_lengths; l++)
        if (e.lengths[l] > info->n_ctx)
            fatal(name, "-n %lld: the model has %d positions", (long long) e.lengths[l], info->n_ctx);
    e.n_threads = o.n_threads ? o.n_threads : (int) sysconf(_SC_NPROCESSORS_ONLN);
    s.engine.params.attention = MRA_ATTENTION_EXACT;
    s.engine.params.attention_type = MRA_ATTENTION_TYPE_FLOAT;
    s.engine.params.on_attention = e.capture ? eval_capture : eval_study;
    s.engine.params.on_attention_user = &e;
    engine_start(&s.engine, &o);
    if (e.capture) eval_capture_begin(&e, info, name);
    size_t longest = 0;
    const int n_failed = study_texts(&s, &longest);
    if (!interrupted()) {
        int n_done = 0;
        for (int l = 0; l < e.n_lengths; l++) {
            n_done += e.done[l];
            if (!e.done[l])
                fprintf(stderr, "%s: no text has %lld tokens, the longest has %zu\n", name, (long long) e.lengths[l],
                    longest);
        }
        if (!n_done) exit(1);
        if (e.n_near) fprintf(stderr, "%s: layers that attend within a window or with ALiBi are left out\n", name);
        if (e.capture) eval_capture_write(&e, name);
        else eval_print(&e, o.model);
    }
    engine_close(&s.engine);
    options_free(&o);
    free(e.heads);
    free(e.qkv);
    return output_close(name, interrupted() ? 130 : n_failed ? 3 : 0);
}
