// Entities of a text from the logits of its tokens: probabilities p = softmax(logits); a piece is a token, or the
// tokens of a word; neighbouring pieces of one label are an entity. As transformers' token-classification pipeline.
#include "mra-encoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    int token, label; // the first token; index of the label
    double score;
    uint32_t start, end;
};

struct reader {
    const struct mra_model * model;
    const char * text;
    size_t n_text;
    const struct mra_token * tokens;
    const float * logits;
    int n_tag;
    enum mra_aggregation aggregation;
    double *p, *sum; // [n_tag] of a token; of the tokens of a word
};

// logits of a token -> r->p; returns the best label, the first of equal ones
static int softmax(struct reader * r, int token) {
    const float * x = r->logits + (int64_t) token * r->n_tag;
    int best = 0;
    double sum = 0;
    for (int i = 1; i < r->n_tag; i++)
        if (x[i] > x[best]) best = i;
    for (int i = 0; i < r->n_tag; i++) sum += r->p[i] = exp((double) x[i] - x[best]);
    for (int i = 0; i < r->n_tag; i++) r->p[i] /= sum;
    return best;
}

// the piece of tokens [a, b), of which special ones do not count
static struct piece piece_of(struct reader * r, int a, int b) {
    struct piece out = { .token = a, .start = r->tokens[a].start };
    int n = 0;
    memset(r->sum, 0, (size_t) r->n_tag * sizeof(*r->sum));
    for (int t = a; t < b; t++) {
        if (r->tokens[t].text < 0) continue;
        const int best = softmax(r, t);
        out.end = r->tokens[t].end;
        for (int i = 0; i < r->n_tag; i++) r->sum[i] += r->p[i];
        if (n == 0 || (r->aggregation == MRA_AGGREGATION_MAX && r->p[best] > out.score)) {
            out.label = best;
            out.score = r->p[best];
        }
        n++;
    }
    if (r->aggregation == MRA_AGGREGATION_AVERAGE) {
        out.label = 0;
        for (int i = 1; i < r->n_tag; i++)
            if (r->sum[i] > r->sum[out.label]) out.label = i;
        out.score = r->sum[out.label] / n;
    }
    return out;
}

// -> number of pieces
static int cut(struct reader * r, int n_tokens, struct piece * pieces) {
    const struct mra_tokenizer * tok = mra_model_tokenizer(r->model);
    const bool words = r->aggregation >= MRA_AGGREGATION_FIRST;
    int n = 0, first = -1; // of the word at hand
    for (int t = 0; t < n_tokens; t++) {
        if (r->tokens[t].text < 0) continue;
        if (first >= 0 && words && mra_token_goes_on(tok, &r->tokens[t], r->text, r->n_text)) continue;
        if (first >= 0) pieces[n++] = piece_of(r, first, t);
        first = t;
    }
    if (first >= 0) pieces[n++] = piece_of(r, first, n_tokens);
    return n;
}

static bool has_mark(const char * label, char mark) { return label[0] == mark && label[1] == '-'; }

// a label without its B- or I-
static const char * tag_of(const char * label) {
    return has_mark(label, 'B') || has_mark(label, 'I') ? label + 2 : label;
}

// does piece b go on with the entity of a?
static bool is_same(const struct mra_model * m, const struct piece * a, const struct piece * b) {
    const char *x = mra_model_label(m, a->label), *y = mra_model_label(m, b->label);
    return !has_mark(y, 'B') && strcmp(tag_of(x), tag_of(y)) == 0;
}

static void group(
    struct reader * r, const struct piece * pieces, int n, const char * ignore, struct mra_entity_list * list) {
    for (int a = 0, b; a < n; a = b) {
        const char * label = mra_model_label(r->model, pieces[a].label);
        double sum = pieces[a].score;
        b = a + 1;
        if (r->aggregation != MRA_AGGREGATION_NONE) {
            for (; b < n && is_same(r->model, &pieces[b - 1], &pieces[b]); b++) sum += pieces[b].score;
            if (strchr(label, '-')) label = strchr(label, '-') + 1;
        }
        if (strcmp(label, ignore) == 0) continue;
        list->data[list->n++] = (struct mra_entity) { label, sum / (b - a), pieces[a].start, pieces[b - 1].end,
            pieces[a].token };
    }
}

void mra_entity_list_free(struct mra_entity_list * list) {
    free(list->data);
    *list = (struct mra_entity_list) { 0 };
}

enum mra_status mra_entities(const struct mra_model * model, const char * text, size_t n_text,
    const struct mra_token * tokens, int n_tokens, const float * logits, enum mra_aggregation aggregation,
    const char * ignore, struct mra_entity_list * list, struct mra_error * err) {
    if (!model || !text || !tokens || !logits || !list || n_tokens < 0 || (unsigned) aggregation > MRA_AGGREGATION_MAX)
        return mra_fail(err, MRA_ERR_ARG, "no model, text, tokens, logits or list, or unknown aggregation");
    const int n_tag = mra_model_info(model).n_tag;
    if (n_tag == 0) return mra_fail(err, MRA_ERR_UNSUPPORTED, "the model has no token classifier");
    mra_entity_list_free(list);
    struct reader r = { model, text, n_text, tokens, logits, n_tag, aggregation, NULL, NULL };
    struct piece * pieces = malloc(((size_t) n_tokens + 1) * sizeof(*pieces));
    list->data = malloc(((size_t) n_tokens + 1) * sizeof(*list->data));
    r.p = malloc(2 * (size_t) n_tag * sizeof(*r.p));
    const bool ok = pieces && list->data && r.p;
    if (ok) {
        r.sum = r.p + n_tag;
        group(&r, pieces, cut(&r, n_tokens, pieces), ignore ? ignore : "O", list);
    }
    free(r.p);
    free(pieces);
    if (ok) return MRA_OK;
    mra_entity_list_free(list);
    return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
}
