// mra-calibrate: how many keys each head needs (calibrate-plan.c); or for every weight matrix, the mean square of each
// column of what it is multiplied with,
//     m_c = 1/n sum_t x_tc^2    over the tokens t of sample texts.
#include "calibrate-plan.h"
#include "common/ending.h"
#include "common/program.h"
#include "common/signals.h"

#include "gguf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_MATRICES = 4096, MIN_PLAN_TOKENS = 256 };
enum { OPT_COSINE = 2000 };

static const char notes[] =
    "output:\n"
    "  A GGUF file for mra-quantize --imatrix, with a vector for each matrix the texts passed through. Some hundred\n"
    "  texts of the kind the model will meet are enough. The model must hold f32, f16 or bf16 weights.\n"
    "\n"
    "  --plan FILE: instead, how many keys each head keeps in the sorted frame, found on the texts for the budget\n"
    "  --budget (default 1/4), --cosine or --error. FILE.gguf: a copy of the model with the plan in it, which all\n"
    "  programs then use; else a file for --plan of the other programs. Five to ten texts of the length the model "
    "will\n"
    "  meet are enough; it computes each of them once per head.\n"
    "\n"
    "examples:\n"
    "  mra-calibrate -m minilm-f16.gguf -f long.jsonl --truncate right --plan minilm-planned.gguf\n"
    "  mra-calibrate -m minilm-f16.gguf -f texts.txt --truncate right -o minilm.imatrix\n"
    "  mra-quantize --imatrix minilm.imatrix minilm-f16.gguf minilm-q4_k.gguf q4_k\n"
    "\n";

struct matrix {
    char name[GGML_MAX_NAME];
    int64_t n_cols, n_rows; // rows added so far
    double * sums;          // [n_cols]
};

struct calibrate {
    const char * out;
    struct matrix matrices[MAX_MATRICES];
    int n;
    bool failed; // no memory, or too many matrices
    struct plan_target plan;
    struct plan_texts texts;
};

static struct matrix * find(struct calibrate * c, const char * name, int64_t n_cols) {
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->matrices[i].name, name) == 0) return &c->matrices[i];
    struct matrix * m = &c->matrices[c->n];
    if (c->n == MAX_MATRICES || !(m->sums = calloc((size_t) n_cols, sizeof(double)))) {
        c->failed = true;
        return NULL;
    }
    c->n++;
    snprintf(m->name, sizeof(m->name), "%s", name);
    m->n_cols = n_cols;
    return m;
}

static void on_weight(
    void * user, const char * name, const float * x, int64_t n_rows, int64_t n_cols, size_t row_bytes) {
    struct matrix * m = find(user, name, n_cols);
    if (!m) return;
    for (int64_t r = 0; r < n_rows; r++) {
        const float * row = (const float *) ((const char *) x + (size_t) r * row_bytes);
        for (int64_t i = 0; i < n_cols; i++) m->sums[i] += (double) row[i] * row[i];
    }
    m->n_rows += n_rows;
}

static void no_log(enum ggml_log_level level, const char * text, void * user) {
    (void) level, (void) text, (void) user;
}

// under another name first, so that what is there is whole
static void write_file(struct stream * s) {
    struct calibrate * c = s->user;
    size_t n_bytes = 1 << 16;
    for (int i = 0; i < c->n; i++)
        n_bytes += (size_t) c->matrices[i].n_cols * sizeof(float) + ggml_tensor_overhead() + 64;
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = n_bytes });
    struct gguf_context * g = gguf_init_empty();
    char * tmp = NULL;
    if (!ctx || !g || asprintf(&tmp, "%s.%ld.tmp", c->out, (long) getpid()) < 0) fatal(s->program, "out of memory");
    gguf_set_val_str(g, "general.type", "imatrix");
    gguf_set_val_u64(g, "mra.imatrix.tokens", (uint64_t) s->report.n_tokens);
    for (int i = 0; i < c->n; i++) {
        const struct matrix * m = &c->matrices[i];
        struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, m->n_cols);
        ggml_set_name(t, m->name);
        for (int64_t j = 0; j < m->n_cols; j++) ((float *) t->data)[j] = (float) (m->sums[j] / (double) m->n_rows);
        gguf_add_tensor(g, t);
    }
    ggml_log_set(no_log, NULL); // one line says what went wrong
    errno = 0;
    if (!gguf_write_to_file(g, tmp, false) || rename(tmp, c->out) != 0) {
        const int error = errno ? errno : EIO;
        unlink(tmp);
        fatal(s->program, "cannot write to %s: %s", c->out, strerror(error));
    }
    fprintf(stderr, "%s: %d matrices over %lld tokens of %lld texts\n", c->out, c->n, (long long) s->report.n_tokens,
        (long long) s->report.n_done);
    free(tmp);
    gguf_free(g);
    ggml_free(ctx);
}

static void collect(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols) {
    (void) s, (void) it, (void) rows, (void) n_rows, (void) n_cols; // on_weight has seen what matters
}

static void prepare(struct stream * s, struct item * it) {
    struct calibrate * c = s->user;
    if (c->plan.out && it->n_tokens <= MIN_PLAN_TOKENS)
        item_fail(it, MRA_ERR_ARG, "too short for --plan: attention is exact up to 256 tokens");
    else if (c->plan.out) plan_add(s, &c->texts, it);
}

static void end(struct stream * s) {
    struct calibrate * c = s->user;
    if (c->plan.out && !interrupted() && !s->o->dry_run) {
        if (!c->texts.n) fatal(s->program, "no text is long enough; %s is not written", c->plan.out);
        plan_find(s, &c->texts, &c->plan);
    }
    if (c->plan.out) return;
    if (c->failed) fatal(s->program, "out of memory");
    if (interrupted() || s->o->dry_run) return;
    if (!c->n) fatal(s->program, "no text was computed; %s is not written", c->out);
    write_file(s);
}

static void option(void * user, struct options * o, const struct args * a, int id) {
    struct calibrate * c = user;
    (void) o;
    if (id == OPT_COSINE) c->plan.cosine = args_real(a, 1e-6, 1 - 1e-6);
}

static void check(void * user, struct options * o, const struct args * a) {
    struct calibrate * c = user;
    c->plan.error = (double) o->max_error;
    if (o->resume || o->verify || (o->estimate && !o->plan) || o->verbose)
        usage_error(a->program, "--resume, --verify, --estimate and --verbose are not for this program");
    if ((c->plan.cosine > 0 || c->plan.error > 0) && !o->plan)
        usage_error(a->program, "--cosine and --error need --plan");
    if (c->plan.cosine > 0 && c->plan.error > 0) usage_error(a->program, "--cosine and --error exclude each other");
    if (o->plan) {
        if (o->out) usage_error(a->program, "--plan writes its own file; -o is for the importance matrix");
        if (same_file(o->model, o->plan)) usage_error(a->program, "--plan %s would overwrite the model", o->plan);
        c->plan.out = o->plan;
        c->plan.budget = o->attn.budget > 0 ? o->attn.budget : 1.0f / 4;
        o->plan = NULL;
        o->estimate = false;
        o->max_error = 0;
        o->device = "cpu";
        return;
    }
    if (o->dry_run) return;
    if (!o->out || strcmp(o->out, "-") == 0) usage_error(a->program, "no output: -o FILE.imatrix (see --help)");
    const enum ending ending = ending_of(o->out);
    const size_t n = strlen(o->out);
    if (ending != ENDING_OTHER && !(n > 5 && strcmp(o->out + n - 5, ".gguf") == 0))
        usage_error(a->program, "-o %s: this is a GGUF file; name it .imatrix or .gguf", o->out);
    c->out = o->out; // the stream of records itself writes nothing
    o->out = NULL;
    o->device = "cpu";
}

static void ready(struct stream * s) {
    const struct mra_model_info * info = &s->engine.info;
    s->want.kind = info->n_class ? MRA_OUTPUT_CLASS : MRA_OUTPUT_POOLED;
    s->want.pooling = info->pooling ? info->pooling : MRA_POOLING_MEAN;
    s->rules.pairs = info->n_class > 0;
    if (((struct calibrate *) s->user)->plan.out) {
        s->on.collect = NULL; // records are only read; plan_find computes
        return;
    }
    s->engine.params.on_weight = on_weight;
    s->engine.params.on_weight_user = s->user;
}

static const struct arg_opt opts[] = {
    { OPT_COSINE, "cosine", "C", "with --plan: of the smallest budget that gives this mean cosine to exact attention" },
};

static const struct program program = {
    .name = "mra-calibrate",
    .usage = "-m MODEL -o FILE [options] [TEXT... | -f FILE | -]",
    .about = "Which columns of each weight matrix matter on sample texts, for mra-quantize --imatrix.",
    .notes = notes,
    .own_formats = true,
    .option = option,
    .check = check,
    .ready = ready,
    .opts = opts,
    .n_opt = sizeof(opts) / sizeof(opts[0]),
    .on = { .prepare = prepare, .collect = collect, .end = end },
};

int main(int argc, char ** argv) {
    static struct calibrate c;
    const int code = program_main(&program, &c, argc, argv);
    for (int i = 0; i < c.n; i++) free(c.matrices[i].sums);
    plan_texts_free(&c.texts);
    return code;
}
