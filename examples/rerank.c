// mra-rerank: documents in the order of their relevance for a query.
#include "common/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_SCORES = 2000 };

static const struct arg_opt opts[] = {
    { 'q', "query", "TEXT", "the query; required" },
    { 'k', "top-k", "N", "print the N best documents only (default: all)" },
    { OPT_SCORES, "scores", "KIND",
        "logit (default): the classifier's number; prob: 0 to 1, its sigmoid, or the\nsoftmax of the second of two "
        "labels; colbert: the mean over the query's tokens of the best cosine with a\ndocument's token, for models "
        "that "
        "have such vectors (bge-m3)" },
};

static const char notes[] =
    "scores:\n"
    "  A cross-encoder (a classifier with one or two labels) reads query and document together. With any other model "
    "the\n"
    "  score is the cosine of the two embeddings, and a line on standard error says so.\n"
    "\n"
    "output:\n"
    "  Best first: score, id or line number, document, separated by tabs. Documents of equal score keep their order. "
    "All\n"
    "  documents are kept in memory, with --top-k only the N best so far.\n"
    "\n"
    "examples:\n"
    "  mra-rerank -m bge-reranker.gguf -q \"how to reset a password\" -f faq.txt -k 3\n"
    "  grep -rhi password docs/ | mra-rerank -m minilm.gguf -q \"how to reset a password\" - | head\n"
    "\n";

struct hit {
    double score, max_err, rel_err, cosine;
    int64_t number, line;
    const char *file, *place;
    int n_tokens;
    char *id, *text;
    size_t n_text;
};

struct rerank {
    const char * query;
    int64_t top_k;     // 0: all
    bool prob, cosine; // cosine: also with colbert
    bool colbert;
    float * vector; // cosine: the query's embedding, of length 1; colbert: [n_vector][n_colbert]
    int64_t n_vector;
    struct hit * hits; // [n_hits]
    size_t n_hits, cap;
};

// better documents first; equal ones as they came
static int compare(const void * a, const void * b) {
    const struct hit *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1) : x->number < y->number ? -1 : x->number > y->number;
}

static void normalize(float * to, const float * x, int n) {
    double sum = 0;
    for (int c = 0; c < n; c++) sum += (double) x[c] * x[c];
    for (int c = 0; c < n; c++) to[c] = sum > 0 ? (float) (x[c] / sqrt(sum)) : 0;
}

// mean over the query's tokens of the best product with a token of the document; the first token of both has no vector
static double colbert_score(const struct rerank * r, const float * rows, int64_t n_rows, int64_t n_cols) {
    double sum = 0;
    for (int64_t i = 1; i < r->n_vector; i++) {
        double best = -INFINITY;
        for (int64_t j = 1; j < n_rows; j++) {
            double x = 0;
            for (int64_t c = 0; c < n_cols; c++) x += (double) r->vector[i * n_cols + c] * rows[j * n_cols + c];
            best = fmax(best, x);
        }
        sum += best;
    }
    return r->n_vector > 1 && n_rows > 1 ? sum / (double) (r->n_vector - 1) : 0;
}

static void collect(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols) {
    const struct rerank * r = s->user;
    double * score = it->result = malloc(sizeof(*score) + (size_t) n_cols * sizeof(float));
    if (!score) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    if (r->colbert) {
        *score = colbert_score(r, rows, n_rows, n_cols);
        return;
    }
    if (r->cosine) {
        float * x = (float *) (score + 1);
        normalize(x, rows, (int) n_cols);
        *score = 0;
        for (int64_t c = 0; c < n_cols; c++) *score += (double) x[c] * r->vector[c];
        return;
    }
    const double logit = n_cols == 1 ? rows[0] : (double) rows[1] - rows[0];
    *score = r->prob ? 1 / (1 + exp(-logit)) : n_cols == 1 ? rows[0] : rows[1];
    (void) n_rows;
}

// keeps the best: twice as many as needed are collected before the worse half is dropped
static void emit(struct stream * s, struct item * it) {
    struct rerank * r = s->user;
    if (r->n_hits == r->cap) {
        r->cap = 2 * r->cap + 64;
        r->hits = realloc(r->hits, r->cap * sizeof(*r->hits));
        if (!r->hits) fatal(s->program, "out of memory");
    }
    r->hits[r->n_hits++] = (struct hit) { *(double *) it->result, it->max_err, it->rel_err, it->cosine, it->rec.number,
        it->rec.line, it->rec.file, it->rec.place, (int) it->n_tokens, it->rec.id, it->rec.text, it->rec.n_text };
    it->rec.id = it->rec.text = NULL;
    if (r->top_k && r->n_hits >= 2 * (size_t) r->top_k + 64) {
        qsort(r->hits, r->n_hits, sizeof(*r->hits), compare);
        while (r->n_hits > (size_t) r->top_k) {
            free(r->hits[--r->n_hits].id);
            free(r->hits[r->n_hits].text);
        }
    }
}

static void print_hit(struct stream * s, const struct hit * h, size_t rank) {
    const size_t n_prefix = s->rules.prefix ? strlen(s->rules.prefix) : 0, n = h->n_text - n_prefix;
    const char * text = h->text + n_prefix;
    const struct mra_seq seq = { .n = h->n_tokens };
    const struct item it = { .rec = { .line = h->line, .file = h->file, .place = h->place, .id = h->id },
        .max_err = h->max_err,
        .rel_err = h->rel_err,
        .cosine = h->cosine,
        .attention = engine_attention(&s->engine, &seq, 1) };
    if (s->o->json) {
        stream_json_head(s, &it);
        sink_printf(&s->out, "\"rank\": %zu, \"score\": %.7g, \"text\": ", rank, h->score);
        sink_json(&s->out, text, n);
        stream_json_tail(s, &it);
    } else {
        sink_printf(&s->out, "%.4f\t", h->score);
        stream_name(s, &it);
        sink_text(&s->out, "\t");
        for (size_t j = 0; j < n; j++) sink_write(&s->out, text[j] == '\n' || text[j] == '\t' ? " " : text + j, 1);
    }
    stream_line_end(s);
}

static void end(struct stream * s) {
    struct rerank * r = s->user;
    if (r->n_hits) qsort(r->hits, r->n_hits, sizeof(*r->hits), compare);
    for (size_t i = 0; i < r->n_hits; i++) {
        if (!r->top_k || i < (size_t) r->top_k) print_hit(s, &r->hits[i], i + 1);
        free(r->hits[i].id);
        free(r->hits[i].text);
    }
    free(r->hits);
    r->hits = NULL;
    r->n_hits = 0;
}

// the pair is (query, document), in this order
static void on_record(struct stream * s, struct item * it) {
    const struct rerank * r = s->user;
    if (r->cosine) return;
    free(it->rec.pair);
    it->rec.pair = it->rec.text;
    it->rec.n_pair = it->rec.n_text;
    it->rec.text = strdup(r->query);
    it->rec.n_text = strlen(r->query);
    if (!it->rec.text) item_fail(it, MRA_ERR_MEMORY, "out of memory");
}
static void prepare(struct stream * s, struct item * it) { // the document is what is printed
    const struct rerank * r = s->user;
    if (r->cosine || s->o->dry_run) return;
    free(it->rec.text);
    it->rec.text = it->rec.pair;
    it->rec.n_text = it->rec.n_pair;
    it->rec.pair = NULL;
}

static void embed_query(struct stream * s) {
    struct rerank * r = s->user;
    struct mra_error err;
    struct mra_token_list list = { 0 };
    struct mra_result res;
    struct mra_context_params p = mra_context_params_default();
    p.n_threads = s->o->n_threads;
    struct mra_context * ctx = mra_context_new(s->engine.model, &p, &err);
    const char * prompt = mra_model_prompt(s->engine.model, NULL); // --prefix and --prompt are for the documents
    const size_t n_prompt = prompt ? strlen(prompt) : 0, n_query = strlen(r->query);
    char * text = malloc(n_prompt + n_query + 1);
    if (!text) fatal(s->program, "out of memory");
    if (prompt) memcpy(text, prompt, n_prompt);
    memcpy(text + n_prompt, r->query, n_query);
    if (!ctx || mra_model_tokenize(s->engine.model, text, n_prompt + n_query, NULL, 0, 0, &list, &err) != MRA_OK)
        fatal(s->program, "%s", err.msg);
    free(text);
    const struct mra_seq seq = { .n = (int) list.n, .tokens = list.data };
    if (mra_encode(ctx, &seq, 1, &s->want, &res, &err) != MRA_OK) fatal(s->program, "the query: %s", err.msg);
    r->n_vector = res.n_rows;
    r->vector = malloc((size_t) (res.n_rows * res.n_cols) * sizeof(float));
    if (!r->vector) fatal(s->program, "out of memory");
    for (int64_t i = 0; i < res.n_rows; i++)
        normalize(r->vector + i * res.n_cols, res.data + i * res.n_cols, (int) res.n_cols);
    mra_context_free(ctx);
    mra_token_list_free(&list);
}

static void option(void * user, struct options * o, const struct args * a, int id) {
    struct rerank * r = user;
    (void) o;
    switch (id) {
        case 'q': r->query = args_text(a); break;
        case 'k': r->top_k = args_int(a, 1, 1 << 30); break;
        case OPT_SCORES: {
            const int kind = args_choice(a, "logit|prob|colbert");
            r->prob = kind == 1;
            r->colbert = kind == 2;
            break;
        }
    }
}

static void check(void * user, struct options * o, const struct args * a) {
    const struct rerank * r = user;
    if (!r->query) usage_error(a->program, "no query: -q TEXT (see --help)");
    if (o->resume) usage_error(a->program, "--resume: the order is not known before the last document");
}

static void ready(struct stream * s) {
    struct rerank * r = s->user;
    const struct mra_model_info * info = &s->engine.info;
    if (r->colbert && info->n_colbert == 0)
        fatal(s->program, "--scores colbert: %s has no ColBERT vectors", s->o->model);
    r->cosine = r->colbert || info->n_class < 1 || info->n_class > 2;
    s->want.kind = r->colbert ? MRA_OUTPUT_COLBERT : r->cosine ? MRA_OUTPUT_POOLED : MRA_OUTPUT_CLASS;
    s->rules.pairs = !r->cosine;
    if (!r->cosine) return;
    stream_default_prompt(s);
    if (r->colbert) {
        if (!s->o->dry_run) embed_query(s);
        return;
    }
    if (r->prob)
        fatal(s->program,
            "--scores prob: %s has no classifier with one or two labels; its cosines are not probabilities",
            s->o->model);
    fprintf(stderr, "%s: the model has %s: scores are cosines of embeddings\n", s->program,
        info->n_class ? "more than two labels" : "no classifier");
    if (!s->o->dry_run) embed_query(s);
}

static const struct program program = {
    .name = "mra-rerank",
    .usage = "-m MODEL -q QUERY [options] [DOCUMENT... | -f FILE | -]",
    .about = "Sorts documents by their relevance for a query.",
    .notes = notes,
    .opts = opts,
    .n_opt = sizeof(opts) / sizeof(opts[0]),
    .option = option,
    .check = check,
    .ready = ready,
    .on = { .record = on_record, .prepare = prepare, .collect = collect, .emit = emit, .end = end },
};

int main(int argc, char ** argv) {
    struct rerank r = { 0 };
    const int code = program_main(&program, &r, argc, argv);
    free(r.vector);
    return code;
}
