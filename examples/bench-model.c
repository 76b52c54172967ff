// mra-bench model: options, the contenders' turns, and their rows.
#include "bench-model-ask.h"
#include "bench-rows.h"

#include "common/args.h"
#include "common/output.h"

#include "ggml-mra.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "mra-bench model";

enum { MAX_LIST = 16, MAX_TOKENS = 1 << 20 };
enum { OPT_FRAME = 256, OPT_BUDGET, OPT_ATTN_TYPE, OPT_REPS, OPT_SEED, OPT_COSINE, OPT_WORKER, OPT_JSON, OPT_NO_MMAP };

static const struct arg_opt opts[] = {
    { 'm', "model", "FILE", "GGUF file (see convert/); required" },
    { 'n', "tokens", "LIST", "lengths, default 512" },
    { OPT_FRAME, "frame", "NAME",
        "exact, columns, sorted, mra2, mra2s, or sizes such as 16,4,1; may be\ngiven several times; default exact and "
        "columns" },
    { OPT_BUDGET, "budget", "LIST", "work as a fraction of exact attention's, default 1/8" },
    { OPT_ATTN_TYPE, "attn-type", "TYPE",
        "what attention is computed in: float, int8, both (a contender for each), or\nauto (default): int8 where the "
        "weights are quantized and this CPU gains" },
    { 't', "threads", "N", "threads, default the number of CPUs" },
    { OPT_REPS, "reps", "N", "runs of every contender; default 5 and 1 s, or 20 s" },
    { OPT_SEED, "seed", "N", "seed of the token ids, default 1" },
    { OPT_COSINE, "cosine", "N",
        "compare with exact attention up to N tokens even where exact is no\ncontender; default 4096" },
    { OPT_NO_MMAP, "no-mmap", NULL, "read the model into memory instead of using its file in place" },
    { OPT_WORKER, "worker", NULL, "take jobs from standard input instead: see below" },
    { OPT_JSON, "json", NULL, "JSON lines" },
};

static const char notes[] =
    "One sequence of n random tokens, embedded: the mean of the last hidden states. Every contender (a frame and a "
    "budget) has a process\n"
    "of its own. Each is validated first, on a cut of the tokens: kernels against the scalar reference, one thread "
    "against\n"
    "all of them bit for bit; and the whole embedding for NaN. A failure ends the run with exit code 1. Then they take "
    "turns.\n"
    "Columns, and fields of the JSON lines:\n"
    "  work       of attention, as a fraction of exact attention's\n"
    "  s          seconds, median; best: the fastest; tokens/s: of the median. The model is loaded and the memory "
    "warm\n"
    "  dense      share of the time in matrix products, attention: in attention's operators, rest: in everything else; "
    "from a run of its\n"
    "             own, node by node. JSON lines have the times: dense_ms, attention_ms, rest_ms, by operator (ops_ms) "
    "and by part (parts_ms)\n"
    "  cosine     of the embedding to that of exact attention in floats\n"
    "  peak       memory of the process at its highest, the file's mapped pages included, MB\n"
    "With --worker a program drives the runs. Standard input has a job per line, {\"frame\": \"columns\", \"budget\": "
    "0.125, \"ids\": [0, 5, 2]},\n"
    "optionally \"attn_type\", \"pooling\" (mean, cls), \"threads\", \"isa\", \"profile\"; standard output says what "
    "the model is, then an "
    "answer per job: "
    "seconds, peak_mb, embedding.\n"
    "\n"
    "examples:\n"
    "  mra-bench model -m model.gguf -n 512,4096 -t 2\n"
    "  mra-bench model -m model.gguf -n 16384 --frame columns --budget 1/16,1/8 --json > model.jsonl";

struct options {
    const char * model;
    int64_t n[MAX_LIST];
    double budgets[MAX_LIST];
    const char * frames[MAX_LIST];
    int n_n, n_budgets, n_frames;
    int type; // 0 auto, 1 float, 2 int8, 3 both
    int threads, reps;
    int64_t cosine;
    uint64_t seed;
    bool worker, json, no_mmap;
};

// ---- options ---------------------------------------------------------------------------------------------------

static void check_options(const struct options * o) {
    for (int f = 0; f < o->n_frames; f++) check_frame(program, o->frames[f], o->budgets, o->n_budgets);
    if (!o->model) usage_error(program, "no model: -m FILE (see --help)");
    if (o->n_frames * o->n_budgets * 2 >= MAX_CONTENDERS)
        usage_error(program, "more than %d contenders", MAX_CONTENDERS / 2 - 1);
}

static void parse_options(struct options * o, int argc, char ** argv) {
    struct args a = {
        .program = program,
        .usage = "-m FILE [options]",
        .opts = opts,
        .n_opt = sizeof(opts) / sizeof(opts[0]),
        .notes = notes,
        .about =
            "Validates, then times a whole model on one sequence of n tokens, with each of several kinds of attention."
    };
    *o = (struct options) { .threads = cpu_count(), .seed = 1, .cosine = 4096 };
    for (int id; (id = args_next(&a, argc, argv)) != -1;) {
        switch (id) {
            case 'm': o->model = a.value; break;
            case 'n': o->n_n = args_ints(&a, 1, MAX_TOKENS, o->n, MAX_LIST); break;
            case OPT_FRAME:
                if (o->n_frames == MAX_LIST) usage_error(program, "more than %d frames", MAX_LIST);
                o->frames[o->n_frames++] = a.value;
                break;
            case OPT_BUDGET: o->n_budgets = args_reals(&a, 1e-6, 1, o->budgets, MAX_LIST); break;
            case OPT_ATTN_TYPE: o->type = args_choice(&a, "auto|float|int8|both"); break;
            case 't': o->threads = (int) args_int(&a, 1, 512); break;
            case OPT_REPS: o->reps = (int) args_int(&a, 1, MAX_REPS); break;
            case OPT_SEED: o->seed = (uint64_t) args_int(&a, 0, INT64_MAX); break;
            case OPT_COSINE: o->cosine = args_int(&a, 0, MAX_TOKENS); break;
            case OPT_WORKER: o->worker = true; break;
            case OPT_NO_MMAP: o->no_mmap = true; break;
            case OPT_JSON: o->json = true; break;
        }
    }
    args_end(&a, argc, argv);
    if (o->n_frames == 0) {
        o->frames[0] = "exact";
        o->frames[1] = "columns";
        o->n_frames = 2;
    }
    if (o->n_budgets == 0) o->budgets[o->n_budgets++] = 0.125;
    if (o->n_n == 0) o->n[o->n_n++] = 512;
    check_options(o);
}

// ---- rows ------------------------------------------------------------------------------------------------------

static const struct table_col cols[] = {
    { "n", 6, false },
    { "frame", 8, true },
    { "type", 5, true },
    { "budget", 7, false },
    { "work", 6, false },
    { "s", 7, false },
    { "best", 7, false },
    { "tokens/s", 8, false },
    { "dense", 5, false },
    { "attention", 9, false },
    { "rest", 5, false },
    { "cosine", 8, false },
    { "peak", 6, false },
};
enum { N_COLS = sizeof(cols) / sizeof(cols[0]) };

static void print_row(const struct bench * b, struct contender * c, double cosine) {
    const double s = median(c->s, c->n_s), best = c->s[0],
                 peak = number(c->last, "peak_mb"); // the profile's run does not count
    const double dense = number(c->profile, "dense_ms"), attention = number(c->profile, "attention_ms"),
                 rest = number(c->profile, "rest_ms"), all = dense + attention + rest;
    if (!b->o->json) {
        char t[N_COLS][32];
        snprintf(t[0], 32, "%lld", (long long) b->n);
        snprintf(t[1], 32, "%s", c->frame);
        snprintf(t[2], 32, "%s", type_of(c->last));
        snprintf(t[3], 32, "%.4g", c->budget);
        fmt_real(t[4], number(c->last, "work"), 3);
        fmt_real(t[5], s, 4);
        fmt_real(t[6], best, 4);
        fmt_real(t[7], (double) b->n / s, 4);
        fmt_share(t[8], dense / all);
        fmt_share(t[9], attention / all);
        fmt_share(t[10], rest / all);
        fmt_real(t[11], cosine, 6);
        fmt_real(t[12], peak, 4);
        table_row(cols, N_COLS, t);
        return;
    }
    cJSON * o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "bench", "model");
    cJSON_AddNumberToObject(o, "n", (double) b->n);
    cJSON_AddStringToObject(o, "frame", c->frame);
    cJSON_AddStringToObject(o, "attn_type", type_of(c->last));
    json_real(o, "budget", c->budget, 7);
    json_real(o, "work", number(c->last, "work"), 6);
    json_real(o, "seconds", s, 6);
    json_real(o, "seconds_best", best, 6);
    json_real(o, "tokens_per_second", (double) b->n / s, 6);
    json_real(o, "cosine", cosine, 8);
    json_real(o, "peak_mb", peak, 6);
    static const char * const times[] = { "dense_ms", "attention_ms", "rest_ms", "ops_ms", "parts_ms" };
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        cJSON_AddItemToObject(o, times[i], cJSON_Duplicate(cJSON_GetObjectItem(c->profile, times[i]), true));
    cJSON_AddNumberToObject(o, "reps", c->n_s);
    cJSON_AddItemToObject(o, "model", cJSON_Duplicate(b->about, true));
    json_machine(o, cJSON_GetStringValue(cJSON_GetObjectItem(c->last, "isa")), b->o->threads);
    json_line(o);
}

// ---- one length ------------------------------------------------------------------------------------------------

static bool enough(const struct contender * c, int reps) {
    if (reps > 0) return c->n_s >= reps;
    return c->n_s == MAX_REPS || (c->n_s > 0 && c->total >= 20) || (c->n_s >= 5 && c->total >= 1);
}

// A round gives everybody one run. The first one warms up and counts only if it is long.
static enum mra_status measure(struct bench * b, struct mra_error * err) {
    enum mra_status st = MRA_OK;
    bool busy = true;
    for (int round = 0; busy && st == MRA_OK; round++) {
        busy = false;
        for (int i = 0; i < b->n_c && st == MRA_OK; i++) {
            struct contender * c = &b->c[i];
            if ((c->is_extra && round > 0) || (!c->is_extra && enough(c, b->o->reps))) continue;
            progress("n %lld, round %d, %s, budget %g", (long long) b->n, round, c->frame, c->budget);
            st = run_once(b, c, err);
            if (st != MRA_OK || c->is_extra) continue;
            const double s = number(c->last, "seconds");
            if (round > 0 || s >= 5) {
                c->s[c->n_s++] = s;
                c->total += s;
            }
            busy = busy || !enough(c, b->o->reps);
        }
    }
    for (int i = 0; i < b->n_c && st == MRA_OK; i++)
        if (!b->c[i].is_extra) st = ask(b, &b->c[i], b->n, 0, NULL, true, &b->c[i].profile, err);
    return st;
}

static void add_contender(struct bench * b, const char * frame, const char * type, double budget, bool is_extra) {
    b->c[b->n_c++] = (struct contender) { .frame = frame, .type = type, .budget = budget, .is_extra = is_extra };
}

static const struct contender * exact_of(const struct bench * b) {
    for (int i = 0; i < b->n_c; i++)
        if (strcmp(b->c[i].frame, "exact") == 0 && strcmp(b->c[i].type, "float") == 0) return &b->c[i];
    return NULL;
}

static void choose_contenders(struct bench * b) {
    const struct options * o = b->o;
    b->n_c = 0;
    for (int f = 0; f < o->n_frames; f++) {
        const bool exact = strcmp(o->frames[f], "exact") == 0; // has no budget
        for (int w = 0; w < (exact ? 1 : o->n_budgets); w++) {
            static const char * const types[] = { "auto", "float", "int8" };
            for (int t = 0; t < 3; t++)
                if (o->type == t || (o->type == 3 && t > 0))
                    add_contender(b, o->frames[f], types[t], exact ? 1 : o->budgets[w], false);
        }
    }
    if (!exact_of(b) && b->n <= o->cosine) add_contender(b, "exact", "float", 1, true);
}

static bool rows_of_length(struct bench * b) {
    struct mra_error err;
    enum mra_status st = MRA_OK;
    int i = 0;
    choose_contenders(b);
    for (; i < b->n_c && st == MRA_OK; i++) {
        cJSON * about;
        progress("n %lld, checking %s, budget %g", (long long) b->n, b->c[i].frame, b->c[i].budget);
        st = worker_start(&b->c[i].w, b->o->model, b->o->threads, b->o->no_mmap, &about, &err);
        cJSON_Delete(about);
        if (st == MRA_OK) st = check_cut(b, &b->c[i], &err);
    }
    if (st == MRA_OK) st = measure(b, &err);
    progress_clear();
    if (st != MRA_OK) row_failed(program, st, &err, "n %lld", (long long) b->n);
    const struct contender * exact = exact_of(b);
    for (i = 0; i < b->n_c; i++) {
        struct contender * c = &b->c[i];
        if (st == MRA_OK && !c->is_extra) print_row(b, c, exact ? compare(c->last, exact->last).cosine : NAN);
    }
    for (i = 0; i < b->n_c; i++) {
        worker_stop(&b->c[i].w);
        cJSON_Delete(b->c[i].last);
        cJSON_Delete(b->c[i].profile);
    }
    return st == MRA_OK && output_flush();
}

// ---- all of them -----------------------------------------------------------------------------------------------

static void make_ids(struct bench * b, uint64_t seed) {
    const int n_vocab = (int) number(b->about, "vocab");
    for (int64_t i = 0; i < b->n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        b->ids[i] = (int32_t) ((seed >> 33) % (uint64_t) n_vocab);
    }
}

// what the model is, from a worker that ends at once
static void ask_about(struct bench * b) {
    struct mra_error err;
    struct worker w;
    const enum mra_status st = worker_start(&w, b->o->model, 1, b->o->no_mmap, &b->about, &err);
    worker_stop(&w);
    if (st != MRA_OK) fatal(program, "%s", err.msg);
    for (int i = 0; i < b->o->n_n; i++) {
        if ((double) b->o->n[i] > number(b->about, "positions")) {
            fatal(program, "-n: %lld tokens are more than the model's %g positions", (long long) b->o->n[i],
                number(b->about, "positions"));
        }
    }
}

static void print_header(const struct bench * b) {
    const cJSON * m = b->about;
    print_machine(b->o->threads);
    printf("\n%s: %s %s, %g layers x %g, %g heads, %.0f MB\n", b->o->model,
        cJSON_GetStringValue(cJSON_GetObjectItem(m, "family")), cJSON_GetStringValue(cJSON_GetObjectItem(m, "type")),
        number(m, "layers"), number(m, "embd"), number(m, "heads"), number(m, "bytes") / 1e6);
    table_head(cols, N_COLS);
}

int bench_model(int argc, char ** argv) {
    struct options o;
    parse_options(&o, argc, argv);
    if (o.worker) return worker_main(o.model, o.threads, o.no_mmap, stdin, stdout);
    struct bench * b = calloc(1, sizeof(*b));
    if (!b) fatal(program, "out of memory");
    b->o = &o;
    ask_about(b);
    if (!o.json) print_header(b);
    bool ok = output_flush();
    for (int i = 0; i < o.n_n && ok; i++) {
        b->n = o.n[i];
        b->ids = malloc((size_t) b->n * sizeof(*b->ids));
        if (!b->ids) fatal(program, "out of memory");
        make_ids(b, o.seed);
        ok = rows_of_length(b);
        free(b->ids);
    }
    cJSON_Delete(b->about);
    free(b);
    return output_close(program, ok ? 0 : 1);
}
