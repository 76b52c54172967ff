// The process behind mra-bench model --worker: jobs in, answers out. See bench-model.h.
#include "bench-model.h"

#include "common/output.h"

#include "mra-encoder.h"

#include <cjson/cJSON.h>

#include <stdlib.h>
#include <string.h>

// one model, and the context of the last job: another frame or number of threads makes a new one
struct state {
    struct mra_model * model;
    struct mra_context * ctx;
    struct mra_context_params params;
    char frame[64];
    int n_threads; // where a job names none
};

// ---- answers ---------------------------------------------------------------------------------------------------

static void add_about(cJSON * o, const struct mra_model * model) {
    const struct mra_model_info m = mra_model_info(model);
    cJSON_AddStringToObject(o, "name", m.name);
    cJSON_AddStringToObject(o, "family", m.family);
    cJSON_AddStringToObject(o, "type", m.type);
    cJSON_AddNumberToObject(o, "layers", m.n_layer);
    cJSON_AddNumberToObject(o, "embd", m.n_embd);
    cJSON_AddNumberToObject(o, "heads", m.n_head);
    cJSON_AddNumberToObject(o, "ff", m.n_ff);
    cJSON_AddNumberToObject(o, "vocab", m.n_vocab);
    cJSON_AddNumberToObject(o, "positions", m.n_ctx);
    cJSON_AddNumberToObject(o, "bytes", (double) m.n_bytes);
}

static bool is_attention(const char * op) {
    static const char * const names[] = { "attn", "pack", "pool", "block-score", "topk-blocks", "coarse-state",
        "block-sparse-attn" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(op, names[i]) == 0) return true;
    return false;
}

static void add_profile(cJSON * o, const struct mra_stats * s) {
    cJSON *parts = cJSON_AddObjectToObject(o, "parts_ms"), *ops = cJSON_AddObjectToObject(o, "ops_ms");
    double dense = 0, attention = 0, rest = 0;
    for (int i = 0; i < MRA_PART_COUNT; i++) json_real(parts, mra_part_name((enum mra_part) i), s->part_ms[i], 5);
    for (int i = 0; i < s->n_ops; i++) {
        const char * op = s->ops[i].op;
        json_real(ops, op, s->ops[i].ms, 5);
        *(strcmp(op, "linear") == 0 || strcmp(op, "scratch") == 0 || strcmp(op, "MUL_MAT") == 0 ? &dense
                : is_attention(op)                                                              ? &attention
                                   : &rest) += s->ops[i].ms;
    }
    json_real(o, "dense_ms", dense, 5);
    json_real(o, "attention_ms", attention, 5);
    json_real(o, "rest_ms", rest, 5);
}

static void answer(FILE * out, cJSON * o) {
    char * s = cJSON_PrintUnformatted(o);
    if (s) fprintf(out, "%s\n", s);
    free(s);
    fflush(out);
    cJSON_Delete(o);
}

static int answer_error(FILE * out, const char * what) {
    cJSON * o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "error", what);
    answer(out, o);
    return 1;
}

// ---- jobs ------------------------------------------------------------------------------------------------------

static enum mra_attention_type type_of(const char * name) {
    return !name || strcmp(name, "auto") == 0 ? MRA_ATTENTION_TYPE_AUTO
        : strcmp(name, "int8") == 0           ? MRA_ATTENTION_TYPE_INT8
                                              : MRA_ATTENTION_TYPE_FLOAT;
}

// what a job's embedding is: the mean of the last hidden states, or the first of them
static enum mra_status pooling_of(const cJSON * job, enum mra_pooling * pooling, struct mra_error * err) {
    const cJSON * item = cJSON_GetObjectItem(job, "pooling");
    const char * name = item ? cJSON_GetStringValue(item) : "mean";
    *pooling = name && strcmp(name, "cls") == 0 ? MRA_POOLING_CLS : MRA_POOLING_MEAN;
    if (!name || (*pooling == MRA_POOLING_MEAN && strcmp(name, "mean") != 0))
        return mra_fail(err, MRA_ERR_ARG, "\"pooling\" is \"mean\" or \"cls\"");
    return MRA_OK;
}

static enum mra_status use_params(struct state * s, const cJSON * job, struct mra_error * err) {
    const cJSON *frame = cJSON_GetObjectItem(job, "frame"), *budget = cJSON_GetObjectItem(job, "budget"),
                *threads = cJSON_GetObjectItem(job, "threads");
    struct mra_context_params p = mra_context_params_default();
    char name[sizeof(s->frame)];
    snprintf(name, sizeof(name), "%s", cJSON_IsString(frame) ? frame->valuestring : "columns");
    p.attention = MRA_ATTENTION_MRA;
    p.attention_type = type_of(cJSON_GetStringValue(cJSON_GetObjectItem(job, "attn_type")));
    p.n_threads = cJSON_IsNumber(threads) ? threads->valueint : s->n_threads;
    p.profile = cJSON_IsTrue(cJSON_GetObjectItem(job, "profile"));
    if (cJSON_IsNumber(budget)) p.attn.budget = (float) budget->valuedouble;
    const enum mra_status st = mra_attn_params_parse(&p.attn, name, err);
    if (st != MRA_OK) return st;
    if (s->ctx && p.n_threads == s->params.n_threads && p.profile == s->params.profile &&
        p.attn.budget == s->params.attn.budget && p.attention_type == s->params.attention_type &&
        strcmp(name, s->frame) == 0)
        return MRA_OK;
    mra_context_free(s->ctx);
    s->params = p;
    memcpy(s->frame, name, sizeof(name));
    s->ctx = mra_context_new(s->model, &p, err);
    return s->ctx ? MRA_OK : err->code;
}

static enum mra_status use_kernels(const cJSON * job, struct mra_error * err) {
    static const struct mra_kernels * best;
    if (!best) best = mra_kernels_get();
    const char * isa = cJSON_GetStringValue(cJSON_GetObjectItem(job, "isa"));
    const struct mra_kernels * k = !isa   ? best
        : strcmp(isa, "ref") == 0         ? &mra_kernels_ref
        : strcmp(isa, "ref-rounded") == 0 ? kernels_rounded()
                                          : mra_kernels_by_name(isa);
    if (!k) return mra_fail(err, MRA_ERR_ARG, "no kernels '%s' here", isa);
    mra_kernels_set(k);
    return MRA_OK;
}

// [*n], the caller's; NULL: not a list of whole numbers, or no memory
static int32_t * ids_of(const cJSON * job, int * n) {
    const cJSON *list = cJSON_GetObjectItem(job, "ids"), *x;
    *n = cJSON_GetArraySize(list);
    int32_t * ids = *n > 0 ? malloc((size_t) *n * sizeof(*ids)) : NULL;
    int i = 0;
    cJSON_ArrayForEach(x, list) {
        if (ids && !cJSON_IsNumber(x)) {
            free(ids);
            ids = NULL;
        }
        if (ids) ids[i++] = x->valueint;
    }
    return ids;
}

static enum mra_status run(struct state * s, const cJSON * job, cJSON * o, struct mra_error * err) {
    int n;
    int32_t * ids = ids_of(job, &n);
    enum mra_status st = ids ? use_params(s, job, err)
                             : mra_fail(err, MRA_ERR_ARG, "a job needs \"ids\", a list of token ids");
    struct mra_output want = { .kind = MRA_OUTPUT_POOLED, .normalize = -1 };
    if (st == MRA_OK) st = use_kernels(job, err);
    if (st == MRA_OK) st = pooling_of(job, &want.pooling, err);
    if (st == MRA_OK) {
        const struct mra_seq seq = { .n = n, .ids = ids };
        struct mra_result r;
        const double t0 = now_seconds();
        st = mra_encode(s->ctx, &seq, 1, &want, &r, err);
        const double t1 = now_seconds();
        if (st == MRA_OK) {
            const struct mra_stats stats = mra_context_stats(s->ctx);
            cJSON_AddNumberToObject(o, "seconds", t1 - t0);
            json_real(o, "work", mra_attn_work(&s->params.attn, n, n), 6);
            cJSON_AddStringToObject(o, "isa", mra_isa());
            cJSON_AddStringToObject(
                o, "attn_type", mra_attn_type_name(mra_attention_of(s->model, &s->params, n).attn.type));
            cJSON_AddNumberToObject(o, "threads", s->params.n_threads);
            json_real(o, "peak_mb", memory_peak() / 1e6, 6);
            if (s->params.profile) add_profile(o, &stats);
            cJSON * e = cJSON_AddArrayToObject(o, "embedding");
            for (int64_t i = 0; i < r.n_cols; i++)
                cJSON_AddItemToArray(e, cJSON_CreateNumber((double) r.data[i])); // NaN becomes null
        }
    }
    free(ids);
    return st;
}

int worker_main(const char * model, int n_threads, bool no_mmap, FILE * in, FILE * out) {
    struct mra_error err;
    const struct mra_model_params params = { .no_mmap = no_mmap };
    struct state s = { .model = mra_model_load(model, &params, &err), .n_threads = n_threads };
    if (!s.model) return answer_error(out, err.msg);
    cJSON * o = cJSON_CreateObject();
    add_about(o, s.model);
    answer(out, o);
    char * line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, in) > 0) {
        cJSON * job = cJSON_Parse(line);
        o = cJSON_CreateObject();
        const enum mra_status st = cJSON_IsObject(job)
            ? run(&s, job, o, &err)
            : mra_fail(&err, MRA_ERR_ARG, "a job is one JSON object on a line");
        cJSON_Delete(job);
        if (st == MRA_OK) {
            answer(out, o);
            continue;
        }
        cJSON_Delete(o);
        answer_error(out, err.msg);
    }
    free(line);
    mra_context_free(s.ctx);
    mra_model_free(s.model);
    return 0;
}
