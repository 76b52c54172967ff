// What mra_encode takes over from its callers: spans, sorting by length, being stopped; and NULL arguments, which give
// a status. The choice of attention: test-encoder-attention.c.
#include "encoder-golden.h"

#include <string.h>

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
    }
    check_wrong_spans(&bert);
    check_null(&bert);
    check_device(&bert);
    golden_close(&bert);
    golden_close(&mra);
    goldens_end();
    return summary("test-encoder-api");
}
