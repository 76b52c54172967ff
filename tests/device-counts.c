#include "device-counts.h"
#include "encoder-golden.h"
#include "fake-device.h"

#include "../ggml-mra/src/node-params.h"

enum { N_TEXTS = 16, MAX_TOKENS = 250 };

static const struct mra_at masks[] = { { 3, 5 }, { 0, 1 } };
enum { MEAN, FIRST, TOKENS, WORDS };
static const struct mra_output wants[] = {
    [MEAN] = { .kind = MRA_OUTPUT_POOLED, .pooling = MRA_POOLING_MEAN },
    [FIRST] = { .kind = MRA_OUTPUT_POOLED, .pooling = MRA_POOLING_CLS, .n_dims = 20 },
    [TOKENS] = { .kind = MRA_OUTPUT_TOKENS },
    [WORDS] = { .kind = MRA_OUTPUT_MLM, .at = masks, .n_at = 2 },
};

// Limits of a pass with N_TEXTS texts of 70, 72, ... 100 tokens; kB of 1000 bytes.
static const struct pass {
    const char *what, *model, *frame;
    int want;    // of wants
    int rows_of; // type whose rows the device cannot gather
    int ggml, ours, splits;
    double to, from;
} passes[] = {
    { "exact, mean", "bert", "exact", MEAN, 0, 71, 7, 8, 16.6, 4.2 },
    { "exact, first token", "bert", "exact", FIRST, 0, 73, 6, 7, 16.6, 4.2 },
    { "exact, all tokens", "bert", "exact", TOKENS, 0, 71, 6, 7, 16.6, 348.3 },
    { "exact, mean, tokens on the host", "bert", "exact", MEAN, GGML_TYPE_F16, 70, 7, 9, 359.3, 4.2 },
    { "exact, words, tokens on the host", "bert", "exact", WORDS, GGML_TYPE_F16, 80, 6, 8, 38.7, 2.5 },
    { "columns, mean", "bert", "columns", MEAN, 0, 71, 7, 8, 16.6, 4.2 },
    { "sorted, mean", "bert", "sorted", MEAN, 0, 71, 10, 8, 16.6, 4.2 },
    { "MRA-2, mean", "bert", "mra2", MEAN, 0, 83, 25, 8, 28.5, 4.2 },
    { "16,4,1, mean", "bert", "16,4,1", MEAN, 0, 83, 43, 8, 28.5, 4.2 },
    { "fused, windows, MRA-2, mean", "../families/modernbert", "mra2", MEAN, 0, 63, 21, 10, 23.1, 4.2 },
    { "gated, rotary, exact, mean", "../families/nomic", "exact", MEAN, 0, 42, 5, 6, 16.6, 2.1 },
};

struct counted {
    struct fake_counts c;
    int splits; // of the device and its companion
};

// 16 texts; of other ids, the same lengths
static struct mra_context_params params_of(const struct pass * p, struct mra_seq * seqs, const int32_t * ids) {
    struct mra_error err = { 0 };
    struct mra_context_params params = mra_context_params_default();
    for (int i = 0; i < N_TEXTS; i++) seqs[i] = (struct mra_seq) { .n = 70 + 2 * i, .ids = ids + i };
    params.n_threads = 1;
    params.ggml_dense = true; // on the CPU, as on a device
    params.attention = MRA_ATTENTION_MRA;
    CHECK(mra_attn_params_parse(&params.attn, p->frame, &err) == MRA_OK, "%s: %s", p->frame, err.msg);
    params.attn.budget = .25f;
    return params;
}

// a context's second pass: the first one finds no scheduler
static struct counted count(const struct pass * p, const char * path, const int32_t * ids) {
    struct counted r = { 0 };
    struct mra_seq seqs[N_TEXTS];
    const struct mra_context_params params = params_of(p, seqs, ids);
    fake.rows_of = p->rows_of;
    struct mra_model * m = load(path, &(struct mra_model_params) { .device = "FAKE0" });
    struct mra_context * ctx = context(m, params);
    encode(ctx, seqs, N_TEXTS, wants[p->want]);
    memset(&fake_counts, 0, sizeof(fake_counts));
    const struct mra_result y = encode(ctx, seqs, N_TEXTS, wants[p->want]);
    r.c = fake_counts;
    r.splits = fake_counts.graphs + fake_counts.exec_graphs;
    CHECK(mra_context_stats(ctx).n_graphs == 1, "%s: %d passes", p->what, mra_context_stats(ctx).n_graphs);
    const struct encoded cpu = encode_on(path, "CPU", params, seqs, N_TEXTS, wants[p->want]);
    CHECK(cpu.x && cpu.n == y.n_rows * y.n_cols && memcmp(cpu.x, y.data, (size_t) cpu.n * sizeof(float)) == 0,
        "%s: the device gives something else than the CPU", p->what);
    free(cpu.x);
    mra_context_free(ctx);
    mra_model_free(m);
    fake.rows_of = 0;
    return r;
}

// Slices of the feed-forward part: of a device whose memory they are much of, and of one where others left too little.
static void check_slices(const struct pass * p, const char * path, const int32_t * ids) {
    enum { ALL, SMALL, TAKEN, DEFAULT, N };
    size_t used[N];
    float * y[N];
    for (int i = N - 1; i >= 0; i--) { // what DEFAULT needs, and ALL, is known before TAKEN
        static const int order[N] = { TAKEN, SMALL, ALL, DEFAULT };
        const int k = order[i];
        struct mra_seq seqs[N_TEXTS];
        struct mra_context_params params = params_of(p, seqs, ids);
        if (k == DEFAULT) params.n_ffn_rows = MRA_DEFAULT_FFN_ROWS;
        if (k == SMALL) fake.memory = 6 << 20;
        if (k == TAKEN) {
            fake.memory = (size_t) 1 << 30;
            fake.taken = fake.memory - (used[ALL] + used[DEFAULT]) / 2;
        }
        struct mra_model * m = load(path, &(struct mra_model_params) { .device = "FAKE0" });
        struct mra_context * ctx = context(m, params);
        memset(&fake_counts, 0, sizeof(fake_counts));
        const struct mra_result r = encode(ctx, seqs, N_TEXTS, wants[p->want]);
        used[k] = fake_device_allocated();
        y[k] = malloc((size_t) (r.n_rows * r.n_cols) * sizeof(float) + 1);
        if (r.data) memcpy(y[k], r.data, (size_t) (r.n_rows * r.n_cols) * sizeof(float));
        CHECK(
            (fake_counts.ops[GGML_OP_SET] > 0) == (k != ALL), "memory %d: %d slices", k, fake_counts.ops[GGML_OP_SET]);
        CHECK(mra_context_stats(ctx).n_graphs == 1, "memory %d: %d passes", k, mra_context_stats(ctx).n_graphs);
        CHECK(r.data && memcmp(y[k], y[DEFAULT], (size_t) (r.n_rows * r.n_cols) * sizeof(float)) == 0,
            "memory %d: another result", k);
        mra_context_free(ctx);
        mra_model_free(m);
        fake.memory = fake.taken = 0;
    }
    for (int i = 0; i < N; i++) free(y[i]);
}

// Padding: a text that is much longer than the others is not for a pass with them; and errors of square frames.
static void check_padding(const char * path, const int32_t * ids) {
    struct mra_seq seqs[N_TEXTS];
    const struct pass p = { .what = "MRA-2", .frame = "mra2", .want = MEAN };
    struct mra_context_params params = params_of(&p, seqs, ids);
    for (int i = 1; i < N_TEXTS; i++) seqs[i].n = 40;
    seqs[0].n = 100;
    params.n_batch = 1000;
    const double * errors[2];
    size_t n = 0;
    for (int measured = 0; measured < 2; measured++) {
        struct mra_model * m[2];
        struct mra_context * ctx[2];
        params.n_error_rows = measured ? 10 : 0;
        for (int k = 0; k < 2; k++) {
            m[k] = load(path, &(struct mra_model_params) { .device = k ? "FAKE0" : "CPU" });
            ctx[k] = context(m[k], params);
            encode(ctx[k], seqs, N_TEXTS, wants[p.want]);
            errors[k] = mra_context_errors(ctx[k], 3);
        }
        CHECK(
            mra_context_stats(ctx[1]).n_graphs == (measured ? 1 : 2), "%d passes", mra_context_stats(ctx[1]).n_graphs);
        n = (size_t) mra_model_info(m[0]).n_layer * mra_model_info(m[0]).n_head * MRA_ATTN_ERROR_SUMS;
        if (measured)
            CHECK(errors[0] && errors[1] && errors[0][MRA_ATTN_ERROR_ALL] > 0 &&
                    memcmp(errors[0], errors[1], n * sizeof(double)) == 0,
                "the errors are others than the CPU's");
        for (int k = 0; k < 2; k++) {
            mra_context_free(ctx[k]);
            mra_model_free(m[k]);
        }
    }
}

static int sum(const int * x, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += x[i];
    return s;
}

static void print_names(const struct fake_counts * c) {
    static const char * const kinds[] = {
#define ROW(kind, word, name) name,
        MRA_NODE_KINDS(ROW)
#undef ROW
    };
    printf("   ");
    for (int i = 0; i < GGML_OP_COUNT; i++)
        if (c->ops[i]) printf(" %s %d", ggml_op_name((enum ggml_op) i), c->ops[i]);
    for (int i = 1; i < MRA_KIND_COUNT; i++)
        if (c->kinds[i]) printf(" %s %d", kinds[i - 1], c->kinds[i]);
    printf("\n");
}

void device_counts(const char * folder, int names) {
    int32_t ids[MAX_TOKENS], others[MAX_TOKENS];
    for (int i = 0; i < MAX_TOKENS; i++) {
        ids[i] = i * 37 % 300;
        others[i] = i * 53 % 300;
    }
    fake_exec_register();
    printf("%-36s %6s %6s %6s %12s %12s\n", "a pass with 16 texts", "ggml's", "ours", "splits", "kB to", "kB from");
    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
        const struct pass * p = &passes[i];
        char path[1024];
        snprintf(path, sizeof(path), "%s/%s.gguf", folder, p->model);
        const struct counted a = count(p, path, ids), b = count(p, path, others);
        const int ggml = sum(a.c.ops, GGML_OP_COUNT), ours = sum(a.c.kinds, 256);
        const double to = (double) a.c.to / 1e3, from = (double) a.c.from / 1e3;
        printf("%-36s %6d %6d %6d %7.1f in %d %7.1f in %d\n", p->what, ggml, ours, a.splits, to, a.c.n_to, from,
            a.c.n_from);
        if (names) print_names(&a.c);
        if (p->rows_of) { // one node less: the same products
            struct pass all = *p;
            all.rows_of = 0;
            CHECK(ggml == sum(count(&all, path, ids).c.ops, GGML_OP_COUNT) - 1, "%s: more on the host", p->what);
        }
        CHECK(a.c.n_from <= (p->want == TOKENS ? N_TEXTS : 2), "%s: %d transfers back", p->what, a.c.n_from);
        CHECK(ggml <= p->ggml && ours <= p->ours && a.splits <= p->splits,
            "%s: more launches or splits than %d, %d, %d", p->what, p->ggml, p->ours, p->splits);
        CHECK(to <= p->to && from <= p->from, "%s: more over the bus than %.1f and %.1f kB", p->what, p->to, p->from);
        CHECK(a.c.to_late == 0 && a.c.from_soon == 0, "%s: %zu bytes to a device at work, %zu from it", p->what,
            a.c.to_late, a.c.from_soon);
        CHECK(a.c.params == b.c.params && a.splits == b.splits, "%s: what is launched depends on the texts", p->what);
    }
    const struct pass * gated = &passes[sizeof(passes) / sizeof(passes[0]) - 1]; // its feed-forward part needs the most
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s.gguf", folder, gated->model);
    check_slices(gated, path, ids);
    snprintf(path, sizeof(path), "%s/%s.gguf", folder, passes[0].model);
    check_padding(path, ids);
}
