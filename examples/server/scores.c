// /rerank, /similarity, /predict, /classify: texts -> scores.
#include "reply.h"
#include "request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- query and documents, by a cross-encoder or by the cosine of embeddings ----

// cosine: the query is the first sequence
static void prepare_ranks(
    struct call * c, struct served * m, const struct text * query, const char * what, const struct text_way * way) {
    c->ask.cosine = !served_is_cross_encoder(m);
    const struct mra_output want = { .kind = c->ask.cosine ? MRA_OUTPUT_POOLED : MRA_OUTPUT_CLASS,
        .normalize = c->ask.cosine ? 1 : 0,
        .n_dims = c->ask.cosine ? m->engine.info.n_pooled : 0 };
    if (!request_job(c, m, &want)) return;
    if (!c->ask.cosine) {
        const struct text_way pairs = { .truncate = way->truncate, .left = way->left };
        for (int i = 0; i < c->ask.texts.n; i++)
            if (!request_add(c, what, i, *query, &c->ask.texts.data[i], &pairs)) return;
        return;
    }
    struct text_way of_query = *way;
    of_query.prefix = mra_model_prompt(m->engine.model, NULL);
    if (request_add(c, "query", -1, *query, NULL, &of_query)) request_add_all(c, what, &c->ask.texts, false, way);
}

// of document i
static double rank_score(const struct call * c, int i, bool raw) {
    const struct job * j = c->job;
    if (c->ask.cosine) return reply_dot(j->rows, j->rows + (i + 1) * j->n_cols, j->n_cols);
    const float * x = j->rows + i * j->n_cols;
    if (raw) return j->n_cols == 1 ? x[0] : x[1];
    return 1 / (1 + exp(-(j->n_cols == 1 ? x[0] : (double) x[1] - x[0])));
}

struct rank {
    int index;
    double score;
};
static int better(const void * a, const void * b) {
    const struct rank *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1) : x->index - y->index;
}

void rerank(struct call * c) {
    enum { MODEL, QUERY, DOCUMENTS, TEXTS, TOP_N, RETURN_DOCUMENTS, RETURN_TEXT, RAW, TRUNCATE, DIRECTION, N };
    struct field f[N] = { { "model", { 0 } }, { "query", { 0 } }, { "documents", { 0 } }, { "texts", { 0 } },
        { "top_n", { 0 } }, { "return_documents", { 0 } }, { "return_text", { 0 } }, { "raw_scores", { 0 } },
        { "truncate", { 0 } }, { "truncation_direction", { 0 } } };
    struct text query = { 0 };
    struct text_way way;
    if (!request_fields(c, f, N)) return;
    struct served * m = request_model(c, &f[MODEL], USE_RERANK);
    if (!m) return;
    c->ask.tei = f[TEXTS].value.s != NULL;
    const struct field * documents = &f[c->ask.tei ? TEXTS : DOCUMENTS];
    if (f[TEXTS].value.s && f[DOCUMENTS].value.s) {
        call_fail(c, 422, "texts", "both documents and texts");
        return;
    }
    if (!request_int(c, &f[TOP_N], 1, INT32_MAX, &c->ask.top_n) ||
        !request_bool(c, &f[RETURN_DOCUMENTS], &c->ask.return_text) ||
        !request_bool(c, &f[RETURN_TEXT], &c->ask.return_text) || !request_bool(c, &f[RAW], &c->ask.raw_scores) ||
        !request_way(c, m, NULL, &f[TRUNCATE], &f[DIRECTION], &way) ||
        !request_texts(c, documents, &c->ask.texts, NULL) || !request_text(c, &f[QUERY], &query))
        return;
    prepare_ranks(c, m, &query, documents->name, &way);
    free(query.s);
}

static void print_document(struct call * c, const struct rank * r) {
    const struct text * t = &c->ask.texts.data[r->index];
    struct sink * out = &c->out;
    sink_printf(out, "{\"index\": %d, \"%s\": ", r->index, c->ask.tei ? "score" : "relevance_score");
    reply_real(out, r->score);
    if (c->ask.return_text) {
        sink_text(out, c->ask.tei ? ", \"text\": " : ", \"document\": {\"text\": ");
        sink_json(out, t->s, t->n);
        if (!c->ask.tei) sink_text(out, "}");
    }
    sink_text(out, "}");
}

void rerank_reply(struct call * c) {
    const int n = c->ask.texts.n, top = c->ask.top_n && c->ask.top_n < n ? c->ask.top_n : n;
    struct rank * ranks = malloc((size_t) n * sizeof(*ranks));
    if (!ranks) {
        call_fail(c, 500, NULL, "out of memory");
        return;
    }
    for (int i = 0; i < n; i++) ranks[i] = (struct rank) { i, rank_score(c, i, c->ask.raw_scores) };
    qsort(ranks, (size_t) n, sizeof(*ranks), better);
    call_reply(c, 200);
    struct sink * out = &c->out;
    if (!c->ask.tei) {
        sink_text(out, "{\"object\": \"list\", \"model\": ");
        reply_text(out, c->job->model->id);
        sink_printf(out, ", \"scores\": \"%s\", \"results\": ",
            c->ask.cosine           ? "cosine"
                : c->ask.raw_scores ? "logit"
                                    : "probability");
    }
    sink_text(out, "[");
    for (int i = 0; i < top; i++) {
        if (i) sink_text(out, ", ");
        print_document(c, &ranks[i]);
    }
    sink_text(out, "]");
    if (!c->ask.tei) {
        sink_text(out, ", ");
        reply_usage(out, c, c->ask.cosine);
        sink_text(out, "}");
    }
    free(ranks);
}

void tei_similarity(struct call * c) {
    enum { INPUTS, PARAMETERS, N, SOURCE = 0, SENTENCES, TRUNCATE = 0, DIRECTION, PROMPT };
    struct field f[N] = { { "inputs", { 0 } }, { "parameters", { 0 } } },
                 in[] = { { "source_sentence", { 0 } }, { "sentences", { 0 } } },
                 p[] = { { "truncate", { 0 } }, { "truncation_direction", { 0 } }, { "prompt_name", { 0 } } };
    struct text source = { 0 };
    struct text_way way;
    if (!request_fields(c, f, N) || !request_object(c, "inputs", f[INPUTS].value, in, 2) ||
        (f[PARAMETERS].value.s && !request_object(c, "parameters", f[PARAMETERS].value, p, 3)))
        return;
    struct served * m = request_model(c, NULL, USE_EMBED);
    if (!m || !request_way(c, m, &p[PROMPT], &p[TRUNCATE], &p[DIRECTION], &way) ||
        !request_texts(c, &in[SENTENCES], &c->ask.texts, NULL) || !request_text(c, &in[SOURCE], &source))
        return;
    const struct mra_output want = { .kind = MRA_OUTPUT_POOLED, .normalize = 1, .n_dims = m->engine.info.n_pooled };
    c->ask.cosine = true;
    if (request_job(c, m, &want) && request_add(c, "source_sentence", -1, source, NULL, &way))
        request_add_all(c, "sentences", &c->ask.texts, false, &way);
    free(source.s);
}

void tei_similarity_reply(struct call * c) {
    call_reply(c, 200);
    for (int i = 0; i < c->ask.texts.n; i++) {
        sink_text(&c->out, i ? ", " : "[");
        reply_real(&c->out, rank_score(c, i, true));
    }
    sink_text(&c->out, "]");
}

// ---- labels ----

// x : [n] logits -> the score of label i, as mra-classify
static double label_score(const struct mra_model_info * info, const float * x, int i, bool raw) {
    if (raw || info->problem == MRA_PROBLEM_REGRESSION) return x[i];
    if (info->problem == MRA_PROBLEM_MULTI) return 1 / (1 + exp(-(double) x[i]));
    double max = x[0], sum = 0;
    for (int k = 1; k < info->n_class; k++) max = fmax(max, x[k]);
    for (int k = 0; k < info->n_class; k++) sum += exp(x[k] - max);
    return exp(x[i] - max) / sum;
}

static void print_labels(struct call * c, const float * x, struct rank * ranks) {
    const struct engine * e = &c->job->model->engine;
    const int n = e->info.n_class;
    for (int i = 0; i < n; i++) ranks[i] = (struct rank) { i, label_score(&e->info, x, i, c->ask.raw_scores) };
    qsort(ranks, (size_t) n, sizeof(*ranks), better);
    for (int i = 0; i < n && (!c->ask.top_n || i < c->ask.top_n); i++) {
        const char * label = mra_model_label(e->model, ranks[i].index);
        sink_text(&c->out, i ? ", {\"score\": " : "[{\"score\": ");
        reply_real(&c->out, ranks[i].score);
        sink_text(&c->out, ", \"label\": ");
        if (label) reply_text(&c->out, label);
        else sink_printf(&c->out, "\"LABEL_%d\"", ranks[i].index);
        sink_text(&c->out, "}");
    }
    sink_text(&c->out, "]");
}

static void print_all_labels(struct call * c) {
    const struct job * j = c->job;
    struct rank * ranks = malloc((size_t) j->n_cols * sizeof(*ranks));
    if (!ranks) {
        call_fail(c, 500, NULL, "out of memory");
        return;
    }
    if (!c->ask.single) sink_text(&c->out, "[");
    for (int i = 0; i < j->n_seq; i++) {
        if (i) sink_text(&c->out, ", ");
        print_labels(c, j->rows + i * j->n_cols, ranks);
    }
    if (!c->ask.single) sink_text(&c->out, "]");
    free(ranks);
}

// [text] or [text, text]
static bool add_pair(struct call * c, int i, struct json_span v, const struct text_way * way) {
    struct text t[2] = { { 0 } };
    struct json_span key, member;
    int n = 0;
    bool good = *v.s == '[';
    for (size_t at = 0; good && json_next(v, &at, &key, &member); n++)
        good = n < 2 && json_is_string(member) && (t[n].s = json_unquote(member, &t[n].n));
    if (!good || n == 0) good = call_fail(c, 422, "inputs", "inputs[%d] must be [text] or [text, text]", i);
    else good = request_add(c, "inputs", i, t[0], n == 2 ? &t[1] : NULL, way);
    free(t[0].s);
    free(t[1].s);
    return good;
}

void tei_predict(struct call * c) {
    enum { INPUTS, TRUNCATE, DIRECTION, RAW, PARAMETERS, N };
    struct field f[N] = { { "inputs", { 0 } }, { "truncate", { 0 } }, { "truncation_direction", { 0 } },
        { "raw_scores", { 0 } }, { "parameters", { 0 } } };
    struct field top_k = { "top_k", { 0 } }; // huggingface_hub's client sends this object
    struct text_way way;
    const struct mra_output want = { .kind = MRA_OUTPUT_CLASS };
    if (!request_fields(c, f, N) ||
        (f[PARAMETERS].value.s && !request_object(c, "parameters", f[PARAMETERS].value, &top_k, 1)))
        return;
    struct served * m = request_model(c, NULL, USE_CLASSIFY);
    if (!m || !request_int(c, &top_k, 1, INT32_MAX, &c->ask.top_n) || !request_bool(c, &f[RAW], &c->ask.raw_scores) ||
        !request_way(c, m, NULL, &f[TRUNCATE], &f[DIRECTION], &way))
        return;
    way.prefix = NULL;
    if (!request_job(c, m, &want)) return;
    const struct json_span v = f[INPUTS].value;
    struct json_span key, member;
    size_t at = 0;
    if (!v.s || *v.s != '[') {
        if (!request_texts(c, &f[INPUTS], &c->ask.texts, &c->ask.single)) return;
        request_add_all(c, "inputs", &c->ask.texts, c->ask.single, &way);
        return;
    }
    if (json_next(v, &at, &key, &member) && json_is_string(member)) { // a pair, or a list of one
        c->ask.single = true;
        add_pair(c, 0, v, &way);
        return;
    }
    int n = 0;
    for (at = 0; json_next(v, &at, &key, &member); n++)
        if (!add_pair(c, n, member, &way)) return;
    request_count(c, "inputs", n);
}

void tei_predict_reply(struct call * c) {
    call_reply(c, 200);
    print_all_labels(c);
}

void classify(struct call * c) {
    enum { MODEL, INPUT, RAW, TRUNCATE, N };
    struct field f[N] = { { "model", { 0 } }, { "input", { 0 } }, { "raw_scores", { 0 } }, { "truncate", { 0 } } };
    const struct mra_output want = { .kind = MRA_OUTPUT_CLASS };
    struct text_way way;
    bool single;
    if (!request_fields(c, f, N)) return;
    struct served * m = request_model(c, &f[MODEL], USE_CLASSIFY);
    if (!m || !request_bool(c, &f[RAW], &c->ask.raw_scores) || !request_way(c, m, NULL, &f[TRUNCATE], NULL, &way) ||
        !request_texts(c, &f[INPUT], &c->ask.texts, &single))
        return;
    way.prefix = NULL;
    if (request_job(c, m, &want)) request_add_all(c, "input", &c->ask.texts, single, &way);
}

void classify_reply(struct call * c) {
    call_reply(c, 200);
    sink_text(&c->out, "{\"object\": \"classify\", \"data\": ");
    print_all_labels(c);
    sink_text(&c->out, ", \"model\": ");
    reply_text(&c->out, c->job->model->id);
    sink_text(&c->out, ", ");
    reply_usage(&c->out, c, 0);
    sink_text(&c->out, "}");
}
