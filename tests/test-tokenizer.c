// Tokenizers against Hugging Face's (golden/tokenizer/), random bytes, and words of a megabyte.
//     test-tokenizer GOLDEN_DIR
#include "tokenizer-file.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int n_failed = 0;

static void check(bool ok, const char * what, const char * detail) {
    if (!ok) {
        n_failed++;
        printf("FAIL %s: %s\n", what, detail);
    }
}

static struct mra_tokenizer * load(const char * dir, const char * name, struct vocab_file * f) {
    char path[1024];
    struct mra_error err;

    snprintf(path, sizeof(path), "%s/%s.vocab", dir, name);
    vocab_file_read(f, path);
    struct mra_tokenizer * tok = mra_tokenizer_create(&f->vocab, &err);
    if (!tok) {
        printf("FAIL %s: %s\n", path, err.msg);
        exit(1);
    }
    return tok;
}

static void print_list(char * buf, size_t size, const struct mra_token_list * list, bool offsets) {
    size_t n = 0;

    buf[0] = 0;
    for (size_t i = 0; i < list->n && n < size; i++) {
        const struct mra_token * t = &list->data[i];
        n += (size_t) snprintf(buf + n, size - n, "%s%d", i ? " " : "", (int) t->id);
        if (offsets && n < size) {
            n += (size_t) snprintf(buf + n, size - n, ":%u:%u", (unsigned) t->start, (unsigned) t->end);
        }
    }
}

static void test_golden(const char * dir, const char * name) {
    char path[1024], have[65536], what[64];
    char * field[3];
    size_t n;
    struct vocab_file f;
    struct mra_tokenizer * tok = load(dir, name, &f);
    struct mra_token_list list = { 0 };
    struct mra_error err;

    snprintf(path, sizeof(path), "%s/inputs.txt", dir);
    char * inputs = file_read(path, &n);
    snprintf(path, sizeof(path), "%s/%s.want", dir, name);
    char * wants = file_read(path, &n);
    char * p = inputs;
    char * w = wants;
    int line = 0;
    for (int n_fields; (n_fields = next_line(&p, field, 3)) > 0;) {
        const unsigned flags = (unsigned) atoi(field[0]);
        const size_t n_a = unescape(field[1]);
        const char * b = n_fields > 2 ? field[2] : NULL;
        const size_t n_b = b ? unescape(field[2]) : 0;
        char * end = w + strcspn(w, "\n");
        *end = 0;
        snprintf(what, sizeof(what), "%s line %d", name, ++line);
        check(mra_tokenize(tok, field[1], n_a, b, n_b, flags, &list, &err) == MRA_OK, what, "status");
        print_list(have, sizeof(have), &list, strchr(w, ':') != NULL);
        check(strcmp(have, w) == 0, what, have);
        w = end + 1;
    }
    check(line > 200, name, "inputs are missing");
    check(f.vocab.kind != MRA_VOCAB_WORDPIECE || mra_vocab_is_cased(&f.vocab) == !f.vocab.lowercase, name, "is cased");
    printf("%s: %d inputs\n", name, line);
    mra_token_list_free(&list);
    mra_tokenizer_free(tok);
    vocab_file_free(&f);
    free(inputs);
    free(wants);
}

// Random bytes in charsmap and text: anything may come out, but nothing may break

static uint32_t random_state = 1;

static uint32_t next_random(uint32_t n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void test_random(const char * dir, const char * name) {
    struct vocab_file f;
    struct mra_token_list list = { 0 };
    mra_tokenizer_free(load(dir, name, &f));

    for (int round = 0; round < 40; round++) {
        char text[400];
        for (int k = 0; k < 8 && f.vocab.n_charsmap; k++) {
            f.charsmap[4 + next_random((uint32_t) f.vocab.n_charsmap - 4)] ^= (uint8_t) (1u << next_random(8));
        }
        struct mra_tokenizer * tok = mra_tokenizer_create(&f.vocab, NULL);
        for (int k = 0; k < 50 && tok; k++) {
            const size_t n = next_random(sizeof(text));
            for (size_t i = 0; i < n; i++) {
                text[i] = (char) (next_random(2) ? next_random(256) : 0x20 + next_random(96));
            }
            const enum mra_status st = mra_tokenize(tok, text, n, NULL, 0, next_random(4), &list, NULL);
            check(st == MRA_OK, name, "random text");
            for (size_t i = 0; i < list.n; i++) {
                const struct mra_token * t = &list.data[i];
                check(t->id >= 0 && t->id < mra_tokenizer_n_tokens(tok), name, "random id");
                check(t->start <= t->end && t->end <= n, name, "random offsets");
            }
        }
        mra_tokenizer_free(tok);
    }
    mra_token_list_free(&list);
    vocab_file_free(&f);
}

// One word of a megabyte: a quadratic algorithm would not return within the test's time limit.
static void test_long_words(const char * dir, const char * name) {
    static const char * const units[] = { "a", "the", "\xE4\xB8\xAD", "\xCC\x81\xE1\xAD\x84", " ", "\xFF", " <mask>",
        "\xE2\x98\x83" };
    const size_t size = 1u << 20;
    char * text = malloc(size);
    struct vocab_file f;
    struct mra_token_list list = { 0 };
    struct mra_tokenizer * tok = load(dir, name, &f);

    for (size_t k = 0; k < COUNT(units); k++) {
        const size_t len = strlen(units[k]);
        const size_t n = size / len * len;
        for (size_t i = 0; i < n; i += len) { memcpy(text + i, units[k], len); }
        check(mra_tokenize(tok, text, n, NULL, 0, 0, &list, NULL) == MRA_OK, name, "a megabyte");
    }
    free(text);
    mra_token_list_free(&list);
    mra_tokenizer_free(tok);
    vocab_file_free(&f);
}

int main(int argc, char ** argv) {
    static const char * const names[] = { "bpe", "uncased", "cased", "unigram" };

    if (argc != 2) {
        fprintf(stderr, "usage: test-tokenizer GOLDEN_DIR\n");
        return 2;
    }
    for (size_t i = 0; i < COUNT(names); i++) {
        test_golden(argv[1], names[i]);
        test_random(argv[1], names[i]);
        test_long_words(argv[1], names[i]);
    }
    printf(n_failed ? "%d checks failed\n" : "all passed\n", n_failed);
    return n_failed != 0;
}
