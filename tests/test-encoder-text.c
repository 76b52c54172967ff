// Texts through the tokenizer a GGUF file describes, against Hugging Face's ids and token types
// (golden/models/texts.json); and cutting texts to a length. With a model and a file of cases (golden/minilm.json): its
// sentence embeddings, too.
#include "gguf-edit.h"
#include "harness.h"
#include "mra-encoder.h"

#include <cjson/cJSON.h>
#include <unistd.h>

static cJSON * read_json(const char * path) {
    FILE * f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    char * text = calloc(1, 1 << 20);
    const size_t n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    cJSON * json = cJSON_ParseWithLength(text, n);
    free(text);
    if (!json) {
        fprintf(stderr, "%s is not JSON\n", path);
        exit(1);
    }
    return json;
}

// the same model as other converters write it: without a key of ours
static struct mra_model * load_foreign(const char * path, struct mra_error * err) {
    char other[] = "/tmp/test-encoder-text-XXXXXX";
    const int fd = mkstemp(other);
    if (fd < 0) {
        perror(other);
        exit(1);
    }
    close(fd);
    struct gguf_edit e = gguf_edit_open(path);
    gguf_edit_drop_keys(&e, "mra.");
    for (const char * const * k = (const char * const[]) { "mask", "unknown", "cls", "seperator", "padding", NULL }; *k;
         k++) {
        char key[64];
        snprintf(key, sizeof(key), "tokenizer.ggml.%s_token_id", *k);
        gguf_remove_key(e.kv, key);
    }
    gguf_edit_write(&e, other);
    gguf_edit_free(&e);
    struct mra_model * m = mra_model_load(other, &(struct mra_model_params) { .no_mmap = true }, err);
    unlink(other);
    return m;
}

static void check_text(const struct mra_model * m, const char * name, const cJSON * item, int i) {
    const char *a = cJSON_GetStringValue(cJSON_GetObjectItem(item, "text")),
               *b = cJSON_GetStringValue(cJSON_GetObjectItem(item, "pair"));
    const cJSON *ids = cJSON_GetObjectItem(item, "ids"), *types = cJSON_GetObjectItem(item, "types");
    const size_t n = (size_t) cJSON_GetArraySize(ids);
    struct mra_token_list list = { 0 };
    struct mra_error err = { 0 };
    CHECK(mra_model_tokenize(m, a, strlen(a), b, b ? strlen(b) : 0, 0, &list, &err) == MRA_OK, "%s, text %d: %s", name,
        i, err.msg);
    CHECK(list.n == n, "%s, text %d: %zu tokens, expected %zu", name, i, list.n, n);
    for (size_t k = 0; k < n && k < list.n; k++) {
        const int id = cJSON_GetArrayItem(ids, (int) k)->valueint, type = cJSON_GetArrayItem(types, (int) k)->valueint;
        CHECK(list.data[k].id == id && list.data[k].segment == type, "%s, text %d, token %zu: %d/%d, expected %d/%d",
            name, i, k, list.data[k].id, list.data[k].segment, id, type);
    }
    mra_token_list_free(&list);
}

// cut to 8 tokens: specials stay, the longer text loses its end
static void check_cut(const struct mra_model * m, const char * name) {
    struct mra_token_list full = { 0 }, cut = { 0 };
    struct mra_error err = { 0 };
    const char *a = "one two three four five six seven", *b = "eight nine";
    for (int max = 5; max < 40; max++) {
        if (mra_model_tokenize(m, a, strlen(a), b, strlen(b), 0, &full, &err) != MRA_OK ||
            mra_model_tokenize(m, a, strlen(a), b, strlen(b), max, &cut, &err) != MRA_OK) {
            CHECK(false, "%s: %s", name, err.msg);
            break;
        }
        size_t want = full.n < (size_t) max ? full.n : (size_t) max, n[2][2] = { { 0 } }, special[2] = { 0 };
        CHECK(cut.n == want, "%s: cut to %d gives %zu", name, max, cut.n);
        for (size_t i = 0; i < full.n; i++)
            if (full.data[i].text < 0) special[0]++;
            else n[0][full.data[i].text]++;
        for (size_t i = 0; i < cut.n; i++)
            if (cut.data[i].text < 0) special[1]++;
            else n[1][cut.data[i].text]++;
        CHECK(special[0] == special[1], "%s: special tokens lost", name);
        CHECK(
            cut.data[0].id == full.data[0].id && cut.data[cut.n - 1].id == full.data[full.n - 1].id, "%s: ends", name);
        if (want < full.n)
            CHECK(n[1][0] == n[0][0] || n[1][1] <= n[1][0] + 1, "%s: the longer text was cut too much", name);
        if (want < full.n)
            CHECK(n[1][1] == n[0][1] || n[1][0] <= n[1][1] + 1,
                "%s: the shorter text was cut first (%zu of %zu, %zu of %zu)", name, n[1][0], n[0][0], n[1][1],
                n[0][1]);
        size_t k = 0; // what is left is a prefix of each text
        for (size_t i = 0; i < full.n && k < cut.n; i++)
            if (memcmp(&full.data[i], &cut.data[k], sizeof(cut.data[k])) == 0) k++;
        CHECK(k == cut.n, "%s: tokens out of order", name);
    }
    CHECK(mra_model_tokenize(m, a, strlen(a), b, strlen(b), 2, &cut, &err) == MRA_ERR_TOO_LONG,
        "%s: specials do not fit in 2", name);
    CHECK(mra_model_tokenize(m, a, strlen(a), NULL, 0, -1, &cut, &err) == MRA_ERR_ARG, "%s: -1 tokens", name);
    CHECK(mra_model_tokenize(m, a, strlen(a), NULL, 0, 1 << 20, &cut, &err) == MRA_ERR_ARG,
        "%s: more tokens than positions", name);
    mra_token_list_free(&full);
    mra_token_list_free(&cut);
}

// {"cases": [{"text", "ids", "embedding"}]}
static void check_embeddings(const char * path, const char * cases, double min_cosine) {
    cJSON * all = read_json(cases);
    struct mra_error err = { 0 };
    struct mra_model * m = mra_model_load(path, NULL, &err);
    struct mra_context * ctx = m ? mra_context_new(m, NULL, &err) : NULL;
    CHECK(ctx, "%s", err.msg);
    double worst = 0, worst_cos = 1;
    int n = 0;
    for (const cJSON * item = cJSON_GetObjectItem(all, "cases")->child; ctx && item; item = item->next, n++) {
        const char * text = cJSON_GetStringValue(cJSON_GetObjectItem(item, "text"));
        const cJSON *ids = cJSON_GetObjectItem(item, "ids"), *want = cJSON_GetObjectItem(item, "embedding");
        struct mra_token_list list = { 0 };
        struct mra_result r = { 0 };
        CHECK(mra_model_tokenize(m, text, strlen(text), NULL, 0, 0, &list, &err) == MRA_OK, "%s", err.msg);
        CHECK((int) list.n == cJSON_GetArraySize(ids), "case %d: %zu tokens", n, list.n);
        for (int i = 0; i < (int) list.n && i < cJSON_GetArraySize(ids); i++)
            CHECK(list.data[i].id == cJSON_GetArrayItem(ids, i)->valueint, "case %d, token %d", n, i);
        struct mra_seq seq = { .n = (int) list.n, .tokens = list.data };
        CHECK(mra_encode(ctx, &seq, 1, &(struct mra_output) { .kind = MRA_OUTPUT_POOLED }, &r, &err) == MRA_OK &&
                r.n_cols == cJSON_GetArraySize(want),
            "case %d: %s", n, err.msg);
        int i = 0;
        double ab = 0, aa = 0, bb = 0;
        for (const cJSON * x = want->child; r.data && x; x = x->next, i++) {
            worst = fmax(worst, fabs(r.data[i] - x->valuedouble));
            ab += r.data[i] * x->valuedouble;
            aa += (double) r.data[i] * r.data[i];
            bb += x->valuedouble * x->valuedouble;
        }
        worst_cos = fmin(worst_cos, ab / sqrt(aa * bb));
        mra_token_list_free(&list);
    }
    printf("%s: %d texts, largest difference %.1e, smallest cosine %.6f\n", path, n, worst, worst_cos);
    CHECK(n > 0 && worst_cos >= min_cosine, "smallest cosine %.6f is below %g", worst_cos, min_cosine);
    if (m && strcmp(mra_model_info(m).type, "f32") == 0) CHECK(worst < 1e-5, "embeddings are %.1e off", worst);
    mra_context_free(ctx);
    mra_model_free(m);
    cJSON_Delete(all);
}

int main(int argc, char ** argv) {
    if (argc != 2 && argc != 5) {
        fprintf(stderr, "usage: %s golden/models [model.gguf cases.json smallest-cosine]\n", argv[0]);
        return 2;
    }
    const char * dir = argv[1];
    char json[1024];
    snprintf(json, sizeof(json), "%s/texts.json", dir);
    cJSON * all = read_json(json);
    for (const cJSON * texts = all->child; texts; texts = texts->next) {
        char path[1024];
        struct mra_error err = { 0 };
        snprintf(path, sizeof(path), "%s/%s.gguf", dir, texts->string);
        struct mra_model * m = mra_model_load(path, NULL, &err);
        CHECK(m, "%s", err.msg);
        if (!m) continue;
        struct mra_model * foreign = load_foreign(path, &err);
        CHECK(foreign, "%s", err.msg);
        int i = 0;
        for (const cJSON * item = texts->child; item; item = item->next, i++) {
            check_text(m, texts->string, item, i);
            if (foreign) check_text(foreign, "foreign", item, i);
        }
        mra_model_free(foreign);
        check_cut(m, texts->string);
        printf("%-12s %d texts\n", texts->string, i);
        mra_model_free(m);
    }
    cJSON_Delete(all);
    if (argc == 5) check_embeddings(argv[2], argv[3], atof(argv[4]));
    return summary("test-encoder-text");
}
