// A vocabulary of FUZZ_KIND, its settings and a text from arbitrary bytes. Everything may be refused; what is produced
// must be in range.
#include "fuzz.h"
#include "mra-tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS 64

static struct mra_str take_str(struct choices * r) {
    size_t n = take(r) % 16;
    n = n < r->n ? n : r->n;

    const struct mra_str s = { (const char *) r->p, n };
    r->p += n;
    r->n -= n;
    return s;
}

static void run(const struct mra_tokenizer * tok, const char * text, size_t n, unsigned flags) {
    struct mra_token_list list = { 0 };
    const size_t half = n / 2;
    const bool pair = flags & 4;
    const size_t n_a = pair ? half : n;
    char * exact = malloc(n ? n : 1); // so that a read behind the text is seen

    memcpy(exact, text, n);
    require(mra_tokenize(tok, exact, n_a, pair ? exact + half : NULL, n - half, flags & 3, &list, NULL) == MRA_OK);
    for (size_t i = 0; i < list.n; i++) {
        const struct mra_token * t = &list.data[i];
        char buf[8];
        require(t->id >= 0 && t->id < mra_tokenizer_n_tokens(tok));
        require(t->start <= t->end && t->end <= (t->text == 1 ? n - half : n_a));
        mra_tokenizer_text(tok, t->id, buf, sizeof(buf));
    }
    mra_token_list_free(&list);
    free(exact);
}

#define MAX_SMALL 8

static size_t take_numbers(struct choices * r, int32_t * to, int32_t low) {
    const size_t n = take(r) % MAX_SMALL;

    for (size_t i = 0; i < n; i++) { to[i] = low + take(r) % 64; }
    return n;
}

// all of it arbitrary, in memory of the caller's
struct settings_data {
    int32_t normalize[MAX_SMALL], split[MAX_SMALL], ids[2][MAX_SMALL], types[2][MAX_SMALL];
    struct mra_added added[MAX_SMALL];
};

static struct mra_settings take_settings(struct choices * r, struct settings_data * d) {
    struct mra_settings s = { .normalize = d->normalize, .split = d->split, .added = d->added };
    struct mra_template * const templates[] = { &s.single, &s.pair };

    s.n_normalize = take_numbers(r, d->normalize, 0);
    s.n_split = take_numbers(r, d->split, 0);
    s.n_added = take(r) % MAX_SMALL;
    for (size_t i = 0; i < s.n_added; i++) { d->added[i] = (struct mra_added) { take(r) % 64, take(r) % 65 }; }
    for (int k = 0; k < 2; k++) {
        templates[k]->n = take_numbers(r, d->ids[k], -2);
        templates[k]->ids = d->ids[k];
        templates[k]->types = d->types[k];
        take_numbers(r, d->types[k], 0);
    }
    s.unk = (int8_t) take(r);
    s.max_word_chars = take(r);
    s.trim_offsets = take(r) & 1;
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct choices r = { data, size };
    struct mra_str tokens[MAX_ITEMS], merges[MAX_ITEMS];
    int32_t types[MAX_ITEMS];
    float scores[MAX_ITEMS];
    const uint8_t bits = take(&r);
    struct mra_vocab v = mra_vocab_init(FUZZ_KIND);
    int32_t * const ids[] = { &v.bos, &v.eos, &v.unk, &v.sep, &v.pad, &v.mask, &v.cls };

    v.add_bos = bits & 1, v.add_eos = bits & 2, v.add_space_prefix = bits & 4, v.remove_extra_whitespaces = bits & 8;
    v.lowercase = bits & 16, v.strip_accents = bits & 32, v.split_cjk = bits & 64;
    v.n_tokens = take(&r) % MAX_ITEMS, v.tokens = tokens, v.types = bits & 128 ? types : NULL, v.scores = scores;
    for (size_t i = 0; i < v.n_tokens; i++) {
        tokens[i] = take_str(&r);
        types[i] = take(&r) % 8;
        scores[i] = (float) (int8_t) take(&r);
    }
    for (size_t i = 0; i < 7; i++) { *ids[i] = (int8_t) take(&r); }
    if (v.kind == MRA_VOCAB_BPE) {
        v.n_merges = take(&r) % MAX_ITEMS, v.merges = merges;
        for (size_t i = 0; i < v.n_merges; i++) { merges[i] = take_str(&r); }
    } else if (v.kind == MRA_VOCAB_UNIGRAM) {
        v.n_charsmap = (size_t) take(&r) * 4;
        v.n_charsmap = v.n_charsmap < r.n ? v.n_charsmap : r.n;
        v.charsmap = r.p;
        r.p += v.n_charsmap;
        r.n -= v.n_charsmap;
    }
    struct settings_data parts = { 0 };
    const bool has_settings = take(&r) & 1;
    const struct mra_settings settings = has_settings ? take_settings(&r, &parts) : (struct mra_settings) { 0 };
    v.settings = has_settings ? &settings : NULL;
    struct mra_error err;
    struct mra_tokenizer * tok = mra_tokenizer_create(&v, &err);
    for (unsigned flags = 0; tok && flags < 8; flags++) { run(tok, (const char *) r.p, r.n, flags); }
    mra_tokenizer_free(tok);
    return 0;
}
