// The encoder against the outputs of transformers (golden/models), and what must not change a result: batches, packing, chunks,
// threads, copies of the weights, and the way tokens are given.
#include "harness.h"
#include "mra-encoder.h"
#include "npy.h"

#include <pthread.h>
#include <unistd.h>

static const char * dir;

struct golden {
    const char *       name;
    struct mra_model * model;
    struct npy         ids, types, lengths, hidden, mean, logits, mlm;
    struct mra_seq     seqs[32];
    int                n_seq;
};

static const struct { const char * name; const char * family; int n_class; bool has_mra; } models[] = {
    { "roberta", "roberta", 3, false }, { "xlm-roberta", "xlm-roberta", 1, false }, { "bert", "bert", 5, false },
    { "mra", "mra", 4, true }, { "mra-sparse", "mra", 2, true },
};
#define N_MODELS ((int) (sizeof(models)/sizeof(models[0])))

static struct mra_model * load(const char * name, const struct mra_model_params * p) {
    char path[1024];
    struct mra_error err;
    snprintf(path, sizeof(path), "%s/%s.gguf", dir, name);
    struct mra_model * m = mra_model_load(path, p, &err);
    CHECK(m, "%s", err.msg);
    if (!m) exit(summary("test-encoder"));
    return m;
}

static void golden_open(struct golden * g, const char * name) {
    *g = (struct golden) { .name = name, .model = load(name, NULL) };
    g->ids     = npy_read(dir, name, "ids",     "<i4");
    g->types   = npy_read(dir, name, "types",   "<i4");
    g->lengths = npy_read(dir, name, "lengths", "<i4");
    g->hidden  = npy_read(dir, name, "hidden",  "<f4");
    g->mean    = npy_read(dir, name, "mean",    "<f4");
    g->logits  = npy_read(dir, name, "logits",  "<f4");
    g->mlm     = npy_read(dir, name, "mlm",     "<f4");
    const bool ok = g->ids.data && g->types.data && g->lengths.data && g->hidden.data && g->mean.data && g->logits.data && g->mlm.data && g->lengths.n[0] <= 32;
    CHECK(ok, "%s: goldens missing", name);
    if (!ok) exit(summary("test-encoder"));
    int32_t at = 0;
    for (int64_t i = 0; i < g->lengths.n[0]; i++) {
        const int32_t n = ((int32_t *) g->lengths.data)[i];
        g->seqs[g->n_seq++] = (struct mra_seq) { .n = n, .ids = (int32_t *) g->ids.data + at, .types = (int32_t *) g->types.data + at };
        at += n;
    }
}

static void golden_close(struct golden * g) {
    mra_model_free(g->model);
    struct npy all[] = { g->ids, g->types, g->lengths, g->hidden, g->mean, g->logits, g->mlm };
    for (size_t i = 0; i < sizeof(all)/sizeof(all[0]); i++) free(all[i].data);
}

static struct mra_context * context(const struct mra_model * m, struct mra_context_params p) {
    struct mra_error err;
    struct mra_context * ctx = mra_context_new(m, &p, &err);
    CHECK(ctx, "%s", err.msg);
    if (!ctx) exit(summary("test-encoder"));
    return ctx;
}

static struct mra_context_params threads(int n) {
    struct mra_context_params p = mra_context_params_default();
    p.n_threads = n;
    return p;
}

// {NULL, 0, 0} on failure
static struct mra_result encode(struct mra_context * ctx, const struct mra_seq * seqs, int n_seq, struct mra_output want) {
    struct mra_result r;
    struct mra_error err = {0};
    CHECK(mra_encode(ctx, seqs, n_seq, &want, &r, &err) == MRA_OK, "%s", err.msg);
    return r;
}

static double diff(struct mra_result r, const void * want, int64_t n_rows, int64_t n_cols) {
    if (!r.data || r.n_rows != n_rows || r.n_cols != n_cols) return INFINITY;
    const float * w = want;
    double worst = 0;
    for (int64_t i = 0; i < n_rows*n_cols; i++) {
        const double e = fabs((double) r.data[i] - w[i]);
        if (!(e <= worst)) worst = isfinite(e) ? e : INFINITY;
    }
    return worst;
}

static const struct mra_at mlm_at[6] = { {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5} };
static struct mra_output tokens(void)  { return (struct mra_output) { .kind = MRA_OUTPUT_TOKENS }; }
static struct mra_output mean(void)    { return (struct mra_output) { .kind = MRA_OUTPUT_POOLED, .pooling = MRA_POOLING_MEAN, .normalize = -1 }; }
static struct mra_output classes(void) { return (struct mra_output) { .kind = MRA_OUTPUT_CLASS }; }
static struct mra_output mlm(void)     { return (struct mra_output) { .kind = MRA_OUTPUT_MLM, .at = mlm_at, .n_at = 6 }; }

static void against_goldens(const struct golden * g, struct mra_context * ctx, const char * what, double tol) {
    const double e[4] = {
        diff(encode(ctx, g->seqs, g->n_seq, tokens()),  g->hidden.data, g->hidden.n[0], g->hidden.n[1]),
        diff(encode(ctx, g->seqs, g->n_seq, mean()),    g->mean.data,   g->mean.n[0],   g->mean.n[1]),
        diff(encode(ctx, g->seqs, g->n_seq, classes()), g->logits.data, g->logits.n[0], g->logits.n[1]),
        diff(encode(ctx, g->seqs, g->n_seq, mlm()),     g->mlm.data,    g->mlm.n[0],    g->mlm.n[1]),
    };
    printf("%-12s %-10s hidden %.1e  mean %.1e  classes %.1e  mlm %.1e\n", g->name, what, e[0], e[1], e[2], e[3]);
    for (int i = 0; i < 4; i++) CHECK(e[i] <= tol, "%s, %s: output %d is %.2e off", g->name, what, i, e[i]);
}

int main(int argc, char ** argv) {
    if (argc != 2) { fprintf(stderr, "usage: %s golden/models\n", argv[0]); return 2; }
    dir = argv[1];
    for (int i = 0; i < N_MODELS; i++) {
        struct golden g;
        golden_open(&g, models[i].name);
        printf("%s\n", mra_model_info(g.model).type);
        struct mra_context * ctx = context(g.model, threads(2));
        against_goldens(&g, ctx, "f16", 1e-4);
        mra_context_free(ctx);
        golden_close(&g);
    }
    return summary("test-encoder");
}
