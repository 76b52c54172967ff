#include "model-files.h"

#include <unistd.h>

char model_folder[64], model_path[128];
static const char * golden_folder;
static int n_logged;
static char logged[256];

static void on_log(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level != GGML_LOG_LEVEL_ERROR) return;
    n_logged++;
    snprintf(logged, sizeof(logged), "%s", text);
}

void model_files_open(const char * program, const char * golden) {
    golden_folder = golden;
    snprintf(model_folder, sizeof(model_folder), "/tmp/%s-XXXXXX", program);
    if (!mkdtemp(model_folder)) {
        perror(model_folder);
        exit(1);
    }
    snprintf(model_path, sizeof(model_path), "%s/x.gguf", model_folder);
    ggml_log_set(on_log, NULL);
}

void model_files_close(void) {
    unlink(model_path);
    rmdir(model_folder);
}

const char * model_golden(const char * name) {
    static char p[1024];
    snprintf(p, sizeof(p), "%s/%s.gguf", golden_folder, name);
    return p;
}

// a model that loads must also work
static void use(struct mra_model * m, const char * what) {
    struct mra_error err = { 0 };
    struct mra_context_params p = mra_context_params_default();
    p.n_threads = 1;
    const struct mra_model_info info = mra_model_info(m);
    struct mra_context * ctx = mra_context_new(m, &p, &err);
    struct mra_token_list list = { 0 };
    int32_t ids[40] = { 0 };
    for (int i = 0; i < 40; i++) ids[i] = i % info.n_vocab;
    struct mra_seq seq = { .n = info.n_ctx < 40 ? info.n_ctx : 40, .ids = ids };
    struct mra_result r;
    CHECK(ctx, "%s: %s", what, err.msg);
    CHECK(mra_encode(ctx, &seq, 1, &(struct mra_output) { .kind = MRA_OUTPUT_POOLED }, &r, &err) == MRA_OK, "%s: %s",
        what, err.msg);
    if (info.n_class)
        CHECK(mra_encode(ctx, &seq, 1, &(struct mra_output) { .kind = MRA_OUTPUT_CLASS }, &r, &err) == MRA_OK, "%s: %s",
            what, err.msg);
    if (mra_model_tokenize(m, "A text, <mask> or [MASK].", 25, "caf\xc3\xa9", 5, 0, &list, &err) == MRA_OK &&
        list.n > 0) {
        seq = (struct mra_seq) { .n = (int) list.n, .tokens = list.data };
        CHECK(mra_encode(ctx, &seq, 1, &(struct mra_output) { .kind = MRA_OUTPUT_TOKENS }, &r, &err) == MRA_OK,
            "%s: %s", what, err.msg);
    }
    for (int i = 0; i < info.n_class; i++) mra_model_label(m, i);
    mra_token_list_free(&list);
    mra_context_free(ctx);
}

// true: it loaded (and worked)
bool try_load(const char * file, const char * what) {
    struct mra_error err = { 0 };
    n_logged = 0;
    struct mra_model * m = mra_model_load(file, NULL, &err);
    CHECK(n_logged == 0, "%s: ggml complained: %s", what, logged);
    CHECK(m || (err.code != MRA_OK && err.msg[0] && !strchr(err.msg, '\n')), "%s: no message", what);
    if (m) {
        use(m, what);
        mra_model_free(m);
    }
    return m != NULL;
}

void expect_error(const char * file, const char * what, enum mra_status code, const char * part) {
    struct mra_error err = { 0 };
    n_logged = 0;
    struct mra_model * m = mra_model_load(file, NULL, &err);
    CHECK(!m && err.code == code && strstr(err.msg, part), "%s: code %d, '%s', expected %d, '...%s...'", what,
        (int) err.code, err.msg, (int) code, part);
    CHECK(n_logged == 0, "%s: ggml complained: %s", what, logged);
    mra_model_free(m);
}

char * read_all(const char * file, size_t * n) {
    FILE * f = fopen(file, "rb");
    if (!f) {
        perror(file);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    *n = (size_t) ftell(f);
    rewind(f);
    char * data = malloc(*n);
    if (fread(data, 1, *n, f) != *n) exit(1);
    fclose(f);
    return data;
}

void write_all(const char * file, const void * data, size_t n) {
    FILE * f = fopen(file, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
        perror(file);
        exit(1);
    }
}
