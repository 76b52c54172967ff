#include "options.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OPT_INPUT = 1000,
    OPT_RESUME,
    OPT_PREFIX,
    OPT_PROMPT,
    OPT_DEVICE,
    OPT_ATTN,
    OPT_FRAME,
    OPT_BUDGET,
    OPT_TRUNCATE,
    OPT_MAX_TOKENS,
    OPT_BATCH,
    OPT_VERIFY,
    OPT_DRY_RUN,
    OPT_JSON,
};

#define TEXT(x)  #x
#define VALUE(x) TEXT(x) // of a macro, as text

const struct arg_opt common_options[] = {
    { 'm', "model", "FILE", "GGUF file (see convert/); required" },
    { 'f', "file", "FILE", "read records from FILE, - is standard input" },
    { OPT_INPUT, "input", "KIND",
        "text: a document per line; jsonl: {\"id\", \"text\", \"text_pair\"} per line;\nauto (default): by the file's "
        "ending or its first line" },
    { 'o', "output", "FILE", "write there instead of standard output" },
    { OPT_RESUME, "resume", "FILE",
        "go on with FILE, JSON Lines of an interrupted run over the same input:\nfinished records are not repeated, a "
        "torn last line is dropped" },
    { OPT_PREFIX, "prefix", "TEXT", "put TEXT before every text, such as \"query: \"" },
    { OPT_PROMPT, "prompt", "NAME",
        "put the model's prompt of that name before every text (embeddings: its default\nprompt, if it has one, is put "
        "there anyway; --prefix \"\" for none)" },
    { OPT_JSON, "json", NULL, "write JSON Lines" },
    { OPT_TRUNCATE, "truncate", "HOW",
        "texts above the limit: error (default) fails the record;\nright drops the end (of the longer text of a "
        "pair)" },
    { OPT_MAX_TOKENS, "max-tokens", "N", "that limit, special tokens included (default: the model's)" },
    { OPT_ATTN, "attn", "KIND",
        "auto (default): a model trained with MRA as trained, others exact up\nto " VALUE(
            MRA_AUTO_EXACT) " tokens, above that MRA; exact; mra" },
    { OPT_FRAME, "frame", "NAME", "of MRA: columns (default), mra2, mra2s, exact, or cell sizes: 16,4,1" },
    { OPT_BUDGET, "budget", "W", "of MRA: work as a fraction of exact attention's (default 1/8)" },
    { OPT_BATCH, "batch-tokens", "N",
        "tokens computed at a time; bounds the memory (default " VALUE(MRA_DEFAULT_BATCH) ")" },
    { 't', "threads", "N", "threads (default: all CPUs)" },
    { OPT_DEVICE, "device", "NAME",
        "cpu; cuda: the first CUDA device; auto (default): that where there is one,\nelse the CPU" },
    { OPT_VERIFY, "verify", NULL, "compute exact attention as well and print the difference" },
    { OPT_DRY_RUN, "dry-run", NULL, "print tokens, memory and work of each record; compute nothing" },
    { 'v', "verbose", NULL, "print the model, and time by part" },
};
const int n_common_options = sizeof(common_options) / sizeof(common_options[0]);

const char common_notes[] = "exit status:\n"
                            "  0    all good\n"
                            "  1    failed: model, input or output\n"
                            "  2    wrong usage\n"
                            "  3    some records failed, each named on standard error; the others are done\n"
                            "  130  interrupted; the output holds whole records only (see --resume)";

struct options options_default(void) {
    const struct mra_context_params p = mra_context_params_default();
    return (struct options) { .attn = p.attn, .device = "auto", .batch_tokens = p.n_batch };
}

bool options_take(struct options * o, const struct args * a, int id) {
    struct mra_error err;
    switch (id) {
        case 'm': o->model = a->value; break;
        case 'f': o->file = a->value; break;
        case 'o': o->out = a->value; break;
        case 't': o->n_threads = (int) args_int(a, 1, GGML_MAX_N_THREADS); break;
        case 'v': o->verbose = true; break;
        case OPT_INPUT: o->input = (enum input_kind) args_choice(a, "auto|text|jsonl"); break;
        case OPT_RESUME: o->resume = a->value; break;
        case OPT_PREFIX: o->prefix = a->value; break;
        case OPT_PROMPT: o->prompt = a->value; break;
        case OPT_JSON: o->json = true; break;
        case OPT_TRUNCATE: o->truncate = (enum truncate) args_choice(a, "error|right|chunk"); break;
        case OPT_MAX_TOKENS: o->max_tokens = (int) args_int(a, 1, 1 << 30); break;
        case OPT_ATTN: o->attention = (enum mra_attention) args_choice(a, "auto|exact|mra"); break;
        case OPT_BUDGET: o->attn.budget = (float) args_real(a, 1e-6, 1); break;
        case OPT_BATCH: o->batch_tokens = (int) args_int(a, 1, 1 << 24); break;
        case OPT_DEVICE:
            args_choice(a, "cpu|cuda|auto");
            o->device = a->value;
            break;
        case OPT_VERIFY: o->verify = true; break;
        case OPT_DRY_RUN: o->dry_run = true; break;
        case OPT_FRAME:
            if (mra_attn_params_parse(&o->attn, a->value, &err) != MRA_OK)
                usage_error(a->program, "--frame: %s", err.msg);
            break;
        default: return false;
    }
    return true;
}

static bool same_file(const char * a, const char * b) {
    struct stat x, y;
    if (!a || !b || strcmp(b, "-") == 0) return false;
    const int got = strcmp(a, "-") == 0 ? fstat(STDIN_FILENO, &x) : stat(a, &x);
    return got == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

void options_end(struct options * o, const struct args * a, int argc, char ** argv) {
    o->texts = argv + optind;
    o->n_texts = argc - optind;
    if (!o->model) usage_error(a->program, "no model: -m FILE (see --help)");
    if (o->n_texts == 1 && strcmp(o->texts[0], "-") == 0) {
        if (o->file && strcmp(o->file, "-") != 0) usage_error(a->program, "both -f %s and -", o->file);
        o->file = "-";
        o->n_texts = 0;
    }
    if (o->prefix && o->prompt) usage_error(a->program, "--prefix and --prompt exclude each other");
    if (o->file && o->n_texts) usage_error(a->program, "both -f and texts on the command line ('%s')", o->texts[0]);
    if (!o->file && !o->n_texts) {
        if (isatty(STDIN_FILENO))
            usage_error(a->program, "nothing to do: give texts, -f FILE, or - for standard input (see --help)");
        o->file = "-";
    }
    if (o->resume) {
        if (o->out && strcmp(o->out, o->resume) != 0)
            usage_error(a->program, "--resume %s and -o %s name different files", o->resume, o->out);
        if (!o->file) usage_error(a->program, "--resume needs records from a file or a pipe");
        if (o->dry_run) usage_error(a->program, "--resume and --dry-run exclude each other");
        o->out = o->resume;
        o->json = true;
    }
    if (same_file(o->file, o->out) || same_file(o->model, o->out))
        usage_error(a->program, "-o %s would overwrite what is being read", o->out);
}
