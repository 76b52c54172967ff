#include "encoder-golden.h"

#include <unistd.h>

static const char * dir;
static char tmp[] = "/tmp/test-encoder-XXXXXX";

void goldens_begin(const char * folder) {
    dir = folder;
    if (!mkdtemp(tmp)) {
        perror(tmp);
        exit(1);
    }
}
void goldens_end(void) { rmdir(tmp); }

static void give_up(void) { exit(summary("test-encoder") ? 1 : 1); }

struct mra_model * load(const char * path, const struct mra_model_params * p) {
    struct mra_error err;
    struct mra_model * m = mra_model_load(path, p, &err);
    CHECK(m, "%s", err.msg);
    if (!m) give_up();
    return m;
}

const char * temp_path(const char * name) {
    static char path[4][1024];
    static int next;
    char * p = path[next++ % 4];
    snprintf(p, sizeof(path[0]), "%s/%s.gguf", tmp, name);
    return p;
}

static struct npy read_npy(const char * name, const char * suffix) {
    char path[1024];
    struct npy a;
    struct mra_error err;
    snprintf(path, sizeof(path), "%s/%s.%s.npy", dir, name, suffix);
    CHECK(npy_read(&a, path, &err) == MRA_OK, "%s", err.msg);
    if (!a.data) give_up();
    return a;
}

static int32_t * read_ints(const char * name, const char * suffix, int64_t * n) {
    struct npy a = read_npy(name, suffix);
    int32_t * x = malloc((size_t) (a.n + 1) * sizeof(*x));
    for (int64_t i = 0; i < a.n; i++) x[i] = (int32_t) a.data[i];
    *n = a.n;
    npy_free(&a);
    return x;
}

// The files hold f16 weights, for which ggml rounds activations to f16 too; as f32 nothing is lost.
struct golden golden_open_of(const char * name, const char * file, const char * what) {
    struct golden g = { .name = file, .hidden = read_npy(name, what) };
    char path[1024];
    struct mra_error err;
    snprintf(path, sizeof(path), "%s/%s.gguf", dir, file);
    snprintf(g.path, sizeof(g.path), "%s/%s.gguf", tmp, file);
    CHECK(mra_quantize(path, g.path, &(struct mra_quantize_params) { .type = GGML_TYPE_F32, .n_threads = 1 }, NULL,
              &err) == MRA_OK,
        "%s", err.msg);
    g.model = load(g.path, NULL);
    int64_t n, n_seq;
    g.ids = read_ints(name, "ids", &n);
    int32_t *lengths = read_ints(name, "lengths", &n_seq), at = 0;
    for (int64_t i = 0; i < n_seq && i < 32; i++) {
        g.seqs[g.n_seq++] = (struct mra_seq) { .n = lengths[i], .ids = g.ids + at };
        at += lengths[i];
    }
    CHECK(at == n && g.n_seq > 1, "%s: lengths do not add up", name);
    free(lengths);
    return g;
}

struct golden golden_open_hidden(const char * name, const char * file) {
    return golden_open_of(name, file, "hidden");
}

struct golden golden_open(const char * name) {
    struct golden g = golden_open_hidden(name, name);
    g.mean = read_npy(name, "mean");
    g.logits = read_npy(name, "logits");
    g.mlm = read_npy(name, "mlm");
    int64_t n;
    g.types = read_ints(name, "types", &n);
    for (int i = 0; i < g.n_seq; i++) g.seqs[i].types = g.types + (g.seqs[i].ids - g.ids);
    return g;
}

void golden_close(struct golden * g) {
    mra_model_free(g->model);
    npy_free(&g->hidden);
    npy_free(&g->mean);
    npy_free(&g->logits);
    npy_free(&g->mlm);
    free(g->ids);
    free(g->types);
    unlink(g->path);
}

struct mra_context * context(const struct mra_model * m, struct mra_context_params p) {
    struct mra_error err;
    struct mra_context * ctx = mra_context_new(m, &p, &err);
    CHECK(ctx, "%s", err.msg);
    if (!ctx) give_up();
    return ctx;
}

struct mra_context_params threads(int n) {
    struct mra_context_params p = mra_context_params_default();
    p.n_threads = n;
    return p;
}

struct mra_result encode(struct mra_context * ctx, const struct mra_seq * seqs, int n_seq, struct mra_output want) {
    struct mra_result r;
    struct mra_error err = { 0 };
    CHECK(mra_encode(ctx, seqs, n_seq, &want, &r, &err) == MRA_OK, "%s", err.msg);
    return r;
}

// a context of its own; malloc'ed
float * encode_new(const struct mra_model * m, struct mra_context_params p, const struct mra_seq * seqs, int n_seq,
    struct mra_output want) {
    struct mra_context * ctx = context(m, p);
    const struct mra_result r = encode(ctx, seqs, n_seq, want);
    const size_t n = (size_t) (r.n_rows * r.n_cols) * sizeof(float);
    float * x = malloc(n + 4);
    if (r.data) memcpy(x, r.data, n);
    mra_context_free(ctx);
    return x;
}

struct encoded encode_on(const char * path, const char * device, struct mra_context_params p,
    const struct mra_seq * seqs, int n_seq, struct mra_output want) {
    struct mra_error err = { 0 };
    struct mra_result r = { 0 };
    struct encoded e = { 0 };
    struct mra_model * m = mra_model_load(path, &(struct mra_model_params) { .device = device }, &err);
    struct mra_context * ctx = m ? mra_context_new(m, &p, &err) : NULL;
    CHECK(ctx && mra_encode(ctx, seqs, n_seq, &want, &r, &err) == MRA_OK, "%s on %s: %s", path, device, err.msg);
    if (r.data) {
        e.n = r.n_rows * r.n_cols;
        e.x = malloc((size_t) e.n * sizeof(float));
        memcpy(e.x, r.data, (size_t) e.n * sizeof(float));
        e.noted = *mra_context_note(ctx) != 0;
        snprintf(e.device, sizeof(e.device), "%s", mra_model_info(m).device);
    }
    mra_context_free(ctx);
    mra_model_free(m);
    return e;
}

double max_diff(const float * a, const float * b, int64_t n) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double e = fabs((double) a[i] - b[i]);
        if (!(e <= worst)) worst = isfinite(e) ? e : INFINITY;
    }
    return worst;
}

double diff(struct mra_result r, const struct npy * w) {
    const int64_t n_cols = w->n_dim > 1 ? w->shape[1] : 1;
    return !r.data || r.n_rows != w->shape[0] || r.n_cols != n_cols ? INFINITY : max_diff(r.data, w->data, w->n);
}

static const struct mra_at mlm_at[6] = { { 1, 0 }, { 1, 1 }, { 1, 2 }, { 1, 3 }, { 1, 4 }, { 1, 5 } };
struct mra_output tokens(void) {
    return (struct mra_output) { .kind = MRA_OUTPUT_TOKENS };
}
struct mra_output classes(void) {
    return (struct mra_output) { .kind = MRA_OUTPUT_CLASS };
}
struct mra_output mlm(void) {
    return (struct mra_output) { .kind = MRA_OUTPUT_MLM, .at = mlm_at, .n_at = 6 };
}
struct mra_output pooled(enum mra_pooling p) {
    return (struct mra_output) { .kind = MRA_OUTPUT_POOLED, .pooling = p, .normalize = -1 };
}
