// ggml_mra_attn: every frame on every kernel table against the scalar reference, ggml's flash attention, and the
// invariants of the method; over shapes, types, layouts, lengths and kinds of data.
#include "attn-cases.h"

static struct mra_attn_params params_of(const struct attn_case * c) {
    struct mra_attn_params p = mra_attn_params_default();
    struct mra_error err;
    p.budget = c->budget;
    CHECK(mra_attn_params_parse(&p, c->frame, &err) == MRA_OK, "%s: %s", c->name, err.msg);
    for (int i = 0; i < 4 && c->counts[0] > 0; i++) p.counts[i] = c->counts[i];
    p.first_n = c->first_n;
    p.diag_n = c->diag_n;
    p.rule = c->rule;
    p.n_threads = 3;
    return p;
}

struct inputs {
    float *q, *k, *v;
};
static struct inputs inputs_of(const struct attn_case * c) {
    struct inputs x = {
        data_new(c->kind, (int64_t) c->n_q * c->n_head * c->n_batch, c->d, 1),
        data_new(c->kind, (int64_t) c->n_k * c->n_head_kv * c->n_batch, c->d, 2),
        data_new(c->kind == DATA_HUGE ? DATA_NORMAL : c->kind, (int64_t) c->n_k * c->n_head_kv * c->n_batch, c->dv, 3),
    };
    return x;
}
static void inputs_free(struct inputs * x) {
    free(x->q);
    free(x->k);
    free(x->v);
}

struct qkv {
    struct ggml_tensor *q, *k, *v, *len;
};
static struct qkv tensors_of(struct graph * g, const struct attn_case * c, const struct inputs * x) {
    struct qkv t = {
        graph_heads(g, F32, c->d, c->n_q, c->n_head, c->n_batch, x->q, c->layout),
        graph_heads(g, c->type, c->d, c->n_k, c->n_head_kv, c->n_batch, x->k, c->layout),
        graph_heads(g, c->type, c->dv, c->n_k, c->n_head_kv, c->n_batch, x->v, c->layout),
        NULL,
    };
    if (c->len[0] || c->len[1]) t.len = graph_input(g, GGML_TYPE_I32, c->n_batch, 1, 1, 1, c->len);
    return t;
}

// foreign: the pack is no node of ours, as after a copy from a device: the attention packs again
static float * run_packed(const struct attn_case * c, const struct inputs * x, const struct mra_attn_params * p,
    int n_threads, bool foreign) {
    struct graph g = graph_new();
    const struct qkv t = tensors_of(&g, c, x);
    struct mra_error err = { 0 };
    struct ggml_tensor * o = ggml_mra_attn(g.ctx, t.q, t.k, t.v, t.len, p, &err);
    CHECK(o, "%s: %s", c->name, err.msg);
    if (foreign) o->src[3] = ggml_new_tensor(g.ctx, o->src[3]->type, GGML_MAX_DIMS, o->src[3]->ne);
    float * r = graph_run(&g, o, n_threads);
    graph_free(&g);
    return r;
}
static float * run_attn(
    const struct attn_case * c, const struct inputs * x, const struct mra_attn_params * p, int n_threads) {
    return run_packed(c, x, p, n_threads, false);
}

static int64_t n_out(const struct attn_case * c) { return (int64_t) c->dv * c->n_head * c->n_q * c->n_batch; }

// every table against the reference; 1, 2, 3 and 8 threads, and a second run, to the bit
static void test_tables(const struct attn_case * c, double tol) {
    const struct mra_kernels * tables[8];
    const int n = kernel_tables(tables, 8);
    struct inputs x = inputs_of(c);
    const struct mra_attn_params p = params_of(c);
    float * ref = NULL;
    for (int i = 0; i < n; i++) {
        if (!ref || p.frame == MRA_FRAME_SORTED) { // with the order that the table finds
            free(ref);
            mra_kernels_set(kernels_with_order(tables[0], tables[i]));
            ref = run_attn(c, &x, &p, 2);
        }
        mra_kernels_set(tables[i]);
        float * a = run_attn(c, &x, &p, 1);
        const double e = max_error(a, ref, n_out(c));
        CHECK(e <= attn_tolerance(tables[i], tol), "%s: %s differs from the reference by %.2e", c->name,
            tables[i]->name, e);
        static const int threads[] = { 1, 2, 3, 8 };
        for (int t = 0; t < 4 && i > 0; t++) {
            float * b = run_attn(c, &x, &p, threads[t]);
            CHECK(memcmp(a, b, n_out(c) * sizeof(float)) == 0, "%s: %s: %d threads give other bits than 1", c->name,
                tables[i]->name, threads[t]);
            free(b);
        }
        free(a);
    }
    kernels_best();
    free(ref);
    inputs_free(&x);
}

static bool has_int8(const struct attn_case * c) {
    return strcmp(c->frame, "exact") == 0 || strcmp(c->frame, "columns") == 0 || strcmp(c->frame, "sorted") == 0;
}

// exact attention by the reference
static float * run_exact(const struct attn_case * c, const struct inputs * x) {
    struct mra_attn_params p = params_of(c);
    const struct mra_kernels * k = mra_kernels_get();
    p.frame = MRA_FRAME_EXACT;
    p.shares = NULL;
    mra_kernels_set(&mra_kernels_ref);
    float * r = run_attn(c, x, &p, 2);
    mra_kernels_set(k);
    return r;
}

// the same in integers; and how far they are from floats
static void test_int8(const struct attn_case * c, double tol) {
    if (!has_int8(c)) return;
    const struct mra_kernels *tables[16], *refs[16];
    const int n = int8_tables(tables, refs, 16);
    struct inputs x = inputs_of(c);
    struct mra_attn_params p = params_of(c), floats = p;
    p.type = MRA_ATTN_INT8;
    const bool sorted = p.frame == MRA_FRAME_SORTED; // with the order that the table finds
    float *want = NULL, *ref = NULL;
    for (int i = 0; i < n; i++) {
        if (!want || sorted) {
            free(want);
            mra_kernels_set(kernels_with_order(&mra_kernels_ref, tables[i]));
            want = run_attn(c, &x, &floats, 2);
        }
        if (i == 0 || sorted || refs[i] != refs[i - 1]) {
            free(ref);
            mra_kernels_set(kernels_with_means(refs[i], tables[i]));
            ref = run_attn(c, &x, &p, 2);
        }
        mra_kernels_set(tables[i]);
        float *a = run_attn(c, &x, &p, 1), *b = run_attn(c, &x, &p, 3);
        const double e = max_error(a, ref, n_out(c)), off = relative_error(a, want, n_out(c));
        CHECK(e <= attn_tolerance(tables[i], fmax(tol, 2e-5)), "%s: %s in integers differs from the reference by %.2e",
            c->name, tables[i]->name, e);
        // Keys with almost equal scores: integers may choose others than floats do. Such a result is farther from that
        // in floats than rounding alone would bring it, but no farther from exact attention.
        const double limit = int8_tolerance(tables[i], 0.03);
        const bool other_keys = off > limit && p.frame != MRA_FRAME_EXACT;
        float * exact = other_keys ? run_exact(c, &x) : NULL;
        const double error = exact ? relative_error(a, exact, n_out(c)) : off,
                     most = exact ? 1.1 * relative_error(want, exact, n_out(c)) : limit;
        CHECK(error <= most, "%s: %s in integers is %.4f off floats; error %.4f, limit %.4f", c->name, tables[i]->name,
            off, error, most);
        free(exact);
        CHECK(memcmp(a, b, n_out(c) * sizeof(float)) == 0, "%s: %s in integers: 3 threads give other bits than 1",
            c->name, tables[i]->name);
        free(a);
        free(b);
    }
    kernels_best();
    float *a = run_attn(c, &x, &p, 2), *again = run_packed(c, &x, &p, 2, target_is_cpu());
    CHECK(memcmp(a, again, n_out(c) * sizeof(float)) == 0, "%s: packed again, integers give other bits", c->name);
    free(a);
    free(again);
    free(ref);
    free(want);
    inputs_free(&x);
}

// full budget == ggml_flash_attn_ext, masked behind the lengths
static float * run_flash(const struct attn_case * c, const struct inputs * x) {
    struct graph g = graph_new();
    struct qkv t = tensors_of(&g, c, x);
    struct ggml_tensor * mask = NULL;
    if (t.len) {
        const int64_t rows = MRA_ROUND_UP(c->n_q, 64); // older ggml wants the mask padded
        ggml_fp16_t * m = malloc(rows * c->n_k * c->n_batch * sizeof(*m));
        for (int b = 0; b < c->n_batch; b++)
            for (int64_t i = 0; i < rows; i++)
                for (int j = 0; j < c->n_k; j++) {
                    m[(b * rows + i) * c->n_k + j] = ggml_fp32_to_fp16(j < c->len[b] ? 0 : -INFINITY);
                }
        mask = graph_input(&g, GGML_TYPE_F16, c->n_k, rows, 1, c->n_batch, m);
        free(m);
    }
    struct ggml_tensor * o = ggml_flash_attn_ext(g.ctx, t.q, t.k, t.v, mask, 1 / sqrtf((float) c->d), 0, 0);
    float * r = graph_run(&g, o, 2);
    graph_free(&g);
    return r;
}
static void test_exact(const struct attn_case * c) {
    if (c->d != c->dv && c->type == F16) return; // ggml's flash attention reads V rows of K's type only
    struct inputs x = inputs_of(c);
    float * want = run_flash(c, &x);
    for (int b = 0; b < c->n_batch && (c->len[0] || c->len[1]);
         b++) { // ours gives 0 for padding, and where there is no key
        for (int i = 0; i < c->n_q; i++)
            if (c->len[b] == 0 || (c->n_q == c->n_k && i >= c->len[b])) {
                memset(want + (int64_t) (b * c->n_q + i) * c->n_head * c->dv, 0,
                    (size_t) c->n_head * c->dv * sizeof(float));
            }
    }
    static const char * const frames[] = { "exact", "columns", "sorted", "mra2", "16,4,1", "64,16,4,1", "32,8,1" };
    for (int i = 0; i < 7; i++) {
        struct attn_case all = *c;
        all.frame = frames[i];
        all.budget = 1;
        all.counts[0] = 0;
        struct mra_attn_params p = params_of(&all);
        float * a = run_attn(&all, &x, &p, 2);
        const double e = max_error(a, want, n_out(c)), tol = c->kind == DATA_HUGE ? 2e-3 : c->type == F16 ? 2e-3 : 2e-5;
        CHECK(e <= attn_tolerance(mra_kernels_get(), tol), "%s: %s at full budget differs from flash attention by %.2e",
            c->name, frames[i], e);
        free(a);
    }
    free(want);
    inputs_free(&x);
}

// padded input == the same input cut to its length
static void test_padding(const struct attn_case * c, enum mra_attn_type type) {
    if (c->n_q != c->n_k || (type == MRA_ATTN_INT8 && !has_int8(c))) return;
    struct attn_case cut = *c, pad = *c;
    cut.n_batch = pad.n_batch = 1;
    pad.n_q = pad.n_k = c->n_k + 45;
    pad.len[0] = c->n_k;
    cut.len[0] = cut.len[1] = pad.len[1] = 0;
    struct inputs x = inputs_of(&cut), y = inputs_of(&pad);
    for (int h = 0; h < c->n_head; h++)
        memcpy(y.q + (int64_t) h * pad.n_q * c->d, x.q + (int64_t) h * c->n_q * c->d, sizeof(float) * c->n_q * c->d);
    for (int h = 0; h < c->n_head_kv; h++)
        memcpy(y.k + (int64_t) h * pad.n_k * c->d, x.k + (int64_t) h * c->n_k * c->d, sizeof(float) * c->n_k * c->d);
    for (int h = 0; h < c->n_head_kv; h++)
        memcpy(y.v + (int64_t) h * pad.n_k * c->dv, x.v + (int64_t) h * c->n_k * c->dv, sizeof(float) * c->n_k * c->dv);
    for (int h = 0; h < c->n_head_kv; h++)
        for (int j = c->n_k * c->d; j < pad.n_k * c->d; j++) y.k[(int64_t) h * pad.n_k * c->d + j] = NAN; // never read
    struct mra_attn_params p = params_of(&cut);
    p.type = type;
    float *a = run_attn(&cut, &x, &p, 2), *b = run_attn(&pad, &y, &p, 2);
    CHECK(memcmp(a, b, n_out(&cut) * sizeof(float)) == 0, "%s: padding changes the result by %.2e", c->name,
        max_error(b, a, n_out(&cut)));
    for (int64_t i = n_out(&cut); i < n_out(&pad); i++)
        if (b[i] != 0) {
            CHECK(false, "%s: a padded row is not zero", c->name);
            break;
        }
    free(a);
    free(b);
    inputs_free(&x);
    inputs_free(&y);
}

// sequences laid end to end == one by one
static void test_packed(
    const char * frame, float budget, enum mra_attn_type type, const int * lens, const int * counts) {
    struct attn_case c = CASE("packed", frame, budget, NORMAL, 0, 0, 64, 64, 3, 1, 1, 1, F32);
    int32_t starts[7] = { 0 };
    int max_len = 0;
    for (int i = 0; i < 3 && counts; i++) c.counts[i] = counts[i];
    for (int i = 0; i < 6; i++) {
        starts[i + 1] = starts[i] + lens[i];
        max_len = lens[i] > max_len ? lens[i] : max_len;
    }
    c.n_q = c.n_k = starts[6];
    struct inputs x = inputs_of(&c);
    struct mra_attn_params p = params_of(&c);
    p.type = type;
    struct graph g = graph_new();
    const struct qkv t = tensors_of(&g, &c, &x);
    struct mra_error err = { 0 };
    struct ggml_tensor * o = ggml_mra_attn_packed(
        g.ctx, t.q, t.k, t.v, graph_input(&g, GGML_TYPE_I32, 7, 1, 1, 1, starts), max_len, &p, &err);
    CHECK(o, "packed: %s", err.msg);
    float * all = graph_run(&g, o, 2);
    graph_free(&g);
    for (int s = 0; s < 6; s++)
        if (lens[s]) {
            struct attn_case one = c;
            one.n_q = one.n_k = lens[s];
            struct inputs y = inputs_of(&one);
            for (int h = 0; h < 3; h++)
                memcpy(y.q + (int64_t) h * lens[s] * 64, x.q + ((int64_t) h * c.n_q + starts[s]) * 64,
                    sizeof(float) * lens[s] * 64);
            memcpy(y.k, x.k + (int64_t) starts[s] * 64, sizeof(float) * lens[s] * 64);
            memcpy(y.v, x.v + (int64_t) starts[s] * 64, sizeof(float) * lens[s] * 64);
            float * r = run_attn(&one, &y, &p, 2);
            CHECK(memcmp(r, all + (int64_t) starts[s] * 3 * 64, sizeof(float) * n_out(&one)) == 0,
                "packed %s: sequence %d differs from the same alone", frame, s);
            free(r);
            inputs_free(&y);
        }
    free(all);
    inputs_free(&x);
}

// random shapes, seeded; every table against the reference
static void test_random(int count) {
    uint64_t s = 2022;
    static const char * const frames[] = { "exact", "columns", "sorted", "mra2", "mra2s", "16,4,1", "sorted" };
    for (int i = 0; i < count; i++) {
        struct attn_case c = { 0 };
        c.d = 8 * rng_int(&s, 1, 16);
        c.dv = 8 * rng_int(&s, 1, 16);
        c.n_head_kv = rng_int(&s, 1, 2);
        c.n_batch = rng_int(&s, 1, 3);
        c.type = rng_int(&s, 0, 1) ? F16 : F32;
        c.layout = rng_int(&s, 0, 2);
        c.frame = frames[rng_int(&s, 0, 6)];
        c.budget = .05f + .9f * rng_uniform(&s);
        char name[128];
        c.n_head = c.n_head_kv * rng_int(&s, 1, 3);
        c.n_q = rng_int(&s, 1, 300);
        c.n_k = rng_int(&s, 0, 2) ? c.n_q : rng_int(&s, 1, 300);
        c.rule = (enum mra_rule) rng_int(&s, 0, 2);
        if (strcmp(c.frame, "sorted") == 0) { // by the budget it would be exact up to 256 keys
            c.counts[0] = rng_int(&s, 1, 20);
            c.counts[1] = rng_int(&s, 0, 100);
            c.counts[2] = rng_int(&s, 0, 3);
        }
        if (rng_int(&s, 0, 1))
            for (int b = 0; b < c.n_batch; b++) c.len[b] = rng_int(&s, 1, c.n_k);
        snprintf(name, sizeof(name), "random %d: %s w=%.2f rule %d n_q=%d n_k=%d d=%d dv=%d heads %d/%d batch %d %s", i,
            c.frame, c.budget, (int) c.rule, c.n_q, c.n_k, c.d, c.dv, c.n_head, c.n_head_kv, c.n_batch,
            c.type == F16 ? "f16" : "f32");
        c.name = name;
        test_tables(&c, 5e-5);
        test_int8(&c, 5e-5);
    }
}

// the budget of the sorted frame counts everything: settings found for it do that much work, and not more
static void test_work(void) {
    static const float budgets[] = { .0625f, .125f, .25f, .375f, .5f };
    static const int lengths[] = { 512, 1000, 1023, 1024, 2032, 2033, 2047, 2048, 4096, 16384, 65536 };
    struct mra_attn_params p = mra_attn_params_default();
    mra_attn_params_parse(&p, "sorted", NULL);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 11; j++) {
            p.budget = budgets[i];
            const double work = mra_attn_work(&p, lengths[j], lengths[j]), step = 2.0 / lengths[j];
            CHECK(fabs(work - p.budget) <= step, "sorted, budget %g, n = %d: work %.5f", (double) p.budget, lengths[j],
                work);
        }
    CHECK(mra_sorted_all_keys(.25f, 4096) == 2 && mra_sorted_all_keys(.25f, 2033) == 1 &&
            mra_sorted_all_keys(.25f, 2032) == 0 && mra_sorted_all_keys(.05f, 4096) == 0,
        "one query block in 128 uses all keys");
    p.budget = .25f;
    CHECK(mra_attn_work(&p, 256, 256) == 1 && mra_attn_work(&p, 257, 257) < 1, "sorted is exact up to 256 keys");
    p.counts[0] = 128;
    p.counts[1] = 100;
    p.counts[2] = 0;
    const double none = mra_attn_work(&p, 2048, 2048);
    p.counts[2] = 8; // 1/16 of the query blocks, which need nothing else
    const double some = mra_attn_work(&p, 2048, 2048), gain = (1 - (100.0 / 2048 + 1.0 / 16)) / 16;
    CHECK(fabs(some - none - gain) < 1e-6, "8 query blocks that use all keys add %.4f, not %.4f", some - none, gain);
}

// usage: test-attn [random cases [most queries x keys of a case]]
int main(int argc, char ** argv) {
    const int n_random = argc > 1 ? atoi(argv[1]) : 40, most = argc > 2 ? atoi(argv[2]) : INT32_MAX;
    for (int i = 0; i < N_ATTN_CASES; i++) {
        const struct attn_case * c = &attn_cases[i];
        if (c->n_q * c->n_k > most) continue;
        test_tables(c, attn_case_tolerance(c));
        test_int8(c, attn_case_tolerance(c));
        for (int type = 0; type < 2; type++) test_padding(c, (enum mra_attn_type) type);
        if (i < N_EXACT_CASES) test_exact(c);
    }
    static const int lens[] = { 37, 1, 200, 0, 129, 64 }, longer[] = { 300, 17, 0, 421, 256, 257 },
                     counts[] = { 4, 20, 1 };
    for (int type = 0; type < 2; type++) {
        test_packed("exact", 1, (enum mra_attn_type) type, lens, NULL);
        test_packed("columns", .25f, (enum mra_attn_type) type, lens, NULL);
        test_packed("sorted", 1, (enum mra_attn_type) type, lens, counts);
        test_packed("sorted", .25f, (enum mra_attn_type) type, longer, NULL);
    }
    test_work();
    test_random(n_random);
    return summary("test-attn");
}
