// Heads of every family against transformers' logits (golden/heads): classifiers of the first token, of the mean, of
// all tokens; word predictors. By our operators and by ggml's, alone and in batches.
#include "encoder-golden.h"

static const char * const names[] = { "modernbert-cls", "modernbert-mean", "modernbert-mlm", "eurobert-late",
    "eurobert-mean", "eurobert-bos", "eurobert-mlm", "nomic-cls", "nomic-mlm", "gte-cls", "gte-mlm", "jina-v3-cls",
    "jina-v3-mlm", "distilbert-cls", "distilbert-mlm" };

static void test_head(const char * name) {
    struct golden g = golden_open_of(name, name, "logits");
    const struct mra_model_info info = mra_model_info(g.model);
    const int64_t n_cols = g.hidden.shape[1];
    struct mra_at at[64];
    int n_at = 0;
    for (int i = 0; i < g.n_seq; i++)
        for (int t = 0; t < g.seqs[i].n && n_at < 64; t++) at[n_at++] = (struct mra_at) { i, t };
    const bool words = strstr(name, "-mlm") != NULL;
    CHECK(words ? info.has_mlm : info.n_class == 3, "%s has no head", name);
    const struct mra_output want = words ? (struct mra_output) { .kind = MRA_OUTPUT_MLM, .at = at, .n_at = n_at }
                                         : classes();
    struct mra_context_params of_ggml = threads(2), few = threads(1);
    of_ggml.ggml_dense = true;
    few.n_batch = 1; // every text in a pass of its own
    few.n_ffn_rows = 2;
    float *ours = encode_new(g.model, threads(2), g.seqs, g.n_seq, want),
          *other = encode_new(g.model, of_ggml, g.seqs, g.n_seq, want),
          *alone = encode_new(g.model, few, g.seqs, g.n_seq, want);
    const double e = max_diff(ours, g.hidden.data, g.hidden.n), o = max_diff(other, g.hidden.data, g.hidden.n);
    printf("%-20s logits %.1e, by ggml's operators %.1e\n", name, e, o);
    CHECK(e <= 1e-4 && o <= 2e-4, "%s: logits are off by %.1e, %.1e", name, e, o);
    CHECK(memcmp(ours, alone, (size_t) (g.hidden.shape[0] * n_cols) * sizeof(float)) == 0, "%s: in other passes", name);
    free(ours);
    free(other);
    free(alone);
    golden_close(&g);
}

int main(int argc, char ** argv) {
    if (argc < 2) return 2;
    goldens_begin(argv[1]);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (argc < 3 || strcmp(names[i], argv[2]) == 0) test_head(names[i]);
    goldens_end();
    return summary("test-heads");
}
