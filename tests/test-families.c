// Every family of encoders against transformers' hidden states: files of our converter and of llama.cpp's, by our
// operators and by ggml's, in batches and alone, in 8 bits, with multi-resolution attention.
#include "encoder-golden.h"
#include "gguf-edit.h"

#include <unistd.h>

struct family {
    const char *name, *file; // goldens; whose weights
};
static const struct family families[] = {
    { "modernbert", "modernbert" },
    { "modernbert", "modernbert-llama-cpp" },
    { "modernbert-bias", "modernbert-bias" },
    { "nomic", "nomic" },
    { "nomic", "nomic-llama-cpp" },
    { "eurobert", "eurobert" },
    { "eurobert", "eurobert-llama-cpp" },
    { "jina-v3", "jina-v3" },
    { "jina-v3", "jina-v3-llama-cpp" },
    { "gte", "gte" },
    { "distilbert", "distilbert" },
    { "distilbert", "distilbert-llama-cpp" },
    { "tinybert", "tinybert" },
    { "tinybert", "tinybert-llama-cpp" },
    { "jina-v2", "jina-v2" },
    { "jina-v2", "jina-v2-llama-cpp" },
    { "jina-v2-code", "jina-v2-code" },
    { "neobert", "neobert" },
};

static double hidden_diff(const struct golden * g, struct mra_context_params p) {
    struct mra_context * ctx = context(g->model, p);
    const double e = diff(encode(ctx, g->seqs, g->n_seq, tokens()), &g->hidden);
    mra_context_free(ctx);
    return e;
}

// each text alone gives the rows it gives among the others, bit for bit; so do other numbers of threads
static void check_alone(const struct golden * g) {
    const int64_t d = g->hidden.shape[1], n = g->hidden.shape[0];
    float *all = encode_new(g->model, threads(1), g->seqs, g->n_seq, tokens()),
          *three = encode_new(g->model, threads(3), g->seqs, g->n_seq, tokens());
    CHECK(memcmp(all, three, (size_t) (n * d) * sizeof(float)) == 0, "%s: threads", g->name);
    for (int i = 0; i < g->n_seq; i++) {
        float * one = encode_new(g->model, threads(2), g->seqs + i, 1, tokens());
        CHECK(memcmp(one, all + (g->seqs[i].ids - g->ids) * d, (size_t) (g->seqs[i].n * d) * sizeof(float)) == 0,
            "%s: text %d of %d tokens alone", g->name, i, g->seqs[i].n);
        free(one);
    }
    free(all);
    free(three);
}

// in 8 bits: relative to the norm of all hidden states
static double quantized_diff(const struct golden * g) {
    const char * path = temp_path("q8");
    struct mra_error err;
    CHECK(mra_quantize(g->path, path, &(struct mra_quantize_params) { .type = GGML_TYPE_Q8_0 }, NULL, &err) == MRA_OK,
        "%s", err.msg);
    struct mra_model * m = load(path, NULL);
    float * x = encode_new(m, threads(2), g->seqs, g->n_seq, tokens());
    double e = 0, s = 0;
    for (int64_t i = 0; i < g->hidden.n; i++) {
        e += ((double) x[i] - g->hidden.data[i]) * ((double) x[i] - g->hidden.data[i]);
        s += (double) g->hidden.data[i] * g->hidden.data[i];
    }
    free(x);
    mra_model_free(m);
    unlink(path);
    return isfinite(e) ? sqrt(e / s) : INFINITY;
}

// what is said of attention's numbers is what computes
static void check_numbers(const struct golden * g) {
    struct mra_context_params p = threads(2);
    p.attention = MRA_ATTENTION_EXACT;
    p.attention_type = MRA_ATTENTION_TYPE_INT8;
    const bool alibi = strncmp(g->name, "jina-v2", 7) == 0;
    const struct mra_attention_choice c = mra_attention_of(g->model, &p, 100);
    CHECK(c.attn.type == (alibi ? MRA_ATTN_FLOAT : mra_attn_type_runs(MRA_ATTN_INT8)) &&
            (strcmp(c.text, "exact") == 0) == (c.attn.type == MRA_ATTN_FLOAT),
        "%s: attention is said to be %s", g->name, c.text);
}

// with every key kept, multi-resolution attention is exact; local layers are in any case
static double frame_diff(const struct golden * g, const char * frame, float budget) {
    struct mra_context_params p = threads(2);
    struct mra_error unknown;
    p.attention = MRA_ATTENTION_MRA;
    CHECK(mra_attn_params_parse(&p.attn, frame, &unknown) == MRA_OK, "%s", unknown.msg);
    p.attn.budget = budget;
    if (strncmp(g->name, "jina-v2", 7) == 0) { // ALiBi: only exact attention takes the distance from the scores
        struct mra_error err = { 0 };
        CHECK(!mra_context_new(g->model, &p, &err) && err.code == MRA_ERR_UNSUPPORTED && strstr(err.msg, "ALiBi"), "%s",
            err.msg);
        p.attn.frame = MRA_FRAME_EXACT;
    }
    return hidden_diff(g, p);
}

static void test_family(const struct family * f) {
    struct golden g = golden_open_hidden(f->name, f->file);
    struct mra_context_params of_ggml = threads(2), steps = threads(2);
    of_ggml.ggml_dense = true;
    steps.n_ffn_rows = 7; // feed-forward in slices
    const double ours = hidden_diff(&g, threads(2)), other = hidden_diff(&g, of_ggml), sliced = hidden_diff(&g, steps),
                 q8 = quantized_diff(&g), all = frame_diff(&g, "columns", 1), cells = frame_diff(&g, "mra2", 1),
                 some = frame_diff(&g, "columns", .3f);
    printf("%-24s hidden %.1e, by ggml's operators %.1e, sliced %.1e; q8_0 %.1e; every key %.1e, every cell %.1e, "
           "columns 0.3 %.1e\n",
        f->file, ours, other, sliced, q8, all, cells, some);
    CHECK(ours <= 1e-4 && sliced <= 1e-4, "%s: hidden states are off by %.1e, %.1e", f->file, ours, sliced);
    CHECK(other <= 2e-4, "%s: ggml's operators are off by %.1e", f->file, other);
    CHECK(q8 <= 0.06, "%s: q8_0 is off by %.1e", f->file, q8);
    CHECK(all <= 1e-4 && cells <= 1e-4, "%s: every key and every cell are off by %.1e, %.1e", f->file, all, cells);
    CHECK(some < 10, "%s: columns are off by %.1e", f->file, some);
    check_numbers(&g);
    check_alone(&g);
    golden_close(&g);
}

// what llama.cpp's files say of a tokenizer leads to the tokens of our own
static void test_splits(const char * dir, const char * name) {
    static const char * const texts[] = { "1234567 3.14", "I'LL don't we'Re", "  two  spaces,\ta tab\n\n\nlines \n x",
        "(word) #tag", "na\xc3\xafve \xe4\xb8\xad\xe6\x96\x87", "nai\xcc\x88ve" };
    char path[2][1024];
    snprintf(path[0], sizeof(path[0]), "%s/%s.gguf", dir, name);
    snprintf(path[1], sizeof(path[1]), "%s/%s-llama-cpp.gguf", dir, name);
    struct mra_model * m[2] = { load(path[0], NULL), load(path[1], NULL) };
    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
        struct mra_token_list list[2] = { 0 };
        struct mra_error err;
        for (int i = 0; i < 2; i++)
            CHECK(mra_model_tokenize(m[i], texts[t], strlen(texts[t]), NULL, 0, 0, &list[i], &err) == MRA_OK, "%s",
                err.msg);
        bool same = list[0].n == list[1].n;
        for (int i = 0; same && i < (int) list[0].n; i++) same = list[0].data[i].id == list[1].data[i].id;
        CHECK(same, "%s: '%s' has other tokens in llama.cpp's file", name, texts[t]);
        for (int i = 0; i < 2; i++) mra_token_list_free(&list[i]);
    }
    for (int i = 0; i < 2; i++) mra_model_free(m[i]);
}

// how a text is split is not guessed
static void test_unknown_pre(const char * dir) {
    char path[1024];
    struct mra_error err = { 0 };
    snprintf(path, sizeof(path), "%s/eurobert-llama-cpp.gguf", dir);
    struct gguf_edit e = gguf_edit_open(path);
    gguf_set_val_str(e.kv, "tokenizer.ggml.pre", "qwen2");
    gguf_edit_write(&e, temp_path("pre"));
    gguf_edit_free(&e);
    const char * edited = temp_path("pre");
    CHECK(!mra_model_load(edited, NULL, &err) && err.code == MRA_ERR_UNSUPPORTED && strstr(err.msg, "'qwen2'"), "%s",
        err.msg);
    unlink(edited);
}

// files of llama.cpp's converter whose halves and heads lie otherwise than the model has them
static void test_refused_files(const char * dir) {
    char path[1024];
    struct mra_error err = { 0 };
    snprintf(path, sizeof(path), "%s/jina-v2-code-llama-cpp.gguf", dir);
    CHECK(!mra_model_load(path, NULL, &err) && err.code == MRA_ERR_UNSUPPORTED && strstr(err.msg, "jina v2 for code"),
        "%s", err.msg);
    snprintf(path, sizeof(path), "%s/neobert.gguf", dir);
    struct gguf_edit e = gguf_edit_open(path);
    gguf_remove_key(e.kv, "mra.architecture");
    const char * edited = temp_path("neobert");
    gguf_edit_write(&e, edited);
    gguf_edit_free(&e);
    CHECK(!mra_model_load(edited, NULL, &err) && err.code == MRA_ERR_UNSUPPORTED && strstr(err.msg, "'neo-bert'"), "%s",
        err.msg);
    unlink(edited);
}

int main(int argc, char ** argv) {
    if (argc < 2) return 2;
    goldens_begin(argv[1]);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (argc < 3 || strstr(families[i].file, argv[2])) test_family(&families[i]);
    test_splits(argv[1], "modernbert");
    test_splits(argv[1], "eurobert");
    test_unknown_pre(argv[1]);
    test_refused_files(argv[1]);
    goldens_end();
    return summary("test-families");
}
