// The tokenizers as a filter, for golden/fuzz_tokenizers.py and test_convert_tokenizer.py:
//     tokenizer-pipe VOCAB < inputs       each input: flags, length of a, a, length of b or -1, b (all i32); out:
//                                         id:start:end:type ..., a line per input
//     tokenizer-pipe VOCAB FILE           time the file instead
// VOCAB: as tokenizer-file.h says, or a model NAME.gguf
#include "mra-encoder.h"
#include "tokenizer-file.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// processor time, as the machine may be busy
static double now(void) { return (double) clock() / CLOCKS_PER_SEC; }

static bool read_i32(int32_t * v) { return fread(v, sizeof(*v), 1, stdin) == 1; }

// a buffer of exactly n bytes, so that a sanitizer sees the first byte read behind it
static char * read_bytes(int32_t n) {
    char * p = malloc(n > 0 ? (size_t) n : 1);

    if (n > 0 && fread(p, 1, (size_t) n, stdin) != (size_t) n) { exit(2); }
    return p;
}

static int run_inputs(const struct mra_tokenizer * tok) {
    struct mra_token_list list = { 0 };
    struct mra_error err;
    int32_t flags, n_a, n_b;

    while (read_i32(&flags) && read_i32(&n_a)) {
        char * a = read_bytes(n_a);
        if (!read_i32(&n_b)) { return 2; }
        char * b = n_b < 0 ? NULL : read_bytes(n_b);
        if (mra_tokenize(tok, a, (size_t) n_a, b, n_b < 0 ? 0 : (size_t) n_b, (unsigned) flags, &list, &err)) {
            fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
        for (size_t i = 0; i < list.n; i++) {
            const struct mra_token * t = &list.data[i];
            printf(
                "%s%d:%u:%u:%d", i ? " " : "", (int) t->id, (unsigned) t->start, (unsigned) t->end, (int) t->segment);
        }
        putchar('\n');
        free(a);
        free(b);
    }
    mra_token_list_free(&list);
    return 0;
}

static void run_timing(const struct mra_tokenizer * tok, const char * path) {
    struct mra_token_list list = { 0 };
    size_t n;
    char * text = file_read(path, &n);
    double best = 1e30;

    for (int i = 0; i < 5; i++) {
        const double t = now();
        mra_tokenize(tok, text, n, NULL, 0, 0, &list, NULL);
        best = now() - t < best ? now() - t : best;
    }
    printf("%zu bytes, %zu tokens, %.1f ms, %.1f MB/s\n", n, list.n, 1e3 * best, 1e-6 * (double) n / best);
    mra_token_list_free(&list);
    free(text);
}

static int run(const struct mra_tokenizer * tok, const char * file, double create_ms) {
    if (!file) { return run_inputs(tok); }
    printf("create %.1f ms; ", create_ms);
    run_timing(tok, file);
    return 0;
}

static int run_gguf(const char * path, const char * file) {
    struct mra_error err;
    const double t = now();
    struct mra_model * model = mra_model_load(path, NULL, &err);

    if (!model) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    const int rc = run(mra_model_tokenizer(model), file, 1e3 * (now() - t));
    mra_model_free(model);
    return rc;
}

int main(int argc, char ** argv) {
    struct vocab_file f;
    struct mra_error err;

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: tokenizer-pipe VOCAB [FILE]\n");
        return 2;
    }
    const size_t n = strlen(argv[1]);
    if (n > 5 && strcmp(argv[1] + n - 5, ".gguf") == 0) { return run_gguf(argv[1], argv[2]); }
    vocab_file_read(&f, argv[1]);
    const double t = now();
    struct mra_tokenizer * tok = mra_tokenizer_create(&f.vocab, &err);
    if (!tok) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    const int rc = run(tok, argv[2], 1e3 * (now() - t));
    mra_tokenizer_free(tok);
    vocab_file_free(&f);
    return rc;
}
