// mra-classify: texts or pairs of texts -> labels with probabilities.
#include "common/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_PAIR = 2000, OPT_LOGITS };

static const struct arg_opt opts[] = {
    { 'k', "top-k", "N", "print the N best labels only (default: all)" },
    { OPT_PAIR, "pair", "TEXT", "second text of every pair (JSON Lines: \"text_pair\")" },
    { OPT_LOGITS, "logits", NULL, "print logits instead of probabilities" },
};

static const char notes[] =
    "scores:\n"
    "  softmax over the labels; sigmoid of each where the model says that labels are independent (multi-label), or "
    "has\n"
    "  one; the number itself for regression.\n"
    "\n"
    "output:\n"
    "  One line per record: its id or line number, then label and score, best first, separated by tabs.\n"
    "\n"
    "examples:\n"
    "  mra-classify -m sentiment.gguf \"What a lovely day.\"\n"
    "  mra-classify -m nli.gguf \"A man eats.\" --pair \"Someone is eating.\" --json\n"
    "  mra-classify -m topics.gguf -f articles.jsonl -k 3 -o topics.jsonl --json\n"
    "\n";

struct classify {
    int top_k;
    bool logits;
    const char * pair;
    int32_t * order;
};

static double score(const struct mra_model_info * info, const struct classify * c, const float * x, int i) {
    if (c->logits || info->problem == MRA_PROBLEM_REGRESSION) return x[i];
    if (info->problem == MRA_PROBLEM_MULTI) return 1 / (1 + exp(-(double) x[i]));
    double max = x[0], sum = 0;
    for (int j = 1; j < info->n_class; j++) max = fmax(max, x[j]);
    for (int j = 0; j < info->n_class; j++) sum += exp(x[j] - max);
    return exp(x[i] - max) / sum;
}

static void collect(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols) {
    (void) s;
    it->result = malloc((size_t) (n_rows * n_cols) * sizeof(float));
    if (!it->result) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    memcpy(it->result, rows, (size_t) (n_rows * n_cols) * sizeof(float));
}

static void sort_labels(int32_t * order, const float * x, int n) {
    for (int i = 0; i < n; i++) {
        int j = i;
        for (; j > 0 && x[order[j - 1]] < x[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
}

static void emit(struct stream * s, struct item * it) {
    const struct classify * c = s->user;
    const float * x = it->result;
    const int n = s->engine.info.n_class, k = c->top_k && c->top_k < n ? c->top_k : n;
    sort_labels(c->order, x, n);
    if (s->o->json) {
        stream_json_head(s, it);
        sink_printf(&s->out, "\"tokens\": %lld, \"labels\": [", (long long) it->n_tokens);
    } else {
        stream_name(s, it);
    }
    for (int i = 0; i < k; i++) {
        const char * label = mra_model_label(s->engine.model, c->order[i]);
        char number[32];
        if (!label) {
            snprintf(number, sizeof(number), "LABEL_%d", c->order[i]);
            label = number;
        }
        const double y = score(&s->engine.info, c, x, c->order[i]);
        if (s->o->json) {
            sink_text(&s->out, i ? ", {\"label\": " : "{\"label\": ");
            sink_json(&s->out, label, strlen(label));
            sink_printf(&s->out, ", \"score\": %.6g}", y);
        } else {
            sink_text(&s->out, "\t");
            sink_text(&s->out, label);
            sink_printf(&s->out, "\t%.4f", y);
        }
    }
    if (s->o->json) {
        sink_text(&s->out, "]");
        stream_json_tail(s, it);
    }
    stream_line_end(s);
}

static void option(void * user, struct options * o, const struct args * a, int id) {
    struct classify * c = user;
    (void) o;
    switch (id) {
        case 'k': c->top_k = (int) args_int(a, 1, 1 << 20); break;
        case OPT_PAIR: c->pair = args_text(a); break;
        case OPT_LOGITS: c->logits = true; break;
    }
}

static void ready(struct stream * s) {
    struct classify * c = s->user;
    const struct mra_model_info * info = &s->engine.info;
    if (info->n_class == 0)
        fatal(s->program, "%s has no classifier%s", s->o->model,
            info->n_tag         ? "; it labels tokens: mra-tag"
                : info->has_mlm ? "; it can fill masks: mra-fill-mask"
                                : "");
    c->order = malloc((size_t) info->n_class * sizeof(*c->order));
    if (!c->order) fatal(s->program, "out of memory");
    s->want.kind = MRA_OUTPUT_CLASS;
    s->rules.pairs = true;
    s->rules.pair = c->pair;
}

static const struct program program = {
    .name = "mra-classify",
    .usage = "-m MODEL [options] [TEXT... | -f FILE | -]",
    .about = "Labels of texts or pairs of texts, with their probabilities.",
    .notes = notes,
    .opts = opts,
    .n_opt = sizeof(opts) / sizeof(opts[0]),
    .option = option,
    .ready = ready,
    .on = { .collect = collect, .emit = emit },
};

int main(int argc, char ** argv) {
    struct classify c = { 0 };
    const int code = program_main(&program, &c, argc, argv);
    free(c.order);
    return code;
}
