#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OPT_INPUT = 1000,
    OPT_COLUMN,
    OPT_NO_HEADER,
    OPT_UTF8,
    OPT_FILES,
    OPT_PATTERN,
    OPT_RESUME,
    OPT_PREFIX,
    OPT_PROMPT,
    OPT_DEVICE,
    OPT_ATTN,
    OPT_ATTN_TYPE,
    OPT_FRAME,
    OPT_BUDGET,
    OPT_PLAN,
    OPT_ERROR,
    OPT_TRUNCATE,
    OPT_MAX_TOKENS,
    OPT_BATCH,
    OPT_VERIFY,
    OPT_ESTIMATE,
    OPT_DRY_RUN,
    OPT_JSON,
    OPT_MAX_MEMORY,
    OPT_NO_MMAP,
};

#define TEXT(x)  #x
#define VALUE(x) TEXT(x) // of a macro, as text

const struct arg_opt common_options[] = {
    { 'm', "model", "FILE", "GGUF file (see convert/); required" },
    { 'f', "file", "FILE", "read records from FILE, - is standard input; may be given several times" },
    { OPT_INPUT, "input", "KIND",
        "text, jsonl, json, csv, tsv (see below); auto (default): by the file's\nending or its first line" },
    { OPT_COLUMN, "column", "NAME",
        "CSV: name or number (from 1) of the text's column; JSON: its key\n(default text)" },
    { OPT_NO_HEADER, "no-header", NULL, "CSV: the first row is a record, too" },
    { OPT_UTF8, "utf8", "HOW",
        "bytes that are not UTF-8: error (default) fails the record; replace takes the\nreplacement character "
        "U+FFFD for them" },
    { OPT_FILES, "files", NULL,
        "the arguments are files and folders: each file, also in folders of\nfolders, is one record, its path the id" },
    { OPT_PATTERN, "pattern", "GLOB", "with --files: of folders only files such as '*.txt'" },
    { 'o', "output", "FILE", "write there instead of standard output" },
    { OPT_RESUME, "resume", "FILE",
        "go on with FILE, JSON Lines of an interrupted run with the same model, options\nand input (FILE.resume says "
        "of which): finished records are not repeated, a torn\nlast line is dropped" },
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
            MRA_AUTO_EXACT) " tokens (int8: " VALUE(MRA_AUTO_EXACT_INT8) "), above that MRA: --frame and --budget, or\n"
                                                                         "where neither is given sorted, 3/8 to 1/4 by "
                                                                         "length; exact; mra" },
    { OPT_ATTN_TYPE, "attn-type", "TYPE",
        "what attention is computed in: float; int8: 3 to 6 times as fast, 1 % off (bf16\nwhere the CPU has tiles: .3 "
        "%); auto (default): int8 where the "
        "weights are quantized and this CPU gains by it" },
    { OPT_FRAME, "frame", "NAME", "of MRA: columns (default), sorted, mra2, mra2s, exact, or cell\nsizes: 16,4,1" },
    { OPT_BUDGET, "budget", "W", "of MRA: work as a fraction of exact attention's (default 1/8, see --attn)" },
    { OPT_ERROR, "error", "E",
        "of MRA: the smallest budget, for each text, whose estimated error of attention\n(see --estimate) is at most "
        "E, "
        "such as 0.05; smaller ones are tried first and cost time" },
    { OPT_PLAN, "plan", "FILE",
        "how many keys each head keeps in the sorted frame, as mra-calibrate --plan found\nit; none: all heads alike; "
        "default: the plan in the model's file, if there is one" },
    { OPT_BATCH, "batch-tokens", "N",
        "tokens computed at a time; bounds the memory (default " VALUE(MRA_DEFAULT_BATCH) ")" },
    { OPT_MAX_MEMORY, "max-memory", "SIZE",
        "memory to use at most, the model's included, such as 500M or 2G: batches become\nsmaller, a text that needs "
        "more fails alone (default: what the machine has free)" },
    { OPT_NO_MMAP, "no-mmap", NULL,
        "read the model into memory at the start instead of using its file in place: the\nfile may then be changed or "
        "deleted" },
    { 't', "threads", "N", "threads (default: all CPUs)" },
    { OPT_DEVICE, "device", "NAME",
        "cpu; cuda: the first CUDA device; auto (default): that where there is one,\nelse the CPU" },
    { OPT_VERIFY, "verify", NULL, "compute exact attention in floats as well and print the difference" },
    { OPT_ESTIMATE, "estimate", NULL,
        "say how large the error of attention is, from exact attention for " VALUE(
            MRA_DEFAULT_ERROR_ROWS) " queries of\neach head; costs little, compares no embeddings" },
    { OPT_DRY_RUN, "dry-run", NULL, "print tokens, memory and work of each record; compute nothing" },
    { 'v', "verbose", NULL, "print the model, and time by part" },
};
const int n_common_options = sizeof(common_options) / sizeof(common_options[0]);

const char common_notes[] =
    "input:\n"
    "  text   a document per line\n"
    "  jsonl  {\"id\": ..., \"text\": \"...\", \"text_pair\": \"...\"} per line; id and text_pair "
    "may be missing\n"
    "  json   an array of strings or of such objects\n"
    "  csv    columns text, id, text_pair by the first row's names, or --column; separated by "
    "commas,\n"
    "         semicolons or tabs, quoted as in RFC 4180; tsv: by tabs\n"
    "  gzip and zstd are recognised and unpacked. Parquet and other binary files are refused.\n"
    "\n"
    "exit status:\n"
    "  0    all good\n"
    "  1    failed: model, input or output\n"
    "  2    wrong usage\n"
    "  3    some records failed, each named on standard error; the others are done\n"
    "  130  interrupted; the output holds whole records only (see --resume)";

struct options options_default(void) {
    const struct mra_context_params p = mra_context_params_default();
    return (struct options) { .attn = p.attn, .device = "auto", .batch_tokens = p.n_batch };
}

static void add_file(struct options * o, const struct args * a) {
    char ** files = realloc(o->files, (size_t) (o->n_files + 1) * sizeof(*files));
    if (!files) fatal(a->program, "out of memory");
    o->files = files;
    o->files[o->n_files++] = (char *) a->value;
}
static const char * long_name(const struct args * a, int id) {
    for (int i = 0; i < a->n_opt; i++)
        if (a->opts[i].id == id) return a->opts[i].name;
    for (int i = 0; i < a->n_common; i++)
        if (a->common[i].id == id) return a->common[i].name;
    return "";
}

static int compare_text(const void * a, const void * b) { return strcmp(*(char * const *) a, *(char * const *) b); }

void options_say(struct options * o, const struct args * a, int id) {
    static const char * const others[] = { "model", "file", "output", "resume", "json", "batch-tokens", "max-memory",
        "no-mmap", "threads", "device", "dry-run", "verbose", "files" };
    const char * name = long_name(a, id);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(name, others[i]) == 0) return;
    char ** said = realloc(o->said_each, (size_t) (o->n_said + 1) * sizeof(*said));
    if (!said) fatal(a->program, "out of memory");
    o->said_each = said;
    if (asprintf(&said[o->n_said], "--%s%s%s", name, a->value ? " " : "", a->value ? a->value : "") < 0)
        fatal(a->program, "out of memory");
    o->n_said++;
}

// what was said, independent of its order
static void join_said(struct options * o, const struct args * a) {
    if (o->n_said) qsort(o->said_each, (size_t) o->n_said, sizeof(*o->said_each), compare_text);
    for (int i = 0; i < o->n_said; i++) {
        char * next = NULL;
        if (asprintf(&next, "%s%s%s", o->said ? o->said : "", i ? " " : "", o->said_each[i]) < 0)
            fatal(a->program, "out of memory");
        free(o->said);
        o->said = next;
    }
}

void options_free(struct options * o) {
    for (int i = 0; i < o->n_said; i++) free(o->said_each[i]);
    free(o->said_each);
    free(o->said);
    free(o->files);
    o->files = NULL;
}

bool options_take(struct options * o, const struct args * a, int id) {
    struct mra_error err;
    switch (id) {
        case 'm': o->model = a->value; break;
        case 'f': add_file(o, a); break;
        case 'o': o->out = a->value; break;
        case 't': o->n_threads = (int) args_int(a, 1, GGML_MAX_N_THREADS); break;
        case 'v': o->verbose = true; break;
        case OPT_INPUT: o->input.kind = (enum input_kind) args_choice(a, "auto|text|jsonl|json|csv|tsv"); break;
        case OPT_COLUMN: o->input.column = a->value; break;
        case OPT_NO_HEADER: o->input.no_header = true; break;
        case OPT_UTF8: o->input.replace = args_choice(a, "error|replace") == 1; break;
        case OPT_FILES: o->whole_files = true; break;
        case OPT_PATTERN: o->input.pattern = a->value; break;
        case OPT_RESUME: o->resume = a->value; break;
        case OPT_PREFIX: o->prefix = args_text(a); break;
        case OPT_PROMPT: o->prompt = a->value; break;
        case OPT_JSON: o->json = true; break;
        case OPT_TRUNCATE: o->truncate = (enum truncate) args_choice(a, "error|right|chunk"); break;
        case OPT_MAX_TOKENS: o->max_tokens = (int) args_int(a, 1, 1 << 30); break;
        case OPT_ATTN: o->attention = (enum mra_attention) args_choice(a, "auto|exact|mra"); break;
        case OPT_ATTN_TYPE: o->attention_type = (enum mra_attention_type) args_choice(a, "auto|float|int8"); break;
        case OPT_BUDGET:
            o->attn.budget = (float) args_real(a, 1e-6, 1);
            o->budget_given = true;
            break;
        case OPT_PLAN: o->plan = a->value; break;
        case OPT_ERROR:
            o->max_error = (float) args_real(a, 1e-6, 1);
            o->estimate = true;
            break;
        case OPT_BATCH: o->batch_tokens = (int) args_int(a, 1, 1 << 24); break;
        case OPT_DEVICE:
            args_choice(a, "cpu|cuda|auto");
            o->device = a->value;
            break;
        case OPT_VERIFY: o->verify = true; break;
        case OPT_ESTIMATE: o->estimate = true; break;
        case OPT_DRY_RUN: o->dry_run = true; break;
        case OPT_MAX_MEMORY: o->max_memory = args_bytes(a); break;
        case OPT_NO_MMAP: o->no_mmap = true; break;
        case OPT_FRAME:
            if (mra_attn_params_parse(&o->attn, a->value, &err) != MRA_OK)
                usage_error(a->program, "--frame: %s", err.msg);
            break;
        default: return false;
    }
    return true;
}

bool same_file(const char * a, const char * b) {
    struct stat x, y;
    if (!a || !b || strcmp(b, "-") == 0) return false;
    const int got = strcmp(a, "-") == 0 ? fstat(STDIN_FILENO, &x) : stat(a, &x);
    return got == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// where records come from: operands, -f, --files
static void choose_input(struct options * o, const struct args * a, int n_texts, char ** texts) {
    struct input_options * in = &o->input;
    static char std[] = "-", *only_std[] = { std };
    if (n_texts == 1 && strcmp(texts[0], "-") == 0 && !o->whole_files) {
        if (o->n_files && strcmp(o->files[0], "-") != 0) usage_error(a->program, "both -f %s and -", o->files[0]);
        n_texts = 0;
    } else if (!n_texts && !o->n_files && isatty(STDIN_FILENO)) {
        usage_error(a->program, "nothing to do: give texts, -f FILE, or - for standard input (see --help)");
    }
    if (o->n_files && n_texts)
        usage_error(
            a->program, "both -f and %s on the command line ('%s')", o->whole_files ? "--files" : "texts", texts[0]);
    if (o->whole_files && !n_texts) usage_error(a->program, "--files: no file or folder (see --help)");
    if (in->pattern && !o->whole_files) usage_error(a->program, "--pattern needs --files");
    in->from = o->whole_files ? FROM_FILES : n_texts ? FROM_ARGUMENTS : FROM_LINES;
    in->names = n_texts ? texts : o->n_files ? o->files : only_std;
    in->n_names = n_texts ? n_texts : o->n_files ? o->n_files : 1;
    if (in->from != FROM_LINES && (in->kind || in->column || in->no_header))
        usage_error(a->program, "--input, --column and --no-header are for -f and standard input");
    if (in->column && in->kind == INPUT_TEXT) usage_error(a->program, "--column needs CSV or JSON, not --input text");
    for (int i = 0, n = 0; i < in->n_names; i++)
        if (in->from == FROM_LINES && strcmp(in->names[i], "-") == 0 && ++n > 1)
            usage_error(a->program, "standard input can be read only once");
}

static void check_output(const struct options * o, const struct args * a) {
    bool same = same_file(o->model, o->out);
    for (int i = 0; i < o->input.n_names && o->input.from != FROM_ARGUMENTS; i++)
        same = same || same_file(o->input.names[i], o->out);
    if (same) usage_error(a->program, "-o %s would overwrite what is being read", o->out);
}

void options_end(struct options * o, const struct args * a, int argc, char ** argv) {
    if (!o->model) usage_error(a->program, "no model: -m FILE (see --help)");
    choose_input(o, a, argc - optind, argv + optind);
    if (o->max_error > 0 && o->budget_given) usage_error(a->program, "--error and --budget exclude each other");
    if (o->max_error > 0 && o->attention == MRA_ATTENTION_EXACT)
        usage_error(a->program, "--error and --attn exact exclude each other");
    if (o->prefix && o->prompt) usage_error(a->program, "--prefix and --prompt exclude each other");
    if (o->resume) {
        if (o->out && strcmp(o->out, o->resume) != 0)
            usage_error(a->program, "--resume %s and -o %s name different files", o->resume, o->out);
        if (o->input.from == FROM_ARGUMENTS) usage_error(a->program, "--resume needs records from a file or a pipe");
        if (o->dry_run) usage_error(a->program, "--resume and --dry-run exclude each other");
        o->out = o->resume;
        o->json = true;
    }
    check_output(o, a);
    join_said(o, a);
}
