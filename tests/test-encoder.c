// The encoder against the outputs of transformers (golden/models), and what must not change a result: batches, packing,
// feed-forward rows, threads, copies of the weights, fused weights, and the way tokens are given.
#include "encoder-golden.h"
#include "gguf-edit.h"

#include <pthread.h>
#include <unistd.h>

static const struct model_case {
    const char *name, *family, *label;
    int n_class;
    bool has_mra;
    enum mra_problem problem;
} models[] = {
    { "roberta", "roberta", "class 1", 3, false, MRA_PROBLEM_SINGLE },
    { "xlm-roberta", "xlm-roberta", NULL, 1, false, MRA_PROBLEM_REGRESSION },
    { "bert", "bert", "class 1", 5, false, MRA_PROBLEM_SINGLE },
    { "mra", "mra", "class 1", 4, true, MRA_PROBLEM_SINGLE },
    { "mra-sparse", "mra", "class 1", 2, true, MRA_PROBLEM_SINGLE },
};
#define N_MODELS ((int) (sizeof(models) / sizeof(models[0])))

static void against_goldens(const struct golden * g, const struct mra_model * model, struct mra_context_params p,
    const char * what, double tol) {
    struct mra_context * ctx = context(model, p);
    const double e[4] = {
        diff(encode(ctx, g->seqs, g->n_seq, tokens()), &g->hidden),
        diff(encode(ctx, g->seqs, g->n_seq, pooled(MRA_POOLING_MEAN)), &g->mean),
        diff(encode(ctx, g->seqs, g->n_seq, classes()), &g->logits),
        diff(encode(ctx, g->seqs, g->n_seq, mlm()), &g->mlm),
    };
    printf("%-12s %-18s hidden %.1e  mean %.1e  classes %.1e  mlm %.1e\n", g->name, what, e[0], e[1], e[2], e[3]);
    for (int i = 0; i < 4; i++) CHECK(e[i] <= tol, "%s, %s: output %d is %.2e off", g->name, what, i, e[i]);
    mra_context_free(ctx);
}

static void check_info(const struct golden * g, const struct model_case * c) {
    const struct mra_model_info i = mra_model_info(g->model);
    CHECK(strcmp(i.family, c->family) == 0, "%s: family %s", c->name, i.family);
    CHECK(strcmp(i.type, "f32") == 0, "%s: type %s", c->name, i.type);
    CHECK(i.n_class == c->n_class && i.problem == c->problem, "%s: %d classes, problem %d", c->name, i.n_class,
        (int) i.problem);
    CHECK(i.has_mlm && i.has_mra == c->has_mra, "%s: heads", c->name);
    CHECK(i.n_embd == g->hidden.shape[1] && i.n_vocab == 300 && i.n_bytes > 0 && i.n_params > 0, "%s: sizes", c->name);
    const char * label = mra_model_label(g->model, 1);
    CHECK(!label == !c->label && (!label || strcmp(label, c->label) == 0), "%s: label %s", c->name,
        label ? label : "(none)");
    CHECK(mra_model_label(g->model, 0) && !mra_model_label(g->model, c->n_class) && !mra_model_label(g->model, -1),
        "%s: labels", c->name);
    CHECK(mra_tokenizer_n_tokens(mra_model_tokenizer(g->model)) <= i.n_vocab, "%s: tokenizer", c->name);
}

// ---- what must not matter ----

static void check_invariance(const struct golden * g) {
    const int64_t n = g->hidden.n;
    float * base = encode_new(g->model, threads(1), g->seqs, g->n_seq, tokens());
    for (int t = 2; t <= 3; t++) {
        float * x = encode_new(g->model, threads(t), g->seqs, g->n_seq, tokens());
        CHECK(memcmp(base, x, (size_t) n * sizeof(float)) == 0, "%s: %d threads change the result by %.1e", g->name, t,
            max_diff(base, x, n));
        free(x);
    }
    struct mra_context_params p = threads(1);
    const struct {
        const char * what;
        int n_batch, n_ffn_rows;
    } cut[] = { { "a sequence per pass", 1, 512 }, { "passes of 40", 40, 512 }, { "feed-forward rows of 7", 8192, 7 },
        { "feed-forward rows of 1", 64, 1 }, { "feed-forward rows of 33", 8192, 33 } };
    for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
        p.n_batch = cut[i].n_batch;
        p.n_ffn_rows = cut[i].n_ffn_rows;
        float * x = encode_new(g->model, p, g->seqs, g->n_seq, tokens());
        const double e = max_diff(base, x, n);
        const bool whole = mra_model_info(g->model).n_embd % 32 == 0 &&
            mra_model_info(g->model).n_ff % 32 == 0; // else ggml's products, which depend on the rows
        CHECK(e <= (whole ? 0 : 2e-5), "%s: %s change the result by %.1e", g->name, cut[i].what, e);
        free(x);
        x = encode_new(g->model, p, g->seqs, g->n_seq, mlm());
        CHECK(max_diff(x, g->mlm.data, g->mlm.n) <= 1e-4, "%s: %s: mlm", g->name, cut[i].what);
        free(x);
    }
    // a text as `struct mra_token`s, in reverse order, twice
    struct mra_seq seqs[64];
    struct mra_token * copy = calloc((size_t) g->hidden.shape[0], sizeof(*copy));
    int64_t at = 0, row = 0;
    for (int i = 0; i < g->n_seq; i++) {
        const struct mra_seq * s = &g->seqs[g->n_seq - 1 - i];
        for (int t = 0; t < s->n; t++)
            copy[at + t] = (struct mra_token) { .id = s->ids[t], .segment = (int16_t) s->types[t] };
        seqs[i] = seqs[g->n_seq + i] = (struct mra_seq) { .n = s->n, .tokens = copy + at };
        at += s->n;
    }
    float * x = encode_new(g->model, threads(1), seqs, 2 * g->n_seq, tokens());
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < g->n_seq; i++) {
            int64_t from = 0;
            for (int k = 0; k < g->n_seq - 1 - i; k++) from += g->seqs[k].n;
            const double e = max_diff(
                x + row * g->hidden.shape[1], base + from * g->hidden.shape[1], seqs[i].n * g->hidden.shape[1]);
            CHECK(e <= 2e-5, "%s: order changes sequence %d by %.1e", g->name, i, e);
            row += seqs[i].n;
        }
    free(x);
    free(copy);
    free(base);
}

static void check_copies(const struct golden * g) {
    float * a = encode_new(g->model, threads(1), g->seqs, g->n_seq, tokens());
    struct mra_model * copied = load(g->path, &(struct mra_model_params) { .no_mmap = true });
    float * b = encode_new(copied, threads(1), g->seqs, g->n_seq, tokens());
    CHECK(memcmp(a, b, (size_t) g->hidden.n * sizeof(float)) == 0, "%s: copied weights change the result", g->name);
    mra_model_free(copied);
    free(b);
    // alignment 8: cannot be used in place
    struct gguf_edit e = gguf_edit_open(g->path);
    const char * path = temp_path("aligned");
    gguf_edit_write(&e, path);
    gguf_edit_free(&e);
    copied = load(path, NULL);
    b = encode_new(copied, threads(1), g->seqs, g->n_seq, tokens());
    CHECK(memcmp(a, b, (size_t) g->hidden.n * sizeof(float)) == 0, "%s: a rewritten file changes the result", g->name);
    mra_model_free(copied);
    unlink(path);
    free(b);
    free(a);
}

// attn_q, attn_k, attn_v as one attn_qkv; and a file without a key or tensor of ours, as other converters write it
static void check_fused(const struct golden * g) {
    struct gguf_edit e = gguf_edit_open(g->path);
    const struct mra_model_info info = mra_model_info(g->model);
    for (int l = 0; l < info.n_layer; l++)
        for (int bias = 0; bias < 2; bias++) {
            char name[64];
            snprintf(name, sizeof(name), "blk.%d.attn_qkv.%s", l, bias ? "bias" : "weight");
            struct ggml_tensor * all = gguf_edit_add(
                &e, name, GGML_TYPE_F32, bias ? 3 * info.n_embd : info.n_embd, bias ? 0 : 3 * info.n_embd);
            for (int i = 0; i < 3; i++) {
                snprintf(name, sizeof(name), "blk.%d.attn_%c.%s", l, "qkv"[i], bias ? "bias" : "weight");
                const struct ggml_tensor * t = gguf_edit_find(&e, name);
                memcpy((char *) all->data + i * ggml_nbytes(t), t->data, ggml_nbytes(t));
                gguf_edit_drop(&e, name);
            }
        }
    const char * path = temp_path("fused");
    gguf_edit_write(&e, path);
    struct mra_model * m = load(path, NULL);
    against_goldens(g, m, threads(1), "fused qkv", 1e-4);
    mra_model_free(m);
    if (!info.has_mra) {
        gguf_edit_drop_keys(&e, "mra.");
        gguf_edit_drop_keys(&e, "bert.classifier");
        const char * heads[] = { "mlm.dense.weight", "mlm.dense.bias", "mlm.norm.weight", "mlm.norm.bias",
            "mlm.output.bias" };
        for (int i = 0; i < 5; i++) gguf_edit_drop(&e, heads[i]);
        gguf_edit_write(&e, path);
        m = load(path, NULL);
        struct mra_context * ctx = context(m, threads(1));
        CHECK(!mra_model_info(m).has_mlm && !mra_model_label(m, 0) && mra_model_info(m).n_class == info.n_class,
            "%s: foreign file", g->name);
        CHECK(
            diff(encode(ctx, g->seqs, g->n_seq, classes()), &g->logits) <= 1e-4, "%s: foreign file: classes", g->name);
        mra_context_free(ctx);
        mra_model_free(m);
    }
    gguf_edit_free(&e);
    unlink(path);
}

static void check_pooling(const struct golden * g) {
    struct mra_context * ctx = context(g->model, threads(1));
    const int64_t d = g->hidden.shape[1];
    for (enum mra_pooling p = MRA_POOLING_MEAN; p <= MRA_POOLING_MEAN_SQRT; p++)
        for (int norm = 0; norm < 2; norm++) {
            struct mra_output want = pooled(p);
            want.normalize = norm ? 1 : -1;
            const struct mra_result r = encode(ctx, g->seqs, g->n_seq, want);
            if (!r.data) continue;
            const float * h = g->hidden.data;
            for (int i = 0; i < g->n_seq; h += g->seqs[i++].n * d) {
                double len = 0, worst = 0, y[1024];
                for (int64_t c = 0; c < d; c++) {
                    double s = p == MRA_POOLING_MAX ? -INFINITY : 0;
                    for (int t = 0; t < g->seqs[i].n; t++)
                        s = p == MRA_POOLING_MAX ? fmax(s, h[t * d + c]) : s + h[t * d + c];
                    if (p == MRA_POOLING_MEAN) s /= g->seqs[i].n;
                    if (p == MRA_POOLING_MEAN_SQRT) s /= sqrt(g->seqs[i].n);
                    if (p == MRA_POOLING_CLS) s = h[c];
                    if (p == MRA_POOLING_LAST) s = h[(g->seqs[i].n - 1) * d + c];
                    y[c] = s;
                    len += s * s;
                }
                for (int64_t c = 0; c < d; c++) {
                    const double e = fabs(r.data[i * d + c] - (norm ? y[c] / sqrt(len) : y[c]));
                    if (!(e <= worst)) worst = e;
                }
                CHECK(worst <= 2e-4, "%s: pooling %d%s of sequence %d is %.1e off", g->name, (int) p,
                    norm ? ", normalized" : "", i, worst);
            }
        }
    const struct mra_result r = encode(ctx, g->seqs, g->n_seq, (struct mra_output) { .kind = MRA_OUTPUT_POOLED });
    CHECK(r.data && max_diff(r.data, g->mean.data, g->mean.n) <= 1e-4, "%s: the default pooling is not the mean",
        g->name);
    mra_context_free(ctx);
}

// positions in any order, of several sequences, one twice; sequences without a position do not matter
static void check_mlm(const struct golden * g) {
    const struct mra_at at[] = { { 1, 4 }, { 0, 0 }, { 1, 0 }, { 1, 4 } };
    struct mra_context_params p = threads(1);
    p.n_batch = 1;
    struct mra_context * ctx = context(g->model, p);
    const struct mra_result r = encode(
        ctx, g->seqs, g->n_seq, (struct mra_output) { .kind = MRA_OUTPUT_MLM, .at = at, .n_at = 4 });
    const int64_t n = g->mlm.shape[1];
    if (r.data) {
        CHECK(r.n_rows == 4 && r.n_cols == n, "%s: mlm shape", g->name);
        CHECK(max_diff(r.data, g->mlm.data + 4 * n, n) <= 1e-4 && max_diff(r.data + 2 * n, g->mlm.data, n) <= 1e-4,
            "%s: mlm rows", g->name);
        CHECK(memcmp(r.data, r.data + 3 * n, (size_t) n * sizeof(float)) == 0, "%s: mlm row twice", g->name);
    }
    CHECK(mra_context_stats(ctx).n_tokens == g->seqs[0].n + g->seqs[1].n, "%s: %lld tokens computed", g->name,
        (long long) mra_context_stats(ctx).n_tokens);
    mra_context_free(ctx);
}

// ---- attention ----

// The roberta golden with 1500 positions: the rows it has, repeated.
static struct mra_model * long_model(const struct golden * g) {
    struct gguf_edit e = gguf_edit_open(g->path);
    gguf_edit_positions(&e, 1500);
    const char * path = temp_path("long");
    gguf_edit_write(&e, path);
    gguf_edit_free(&e);
    struct mra_model * m = load(path, &(struct mra_model_params) { .no_mmap = true });
    unlink(path);
    return m;
}

static float * attend(const struct mra_model * m, enum mra_attention how, const char * frame, float budget,
    const struct mra_seq * seqs, int n_seq) {
    struct mra_context_params p = threads(1);
    p.attention = how;
    p.attn.budget = budget;
    CHECK(mra_attn_params_parse(&p.attn, frame, NULL) == MRA_OK, "%s", frame);
    return encode_new(m, p, seqs, n_seq, tokens());
}

static void check_attention(const struct golden * g) {
    struct mra_model * m = long_model(g);
    const int64_t d = mra_model_info(m).n_embd;
    int32_t ids[1500];
    uint64_t seed = 5;
    for (int i = 0; i < 1500; i++) ids[i] = rng_int(&seed, 0, 299);
    const struct mra_seq seqs[3] = { { .n = 1500, .ids = ids }, { .n = 1024, .ids = ids },
        { .n = 70, .ids = ids + 9 } };
    const int64_t n0 = 1500 * d, n1 = 1024 * d, n2 = 70 * d;
    float * exact = attend(m, MRA_ATTENTION_EXACT, "columns", .125f, seqs, 3);
    float * cols = attend(m, MRA_ATTENTION_MRA, "columns", .125f, seqs, 3);
    float * full = attend(m, MRA_ATTENTION_MRA, "columns", 1, seqs, 3);
    float * fine = attend(m, MRA_ATTENTION_AUTO, "columns", .125f, seqs, 3);
    float * mra2 = attend(m, MRA_ATTENTION_MRA, "mra2", 1, seqs, 3);
    float * half = attend(m, MRA_ATTENTION_MRA, "mra2", .5f, seqs, 3);
    const double e_cols = relative_error(cols, exact, n0), e_half = relative_error(half, exact, n0);
    printf("%-12s n = 1500: columns 1/8 %.3f, mra2 1/2 %.3f off exact\n", g->name, e_cols, e_half);
    CHECK(max_diff(full, exact, n0 + n1 + n2) <= 2e-5, "the whole budget is not exact attention");
    CHECK(max_diff(mra2, exact, n0 + n1 + n2) <= 5e-5, "MRA-2 with the whole budget is %.1e off exact attention",
        max_diff(mra2, exact, n0 + n1 + n2));
    CHECK(e_cols > 1e-4 && e_cols < .5, "columns, 1/8 are %.3g off", e_cols);
    CHECK(e_half > 1e-4 && e_half < .5, "MRA-2, 1/2 is %.3g off", e_half);
    CHECK(max_diff(fine, cols, n0) <= 2e-5, "auto is not `attn` above 1024 tokens");
    CHECK(max_diff(fine + n0, exact + n0, n1 + n2) <= 2e-5, "auto is not exact up to 1024 tokens");
    CHECK(relative_error(cols + n0, exact + n0, n1) > 1e-4, "MRA is exact at 1024 tokens");
    float * all[] = { exact, cols, full, fine, mra2, half };
    for (int i = 0; i < 6; i++) free(all[i]);

    // passes, feed-forward rows and parts of the long one
    struct mra_context_params p = threads(1);
    p.profile = true;
    p.n_ffn_rows = 100;
    struct mra_context * ctx = context(m, p);
    encode(ctx, seqs, 3, tokens());
    const struct mra_stats s = mra_context_stats(ctx);
    double sum = 0, ops = 0;
    int n_attn = 0;
    for (int i = 0; i < MRA_PART_COUNT; i++) sum += s.part_ms[i];
    for (int i = 0; i < s.n_ops; i++) {
        ops += s.ops[i].ms;
        if (strcmp(s.ops[i].op, "attn") == 0) n_attn += s.ops[i].n;
    }
    CHECK(fabs(ops - sum) <= .01 * sum, "operators %.2f, parts %.2f ms", ops, sum);
    CHECK(n_attn == s.n_graphs * mra_model_info(m).n_layer, "%d attention nodes", n_attn);
    CHECK(s.n_tokens == 1500 + 1024 + 70 && s.n_graphs == 2, "%lld tokens in %d graphs", (long long) s.n_tokens,
        s.n_graphs);
    CHECK(
        s.compute_bytes > 0 && s.output_bytes == (size_t) (n0 + n1 + n2) * sizeof(float), "%zu bytes", s.compute_bytes);
    CHECK(sum > .5 * s.compute_ms && sum <= 1.01 * s.compute_ms && s.part_ms[MRA_PART_ATTENTION] > 0 &&
            s.part_ms[MRA_PART_HEAD] == 0,
        "parts %.2f of %.2f ms", sum, s.compute_ms);
    mra_context_free(ctx);
    mra_model_free(m);
}

// a checkpoint's own attention differs from exact, and a short text's does not
static void check_checkpoint(const struct golden * g) {
    struct mra_context_params p = threads(1);
    p.attention = MRA_ATTENTION_EXACT;
    const int last = g->n_seq - 1;
    float * exact = encode_new(g->model, p, &g->seqs[last], 1, tokens());
    const float * want = g->hidden.data + g->hidden.n - g->seqs[last].n * g->hidden.shape[1];
    CHECK(
        max_diff(exact, want, g->seqs[last].n * g->hidden.shape[1]) > 1e-3, "%s: its own attention is exact", g->name);
    free(exact);
}

// ---- many threads, one model ----

struct user {
    const struct golden * g;
    double worst;
};

static void * use(void * arg) {
    struct user * u = arg;
    for (int i = 0; i < 4; i++) {
        float * x = encode_new(u->g->model, threads(1 + (i == 3)), u->g->seqs, u->g->n_seq, tokens());
        const double e = max_diff(x, u->g->hidden.data, u->g->hidden.n);
        if (!(e <= u->worst)) u->worst = e;
        free(x);
    }
    return NULL;
}

static void check_parallel(const struct golden * g) {
    pthread_t t[4];
    struct user u[4];
    for (int i = 0; i < 4; i++) {
        u[i] = (struct user) { g, 0 };
        pthread_create(&t[i], NULL, use, &u[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        CHECK(u[i].worst <= 1e-4, "%s: %.1e off with four contexts", g->name, u[i].worst);
    }
}

// ---- wrong requests ----

static void check_requests(const struct golden * g) {
    struct mra_context * ctx = context(g->model, threads(1));
    const int n_ctx = mra_model_info(g->model).n_ctx;
    int32_t *ids = calloc((size_t) n_ctx + 1, sizeof(*ids)), bad[2][2] = { { 0, 300 }, { -1, 0 } }, type[2] = { 0, 7 };
    const struct mra_at at[] = { { 0, 2 }, { 1, 0 }, { 0, -1 } };
    const struct {
        const char * what;
        struct mra_seq seq;
        int n_seq;
        struct mra_output want;
        enum mra_status code;
    } cases[] = {
        { "no sequence", { .n = 2, .ids = ids }, 0, tokens(), MRA_ERR_ARG },
        { "no token", { .n = 0, .ids = ids }, 1, tokens(), MRA_ERR_ARG },
        { "no ids", { .n = 2 }, 1, tokens(), MRA_ERR_ARG },
        { "too long", { .n = n_ctx + 1, .ids = ids }, 1, tokens(), MRA_ERR_TOO_LONG },
        { "id too large", { .n = 2, .ids = bad[0] }, 1, tokens(), MRA_ERR_ARG },
        { "negative id", { .n = 2, .ids = bad[1] }, 1, tokens(), MRA_ERR_ARG },
        { "type", { .n = 2, .ids = ids, .types = type }, 1, tokens(), MRA_ERR_ARG },
        { "output", { .n = 2, .ids = ids }, 1, { .kind = (enum mra_output_kind) 9 }, MRA_ERR_ARG },
        { "pooling", { .n = 2, .ids = ids }, 1, { .kind = MRA_OUTPUT_POOLED, .pooling = (enum mra_pooling) 9 },
            MRA_ERR_ARG },
        { "no position", { .n = 2, .ids = ids }, 1, { .kind = MRA_OUTPUT_MLM }, MRA_ERR_ARG },
        { "position", { .n = 2, .ids = ids }, 1, { .kind = MRA_OUTPUT_MLM, .at = at, .n_at = 1 }, MRA_ERR_ARG },
        { "sequence", { .n = 2, .ids = ids }, 1, { .kind = MRA_OUTPUT_MLM, .at = at + 1, .n_at = 1 }, MRA_ERR_ARG },
        { "negative", { .n = 2, .ids = ids }, 1, { .kind = MRA_OUTPUT_MLM, .at = at + 2, .n_at = 1 }, MRA_ERR_ARG },
        { "fine", { .n = n_ctx, .ids = ids }, 1, tokens(), MRA_OK },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mra_result r;
        struct mra_error err = { 0 };
        const enum mra_status st = mra_encode(ctx, &cases[i].seq, cases[i].n_seq, &cases[i].want, &r, &err);
        CHECK(st == cases[i].code && err.code == st && !err.msg[0] == (st == MRA_OK), "%s: code %d, '%s'",
            cases[i].what, (int) st, err.msg);
        CHECK(!r.data == (st != MRA_OK), "%s: result", cases[i].what);
    }
    free(ids);
    mra_context_free(ctx);
    struct mra_context_params p[6];
    for (int i = 0; i < 6; i++) p[i] = mra_context_params_default();
    p[0].n_threads = -1;
    p[1].n_threads = 100000;
    p[2].n_batch = -1;
    p[3].n_ffn_rows = -1;
    p[4].attention = (enum mra_attention) 5;
    p[5].attn.budget = -1;
    for (int i = 0; i < 6; i++) {
        struct mra_error err = { 0 };
        CHECK(!mra_context_new(g->model, &p[i], &err) && err.code == MRA_ERR_ARG, "context parameters %d are accepted",
            i);
    }
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s golden/models\n", argv[0]);
        return 2;
    }
    goldens_begin(argv[1]);
    for (int i = 0; i < N_MODELS; i++) {
        struct golden g = golden_open(models[i].name);
        check_info(&g, &models[i]);
        against_goldens(&g, g.model, threads(2), "f32", 1e-4);
        struct mra_context_params plain = threads(2);
        plain.ggml_dense = true;
        against_goldens(&g, g.model, plain, "ggml's operators", 1e-4);
        if (!models[i].has_mra) { // rounding moves the choice of cells
            char path[1024];
            snprintf(path, sizeof(path), "%s/%s.gguf", argv[1], g.name);
            struct mra_model * f16 = load(path, NULL);
            against_goldens(&g, f16, threads(1), "f16", 1e-2);
            mra_model_free(f16);
        } else {
            check_checkpoint(&g);
        }
        check_invariance(&g);
        check_copies(&g);
        check_fused(&g);
        check_pooling(&g);
        check_mlm(&g);
        check_requests(&g);
        if (i == 0) check_attention(&g);
        if (i == 0 || models[i].has_mra) check_parallel(&g);
        golden_close(&g);
    }
    goldens_end();
    return summary("test-encoder");
}
