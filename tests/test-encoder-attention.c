// The attention of an encoder: which one a text gets, in integers, its error, and what on_attention hands out.
#include "encoder-golden.h"

#include <string.h>

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
                   *known = !has         ? "float"
            : strcmp(isa, "v4-amx") == 0 ? "bf16"
            : strchr(isa, '-')           ? "int8"
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
    CHECK(mra_quantize(trained->path, quantized, &q, NULL, &err) == MRA_OK, "%s", err.msg);
    mra_model_free(m);
    m = load(quantized, NULL);
    CHECK(
        strcmp(text_of(m, MRA_ATTENTION_TYPE_AUTO, trained->seqs[trained->n_seq - 1].n, text), "32,1, as trained") == 0,
        "trained, q8_0: '%s'", text);
    struct mra_context_params p = threads(1);
    p.attention_type = MRA_ATTENTION_TYPE_INT8;
    CHECK(!mra_context_new(trained->model, &p, &err) && err.code == MRA_ERR_UNSUPPORTED && strstr(err.msg, "trained"),
        "a square frame in int8: '%s'", err.msg);
    p.attention_type = 9;
    CHECK(!mra_context_new(g->model, &p, &err) && strstr(err.msg, "type of attention 9"), "type 9: '%s'", err.msg);
    mra_model_free(m);
    remove(quantized);
}

// Close to floats, or where a sparse frame chose other keys of almost equal scores: with no larger an error, to a
// twentieth of it. And the same bits however sequences and threads are put together.
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
    struct mra_context_params full = threads(1);
    full.attention = MRA_ATTENTION_EXACT;
    float * exact = encode_new(g->model, full, g->seqs, g->n_seq, tokens());
    const double off = relative_error(a, floats, n), error = relative_error(floats, exact, n),
                 now = relative_error(a, exact, n);
    CHECK(off <= .02 || (error > .02 && now <= 1.05 * error),
        "%s: int8 is %.4f off floats, its error %.4f, theirs %.4f", g->name, off, now, error);
    free(exact);
    CHECK(off > 1e-7 || mra_attn_type_runs(MRA_ATTN_INT8) != MRA_ATTN_INT8, "%s: int8 is what floats give", g->name);
    CHECK(memcmp(a, b, (size_t) n * sizeof(float)) == 0, "%s: int8: threads or passes change the result", g->name);
    free(floats);
    free(a);
    free(b);
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
    check_choice(&bert, &mra);
    check_type(&bert, &mra);
    check_int8(&bert, MRA_ATTENTION_EXACT);
    check_int8(&bert, MRA_ATTENTION_MRA);
    check_errors(&bert);
    check_capture(&bert);
    check_capture(&mra);
    golden_close(&bert);
    golden_close(&mra);
    goldens_end();
    return summary("test-encoder-attention");
}
