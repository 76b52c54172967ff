// /v1/embeddings, /embed, /embed_all, /embed_sparse: texts -> vectors.
#include "reply.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

// ---- OpenAI's ----

static bool is_number(struct json_span v) { return v.s && (*v.s == '-' || (*v.s >= '0' && *v.s <= '9')); }

// the first element of a list; absent where v is no list, or an empty one
static struct json_span first_of(struct json_span v) {
    struct json_span key, member = { 0 };
    size_t at = 0;
    if (v.s && *v.s == '[' && !json_next(v, &at, &key, &member)) member = (struct json_span) { 0 };
    return member;
}

static bool is_ids(struct json_span v) {
    const struct json_span first = first_of(v);
    return is_number(first) || is_number(first_of(first));
}

// one sequence: a list of ids
static bool add_ids(struct call * c, int i, struct json_span v, bool truncate) {
    struct json_span key, member;
    struct mra_error err;
    int n = 0;
    if (*v.s != '[') return call_fail(c, 400, "input", "input[%d] must be a list of token ids", i);
    int32_t * ids = malloc(v.n / 2 * sizeof(*ids) + sizeof(*ids)); // a digit and a comma at least
    if (!ids) return call_fail(c, 500, NULL, "out of memory");
    bool good = true;
    for (size_t at = 0; good && json_next(v, &at, &key, &member);) {
        const long long x = json_whole(member);
        good = x >= 0 && x <= INT32_MAX;
        if (good) ids[n++] = (int32_t) x;
    }
    if (!good) call_fail(c, 400, "input", "input[%d] has an element that is no token id", i);
    else if (job_add_ids(c->job, ids, n, truncate, &err) != MRA_OK) {
        call_fail(c,
            err.code == MRA_ERR_TOO_LONG     ? 422
                : err.code == MRA_ERR_MEMORY ? 500
                                             : 400,
            "input", "input[%d]: %s", i, err.msg);
        good = false;
    }
    free(ids);
    return good;
}

static bool add_all_ids(struct call * c, struct json_span v, bool truncate) {
    struct json_span key, member;
    if (!c->server->settings.accept_token_ids)
        return call_fail(c, 400, "input",
            "input has token ids, which belong to some tokenizer; this server takes texts. LangChain's "
            "OpenAIEmbeddings sends ids of OpenAI's tokenizer unless check_embedding_ctx_length=False; mra-server "
            "--accept-token-ids takes ids of the model's own");
    if (is_number(first_of(v))) {
        c->ask.single = true;
        return add_ids(c, 0, v, truncate);
    }
    int n = 0;
    for (size_t at = 0; json_next(v, &at, &key, &member); n++)
        if (!add_ids(c, n, member, truncate)) return false;
    return request_count(c, "input", n);
}

void openai_embeddings(struct call * c) {
    enum { MODEL, INPUT, FORMAT, DIMENSIONS, USER, NORMALIZE, PROMPT, TRUNCATE, N };
    struct field f[N] = { { "model", { 0 } }, { "input", { 0 } }, { "encoding_format", { 0 } }, { "dimensions", { 0 } },
        { "user", { 0 } }, { "normalize", { 0 } }, { "prompt_name", { 0 } }, { "truncate", { 0 } } };
    if (!request_fields(c, f, N)) return;
    struct served * m = request_model(c, &f[MODEL], USE_EMBED);
    if (!m) return;
    int base64 = 0, dims = m->engine.info.n_pooled;
    bool normalize = true;
    struct text_way way;
    if (!request_choice(c, &f[FORMAT], "float|base64", &base64) || !request_bool(c, &f[NORMALIZE], &normalize) ||
        !request_int(c, &f[DIMENSIONS], 1, m->engine.info.n_pooled, &dims) ||
        !request_way(c, m, &f[PROMPT], &f[TRUNCATE], NULL, &way))
        return;
    c->ask.base64 = base64;
    const struct mra_output want = { .kind = MRA_OUTPUT_POOLED, .normalize = normalize ? 1 : -1, .n_dims = dims };
    if (!request_job(c, m, &want)) return;
    if (is_ids(f[INPUT].value)) {
        if (!add_all_ids(c, f[INPUT].value, way.truncate)) return;
    } else if (!request_texts(c, &f[INPUT], &c->ask.texts, &c->ask.single) ||
        !request_add_all(c, "input", &c->ask.texts, c->ask.single, &way))
        return;
    request_size(c, c->job->n_rows * dims);
}

void openai_embeddings_reply(struct call * c) {
    const struct job * j = c->job;
    call_reply(c, 200);
    struct sink * out = &c->out;
    sink_text(out, "{\"object\": \"list\", \"data\": [");
    for (int i = 0; i < j->n_seq; i++) {
        sink_printf(out, "%s{\"object\": \"embedding\", \"index\": %d, \"embedding\": ", i ? ", " : "", i);
        const float * x = j->rows + i * j->n_cols;
        if (c->ask.base64) reply_base64(out, x, j->n_cols);
        else reply_floats(out, x, j->n_cols);
        sink_text(out, "}");
    }
    sink_text(out, "], \"model\": ");
    reply_text(out, j->model->id);
    sink_text(out, ", ");
    reply_usage(out, c, 0);
    sink_text(out, "}");
}

// ---- text-embeddings-inference's ----

static struct mra_output wanted(enum mra_output_kind kind) {
    return (struct mra_output) { .kind = kind, .normalize = kind == MRA_OUTPUT_POOLED ? 1 : -1 };
}

// what the three have in common; dims and normalize: NULL where a route has none
static void embed(struct call * c, enum use use, enum mra_output_kind kind) {
    enum { INPUTS, TRUNCATE, DIRECTION, PROMPT, NORMALIZE, DIMENSIONS, N };
    struct field f[N] = { { "inputs", { 0 } }, { "truncate", { 0 } }, { "truncation_direction", { 0 } },
        { "prompt_name", { 0 } }, { "normalize", { 0 } }, { "dimensions", { 0 } } };
    const bool pooled = kind == MRA_OUTPUT_POOLED;
    if (!request_fields(c, f, pooled ? N : NORMALIZE)) return;
    struct served * m = request_model(c, NULL, use);
    if (!m) return;
    struct mra_output want = wanted(kind);
    bool normalize = true;
    struct text_way way;
    if (!request_bool(c, &f[NORMALIZE], &normalize) ||
        !request_int(c, &f[DIMENSIONS], 1, m->engine.info.n_pooled, &want.n_dims) ||
        !request_way(c, m, &f[PROMPT], &f[TRUNCATE], &f[DIRECTION], &way) ||
        !request_texts(c, &f[INPUTS], &c->ask.texts, &c->ask.single))
        return;
    if (pooled) {
        want.normalize = normalize ? 1 : -1;
        if (!want.n_dims) want.n_dims = m->engine.info.n_pooled;
    }
    if (!request_job(c, m, &want)) return;
    c->job->sparse = use == USE_SPARSE;
    if (request_add_all(c, "inputs", &c->ask.texts, c->ask.single, &way))
        request_size(c, c->job->n_rows * (pooled ? want.n_dims : m->engine.info.n_embd));
}

void tei_embed(struct call * c) { embed(c, USE_EMBED, MRA_OUTPUT_POOLED); }
void tei_embed_all(struct call * c) { embed(c, USE_EMBED, MRA_OUTPUT_TOKENS); }

void tei_embed_sparse(struct call * c) {
    embed(c, USE_SPARSE, MRA_OUTPUT_MLM);
    for (int i = 0; !c->status && i < c->job->n_seq; i++) // a row of all words per token, until the largest are taken
        request_size(c, (int64_t) c->job->seqs[i].list.n * c->job->model->engine.info.n_vocab);
}

void tei_embed_reply(struct call * c) {
    const struct job * j = c->job;
    call_reply(c, 200);
    for (int i = 0; i < j->n_seq; i++) {
        sink_text(&c->out, i ? ", " : "[");
        reply_floats(&c->out, j->rows + i * j->n_cols, j->n_cols);
    }
    sink_text(&c->out, "]");
}

void tei_embed_all_reply(struct call * c) {
    const struct job * j = c->job;
    call_reply(c, 200);
    for (int i = 0; i < j->n_seq; i++) {
        sink_text(&c->out, i ? ", [" : "[[");
        for (size_t t = 0; t < j->seqs[i].list.n; t++) {
            if (t) sink_text(&c->out, ", ");
            reply_floats(&c->out, j->rows + (j->seqs[i].row + (int64_t) t) * j->n_cols, j->n_cols);
        }
        sink_text(&c->out, "]");
    }
    sink_text(&c->out, "]");
}

void tei_embed_sparse_reply(struct call * c) {
    const struct job * j = c->job;
    call_reply(c, 200);
    for (int i = 0; i < j->n_seq; i++) {
        const struct job_seq * s = &j->seqs[i];
        sink_text(&c->out, i ? ", [" : "[[");
        for (int w = 0; w < s->n_weights; w++) {
            sink_printf(&c->out, "%s{\"index\": %d, \"value\": ", w ? ", " : "", s->weights[w].index);
            reply_real(&c->out, s->weights[w].value);
            sink_text(&c->out, "}");
        }
        sink_text(&c->out, "]");
    }
    sink_text(&c->out, "]");
}
