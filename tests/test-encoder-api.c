// What mra_encode takes over from its callers: spans, sorting by length, the choice of attention, being stopped; and
// NULL arguments, which give a status.
#include "encoder-golden.h"
#include "gguf-edit.h"

#include <string.h>
#include <unistd.h>

// ---- spans ----

static struct mra_output spans_of(const struct mra_span * spans, int n, enum mra_pooling pooling) {
    return (struct mra_output) {
        .kind = MRA_OUTPUT_SPANS, .spans = spans, .n_span = n, .pooling = pooling, .normalize = -1
    };
}

// one number of the embedding of rows x : [n][d], as mra-encoder.h defines it
static double pooled_channel(enum mra_pooling how, const float * x, int n, int64_t d, int64_t c) {
    double y = how == MRA_POOLING_MAX ? -INFINITY : 0;
    for (int t = 0; t < n; t++) y = how == MRA_POOLING_MAX ? fmax(y, x[t * d + c]) : y + x[t * d + c];
    switch (how) {
        case MRA_POOLING_CLS: return x[c];
        case MRA_POOLING_LAST: return x[(n - 1) * d + c];
        case MRA_POOLING_MAX: return y;
        case MRA_POOLING_MEAN_SQRT: return y / sqrt(n);
        default: return y / n;
    }
}

// overlapping spans, in no order, of all sequences but one, in passes of any size
static void check_spans(const struct golden * g, int n_batch) {
    struct mra_context_params p = threads(1);
    p.n_batch = n_batch;
    const int64_t d = g->hidden.shape[1];
    float * rows = encode_new(g->model, p, g->seqs, g->n_seq, tokens());
    struct mra_span spans[64];
    int n = 0;
    int64_t first[33] = { 0 }, n_needed = 0;
    for (int i = 0; i < g->n_seq; i++) first[i + 1] = first[i] + g->seqs[i].n;
    for (int i = g->n_seq - 1; i >= 1 && n + 3 <= 64; i--) {
        const int len = g->seqs[i].n;
        spans[n++] = (struct mra_span) { i, len / 3, len - len / 3 };
        spans[n++] = (struct mra_span) { i, 0, len };
        spans[n++] = (struct mra_span) { i, len - 1, 1 };
        n_needed += len;
    }
    struct mra_context * ctx = context(g->model, p);
    for (enum mra_pooling how = MRA_POOLING_MEAN; how <= MRA_POOLING_MEAN_SQRT; how++) {
        const struct mra_result r = encode(ctx, g->seqs, g->n_seq, spans_of(spans, n, how));
        CHECK(r.n_rows == n && r.n_cols == d, "%s: shape of spans", g->name);
        double worst = 0;
        for (int i = 0; r.data && i < n; i++)
            for (int64_t c = 0; c < d; c++) {
                const float * x = rows + (first[spans[i].seq] + spans[i].first) * d;
                worst = fmax(worst, fabs(r.data[i * d + c] - pooled_channel(how, x, spans[i].n, d, c)));
            }
        CHECK(worst <= 2e-5, "%s: pooling %d of spans is %.1e off", g->name, (int) how, worst);
    }
    CHECK(mra_context_stats(ctx).n_tokens == n_needed, "%s: sequences without a span are computed", g->name);
    CHECK(mra_context_stats(ctx).output_bytes == (size_t) (n * d) * sizeof(float), "%s: rows of tokens are kept",
        g->name);
    mra_context_free(ctx);
    free(rows);
}

// the first numbers of an embedding, cut before it is normalized
static void check_dims(const struct golden * g) {
    struct mra_context * ctx = context(g->model, threads(1));
    const int64_t d = g->hidden.shape[1];
    const struct mra_span whole = { 1, 0, g->seqs[1].n };
    for (int kind = 0; kind < 2; kind++) {
        struct mra_output want = kind ? spans_of(&whole, 1, MRA_POOLING_MEAN) : pooled(MRA_POOLING_MEAN);
        want.n_dims = 8;
        want.normalize = 1;
        const struct mra_result r = encode(ctx, g->seqs, 2, want);
        const float *x = r.data + (kind ? 0 : 8), *mean = g->mean.data + d;
        double len = 0, worst = 0;
        for (int c = 0; c < 8; c++) len += (double) mean[c] * mean[c];
        for (int c = 0; c < 8; c++) worst = fmax(worst, fabs(x[c] - mean[c] / sqrt(len)));
        CHECK(r.n_cols == 8 && worst <= 1e-3, "%s: 8 dimensions are %.1e off", g->name, worst);
    }
    mra_context_free(ctx);
}

static void check_wrong_spans(const struct golden * g) {
    struct mra_context * ctx = context(g->model, threads(1));
    const int len = g->seqs[0].n;
    const struct mra_span bad[] = { { -1, 0, 1 }, { 1, 0, 1 }, { 0, -1, 1 }, { 0, 0, 0 }, { 0, 0, len + 1 },
        { 0, len, 1 }, { 0, 1, len }, { 0, 1, INT32_MAX } };
    struct mra_result r;
    struct mra_error err;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct mra_output want = spans_of(&bad[i], 1, MRA_POOLING_MEAN);
        CHECK(mra_encode(ctx, g->seqs, 1, &want, &r, &err) == MRA_ERR_ARG && !r.data, "span %zu is accepted", i);
    }
    struct mra_output want = spans_of(NULL, 0, MRA_POOLING_MEAN);
    CHECK(mra_encode(ctx, g->seqs, 1, &want, &r, &err) == MRA_ERR_ARG, "no spans are accepted");
    want = pooled(MRA_POOLING_MEAN);
    want.n_dims = mra_model_info(g->model).n_embd + 1;
    CHECK(mra_encode(ctx, g->seqs, 1, &want, &r, &err) == MRA_ERR_ARG, "too many dimensions are accepted");
    mra_context_free(ctx);
}

// ---- passes by length ----

// Lengths 40, 1, 40, 1, ...: as the caller orders them no two fit in a pass of 41 + 1, sorted the short ones share one.
static void check_sorting(const struct golden * g) {
    int32_t ids[40];
    struct mra_seq seqs[12];
    for (int i = 0; i < 40; i++) ids[i] = 5 + i % 50;
    for (int i = 0; i < 12; i++) seqs[i] = (struct mra_seq) { .n = i % 2 ? 1 : 40, .ids = ids + (i % 2 ? i : 0) };
    struct mra_context_params p = threads(1);
    p.n_batch = 40;
    p.attention = MRA_ATTENTION_EXACT;
    struct mra_context * ctx = context(g->model, p);
    const struct mra_result r = encode(ctx, seqs, 12, pooled(MRA_POOLING_MEAN));
    CHECK(mra_context_stats(ctx).n_graphs == 7, "%s: %d passes, not 6 and one for all short ones", g->name,
        mra_context_stats(ctx).n_graphs);
    for (int i = 0; i < 12; i++) {
        float * one = encode_new(g->model, p, &seqs[i], 1, pooled(MRA_POOLING_MEAN));
        CHECK(
            max_diff(one, r.data + i * r.n_cols, r.n_cols) <= 2e-5, "%s: sequence %d is not in its place", g->name, i);
        free(one);
    }
    mra_context_free(ctx);
}

// ---- the choice of attention ----

static void check_choice(const struct golden * g, const struct golden * trained) {
    struct mra_context_params p = mra_context_params_default();
    const struct mra_attention_choice at = mra_attention_of(g->model, &p, MRA_AUTO_EXACT),
                                      above = mra_attention_of(g->model, NULL, MRA_AUTO_EXACT + 1);
    CHECK(at.exact && at.work == 1 && strcmp(at.text, "exact") == 0, "at the limit: %s", at.text);
    CHECK(!above.exact && !above.trained && above.attn.frame == MRA_FRAME_SORTED && above.work < .4 && above.work > .3,
        "above the limit: %s, work %g", above.text, above.work);
    CHECK(strcmp(above.text, "sorted, budget 0.375") == 0, "text '%s'", above.text);
    CHECK(above.exact_up_to == MRA_AUTO_EXACT, "exact up to %d", above.exact_up_to);
    const struct {
        int n;
        float budget;
    } by_length[] = { { 4095, 3.f / 8 }, { 4096, 5.f / 16 }, { 16383, 5.f / 16 }, { 16384, 1.f / 4 } };
    for (int i = 0; i < 4; i++) {
        const float got = mra_attention_of(g->model, NULL, by_length[i].n).attn.budget;
        CHECK(got == by_length[i].budget, "%d tokens: budget %g", by_length[i].n, (double) got);
    }
    p.attn.budget = .25f;
    CHECK(
        strcmp(mra_attention_of(g->model, &p, 5000).text, "columns, budget 0.25") == 0, "a chosen budget is not used");
    p.attn.budget = MRA_AUTO_BUDGET;
    p.attention = MRA_ATTENTION_EXACT;
    CHECK(mra_attention_of(g->model, &p, 5000).exact, "exact is not exact");
    p.attention = MRA_ATTENTION_MRA;
    CHECK(strcmp(mra_attention_of(g->model, &p, 200).text, "columns, budget 0.125") == 0, "mra at 200 tokens: %s",
        mra_attention_of(g->model, &p, 200).text);
    p.attention = MRA_ATTENTION_AUTO;
    p.attn.budget = 1;
    CHECK(mra_attention_of(g->model, &p, 5000).exact, "the whole budget is not exact");
    const struct mra_attention_choice own = mra_attention_of(trained->model, NULL, trained->seqs[trained->n_seq - 1].n);
    CHECK(!own.exact && own.trained && strcmp(own.text, "32,1, as trained") == 0, "trained with MRA: %s", own.text);
    CHECK(mra_attention_of(trained->model, NULL, 20).exact, "few tokens: every cell is refined");
    CHECK(!mra_attention_of(NULL, NULL, 20).text[0] && !mra_attention_of(g->model, NULL, 0).text[0], "nothing");
}

// ---- attention in integers ----

static const char * text_of(const struct mra_model * m, enum mra_attention_type type, int n_tokens, char * text) {
    struct mra_context_params p = mra_context_params_default();
    p.attention_type = type;
    memcpy(text, mra_attention_of(m, &p, n_tokens).text, 64);
    return text;
}

// auto: of the weights and of the kernels; float and int8 whatever the weights
static void check_type(const struct golden * g, const struct golden * trained) {
    struct mra_error err = { 0 };
    char quantized[1024], text[64];
    snprintf(quantized, sizeof(quantized), "%s", temp_path("q8_0.gguf"));
    const struct mra_quantize_params q = { .type = GGML_TYPE_Q8_0, .n_threads = 2 };
    CHECK(mra_quantize(g->path, quantized, &q, NULL, &err) == MRA_OK, "%s", err.msg);
    struct mra_model * m = load(quantized, NULL);
    const struct {
        const struct mra_model * m;
        enum mra_attention_type type;
        bool int8;
    } cases[] = {
        { g->model, MRA_ATTENTION_TYPE_AUTO, false },
        { g->model, MRA_ATTENTION_TYPE_INT8, true },
        { m, MRA_ATTENTION_TYPE_AUTO, true },
        { m, MRA_ATTENTION_TYPE_FLOAT, false },
    };
    for (int level = 0; level < 2; level++) {
        mra_kernels_set(level ? NULL : mra_kernels_by_name("base"));
        const bool has = mra_attn_type_runs(MRA_ATTN_INT8) == MRA_ATTN_INT8;
        CHECK(level || !has, "kernels base have int8");
        const char *numbers = mra_attn_numbers(MRA_ATTN_INT8), *isa = mra_isa(),
                   *known = !has                          ? "float"
            : strcmp(isa, "v4-amx") == 0                  ? "bf16"
            : strstr(isa, "-vnni") || strstr(isa, "-dot") ? "int8"
                                                          : "int16";
        CHECK(strcmp(numbers, known) == 0, "kernels %s: %s", isa, numbers);
        for (int i = 0; i < 4; i++) {
            const bool int8 = has && cases[i].int8;
            char want[2][64]; // with the numbers of this CPU
            snprintf(want[0], sizeof(want[0]), "exact%s%s", int8 ? ", " : "", int8 ? numbers : "");
            snprintf(want[1], sizeof(want[1]), "sorted, budget 0.3125%s%s", int8 ? ", " : "", int8 ? numbers : "");
            CHECK(strcmp(text_of(cases[i].m, cases[i].type, 100, text), want[0]) == 0, "case %d: '%s'", i, text);
            CHECK(
                strcmp(text_of(cases[i].m, cases[i].type, 10000, text), want[1]) == 0, "case %d, long: '%s'", i, text);
            CHECK((text_of(cases[i].m, cases[i].type, MRA_AUTO_EXACT_INT8, text)[0] == 'e') == int8,
                "case %d, %d tokens: '%s'", i, MRA_AUTO_EXACT_INT8, text);
        }
    }
    CHECK(strcmp(text_of(trained->model, MRA_ATTENTION_TYPE_AUTO, trained->seqs[trained->n_seq - 1].n, text),
              "32,1, as trained") == 0,
        "trained: '%s'", text);
    struct mra_context_params p = threads(1);
    p.attention_type = MRA_ATTENTION_TYPE_INT8;
    CHECK(!mra_context_new(trained->model, &p, &err) && err.code == MRA_ERR_UNSUPPORTED && strstr(err.msg, "trained"),
        "a square frame in int8: '%s'", err.msg);
    p.attention_type = 9;
    CHECK(!mra_context_new(g->model, &p, &err) && strstr(err.msg, "type of attention 9"), "type 9: '%s'", err.msg);
    mra_model_free(m);
    remove(quantized);
}

// close to floats, and the same bits however sequences and threads are put together
static void check_int8(const struct golden * g, enum mra_attention attention) {
    struct mra_context_params p = threads(1);
    p.attention = attention;
    p.attn.budget = .5f;
    int64_t n = 0;
    for (int i = 0; i < g->n_seq; i++) n += g->seqs[i].n * g->hidden.shape[1];
    float * floats = encode_new(g->model, p, g->seqs, g->n_seq, tokens());
    p.attention_type = MRA_ATTENTION_TYPE_INT8;
    float * a = encode_new(g->model, p, g->seqs, g->n_seq, tokens());
    p.n_threads = 3;
    p.n_batch = 1;
    float * b = encode_new(g->model, p, g->seqs, g->n_seq, tokens());
    const double off = relative_error(a, floats, n);
    CHECK(off <= .02, "%s: int8 is %.4f off floats", g->name, off);
    CHECK(off > 1e-7 || mra_attn_type_runs(MRA_ATTN_INT8) != MRA_ATTN_INT8, "%s: int8 is what floats give", g->name);
    CHECK(memcmp(a, b, (size_t) n * sizeof(float)) == 0, "%s: int8: threads or passes change the result", g->name);
    free(floats);
    free(a);
    free(b);
}

// ---- stop ----

static bool count_down(void * user) { return --*(int *) user < 0; }

// wherever it is stopped, the next call gives the whole result
static void check_stop(const struct golden * g) {
    int left = 1000000;
    struct mra_context_params p = threads(2);
    p.n_batch = 1;
    p.stop = count_down;
    p.stop_user = &left;
    float * want = encode_new(g->model, threads(2), g->seqs, g->n_seq, pooled(MRA_POOLING_MEAN));
    struct mra_context * ctx = context(g->model, p);
    const struct mra_output pool = pooled(MRA_POOLING_MEAN);
    encode(ctx, g->seqs, g->n_seq, pool);
    const int n_calls = 1000000 - left;
    CHECK(n_calls > 5 * g->n_seq, "%s: %d calls for %d passes: not behind every node", g->name, n_calls, g->n_seq);
    for (int i = 0; i < n_calls; i += 1 + n_calls / 8) {
        struct mra_result r;
        struct mra_error err;
        left = i;
        CHECK(mra_encode(ctx, g->seqs, g->n_seq, &pool, &r, &err) == MRA_ERR_STOPPED && err.code == MRA_ERR_STOPPED &&
                !r.data,
            "%s: not stopped at call %d of %d: %s", g->name, i, n_calls, err.msg);
    }
    left = 1000000;
    const struct mra_result r = encode(ctx, g->seqs, g->n_seq, pool);
    CHECK(r.data && max_diff(r.data, want, g->n_seq * r.n_cols) <= 2e-5, "%s: another result after being stopped",
        g->name);
    mra_context_free(ctx);
    free(want);
}

// ---- NULL, and devices ----

static void check_null(const struct golden * g) {
    struct mra_error err = { 0 };
    struct mra_context * ctx = context(g->model, threads(1));
    struct mra_result r;
    struct mra_token_list list = { 0 };
    const struct mra_output want = tokens();
    CHECK(!mra_model_load(NULL, NULL, &err) && err.code == MRA_ERR_ARG, "load(NULL)");
    CHECK(!mra_context_new(NULL, NULL, &err) && err.code == MRA_ERR_ARG, "context_new(NULL)");
    CHECK(!mra_context_new(NULL, NULL, NULL), "context_new(NULL) without an error");
    CHECK(mra_encode(NULL, g->seqs, 1, &want, &r, &err) == MRA_ERR_ARG && !r.data, "encode without a context");
    CHECK(mra_encode(ctx, NULL, 1, &want, &r, &err) == MRA_ERR_ARG, "encode without sequences");
    CHECK(mra_encode(ctx, g->seqs, 1, NULL, &r, &err) == MRA_ERR_ARG, "encode without an output");
    CHECK(mra_encode(ctx, g->seqs, 1, &want, NULL, &err) == MRA_ERR_ARG, "encode without a result");
    CHECK(mra_model_tokenize(NULL, "a", 1, NULL, 0, 0, &list, &err) == MRA_ERR_ARG, "tokenize without a model");
    CHECK(mra_model_tokenize(g->model, NULL, 1, NULL, 0, 0, &list, &err) == MRA_ERR_ARG, "tokenize without a text");
    CHECK(mra_model_tokenize(g->model, "a", 1, NULL, 0, 0, NULL, &err) == MRA_ERR_ARG, "tokenize without a list");
    CHECK(mra_quantize(NULL, "b", &(struct mra_quantize_params) { 0 }, NULL, &err) == MRA_ERR_ARG, "quantize(NULL)");
    CHECK(mra_quantize("a", NULL, &(struct mra_quantize_params) { 0 }, NULL, &err) == MRA_ERR_ARG, "quantize to NULL");
    CHECK(mra_quantize("a", "b", NULL, NULL, &err) == MRA_ERR_ARG, "quantize without settings");
    CHECK(mra_quantize_type(NULL) == GGML_TYPE_COUNT, "quantize_type(NULL)");
    CHECK(mra_model_info(NULL).n_layer == 0 && !mra_model_label(NULL, 0) && !mra_model_tokenizer(NULL), "info(NULL)");
    CHECK(mra_context_stats(NULL).n_tokens == 0 && !*mra_context_note(NULL), "stats(NULL)");
    mra_model_free(NULL);
    mra_context_free(NULL);
    mra_context_free(ctx);
}

static void check_device(const struct golden * g) {
    struct mra_error err = { 0 };
    CHECK(
        !mra_model_load(g->path, &(struct mra_model_params) { .device = "NONE7" }, &err), "a device that is not there");
    CHECK(err.code == MRA_ERR_DEVICE && !strstr(err.msg, g->path), "no device: code %d, '%s'", (int) err.code, err.msg);
    CHECK(!mra_model_load("none.gguf", NULL, &err) && err.code == MRA_ERR_IO, "no file: code %d", (int) err.code);
}

// ---- the error of attention ----

// sums of every sequence of g, computed with n_threads in passes of n_batch tokens; freed by the caller
static double * errors_of(const struct golden * g, const char * frame, int n_threads, int n_batch) {
    struct mra_context_params p = threads(n_threads);
    p.n_batch = n_batch;
    p.attention = MRA_ATTENTION_MRA;
    p.attn.budget = .25f;
    CHECK(mra_attn_params_parse(&p.attn, frame, NULL) == MRA_OK, "%s", frame);
    p.n_error_rows = 16;
    const struct mra_model_info info = mra_model_info(g->model);
    const size_t n = (size_t) info.n_layer * info.n_head * MRA_ATTN_ERROR_SUMS;
    double * all = calloc(n * (size_t) g->n_seq, sizeof(double));
    struct mra_context * ctx = context(g->model, p);
    encode(ctx, g->seqs, g->n_seq, tokens());
    for (int i = 0; i < g->n_seq; i++) {
        const double * sums = mra_context_errors(ctx, i);
        CHECK(sums, "%s: no sums of sequence %d", frame, i);
        if (!sums) continue;
        memcpy(all + n * (size_t) i, sums, n * sizeof(double));
        const int rows = g->seqs[i].n < 16 ? g->seqs[i].n : 16;
        CHECK(
            sums[MRA_ATTN_ERROR_ALL] == g->seqs[i].n && sums[MRA_ATTN_ERROR_ROWS] == rows && sums[MRA_ATTN_ERROR_R] > 0,
            "%s: sequence %d: %g of %g rows", frame, i, sums[MRA_ATTN_ERROR_ROWS], sums[MRA_ATTN_ERROR_ALL]);
    }
    CHECK(!mra_context_errors(ctx, g->n_seq) && !mra_context_errors(ctx, -1), "sums of no sequence");
    mra_context_free(ctx);
    return all;
}

static void check_errors(const struct golden * g) {
    static const char * const frames[] = { "columns", "mra2", "sorted" };
    const struct mra_model_info info = mra_model_info(g->model);
    const size_t bytes = (size_t) g->n_seq * info.n_layer * info.n_head * MRA_ATTN_ERROR_SUMS * sizeof(double);
    for (int f = 0; f < 3; f++) {
        double *a = errors_of(g, frames[f], 1, 0), *b = errors_of(g, frames[f], 3, 1);
        CHECK(memcmp(a, b, bytes) == 0, "%s: errors depend on batch or threads", frames[f]);
        free(a);
        free(b);
    }
    struct mra_context_params p = threads(1);
    struct mra_context * ctx = context(g->model, p);
    encode(ctx, g->seqs, g->n_seq, tokens());
    CHECK(!mra_context_errors(ctx, 0), "sums that nobody asked for");
    mra_context_free(ctx);
    p.n_error_rows = -2;
    CHECK(!mra_context_new(g->model, &p, NULL), "n_error_rows = -2");
}

// ---- on_attention ----

enum { MAX_CAPTURED = 1 << 20 };

struct captured {
    int n_calls, n_head, n_head_kv, d;
    int calls[16][32]; // [layer][seq]
    float * x;         // [MAX_CAPTURED], rows of q, then k, then v of each call
    int64_t at[16][32], n;
};

static void capture(void * user, const struct mra_attention_input * in) {
    struct captured * c = user;
    const float * const from[3] = { in->q, in->k, in->v };
    c->n_calls++;
    c->n_head = in->n_head;
    c->n_head_kv = in->n_head_kv;
    c->d = in->d;
    CHECK(in->layer < 16 && in->seq < 32 && in->attn.scale > 0 && !in->near, "layer %d, seq %d", in->layer, in->seq);
    c->calls[in->layer][in->seq]++;
    c->at[in->layer][in->seq] = c->n;
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < in->n; i++) {
            const int64_t w = (int64_t) (k ? in->n_head_kv : in->n_head) * in->d;
            if (c->n + w <= MAX_CAPTURED)
                memcpy(
                    c->x + c->n, (const char *) from[k] + i * (int64_t) in->row_bytes[k], (size_t) w * sizeof(float));
            c->n += w;
        }
}

static struct captured capture_all(const struct golden * g, struct mra_context_params p) {
    struct captured c = { .x = calloc(MAX_CAPTURED, sizeof(float)) };
    p.on_attention = capture;
    p.on_attention_user = &c;
    struct mra_context * ctx = context(g->model, p);
    encode(ctx, g->seqs, g->n_seq, tokens());
    mra_context_free(ctx);
    CHECK(c.n <= MAX_CAPTURED, "%s: %lld floats", g->name, (long long) c.n);
    return c;
}

// the largest difference of a layer's q, k and v of a sequence
static double differ(
    const struct golden * g, const struct captured * a, const struct captured * b, int layer, int seq) {
    const int64_t n = (int64_t) g->seqs[seq].n * (a->n_head + 2 * a->n_head_kv) * a->d;
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double) a->x[a->at[layer][seq] + i] - b->x[b->at[layer][seq] + i]));
    return worst;
}

// q, k and v of every layer and sequence once; equal in every bit for any batch, and about what ggml's products give,
// which has them in three tensors instead of one
static void check_capture(const struct golden * g) {
    const int n_layer = mra_model_info(g->model).n_layer;
    struct mra_context_params p = threads(1), small = p, dense = p;
    p.attention = small.attention = dense.attention = MRA_ATTENTION_EXACT;
    small.n_batch = 1; // a sequence each
    dense.ggml_dense = true;
    struct captured a = capture_all(g, p), b = capture_all(g, small), c = capture_all(g, dense);
    CHECK(a.n_calls == n_layer * g->n_seq, "%s: %d calls of on_attention", g->name, a.n_calls);
    for (int l = 0; l < n_layer; l++)
        for (int i = 0; i < g->n_seq; i++) {
            CHECK(a.calls[l][i] == 1 && b.calls[l][i] == 1, "%s: layer %d of sequence %d", g->name, l, i);
            CHECK(differ(g, &a, &b, l, i) == 0, "%s: q, k, v of layer %d, sequence %d depend on the batch", g->name, l,
                i);
            CHECK(differ(g, &a, &c, l, i) < 1e-3, "%s: q, k, v of layer %d, sequence %d: %.1e", g->name, l, i,
                differ(g, &a, &c, l, i));
        }
    free(a.x);
    free(b.x);
    free(c.x);
    struct mra_error err;
    p.on_attention = capture;
    p.profile = true;
    CHECK(!mra_context_new(g->model, &p, &err) && err.code == MRA_ERR_ARG, "on_attention with profile");
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s golden/models\n", argv[0]);
        return 2;
    }
    goldens_begin(argv[1]);
    struct golden bert = golden_open("bert"), mra = golden_open("mra");
    const struct golden * all[] = { &bert, &mra };
    for (int i = 0; i < 2; i++) {
        check_spans(all[i], 0);
        check_spans(all[i], 1);
        check_spans(all[i], 40);
        check_dims(all[i]);
        check_sorting(all[i]);
        check_stop(all[i]);
        check_capture(all[i]);
    }
    check_wrong_spans(&bert);
    check_choice(&bert, &mra);
    check_type(&bert, &mra);
    check_int8(&bert, MRA_ATTENTION_EXACT);
    check_int8(&bert, MRA_ATTENTION_MRA);
    check_null(&bert);
    check_device(&bert);
    check_errors(&bert);
    golden_close(&bert);
    golden_close(&mra);
    goldens_end();
    return summary("test-encoder-api");
}
