// Real queries, keys and values (MiniLM over prose) against the numpy specification: output rows, and the error of each
// frame against exact attention. Files by golden/make_attn.py; usage: test-golden FOLDER
#include "harness.h"
#include "../examples/common/npy.h"

enum { N_HEAD = 4, N = 512, D = 32, STEP = 8 };

struct golden {
    char name[32], frame[32], counts[64], rule[16];
    int n, first_n, diag_n;
    double error[N_HEAD];
};

static struct mra_attn_params params_of(const struct golden * c) {
    struct mra_attn_params p = mra_attn_params_default();
    struct mra_error err = { 0 };
    char frame[32];
    snprintf(frame, sizeof(frame), "%s", c->frame);
    char * s = strstr(frame, ",s");
    if (s) *s = 0;
    CHECK(mra_attn_params_parse(&p, frame, &err) == MRA_OK, "%s: %s", c->name, err.msg);
    p.finest_only = s;
    p.first_n = c->first_n;
    p.diag_n = c->diag_n;
    p.block = p.frame == MRA_FRAME_COLUMNS || p.frame == MRA_FRAME_SORTED ? 16 : 0;
    p.rule = strcmp(c->rule, "mu") == 0 ? MRA_RULE_MU : MRA_RULE_ROWMAX;
    if (c->counts[0] != '-') sscanf(c->counts, "%d,%d,%d", &p.counts[0], &p.counts[1], &p.counts[2]);
    return p;
}

// [head][n][d] of heads laid out as [n][head][d]
static float * run(
    const struct golden * c, const struct npy * qkv, const struct mra_attn_params * p, enum ggml_type type) {
    struct graph g = graph_new();
    struct ggml_tensor * t[3];
    float * x = malloc(sizeof(float) * N_HEAD * c->n * D);
    for (int i = 0; i < 3; i++) {
        for (int h = 0; h < N_HEAD; h++)
            memcpy(
                x + (int64_t) h * c->n * D, qkv->data + ((int64_t) i * N_HEAD + h) * N * D, sizeof(float) * c->n * D);
        t[i] = graph_heads(&g, i ? type : GGML_TYPE_F32, D, c->n, N_HEAD, 1, x, 1);
    }
    struct mra_error err = { 0 };
    struct ggml_tensor * o = ggml_mra_attn(g.ctx, t[0], t[1], t[2], NULL, p, &err);
    CHECK(o, "%s: %s", c->name, err.msg);
    float * a = graph_run(&g, o, 2);
    for (int i = 0; i < c->n; i++)
        for (int h = 0; h < N_HEAD; h++)
            memcpy(x + ((int64_t) h * c->n + i) * D, a + ((int64_t) i * N_HEAD + h) * D, sizeof(float) * D);
    free(a);
    graph_free(&g);
    return x;
}

static void test_case(const char * dir, const struct golden * c, const struct npy * qkv) {
    const struct mra_kernels * tables[8];
    const int n_tables = kernel_tables(tables, 8);
    struct mra_error err = { 0 };
    struct npy want;
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.npy", dir, c->name);
    const bool ok = npy_read(&want, path, &err) == MRA_OK;
    CHECK(ok, "%s", err.msg);
    if (!ok) return;
    const struct mra_attn_params p = params_of(c), full = mra_attn_params_exact();
    const int n_row = (c->n + STEP - 1) / STEP;
    for (int t = 0; t < n_tables; t++)
        for (int f16 = 0; f16 < 2; f16++) { // the data are F16 to begin with: both types must give the same
            mra_kernels_set(tables[t]);
            float *a = run(c, qkv, &p, f16 ? GGML_TYPE_F16 : GGML_TYPE_F32), *e = run(c, qkv, &full, GGML_TYPE_F32);
            for (int h = 0; h < N_HEAD; h++) {
                const float * ah = a + (int64_t) h * c->n * D;
                double worst = 0;
                for (int r = 0; r < n_row; r++)
                    worst = fmax(
                        worst, max_error(ah + (int64_t) r * STEP * D, want.data + ((int64_t) h * n_row + r) * D, D));
                CHECK(worst <= 1e-4, "%s head %d: %s differs from numpy by %.1e", c->name, h, tables[t]->name, worst);
                const double error = relative_error(ah, e + (int64_t) h * c->n * D, (int64_t) c->n * D);
                CHECK(fabs(error - c->error[h]) <= 1e-4, "%s head %d: %s has error %.5f, numpy %.5f", c->name, h,
                    tables[t]->name, error, c->error[h]);
            }
            free(a);
            free(e);
        }
    npy_free(&want);
}

// In integers: the whole node against floats of the same frame. Sparse frames may choose other keys where scores are
// almost equal: then it is the error against exact attention that may grow by a hundredth of itself at most.
static void test_int8(const struct golden * c, const struct npy * qkv) {
    const struct mra_kernels *tables[16], *refs[16];
    struct mra_attn_params p = params_of(c);
    if (p.frame == MRA_FRAME_SQUARE) return;
    const int n_tables = int8_tables(tables, refs, 16);
    const int64_t n = (int64_t) N_HEAD * c->n * D;
    mra_kernels_set(&mra_kernels_ref);
    const struct mra_attn_params full = mra_attn_params_exact();
    float *want = run(c, qkv, &p, GGML_TYPE_F32), *exact = run(c, qkv, &full, GGML_TYPE_F32), *ref = NULL;
    const double error = relative_error(want, exact, n);
    p.type = MRA_ATTN_INT8;
    for (int t = 0; t < n_tables; t++)
        for (int f16 = 0; f16 < 2; f16++) {
            if (!f16 && (t == 0 || refs[t] != refs[t - 1] || p.frame == MRA_FRAME_SORTED)) {
                free(ref);
                mra_kernels_set(kernels_with_means(refs[t], tables[t]));
                ref = run(c, qkv, &p, GGML_TYPE_F32);
            }
            mra_kernels_set(tables[t]);
            float * a = run(c, qkv, &p, f16 ? GGML_TYPE_F16 : GGML_TYPE_F32);
            const double e = max_error(a, ref, n), off = relative_error(a, want, n), now = relative_error(a, exact, n);
            CHECK(e <= 2e-5, "%s: %s in integers differs from the reference by %.1e", c->name, tables[t]->name, e);
            CHECK(off <= int8_tolerance(tables[t], 0.01) || (error > 0.01 && now <= 1.01 * error),
                "%s: %s in integers is %.5f off floats, its error %.5f, theirs %.5f", c->name, tables[t]->name, off,
                now, error);
            CHECK(off > 2e-5, "%s: %s in integers is what floats give", c->name, tables[t]->name);
            free(a);
        }
    kernels_best();
    free(ref);
    free(exact);
    free(want);
}

// name, n, counts, errors; every table finds numpy's order of these heads (test-query-order)
static void test_sorted(const char * dir, const struct npy * qkv) {
    char path[512], line[512];
    snprintf(path, sizeof(path), "%s/sorted.txt", dir);
    FILE * f = fopen(path, "r");
    CHECK(f, "%s cannot be read", path);
    int n_cases = 0;
    while (f && fgets(line, sizeof(line), f)) {
        struct golden c = { .frame = "sorted", .rule = "-" };
        const int n = sscanf(line, "%31s %d %63s %lf %lf %lf %lf", c.name, &c.n, c.counts, &c.error[0], &c.error[1],
            &c.error[2], &c.error[3]);
        CHECK(n == 7, "%s: bad line: %s", path, line);
        if (n == 7) test_case(dir, &c, qkv);
        if (n == 7) test_int8(&c, qkv);
        n_cases += n == 7;
    }
    CHECK(n_cases >= 4, "only %d sorted cases", n_cases);
    if (f) fclose(f);
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: test-golden FOLDER\n");
        return 2;
    }
    struct npy qkv;
    struct mra_error err = { 0 };
    char path[512], line[512];
    snprintf(path, sizeof(path), "%s/qkv.npy", argv[1]);
    if (npy_read(&qkv, path, &err) != MRA_OK || qkv.n != 3 * N_HEAD * N * D) {
        fprintf(stderr, "%s: %s\n", path, err.msg);
        return 1;
    }
    snprintf(path, sizeof(path), "%s/cases.txt", argv[1]);
    FILE * f = fopen(path, "r");
    if (!f) {
        perror(path);
        return 1;
    }
    int n_cases = 0;
    while (fgets(line, sizeof(line), f)) {
        struct golden c;
        const int n = sscanf(line, "%31s %31s %d %63s %15s %d %d %lf %lf %lf %lf", c.name, c.frame, &c.n, c.counts,
            c.rule, &c.first_n, &c.diag_n, &c.error[0], &c.error[1], &c.error[2], &c.error[3]);
        CHECK(n == 11, "%s: bad line: %s", path, line);
        if (n == 11) {
            test_case(argv[1], &c, &qkv);
            test_int8(&c, &qkv);
            n_cases++;
        }
    }
    CHECK(n_cases >= 17, "only %d cases", n_cases);
    fclose(f);
    test_sorted(argv[1], &qkv);
    npy_free(&qkv);
    return summary("test-golden");
}
