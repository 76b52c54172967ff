// Texts through the tokenizers of the test models: every byte sequence has tokens, in range and in order.
#include "fuzz.h"
#include "mra-encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char * const names[] = { "models/bert", "models/roberta", "models/xlm-roberta", "families/eurobert",
    "families/modernbert", "families/gte" };
enum { N_MODELS = sizeof(names) / sizeof(names[0]) };
static struct mra_model * models[N_MODELS];
static void unload(void) {
    for (int i = 0; i < N_MODELS; i++) mra_model_free(models[i]);
}

static void load(void) {
    for (int i = 0; i < N_MODELS; i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s.gguf", MRA_GOLDEN, names[i]);
        models[i] = mra_model_load(path, NULL, NULL);
        require(models[i] != NULL);
    }
    atexit(unload);
}

static void check(const struct mra_tokenizer * tok, const struct mra_token_list * list, const size_t n[2]) {
    for (size_t i = 0; i < list->n; i++) {
        const struct mra_token * t = &list->data[i];
        char buf[8];
        require(t->id >= 0 && t->id < mra_tokenizer_n_tokens(tok));
        require(t->start <= t->end && t->end <= (t->text < 0 ? 0 : n[t->text]));
        mra_tokenizer_text(tok, t->id, buf, sizeof(buf));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    if (!models[0]) load();
    struct choices c = { data, size };
    const struct mra_model * m = models[take(&c) % N_MODELS];
    const uint8_t how = take(&c);
    const size_t half = how & 4 ? c.n / 2 : c.n, n[2] = { half, c.n - half };
    char *a = malloc(n[0] + 1), *b = how & 4 ? malloc(n[1] + 1) : NULL;
    struct mra_token_list list = { 0 };
    memcpy(a, c.p, n[0]);
    if (b) memcpy(b, c.p + half, n[1]);
    a = realloc(a, n[0] ? n[0] : 1); // so that a read behind the text is seen
    require(mra_tokenize(mra_model_tokenizer(m), a, n[0], b, n[1], how & 3, &list, NULL) == MRA_OK);
    check(mra_model_tokenizer(m), &list, n);
    require(mra_model_tokenize(m, a, n[0], b, n[1], 3 + how / 8, &list, NULL) == MRA_OK || how / 8 < 4);
    check(mra_model_tokenizer(m), &list, n);
    mra_token_list_free(&list);
    free(a);
    free(b);
    return 0;
}
