// tokenizer.ggml.* and mra.tokenizer.* -> struct mra_vocab -> a tokenizer. With mra.tokenizer.version a file says all
// of its settings; without it, what it leaves out gets the model's usual value.
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(x) "tokenizer.ggml." x
#define OWN(x) "mra.tokenizer." x

#define VERSION   1
#define MAX_STEPS 16

// the strings of an array key; malloc'ed. They live in the gguf context.
static enum mra_status load_strings(
    const struct mra_gguf * f, const char * key, struct mra_str ** out, size_t * n, struct mra_error * err) {
    int64_t id;
    const enum mra_status st = mra_gguf_strings(f, key, &id, n, err);
    if (st != MRA_OK || *n == 0) return st;
    *out = malloc(*n * sizeof(**out));
    if (!*out) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    for (size_t i = 0; i < *n; i++) {
        const char * s = gguf_get_arr_str(f->gguf, id, i);
        (*out)[i] = (struct mra_str) { s, strlen(s) };
    }
    return MRA_OK;
}

static int32_t find_token(const struct mra_vocab * v, const char * text) {
    for (size_t i = 0; i < v->n_tokens; i++)
        if (strcmp(v->tokens[i].data, text) == 0) return (int32_t) i;
    return -1;
}

// ids the file gives; those it does not are looked for by their usual spelling
static enum mra_status load_ids(const struct mra_gguf * f, struct mra_vocab * v, struct mra_error * err) {
    const struct {
        const char *key, *bert, *other;
        int32_t * id;
    } ids[] = {
        { KEY("bos_token_id"), "[CLS]", "<s>", &v->bos },
        { KEY("eos_token_id"), "[SEP]", "</s>", &v->eos },
        { KEY("seperator_token_id"), "[SEP]", "</s>", &v->sep },
        { KEY("cls_token_id"), "[CLS]", "<s>", &v->cls },
        { KEY("padding_token_id"), "[PAD]", "<pad>", &v->pad },
        { KEY("unknown_token_id"), "[UNK]", "<unk>", &v->unk },
        { KEY("mask_token_id"), "[MASK]", "<mask>", &v->mask },
    };
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        int64_t id = -1;
        const enum mra_status st = mra_gguf_int(f, ids[i].key, 0, (int64_t) v->n_tokens - 1, &id, err);
        if (st != MRA_OK) return st;
        const bool bert = v->kind == MRA_VOCAB_WORDPIECE;
        if (id < 0) id = find_token(v, bert ? ids[i].bert : ids[i].other);
        if (id < 0 && !bert) id = find_token(v, ids[i].bert); // ModernBERT's BPE has BERT's names
        *ids[i].id = (int32_t) id;
    }
    return MRA_OK;
}

static enum mra_status load_flags(const struct mra_gguf * f, struct mra_vocab * v, struct mra_error * err) {
    const bool uncased = v->kind == MRA_VOCAB_WORDPIECE &&
        !mra_vocab_is_cased(v); // files of other converters do not say
    v->add_bos = v->add_eos = true;
    v->add_space_prefix = v->remove_extra_whitespaces = v->split_cjk = true;
    v->lowercase = v->strip_accents = uncased;
    const struct {
        const char * key;
        bool * flag;
    } flags[] = {
        { KEY("add_bos_token"), &v->add_bos },
        { KEY("add_eos_token"), &v->add_eos },
        { KEY("add_space_prefix"), &v->add_space_prefix },
        { KEY("remove_extra_whitespaces"), &v->remove_extra_whitespaces },
        { OWN("lowercase"), &v->lowercase },
        { OWN("strip_accents"), &v->strip_accents },
        { OWN("handle_chinese_chars"), &v->split_cjk },
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        const enum mra_status st = mra_gguf_bool(f, flags[i].key, flags[i].flag, err);
        if (st != MRA_OK) return st;
    }
    return MRA_OK;
}

static enum mra_status load_tokens(const struct mra_gguf * f, struct mra_vocab * v, struct mra_str ** tokens,
    struct mra_str ** merges, struct mra_error * err) {
    const void *types, *scores, *map;
    size_t n_types, n_scores;
    enum mra_status st = load_strings(f, KEY("tokens"), tokens, &v->n_tokens, err);
    if (st == MRA_OK && v->n_tokens == 0) st = mra_fail(err, MRA_ERR_FORMAT, "no " KEY("tokens"));
    if (st == MRA_OK) st = mra_gguf_array(f, KEY("token_type"), GGUF_TYPE_INT32, &types, &n_types, err);
    if (st == MRA_OK) st = mra_gguf_array(f, KEY("scores"), GGUF_TYPE_FLOAT32, &scores, &n_scores, err);
    if (st == MRA_OK && ((n_types && n_types != v->n_tokens) || (n_scores && n_scores != v->n_tokens))) {
        st = mra_fail(err, MRA_ERR_FORMAT, "%zu tokens, but %zu types and %zu scores", v->n_tokens, n_types, n_scores);
    }
    if (st != MRA_OK) return st;
    v->tokens = *tokens;
    v->types = types;
    if (v->kind == MRA_VOCAB_UNIGRAM) {
        if (!scores) return mra_fail(err, MRA_ERR_FORMAT, "no " KEY("scores"));
        v->scores = scores;
        const int64_t id = gguf_find_key(f->gguf, KEY("precompiled_charsmap"));
        const bool i8 = id >= 0 && gguf_get_kv_type(f->gguf, id) == GGUF_TYPE_ARRAY &&
            gguf_get_arr_type(f->gguf, id) == GGUF_TYPE_INT8;
        st = mra_gguf_array(
            f, KEY("precompiled_charsmap"), i8 ? GGUF_TYPE_INT8 : GGUF_TYPE_UINT8, &map, &v->n_charsmap, err);
        v->charsmap = st == MRA_OK ? map : NULL;
    } else if (v->kind == MRA_VOCAB_BPE) {
        st = load_strings(f, KEY("merges"), merges, &v->n_merges, err);
        v->merges = *merges;
    }
    return st;
}

// what struct mra_settings points to
struct settings {
    struct mra_settings s;
    int32_t normalize[MAX_STEPS], split[MAX_STEPS];
    struct mra_added * added;
};

static enum mra_status load_steps(const struct mra_gguf * f, const char * key, int (*find)(const char * name),
    int32_t * steps, size_t * n, struct mra_error * err) {
    int64_t id;
    const enum mra_status st = mra_gguf_strings(f, key, &id, n, err);
    if (st != MRA_OK) return st;
    if (*n > MAX_STEPS) return mra_fail(err, MRA_ERR_UNSUPPORTED, "%s has %zu steps", key, *n);
    for (size_t i = 0; i < *n; i++) {
        const char * name = gguf_get_arr_str(f->gguf, id, i);
        steps[i] = find(name);
        if (steps[i] < 0) return mra_fail(err, MRA_ERR_UNSUPPORTED, "%s '%.40s'", key, name);
    }
    return MRA_OK;
}

// two arrays of the same length
static enum mra_status load_i32_pair(const struct mra_gguf * f, const char * key_a, const char * key_b,
    const int32_t ** a, const int32_t ** b, size_t * n, struct mra_error * err) {
    const void *data_a, *data_b;
    size_t n_b;
    enum mra_status st = mra_gguf_array(f, key_a, GGUF_TYPE_INT32, &data_a, n, err);
    if (st == MRA_OK) st = mra_gguf_array(f, key_b, GGUF_TYPE_INT32, &data_b, &n_b, err);
    if (st == MRA_OK && *n != n_b) {
        st = mra_fail(err, MRA_ERR_FORMAT, "%s has %zu entries, %s has %zu", key_a, *n, key_b, n_b);
    }
    if (st != MRA_OK) return st;
    *a = data_a;
    *b = data_b;
    return MRA_OK;
}

static enum mra_status load_added(const struct mra_gguf * f, struct settings * s, struct mra_error * err) {
    const int32_t *ids, *flags;
    const enum mra_status st = load_i32_pair(f, OWN("added.ids"), OWN("added.flags"), &ids, &flags, &s->s.n_added, err);
    if (st != MRA_OK || s->s.n_added == 0) return st;
    s->added = malloc(s->s.n_added * sizeof(*s->added));
    if (!s->added) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    for (size_t i = 0; i < s->s.n_added; i++) s->added[i] = (struct mra_added) { ids[i], flags[i] };
    s->s.added = s->added;
    return MRA_OK;
}

static enum mra_status load_numbers(
    const struct mra_gguf * f, const struct mra_vocab * v, struct mra_settings * s, struct mra_error * err) {
    int64_t unk = -1;
    const void * scores;
    size_t n_scores;
    s->max_word_chars = 100;
    enum mra_status st = mra_gguf_int(f, OWN("unknown_id"), 0, (int64_t) v->n_tokens - 1, &unk, err);
    if (st == MRA_OK) st = mra_gguf_int(f, OWN("max_word_chars"), 0, UINT32_MAX, &s->max_word_chars, err);
    if (st == MRA_OK) st = mra_gguf_bool(f, OWN("trim_offsets"), &s->trim_offsets, err);
    if (st == MRA_OK) st = mra_gguf_bool(f, OWN("whole_words"), &s->whole_words, err);
    if (st == MRA_OK) st = mra_gguf_array(f, OWN("scores"), GGUF_TYPE_FLOAT64, &scores, &n_scores, err);
    if (st != MRA_OK) return st;
    if (n_scores && n_scores != v->n_tokens) {
        return mra_fail(err, MRA_ERR_FORMAT, "%zu tokens, but %zu of " OWN("scores"), v->n_tokens, n_scores);
    }
    s->unk = (int32_t) unk;
    s->scores = n_scores ? scores : NULL;
    return MRA_OK;
}

// v->settings stays NULL where the file has none
static enum mra_status load_settings(
    const struct mra_gguf * f, struct mra_vocab * v, struct settings * s, struct mra_error * err) {
    struct mra_settings * t = &s->s;
    int64_t version = 0;
    enum mra_status st = mra_gguf_int(f, OWN("version"), VERSION, VERSION, &version, err);
    if (st != MRA_OK || version == 0) return st;
    st = load_steps(f, OWN("normalize"), mra_normalize_find, s->normalize, &t->n_normalize, err);
    if (st == MRA_OK) st = load_steps(f, OWN("split"), mra_split_find, s->split, &t->n_split, err);
    if (st == MRA_OK) st = load_added(f, s, err);
    if (st == MRA_OK) {
        st = load_i32_pair(
            f, OWN("single.ids"), OWN("single.types"), &t->single.ids, &t->single.types, &t->single.n, err);
    }
    if (st == MRA_OK) {
        st = load_i32_pair(f, OWN("pair.ids"), OWN("pair.types"), &t->pair.ids, &t->pair.types, &t->pair.n, err);
    }
    if (st == MRA_OK) st = load_numbers(f, v, t, err);
    t->normalize = s->normalize;
    t->split = s->split;
    v->settings = t;
    return st;
}

// BPE of another converter: how its texts are split. A name that is not known could mean anything.
static enum mra_status load_pre(const struct mra_gguf * f, struct mra_vocab * v, struct mra_error * err) {
    static const struct {
        const char * name;
        enum mra_bpe_pre pre;
    } pres[] = { { "roberta-bpe", MRA_BPE_ROBERTA }, { "gpt-2", MRA_BPE_ROBERTA }, { "default", MRA_BPE_ROBERTA },
        { "jina-v2-de", MRA_BPE_ROBERTA }, { "jina-v2-es", MRA_BPE_ROBERTA }, { "jina-v2-code", MRA_BPE_ROBERTA },
        { "modern-bert", MRA_BPE_MODERN_BERT }, { "llama-bpe", MRA_BPE_LLAMA3 }, { "llama3", MRA_BPE_LLAMA3 },
        { "llama-v3", MRA_BPE_LLAMA3 } };
    const char * name = "default";
    const enum mra_status st = mra_gguf_str(f, KEY("pre"), &name, err);
    if (st != MRA_OK || v->kind != MRA_VOCAB_BPE || v->settings) return st;
    for (size_t i = 0; i < sizeof(pres) / sizeof(pres[0]); i++)
        if (strcmp(name, pres[i].name) == 0) {
            v->pre = pres[i].pre;
            return MRA_OK;
        }
    return mra_fail(
        err, MRA_ERR_UNSUPPORTED, KEY("pre") " '%.40s': its splits are not known; convert with convert_hf.py", name);
}

struct mra_tokenizer * mra_tokenizer_from_gguf(const struct mra_gguf * f, int64_t * n_vocab, struct mra_error * err) {
    const char * model = NULL;
    struct mra_str *tokens = NULL, *merges = NULL;
    struct settings settings = { 0 };
    struct mra_tokenizer * tok = NULL;
    if (mra_gguf_str(f, KEY("model"), &model, err) != MRA_OK) return NULL;
    if (!model) {
        mra_fail(err, MRA_ERR_FORMAT, "no " KEY("model"));
        return NULL;
    }
    struct mra_vocab v;
    if (strcmp(model, "gpt2") == 0) v = mra_vocab_init(MRA_VOCAB_BPE);
    else if (strcmp(model, "bert") == 0) v = mra_vocab_init(MRA_VOCAB_WORDPIECE);
    else if (strcmp(model, "t5") == 0) v = mra_vocab_init(MRA_VOCAB_UNIGRAM);
    else {
        mra_fail(err, MRA_ERR_UNSUPPORTED, "tokenizer '%.40s'; supported are gpt2, bert and t5", model);
        return NULL;
    }
    if (load_tokens(f, &v, &tokens, &merges, err) == MRA_OK && load_ids(f, &v, err) == MRA_OK &&
        load_flags(f, &v, err) == MRA_OK && load_settings(f, &v, &settings, err) == MRA_OK &&
        load_pre(f, &v, err) == MRA_OK) {
        tok = mra_tokenizer_create(&v, err);
    }
    *n_vocab = (int64_t) v.n_tokens;
    free(tokens);
    free(merges);
    free(settings.added);
    return tok;
}
