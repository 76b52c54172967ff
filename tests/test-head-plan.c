// Plans of heads: made, saved, found again in a file of their own and in a model's, refused where they are damaged or
// of another model; and what the encoder does with them. Also budgets that follow the error they make (max_error).
// usage: test-head-plan MODELS
#include "encoder-golden.h"
#include "gguf-edit.h"

#include <string.h>
#include <unistd.h>

enum { N = 600, MAX_HEADS = 64 };
#define NEED  "mra.attention.plan.need"
#define MODEL "mra.attention.plan.model"

static int32_t ids[N];

static struct mra_context_params sorted(const struct mra_plan * plan, int n_threads) {
    struct mra_context_params p = threads(n_threads);
    p.attention = MRA_ATTENTION_MRA;
    p.attn.budget = .25f;
    CHECK(mra_attn_params_parse(&p.attn, "sorted", NULL) == MRA_OK, "sorted");
    p.plan = plan;
    return p;
}

static const char * long_file(const struct golden * g, const char * name) {
    struct gguf_edit e = gguf_edit_open(g->path);
    gguf_edit_positions(&e, N);
    const char * path = temp_path(name);
    gguf_edit_write(&e, path);
    gguf_edit_free(&e);
    return path;
}

static bool same_needs(const struct mra_plan * p, const float * need, int n) {
    return p && memcmp(mra_plan_need(p), need, sizeof(float) * (size_t) n) == 0;
}

// a copy of `from` with one key of the plan changed; loading it must fail with `part` in the message
static void check_refused(const char * from, const char * what, const char * part) {
    struct gguf_edit e = gguf_edit_open(from);
    const float few[3] = { 1, 1, 1 }, bad[MAX_HEADS] = { 1, NAN }, low[MAX_HEADS] = { 1, -1 }, none[MAX_HEADS] = { 0 };
    const int64_t n = (int64_t) gguf_get_arr_n(e.kv, gguf_find_key(e.kv, NEED));
    if (strcmp(what, "few") == 0) gguf_set_arr_data(e.kv, NEED, GGUF_TYPE_FLOAT32, few, 3);
    if (strcmp(what, "nan") == 0) gguf_set_arr_data(e.kv, NEED, GGUF_TYPE_FLOAT32, bad, (size_t) n);
    if (strcmp(what, "negative") == 0) gguf_set_arr_data(e.kv, NEED, GGUF_TYPE_FLOAT32, low, (size_t) n);
    if (strcmp(what, "zero") == 0) gguf_set_arr_data(e.kv, NEED, GGUF_TYPE_FLOAT32, none, (size_t) n);
    if (strcmp(what, "type") == 0) gguf_set_arr_data(e.kv, NEED, GGUF_TYPE_INT32, none, (size_t) n);
    if (strcmp(what, "number") == 0) gguf_set_val_f32(e.kv, NEED, 1);
    if (strcmp(what, "foreign") == 0) gguf_set_val_u64(e.kv, MODEL, 1);
    if (strcmp(what, "nobody's") == 0) gguf_remove_key(e.kv, MODEL);
    const char * path = temp_path("wrong");
    struct mra_error err = { 0 };
    gguf_edit_write(&e, path);
    gguf_edit_free(&e);
    struct mra_model * m = mra_model_load(path, NULL, &err);
    CHECK(!m && err.code == MRA_ERR_FORMAT && strstr(err.msg, part) && !strchr(err.msg, '\n'), "%s plan: %s", what,
        m ? "it loads" : err.msg);
    mra_model_free(m);
    unlink(path);
}

static void check_files(const char * path, const float * need, int n, const struct mra_model * other) {
    struct mra_error err = { 0 };
    struct mra_model * m = load(path, NULL);
    struct mra_plan * plan = mra_plan_new(m, need, &err);
    CHECK(!mra_model_plan(m) && same_needs(plan, need, n), "a plan from nowhere, or other needs");
    char beside[1024], inside[1024]; // temp_path forgets
    snprintf(beside, sizeof(beside), "%s", temp_path("beside"));
    snprintf(inside, sizeof(inside), "%s", temp_path("inside"));
    CHECK(mra_plan_save(plan, NULL, beside, &err) == MRA_OK, "%s", err.msg);
    CHECK(mra_plan_save(plan, path, inside, &err) == MRA_OK, "%s", err.msg);
    CHECK(mra_plan_save(plan, path, path, &err) == MRA_ERR_ARG, "a plan overwrites its model");
    struct mra_plan * again = mra_plan_load(beside, m, &err);
    CHECK(same_needs(again, need, n), "beside: %s", err.msg);
    mra_plan_free(again);
    CHECK(!mra_plan_load(beside, other, &err) && err.code == MRA_ERR_FORMAT, "a plan for another model");
    CHECK(!mra_plan_load(path, m, &err) && strstr(err.msg, "no plan"), "a plan where there is none");
    CHECK(!mra_plan_load("none", m, &err) && err.code == MRA_ERR_IO, "a plan without a file");
    struct mra_model * with = load(inside, NULL);
    CHECK(same_needs(mra_model_plan(with), need, n), "inside: other needs, or none");
    const struct mra_seq seq = { .n = N, .ids = ids };
    struct mra_context_params p = sorted(plan, 1);
    float * a = encode_new(m, p, &seq, 1, tokens());
    p.plan = NULL;
    float *b = encode_new(with, p, &seq, 1, tokens()), *c = encode_new(m, p, &seq, 1, tokens());
    p.no_plan = true;
    float * d = encode_new(with, p, &seq, 1, tokens());
    const int64_t size = (int64_t) N * mra_model_info(m).n_embd;
    CHECK(memcmp(a, b, sizeof(float) * (size_t) size) == 0, "the model's own plan is not used by default");
    CHECK(memcmp(c, d, sizeof(float) * (size_t) size) == 0, "no_plan uses one");
    CHECK(memcmp(a, c, sizeof(float) * (size_t) size) != 0, "a plan changes nothing");
    static const char * const wrong[][2] = { { "few", "has 3 entries, not" }, { "nan", "no need of a head" },
        { "negative", "no need of a head" }, { "zero", "no head needs" }, { "type", "array of i32" },
        { "number", "expected an array" }, { "foreign", "of another model" }, { "nobody's", MODEL } };
    for (int i = 0; i < 8; i++) check_refused(inside, wrong[i][0], wrong[i][1]);
    mra_model_free(with);
    mra_plan_free(plan);
    mra_model_free(m);
    unlink(beside);
    unlink(inside);
    float * all[] = { a, b, c, d };
    for (int i = 0; i < 4; i++) free(all[i]);
}

// threads and neighbours change nothing; the work is the budget's; a plan of equal needs is none
static void check_results(const struct mra_model * m, const struct mra_plan * plan, int n_heads) {
    const int64_t d = mra_model_info(m).n_embd;
    const struct mra_seq seqs[3] = { { .n = N, .ids = ids }, { .n = 400, .ids = ids + 50 }, { .n = 30, .ids = ids } };
    struct mra_context_params p = sorted(plan, 1);
    float * alone = encode_new(m, p, seqs, 1, tokens());
    for (int n = 2; n <= 3; n++) {
        p.n_threads = n;
        float * all = encode_new(m, p, seqs, 3, tokens());
        CHECK(memcmp(alone, all, sizeof(float) * (size_t) (N * d)) == 0, "%d threads and neighbours change it", n);
        free(all);
    }
    float ones[MAX_HEADS];
    for (int i = 0; i < n_heads; i++) ones[i] = i == 1 ? 1e6f : 1;
    struct mra_plan * one_exact = mra_plan_of_shares(m, ones, NULL);
    p.plan = one_exact;
    p.n_error_rows = 1 << 20; // all rows: the error node knows which heads have no order
    struct mra_context * ctx = context(m, p);
    encode(ctx, seqs, 3, tokens());
    const double * sums = mra_context_errors(ctx, 0);
    int n_exact = 0;
    for (int h = 0; h < n_heads; h++) n_exact += sums[h * MRA_ATTN_ERROR_SUMS + MRA_ATTN_ERROR_E] < 1e-8;
    CHECK(n_exact == 1, "%d heads are exact, not the one that needs all keys", n_exact);
    mra_context_free(ctx);
    mra_plan_free(one_exact);
    p = sorted(plan, 1);
    const struct mra_attention_choice c = mra_attention_of(m, &p, N);
    CHECK(c.plan == plan && strcmp(c.text, "sorted, budget 0.25, planned") == 0, "says '%s'", c.text);
    CHECK(c.work <= .25 + 2.0 / N && c.work > .2, "its work is %.4f", c.work);
    for (int i = 0; i < n_heads; i++) ones[i] = 3;
    struct mra_plan * even = mra_plan_new(m, ones, NULL);
    p.plan = even;
    float * x = encode_new(m, p, seqs, 1, tokens());
    p.plan = NULL;
    float * y = encode_new(m, p, seqs, 1, tokens());
    CHECK(memcmp(x, y, sizeof(float) * (size_t) (N * d)) == 0, "equal needs are not the budget for all");
    CHECK(mra_attention_of(m, &p, N).plan == NULL, "a plan that nobody gave");
    free(alone);
    free(x);
    free(y);
    mra_plan_free(even);
}

// ---- max_error ----

// the error over all queries of a sequence with these settings
static double true_error(
    const struct mra_model * m, const struct mra_attention_choice * c, const struct mra_seq * seq) {
    struct mra_context_params p = threads(1);
    p.attention = c->exact ? MRA_ATTENTION_EXACT : MRA_ATTENTION_MRA;
    p.attn = c->attn;
    p.n_error_rows = 1 << 20;
    struct mra_context * ctx = context(m, p);
    encode(ctx, seq, 1, tokens());
    const struct mra_model_info i = mra_model_info(m);
    const double e = mra_error_summary_of(mra_context_errors(ctx, 0), i.n_layer, i.n_head).all.error;
    mra_context_free(ctx);
    return e;
}

// Each text gets the first budget whose error is small enough, whatever is beside it; the result is that of the budget.
static void check_max_error(const struct mra_model * m) {
    static const float targets[] = { .6f, .3f, .2f, .1f, 1e-5f };
    const struct mra_seq seqs[3] = { { .n = N, .ids = ids }, { .n = 400, .ids = ids + 50 }, { .n = 30, .ids = ids } };
    const int64_t d = mra_model_info(m).n_embd;
    double last = 0;
    int n_budgets = 0;
    for (int t = 0; t < 5; t++) {
        struct mra_context_params p = sorted(NULL, 2);
        p.max_error = targets[t];
        CHECK(strstr(mra_attention_of(m, &p, N).text, "sorted, error at most"), "what is sought is not said");
        struct mra_context *one = context(m, p), *all = context(m, p);
        const struct mra_result x = encode(one, seqs, 1, tokens()), y = encode(all, seqs, 3, tokens());
        CHECK(memcmp(x.data, y.data, sizeof(float) * (size_t) (N * d)) == 0, "error %g: neighbours change the result",
            (double) targets[t]);
        const struct mra_attention_choice c = mra_context_attention(one, 0), z = mra_context_attention(all, 0);
        CHECK(c.attn.budget == z.attn.budget && strcmp(c.text, z.text) == 0, "neighbours change the budget");
        const double e = true_error(m, &c, seqs);
        printf("error at most %g: %s, error %.3g\n", (double) targets[t], c.text, e);
        CHECK(e <= targets[t], "error at most %g: %s has %.3g", (double) targets[t], c.text, e);
        struct mra_context_params q = sorted(NULL, 1);
        q.attention = c.exact ? MRA_ATTENTION_EXACT : MRA_ATTENTION_MRA;
        q.attn = c.attn;
        float * w = encode_new(m, q, seqs, 1, tokens());
        CHECK(memcmp(x.data, w, sizeof(float) * (size_t) (N * d)) == 0, "not the result of its budget");
        CHECK((double) c.attn.budget >= last, "a smaller error has a smaller budget");
        n_budgets += (double) c.attn.budget > last;
        last = (double) c.attn.budget;
        free(w);
        mra_context_free(one);
        mra_context_free(all);
    }
    CHECK(last == 1 && n_budgets >= 3, "%d budgets for five errors, the last %g", n_budgets, last);
    struct mra_context_params p = sorted(NULL, 1);
    struct mra_error err;
    p.max_error = NAN;
    CHECK(!mra_context_new(m, &p, &err) && strstr(err.msg, "max_error"), "an error of NaN");
}

int main(int argc, char ** argv) {
    if (argc != 2) return 2;
    goldens_begin(argv[1]);
    uint64_t seed = 11;
    for (int i = 0; i < N; i++) ids[i] = rng_int(&seed, 0, 299);
    struct golden g = golden_open("roberta"), other = golden_open("bert");
    char path[1024];
    snprintf(path, sizeof(path), "%s", long_file(&g, "long"));
    struct mra_model * m = load(path, NULL);
    const int n = mra_model_info(m).n_layer * mra_model_info(m).n_head;
    float need[MAX_HEADS];
    for (int i = 0; i < n; i++) need[i] = i == 1 ? 1e5f : .3f + .5f * (float) (i % 3);
    struct mra_error err = { 0 };
    struct mra_plan * plan = mra_plan_new(m, need, &err);
    CHECK(plan, "%s", err.msg);
    check_results(m, plan, n);
    check_max_error(m);
    struct mra_context_params p = sorted(plan, 1);
    CHECK(!mra_context_new(other.model, &p, &err) && strstr(err.msg, "another model"), "a foreign plan");
    CHECK(!mra_plan_new(m, NULL, &err) && !mra_plan_new(NULL, need, &err), "a plan of nothing");
    struct mra_plan * raw = mra_plan_of_shares(m, need, &err);
    CHECK(mra_plan_save(raw, NULL, temp_path("raw"), &err) == MRA_ERR_ARG, "shares are saved");
    mra_plan_free(raw);
    check_files(path, need, n, other.model);
    mra_plan_free(plan);
    mra_model_free(m);
    unlink(path);
    golden_close(&g);
    golden_close(&other);
    goldens_end();
    return summary("test-head-plan");
}
