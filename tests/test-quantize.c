// mra_quantize: types, what stays, rounding, fallbacks, importance, errors.
#include "gguf-edit.h"
#include "harness.h"
#include "mra-encoder.h"
#include "quantize-input.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char tmp[] = "/tmp/test-quantize-XXXXXX", in[1100], out[1100], other[1100];

static bool exists(const char * path) { return access(path, F_OK) == 0; }

// files in tmp, to see that nothing is left behind
static int n_files(void) {
    char cmd[1200];
    int n = -1;
    snprintf(cmd, sizeof(cmd), "ls '%s' | wc -l", tmp);
    FILE * f = popen(cmd, "r");
    if (f) {
        if (fscanf(f, "%d", &n) != 1) n = -1;
        pclose(f);
    }
    return n;
}

static float * floats(const struct ggml_tensor * t) {
    const int64_t n = ggml_nelements(t);
    float * x = malloc((size_t) n * sizeof(float));
    if (t->type == GGML_TYPE_F32) memcpy(x, t->data, (size_t) n * sizeof(float));
    else ggml_get_type_traits(t->type)->to_float(t->data, x, n);
    return x;
}

static bool must_stay(const char * name) {
    return !strstr(name, ".weight") || strstr(name, "norm") || strstr(name, "position_embd") ||
        strstr(name, "token_types") || strstr(name, "cls.output");
}

struct type_case {
    const char * name;
    enum ggml_type type, t512, t96, t40;
    double error;
    int file_type;
}; // relative error of normal numbers

static const struct type_case cases[] = {
    { "f32", GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_F32, 1e-7, 0 },
    { "f16", GGML_TYPE_F16, GGML_TYPE_F16, GGML_TYPE_F16, GGML_TYPE_F16, 1e-3, 1 },
    { "q8_0", GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_F16, .01, 7 },
    { "q4_0", GGML_TYPE_Q4_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_0, GGML_TYPE_F16, .12, 2 },
    { "q4_1", GGML_TYPE_Q4_1, GGML_TYPE_Q4_1, GGML_TYPE_Q4_1, GGML_TYPE_F16, .12, 3 },
    { "q5_0", GGML_TYPE_Q5_0, GGML_TYPE_Q5_0, GGML_TYPE_Q5_0, GGML_TYPE_F16, .06, 8 },
    { "q5_1", GGML_TYPE_Q5_1, GGML_TYPE_Q5_1, GGML_TYPE_Q5_1, GGML_TYPE_F16, .06, 9 },
    { "q4_k", GGML_TYPE_Q4_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_0, GGML_TYPE_F16, .10, 14 },
    { "q5_k", GGML_TYPE_Q5_K, GGML_TYPE_Q5_K, GGML_TYPE_Q5_1, GGML_TYPE_F16, .06, 16 },
    { "q6_k", GGML_TYPE_Q6_K, GGML_TYPE_Q6_K, GGML_TYPE_Q8_0, GGML_TYPE_F16, .03, 18 },
};

struct seen {
    int n, n_fallback, n_changed;
};
static void on_tensor(
    void * user, int i, int n, const char * name, enum ggml_type from, enum ggml_type to, bool fallback) {
    struct seen * s = user;
    CHECK(i == s->n && i < n && name[0], "progress %d of %d", i, n);
    s->n++;
    s->n_fallback += fallback;
    s->n_changed += from != to;
}

static void check_type(const struct type_case * c) {
    struct mra_error err = { 0 };
    struct mra_quantize_result r = { 0 };
    struct seen seen = { 0 };
    CHECK(mra_quantize_type(c->name) == c->type, "%s: name", c->name);
    const enum mra_status st = mra_quantize(in, out,
        &(struct mra_quantize_params) { .type = c->type, .n_threads = 3, .progress = on_tensor, .user = &seen }, &r,
        &err);
    CHECK(st == MRA_OK, "%s: %s", c->name, err.msg);
    if (st != MRA_OK) return;
    struct stat sa, sb;
    CHECK(stat(in, &sa) == 0 && stat(out, &sb) == 0 && r.n_in == (size_t) sa.st_size && r.n_out == (size_t) sb.st_size,
        "%s: sizes", c->name);
    struct gguf_edit a = gguf_edit_open(in), b = gguf_edit_open(out);
    CHECK(a.n == b.n && seen.n == a.n && seen.n_changed == r.n_quantized && seen.n_fallback == r.n_fallback,
        "%s: %d tensors, %d fallbacks", c->name, b.n, r.n_fallback);
    CHECK(gguf_get_n_kv(a.kv) == gguf_get_n_kv(b.kv), "%s: keys", c->name);
    CHECK((int) gguf_get_val_u32(b.kv, gguf_find_key(b.kv, "general.file_type")) == c->file_type, "%s: file type",
        c->name);
    for (int i = 0; i < a.n; i++) {
        const struct ggml_tensor *x = a.t[i], *y = gguf_edit_find(&b, ggml_get_name(x));
        const bool same = must_stay(ggml_get_name(x));
        enum ggml_type want = same ? x->type : x->ne[0] % 256 == 0 ? c->t512 : x->ne[0] % 32 == 0 ? c->t96 : c->t40;
        if (strstr(ggml_get_name(x), "attn_v.weight") && ggml_is_quantized(c->type)) { // more bits for the values
            want = c->type == GGML_TYPE_Q8_0 || x->ne[0] % 32 ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;
        }
        CHECK(y->type == want, "%s: %s is %s", c->name, ggml_get_name(x), ggml_type_name(y->type));
        if (same) {
            CHECK(memcmp(x->data, y->data, ggml_nbytes(x)) == 0, "%s: %s changed", c->name, ggml_get_name(x));
            continue;
        }
        float *fx = floats(x), *fy = floats(y);
        const double e = relative_error(fy, fx, ggml_nelements(x));
        CHECK(e <= fmax(c->error, 1e-3), "%s: %s is %.3g off", c->name, ggml_get_name(x), e);
        free(fx);
        free(fy);
    }
    gguf_edit_free(&a);
    gguf_edit_free(&b);
    // the number of threads changes nothing
    CHECK(mra_quantize(in, other, &(struct mra_quantize_params) { .type = c->type, .n_threads = 1 }, NULL, &err) ==
            MRA_OK,
        "%s: %s", c->name, err.msg);
    char cmd[2400];
    snprintf(cmd, sizeof(cmd), "cmp -s '%s' '%s'", out, other);
    CHECK(system(cmd) == 0, "%s: threads change the file", c->name);
    struct mra_model * m = mra_model_load(out, NULL, &err);
    CHECK(m, "%s: %s", c->name, err.msg);
    mra_model_free(m);
}

static void fails(
    const char * what, const char * a, const char * b, enum ggml_type type, enum mra_status code, const char * part) {
    struct mra_error err = { 0 };
    const int before = n_files();
    const enum mra_status st = mra_quantize(
        a, b, &(struct mra_quantize_params) { .type = type, .n_threads = 1 }, NULL, &err);
    CHECK(st == code && strstr(err.msg, part), "%s: code %d, '%s', expected '...%s...'", what, (int) st, err.msg, part);
    CHECK(n_files() == before, "%s: files left behind", what);
}

static void check_errors(void) {
    char linked[1200];
    struct mra_error err;
    unlink(out);
    CHECK(mra_quantize(in, other, &(struct mra_quantize_params) { .type = GGML_TYPE_Q8_0 }, NULL, &err) == MRA_OK, "%s",
        err.msg);
    fails("already quantized", other, out, GGML_TYPE_Q4_0, MRA_ERR_UNSUPPORTED, "already quantized");
    fails("missing", "/nonexistent.gguf", out, GGML_TYPE_Q8_0, MRA_ERR_IO, "No such file");
    fails("folder", tmp, out, GGML_TYPE_Q8_0, MRA_ERR_IO, "directory");
    fails("type", in, out, GGML_TYPE_I32, MRA_ERR_ARG, "type");
    fails("same file", in, in, GGML_TYPE_Q8_0, MRA_ERR_ARG, "is the input");
    snprintf(linked, sizeof(linked), "%s/link.gguf", tmp);
    CHECK(symlink(in, linked) == 0, "symlink");
    fails("same file, linked", in, linked, GGML_TYPE_Q8_0, MRA_ERR_ARG, "is the input");
    unlink(linked);
    fails("no such folder", in, "/nonexistent/out.gguf", GGML_TYPE_Q8_0, MRA_ERR_IO, "No such file");
    fails("onto a folder", in, tmp, GGML_TYPE_Q8_0, MRA_ERR_IO, "not a regular file");
    fails("device", in, "/dev/full", GGML_TYPE_Q8_0, MRA_ERR_IO, "not a regular file");
    FILE * f = fopen(other, "wb");
    if (f) {
        fputs("GGUF", f);
        fclose(f);
    }
    fails("damaged", other, out, GGML_TYPE_Q8_0, MRA_ERR_FORMAT, "header");
    // a file system that is full, as far as a program can tell
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 20000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    fails("full", in, out, GGML_TYPE_F32, MRA_ERR_IO, out);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK(!exists(out), "an incomplete file is there");
    CHECK(mra_quantize_type("q3_k") == GGML_TYPE_COUNT && mra_quantize_type(NULL) == GGML_TYPE_COUNT &&
            mra_quantize_type("Q8_0 ") == GGML_TYPE_COUNT,
        "type names");
}

// ---- importance ----

// a file as mra-calibrate writes it, with one vector: the first half of extra.a.weight's columns counts, the rest
// hardly
static void write_imatrix(const char * path, const char * name, int64_t n, const char * key, float first) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = 1 << 20 });
    struct gguf_context * g = gguf_init_empty();
    struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n);
    ggml_set_name(t, name);
    for (int64_t i = 0; i < n; i++) ((float *) t->data)[i] = i < n / 2 ? first : 1e-3f;
    gguf_set_val_u64(g, key, 10);
    gguf_add_tensor(g, t);
    CHECK(gguf_write_to_file(g, path, false), "%s", path);
    gguf_free(g);
    ggml_free(ctx);
}

// squared errors of the two halves of extra.a.weight's columns
static void half_errors(const char * path, double e[2]) {
    struct gguf_edit a = gguf_edit_open(in), b = gguf_edit_open(path);
    const struct ggml_tensor * t = gguf_edit_find(&a, "extra.a.weight");
    float *x = floats(t), *y = floats(gguf_edit_find(&b, "extra.a.weight"));
    e[0] = e[1] = 0;
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        const double d = (double) x[i] - y[i];
        e[i % t->ne[0] >= t->ne[0] / 2] += d * d;
    }
    free(x);
    free(y);
    gguf_edit_free(&a);
    gguf_edit_free(&b);
}

static void check_imatrix(void) {
    char path[1100];
    struct mra_error err = { 0 };
    static const char name[] = "extra.a.weight", key[] = "mra.imatrix.tokens";
    snprintf(path, sizeof(path), "%s/x.imatrix", tmp);
    static const enum ggml_type small[] = { GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q4_K };
    write_imatrix(path, name, 512, key, 10);
    for (int i = 0; i < 3; i++) {
        double without[2], with[2];
        struct mra_quantize_params p = { .type = small[i], .n_threads = 2 };
        CHECK(mra_quantize(in, out, &p, NULL, &err) == MRA_OK, "%s", err.msg);
        half_errors(out, without);
        p.imatrix = path;
        CHECK(mra_quantize(in, out, &p, NULL, &err) == MRA_OK, "%s", err.msg);
        half_errors(out, with);
        // blocks lie within a half, except q4_k's: there only the choice within 256 columns changes
        CHECK(with[0] < without[0], "%s: error of columns that count %g, without the matrix %g",
            ggml_type_name(small[i]), with[0], without[0]);
        struct mra_model * m = mra_model_load(out, NULL, &err);
        CHECK(m, "%s", err.msg);
        mra_model_free(m);
    }
    static const struct {
        const char *name, *key, *part;
        int64_t n;
        float first;
    } wrong[] = {
        { name, key, "'extra.a.weight' is not of this model: 256 columns, not 512", 256, 1 },
        { "other.weight", key, "it holds none of this model's matrices", 512, 1 },
        { name, "other.key", "not made by mra-calibrate", 512, 1 },
        { name, key, "no mean squares", 512, -1 },
        { name, key, "no mean squares", 512, NAN },
    };
    unlink(out);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        write_imatrix(path, wrong[i].name, wrong[i].n, wrong[i].key, wrong[i].first);
        const struct mra_quantize_params p = { .type = GGML_TYPE_Q4_0, .imatrix = path };
        CHECK(mra_quantize(in, out, &p, NULL, &err) == MRA_ERR_FORMAT && strstr(err.msg, wrong[i].part) && !exists(out),
            "wrong imatrix %zu: %s", i, err.msg);
    }
    unlink(path);
    const struct mra_quantize_params p = { .type = GGML_TYPE_Q4_0, .imatrix = path };
    CHECK(mra_quantize(in, out, &p, NULL, &err) == MRA_ERR_IO && strstr(err.msg, "x.imatrix"), "%s", err.msg);
}

// A type that takes the place of one whose rows do not fit has an error at most 6% larger, and no smaller one has.
static void check_fallbacks(void) {
    static const struct {
        enum ggml_type type, instead, smaller;
    } pairs[] = {
        { GGML_TYPE_Q4_K, GGML_TYPE_Q5_0, GGML_TYPE_Q4_1 },
        { GGML_TYPE_Q5_K, GGML_TYPE_Q5_1, GGML_TYPE_Q5_0 },
        { GGML_TYPE_Q6_K, GGML_TYPE_Q8_0, GGML_TYPE_Q5_1 },
    };
    enum { N = 256 * 64 };
    static float x[N], y[N];
    static char q[N * 4];
    uint64_t seed = 5;
    for (int i = 0; i < N; i++) x[i] = rng_normal(&seed);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        double e[3];
        for (int k = 0; k < 3; k++) {
            const enum ggml_type t = k == 0 ? pairs[i].type : k == 1 ? pairs[i].instead : pairs[i].smaller;
            ggml_quantize_chunk(t, x, q, 0, N / 256, 256, NULL);
            ggml_get_type_traits(t)->to_float(q, y, N);
            e[k] = relative_error(y, x, N);
        }
        CHECK(e[1] <= 1.06 * e[0] && e[2] > 1.06 * e[0], "%s %.4f, instead %s %.4f, smaller %s %.4f",
            ggml_type_name(pairs[i].type), e[0], ggml_type_name(pairs[i].instead), e[1],
            ggml_type_name(pairs[i].smaller), e[2]);
    }
}

// ---- general.alignment = 1 ----

// The file at path, whose tensors all have multiples of 32 bytes, without the bytes between header and tensors.
static void drop_padding(const char * path, const char * last_tensor, int n_dims) {
    static char data[8 << 20];
    FILE * f = fopen(path, "rb");
    const size_t n = f ? fread(data, 1, sizeof(data), f) : 0;
    if (f) fclose(f);
    const char *name = data, *found = NULL;
    while ((name = memmem(name, n - (size_t) (name - data), last_tensor, strlen(last_tensor)))) found = name++;
    CHECK(found && n < sizeof(data), "no tensor in %s", path);
    if (!found) return;
    size_t end = (size_t) (found - data) + strlen(last_tensor) + 4 + 8 * (size_t) n_dims + 4 + 8; // shape, type, offset
    CHECK(end % 2 == 1, "the tensors of %s would be aligned", path);
    f = fopen(path, "wb");
    fwrite(data, 1, end, f);
    end = (end + 31) / 32 * 32;
    fwrite(data + end, 1, n - end, f);
    fclose(f);
}

// Tensors at odd addresses give the same file. (A build with -fsanitize=alignment stops where they are read there.)
static void check_unaligned(void) {
    struct mra_error err;
    for (int odd = 0; odd < 2; odd++) {
        struct gguf_edit e = gguf_edit_open(in);
        for (int i = e.n - 1; i >= 0; i--)
            if (ggml_nbytes(e.t[i]) % 32) gguf_edit_drop(&e, ggml_get_name(e.t[i]));
        char last[GGML_MAX_NAME], path[1100];
        snprintf(last, sizeof(last), "%s", ggml_get_name(e.t[e.n - 1]));
        const int n_dims = ggml_n_dims(e.t[e.n - 1]);
        snprintf(path, sizeof(path), "%s/unaligned.gguf", tmp);
        if (odd) gguf_set_val_u32(e.kv, "general.alignment", 1);
        gguf_set_val_str(e.kv, "test.pad", "odd"); // makes the header's length odd
        gguf_edit_write(&e, path);
        gguf_edit_free(&e);
        if (odd) drop_padding(path, last, n_dims);
        CHECK(mra_quantize(path, odd ? out : other, &(struct mra_quantize_params) { .type = GGML_TYPE_Q8_0 }, NULL,
                  &err) == MRA_OK,
            "%s", err.msg);
        unlink(path);
    }
    char cmd[2400];
    snprintf(cmd, sizeof(cmd), "cmp -s '%s' '%s'", out, other);
    CHECK(system(cmd) == 0, "an alignment of 1 changes the file");
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s golden/models\n", argv[0]);
        return 2;
    }
    if (!mkdtemp(tmp)) {
        perror(tmp);
        return 1;
    }
    snprintf(in, sizeof(in), "%s/in.gguf", tmp);
    snprintf(out, sizeof(out), "%s/out.gguf", tmp);
    snprintf(other, sizeof(other), "%s/other.gguf", tmp);
    quantize_input_write(argv[1], in);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) check_type(&cases[i]);
    check_errors();
    check_fallbacks();
    check_imatrix();
    check_unaligned();
    unlink(in);
    unlink(out);
    unlink(other);
    CHECK(rmdir(tmp) == 0, "files are left in %s", tmp);
    return summary("test-quantize");
}
