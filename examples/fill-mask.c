// mra-fill-mask: the words a model expects where the mask is.
#include "common/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct arg_opt opts[] = {
    { 'k', "top-k", "N", "candidates per mask (default 5)" },
};

static const char notes[] = "masks:\n"
                            "  Write <mask>, [MASK] or the model's own mask token, any number of times; several masks "
                            "are filled independently of\n"
                            "  each other. A text without one fails.\n"
                            "\n"
                            "output:\n"
                            "  A line per candidate: id or line number, number of the mask, probability, the token, "
                            "the text with it; separated by tabs.\n"
                            "\n"
                            "examples:\n"
                            "  mra-fill-mask -m roberta.gguf \"The capital of France is <mask>.\" -k 5\n"
                            "  mra-fill-mask -m roberta.gguf -f texts.jsonl --json -o filled.jsonl\n"
                            "\n";

enum { N_NAMES = 2 };
static const char * const mask_names[N_NAMES] = { "<mask>", "[MASK]" };

struct fill {
    int top_k;
    int32_t mask;
    const char * mask_name;
};
struct candidate {
    int32_t id;
    float logit;
    double prob;
};

// every name of the mask -> the model's own; masks become plain words for a tokenizer that does not know them
static bool rename_masks(struct record * r, const char * own) {
    const size_t n_own = strlen(own);
    char *out = malloc(r->n_text / 6 * (n_own + 1) + r->n_text + 1), *to = out;
    if (!out) return false;
    for (size_t i = 0; i < r->n_text;) {
        int found = -1;
        for (int j = 0; j < N_NAMES; j++)
            if (strncmp(r->text + i, mask_names[j], strlen(mask_names[j])) == 0) found = j;
        if (found < 0) {
            *to++ = r->text[i++];
            continue;
        }
        memcpy(to, own, n_own);
        to += n_own;
        i += strlen(mask_names[found]);
    }
    *to = 0;
    free(r->text);
    r->text = out;
    r->n_text = (size_t) (to - out);
    return true;
}

static void on_record(struct stream * s, struct item * it) {
    const struct fill * f = s->user;
    if (!rename_masks(&it->rec, f->mask_name)) item_fail(it, MRA_ERR_MEMORY, "out of memory");
}

static void prepare(struct stream * s, struct item * it) {
    const struct fill * f = s->user;
    it->at = malloc(it->list.n * sizeof(*it->at) + 1);
    if (!it->at) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < it->list.n; i++)
        if (it->list.data[i].id == f->mask) it->at[it->n_at++] = (int) i;
    if (it->n_at == 0) {
        char why[128];
        snprintf(why, sizeof(why), "no %s in the text", f->mask_name);
        item_fail(it, MRA_ERR_ARG, why);
    }
}

// rows : [n_at][n_vocab] logits -> the best of each
static void collect(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols) {
    const struct fill * f = s->user;
    struct candidate * all = it->result = malloc((size_t) (n_rows * f->top_k) * sizeof(*all));
    if (!all) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    for (int64_t m = 0; m < n_rows; m++, rows += n_cols) {
        struct candidate * best = all + m * f->top_k;
        int n = 0;
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n_cols; i++) max = fmax(max, rows[i]);
        for (int64_t i = 0; i < n_cols; i++) {
            sum += exp(rows[i] - max);
            if (n == f->top_k && rows[i] <= best[n - 1].logit) continue;
            int j = n < f->top_k ? n++ : n - 1;
            for (; j > 0 && best[j - 1].logit < rows[i]; j--) best[j] = best[j - 1];
            best[j] = (struct candidate) { (int32_t) i, rows[i], 0 };
        }
        for (int j = 0; j < n; j++) best[j].prob = exp(best[j].logit - max) / sum;
    }
}

static void token_text(struct stream * s, int32_t id, char word[256], size_t * n) {
    *n = mra_tokenizer_text(mra_model_tokenizer(s->engine.model), id, word, 256);
    if (*n > 256) *n = 256;
}

// the text with one of its masks replaced; a word's own leading space goes where the text has one already
static char * filled(const struct item * it, int mask, const char * word, size_t n, size_t * len) {
    const struct mra_token * t = &it->list.data[it->at[mask]];
    const struct record * r = &it->rec;
    char * out = malloc(r->n_text + n + 1);
    if (!out) return NULL;
    memcpy(out, r->text, t->start);
    size_t at = t->start;
    if (n > 0 && word[0] == ' ' && (at == 0 || out[at - 1] == ' ')) {
        word++;
        n--;
    }
    memcpy(out + at, word, n);
    memcpy(out + at + n, r->text + t->end, r->n_text - t->end);
    *len = at + n + r->n_text - t->end;
    out[*len] = 0;
    return out;
}

static void emit_one(struct stream * s, struct item * it, int mask, const struct candidate * c) {
    char word[256];
    size_t n, len;
    token_text(s, c->id, word, &n);
    char * text = filled(it, mask, word, n, &len);
    if (!text) fatal(s->program, "out of memory");
    if (s->o->json) {
        sink_printf(&s->out, "{\"id\": %d, \"token\": ", c->id);
        sink_json(&s->out, word, n);
        sink_printf(&s->out, ", \"score\": %.6g, \"text\": ", c->prob);
        sink_json(&s->out, text, len);
        sink_text(&s->out, "}");
    } else {
        stream_name(s, it);
        sink_printf(&s->out, "\t%d\t%.4f\t", mask + 1, c->prob);
        const size_t skip = n > 0 && word[0] == ' ';
        sink_write(&s->out, word + skip, n - skip);
        sink_text(&s->out, "\t");
        sink_write(&s->out, text, len);
        sink_text(&s->out, "\n");
    }
    free(text);
}

static void emit(struct stream * s, struct item * it) {
    const struct fill * f = s->user;
    const struct candidate * c = it->result;
    if (s->o->json) {
        stream_json_head(s, it);
        sink_text(&s->out, "\"masks\": [");
    }
    for (int m = 0; m < it->n_at; m++) {
        if (s->o->json) sink_text(&s->out, m ? ", [" : "[");
        for (int i = 0; i < f->top_k; i++) {
            if (s->o->json && i) sink_text(&s->out, ", ");
            emit_one(s, it, m, &c[m * f->top_k + i]);
        }
        if (s->o->json) sink_text(&s->out, "]");
    }
    if (s->o->json) {
        sink_text(&s->out, "]");
        stream_json_tail(s, it);
        stream_line_end(s);
    } else sink_commit(&s->out);
}

static void option(void * user, struct options * o, const struct args * a, int id) {
    struct fill * f = user;
    (void) o;
    if (id == 'k') f->top_k = (int) args_int(a, 1, 1000);
}

static void ready(struct stream * s) {
    struct fill * f = s->user;
    if (!s->engine.info.has_mlm)
        fatal(s->program, "%s has no masked-language-model head (converted with --no-mlm, or not trained with one)",
            s->o->model);
    f->mask = -1;
    for (int i = 0; i < N_NAMES && f->mask < 0; i++) {
        f->mask_name = mask_names[i];
        f->mask = mra_tokenizer_find(mra_model_tokenizer(s->engine.model), f->mask_name, strlen(f->mask_name));
    }
    if (f->mask < 0) fatal(s->program, "%s has no mask token", s->o->model);
    if (f->top_k > s->engine.info.n_vocab) f->top_k = s->engine.info.n_vocab;
    s->want.kind = MRA_OUTPUT_MLM;
}

static const struct program program = {
    .name = "mra-fill-mask",
    .usage = "-m MODEL [options] [TEXT... | -f FILE | -]",
    .about = "The tokens that a masked language model expects in place of <mask>.",
    .notes = notes,
    .opts = opts,
    .n_opt = sizeof(opts) / sizeof(opts[0]),
    .option = option,
    .ready = ready,
    .on = { .record = on_record, .prepare = prepare, .collect = collect, .emit = emit },
};

int main(int argc, char ** argv) {
    struct fill f = { .top_k = 5 };
    return program_main(&program, &f, argc, argv);
}
