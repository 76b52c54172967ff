// Damaged GGUF files and wrong contents: each gives an error of one line, or a model that works. ggml itself must never
// get to complain.
#include "gguf-edit.h"
#include "model-files.h"

#include <fcntl.h>
#include <unistd.h>

static size_t header_size(const char * file) {
    struct gguf_context * g = gguf_init_from_file(file, (struct gguf_init_params) { .no_alloc = true });
    const size_t n = gguf_get_data_offset(g);
    gguf_free(g);
    return n;
}

// ---- damage ----

static void check_truncated(const char * name) {
    size_t n;
    char *data = read_all(model_golden(name), &n), what[64];
    const size_t head = header_size(model_golden(name));
    for (size_t at = 0; at < n; at += at < 64 ? 1 : at < head ? 61 : 4999) {
        write_all(model_path, data, at);
        snprintf(what, sizeof(what), "%s cut at %zu", name, at);
        CHECK(!try_load(model_path, what), "%s loads", what);
    }
    free(data);
}

// one to four bytes of the header (some of the data) become others; small numbers and 0xff are the interesting ones
static void check_flipped(const char * name, int n_tries, uint64_t seed) {
    size_t n;
    char *data = read_all(model_golden(name), &n), what[64];
    const size_t head = header_size(model_golden(name));
    static const unsigned char special[] = { 0, 1, 0xff, 0x80, 0x7f, 2, 9, 32 };
    write_all(model_path, data, n);
    const int fd = open(model_path, O_WRONLY);
    int n_loaded = 0;
    for (int i = 0; i < n_tries; i++) {
        size_t at[4];
        const int n_bytes = rng_int(&seed, 1, 4);
        for (int k = 0; k < n_bytes; k++) {
            at[k] = (size_t) (rng_uniform(&seed) * (float) (i % 10 ? head : n));
            if (at[k] >= n) at[k] = n - 1;
            const unsigned char x = i % 2 ? special[rng_int(&seed, 0, 7)] : (unsigned char) rng_next(&seed);
            if (pwrite(fd, &x, 1, (off_t) at[k]) != 1) exit(1);
        }
        snprintf(what, sizeof(what), "%s, damage %d", name, i);
        n_loaded += try_load(model_path, what);
        for (int k = 0; k < n_bytes; k++)
            if (pwrite(fd, data + at[k], 1, (off_t) at[k]) != 1) exit(1);
    }
    close(fd);
    CHECK(try_load(model_path, name), "%s: not restored", name);
    printf("%-12s %d of %d damaged files still load\n", name, n_loaded, n_tries);
    free(data);
}

// ---- wrong contents ----

enum edit { KEY_DROP, KEY_U32, KEY_F32, KEY_STR, KEY_BOOL, TENSOR_DROP, TENSOR_SHAPE, TENSOR_TYPE, TENSOR_VECTOR };

static const struct wrong {
    enum edit edit;
    const char * name;
    double a, b;
    const char * s;
    enum mra_status code;
    const char * part;
} wrongs[] = {
    { KEY_DROP, "general.architecture", 0, 0, NULL, MRA_ERR_FORMAT, "no key 'general.architecture'" },
    { KEY_STR, "general.architecture", 0, 0, "llama", MRA_ERR_UNSUPPORTED, "architecture 'llama'" },
    { KEY_U32, "general.architecture", 1, 0, NULL, MRA_ERR_FORMAT, "expected a string" },
    { KEY_DROP, "bert.block_count", 0, 0, NULL, MRA_ERR_FORMAT, "no key" },
    { KEY_U32, "bert.block_count", 1, 0, NULL, MRA_ERR_UNSUPPORTED, "is not part of 1 layers" },
    { KEY_U32, "bert.block_count", 0, 0, NULL, MRA_ERR_FORMAT, "is not in 1.." },
    { KEY_U32, "bert.block_count", 3, 0, NULL, MRA_ERR_FORMAT, "no tensor 'blk.2." },
    { KEY_U32, "bert.block_count", 4e9, 0, NULL, MRA_ERR_FORMAT, "is not in 1.." },
    { KEY_F32, "bert.block_count", 2, 0, NULL, MRA_ERR_FORMAT, "expected an integer" },
    { KEY_STR, "bert.block_count", 0, 0, "2", MRA_ERR_FORMAT, "expected an integer" },
    { KEY_U32, "bert.embedding_length", 48, 0, NULL, MRA_ERR_FORMAT, "shape" },
    { KEY_U32, "bert.embedding_length", 4000000000, 0, NULL, MRA_ERR_FORMAT, "is not in" },
    { KEY_U32, "bert.feed_forward_length", 95, 0, NULL, MRA_ERR_FORMAT, "shape" },
    { KEY_U32, "bert.attention.head_count", 0, 0, NULL, MRA_ERR_FORMAT, "is not in" },
    { KEY_U32, "bert.attention.head_count", 3, 0, NULL, MRA_ERR_FORMAT, "no multiple of 3 heads" },
    { KEY_U32, "bert.embedding_length", 4096, 0, NULL, MRA_ERR_UNSUPPORTED, "channels; supported are up to 256" },
    { KEY_U32, "bert.attention.head_count_kv", 3, 0, NULL, MRA_ERR_FORMAT, "head_count_kv" },
    { KEY_U32, "bert.attention.head_count_kv", 1, 0, NULL, MRA_ERR_FORMAT, "attn_k.weight" },
    { KEY_U32, "bert.attention.key_length", 16, 0, NULL, MRA_ERR_UNSUPPORTED, "heads of 16 channels" },
    { KEY_U32, "bert.attention.sliding_window", 64, 0, NULL, MRA_ERR_UNSUPPORTED, "sliding window" },
    { KEY_U32, "bert.context_length", 0, 0, NULL, MRA_ERR_FORMAT, "is not in" },
    { KEY_U32, "bert.context_length", 100000, 0, NULL, MRA_ERR_FORMAT, "positions" },
    { KEY_F32, "bert.attention.layer_norm_epsilon", -1, 0, NULL, MRA_ERR_FORMAT, "epsilon" },
    { KEY_F32, "bert.attention.layer_norm_epsilon", NAN, 0, NULL, MRA_ERR_FORMAT, "epsilon" },
    { KEY_BOOL, "bert.attention.causal", 1, 0, NULL, MRA_ERR_UNSUPPORTED, "causal" },
    { KEY_U32, "bert.pooling_type", 9, 0, NULL, MRA_ERR_FORMAT, "is not in" },
    { KEY_U32, "bert.classifier.pooling_type", 3, 0, NULL, MRA_ERR_UNSUPPORTED, "the first token or the mean" },
    { KEY_STR, "mra.activation", 0, 0, "mish", MRA_ERR_UNSUPPORTED, "'mish'" },
    { KEY_STR, "mra.pooling", 0, 0, "best", MRA_ERR_UNSUPPORTED, "'best'" },
    { KEY_U32, "mra.max_length", 70000, 0, NULL, MRA_ERR_FORMAT, "mra.max_length" },
    { KEY_U32, "mra.attention.block_per_row", 0, 0, NULL, MRA_ERR_FORMAT, "is not in" },
    { KEY_STR, "bert.classifier.output_labels", 0, 0, "one", MRA_ERR_FORMAT, "array of strings" },
    { KEY_DROP, "tokenizer.ggml.model", 0, 0, NULL, MRA_ERR_FORMAT, "no tokenizer.ggml.model" },
    { KEY_STR, "tokenizer.ggml.model", 0, 0, "rwkv", MRA_ERR_UNSUPPORTED, "tokenizer 'rwkv'" },
    { KEY_STR, "tokenizer.ggml.model", 0, 0, "t5", MRA_ERR_FORMAT, "scores" },
    { KEY_DROP, "tokenizer.ggml.tokens", 0, 0, NULL, MRA_ERR_FORMAT, "no tokenizer.ggml.tokens" },
    { KEY_U32, "tokenizer.ggml.tokens", 1, 0, NULL, MRA_ERR_FORMAT, "array of strings" },
    { KEY_U32, "tokenizer.ggml.token_type", 1, 0, NULL, MRA_ERR_FORMAT, "expected an array" },
    { KEY_U32, "tokenizer.ggml.mask_token_id", 300, 0, NULL, MRA_ERR_FORMAT, "is not in 0..299" },
    { TENSOR_DROP, "token_embd.weight", 0, 0, NULL, MRA_ERR_FORMAT, "no tensor 'token_embd.weight'" },
    { TENSOR_DROP, "position_embd.weight", 0, 0, NULL, MRA_ERR_FORMAT, "no tensor" },
    { TENSOR_DROP, "token_embd_norm.bias", 0, 0, NULL, MRA_ERR_FORMAT, "no tensor" },
    { TENSOR_DROP, "blk.1.attn_k.weight", 0, 0, NULL, MRA_ERR_FORMAT, "no tensor 'blk.1.attn_k.weight'" },
    { TENSOR_DROP, "mlm.norm.weight", 0, 0, NULL, MRA_ERR_FORMAT, "no tensor" },
    { TENSOR_DROP, "mlm.output.bias", 0, 0, NULL, MRA_ERR_FORMAT, "no tensor" },
    { TENSOR_SHAPE, "token_embd.weight", 64, 299, NULL, MRA_ERR_FORMAT, "" },
    { TENSOR_SHAPE, "token_embd.weight", 32, 300, NULL, MRA_ERR_FORMAT, "has shape [32, 300" },
    { TENSOR_SHAPE, "blk.0.attn_q.weight", 64, 32, NULL, MRA_ERR_FORMAT, "expected [64, 64]" },
    { TENSOR_SHAPE, "blk.0.ffn_up.weight", 64, 64, NULL, MRA_ERR_FORMAT, "has shape" },
    { TENSOR_SHAPE, "cls.output.weight", 32, 3, NULL, MRA_ERR_FORMAT, "has shape" },
    { TENSOR_SHAPE, "blk.0.attn_q.bias", 64, 2, NULL, MRA_ERR_FORMAT, "has shape" },
    { TENSOR_VECTOR, "blk.1.layer_output_norm.weight", 8, 0, NULL, MRA_ERR_FORMAT, "has shape" },
    { TENSOR_TYPE, "blk.0.attn_q.weight", GGML_TYPE_I32, 0, NULL, MRA_ERR_UNSUPPORTED, "is i32" },
    { TENSOR_TYPE, "blk.0.attn_q.bias", GGML_TYPE_F16, 0, NULL, MRA_ERR_UNSUPPORTED, "is f16" },
    { TENSOR_TYPE, "token_embd.weight", GGML_TYPE_Q8_K, 0, NULL, MRA_ERR_FORMAT, "" },
};

static void apply(struct gguf_edit * e, const struct wrong * w) {
    struct ggml_tensor * t;
    switch (w->edit) {
        case KEY_DROP: gguf_remove_key(e->kv, w->name); break;
        case KEY_U32:
            gguf_remove_key(e->kv, w->name);
            gguf_set_val_u32(e->kv, w->name, (uint32_t) w->a);
            break;
        case KEY_F32:
            gguf_remove_key(e->kv, w->name);
            gguf_set_val_f32(e->kv, w->name, (float) w->a);
            break;
        case KEY_BOOL:
            gguf_remove_key(e->kv, w->name);
            gguf_set_val_bool(e->kv, w->name, w->a != 0);
            break;
        case KEY_STR:
            gguf_remove_key(e->kv, w->name);
            gguf_set_val_str(e->kv, w->name, w->s);
            break;
        case TENSOR_DROP: gguf_edit_drop(e, w->name); break;
        case TENSOR_SHAPE:
            gguf_edit_drop(e, w->name);
            gguf_edit_add(e, w->name, GGML_TYPE_F32, (int64_t) w->a, (int64_t) w->b);
            break;
        case TENSOR_VECTOR:
            gguf_edit_drop(e, w->name);
            gguf_edit_add(e, w->name, GGML_TYPE_F32, (int64_t) w->a, 0);
            break;
        case TENSOR_TYPE:
            t = gguf_edit_find(e, w->name);
            gguf_edit_drop(e, w->name);
            gguf_edit_add(e, w->name, (enum ggml_type)(int) w->a, (int) w->a == GGML_TYPE_Q8_K ? 256 : t->ne[0],
                ggml_n_dims(t) > 1 ? t->ne[1] : 0);
            break;
    }
}

static void check_wrong(void) {
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        struct gguf_edit e = gguf_edit_open(model_golden("roberta"));
        char what[128];
        apply(&e, &wrongs[i]);
        gguf_edit_write(&e, model_path);
        gguf_edit_free(&e);
        snprintf(what, sizeof(what), "wrong %zu (%s)", i, wrongs[i].name);
        expect_error(model_path, what, wrongs[i].code, wrongs[i].part);
    }
}

// what takes more than one change
static void check_more(void) {
    static const char * const mlm[] = { "mlm.dense.weight", "mlm.dense.bias", "mlm.norm.weight", "mlm.norm.bias",
        "mlm.output.bias" };
    struct gguf_edit e = gguf_edit_open(model_golden("roberta"));
    for (int i = 0; i < 5; i++) gguf_edit_drop(&e, mlm[i]);
    gguf_edit_drop(&e, "token_embd.weight");
    gguf_edit_add(&e, "token_embd.weight", GGML_TYPE_F32, 64, 299);
    gguf_edit_write(&e, model_path);
    gguf_edit_free(&e);
    expect_error(model_path, "fewer embeddings than tokens", MRA_ERR_FORMAT, "only 299 embeddings");

    e = gguf_edit_open(model_golden("xlm-roberta"));
    const uint8_t map[3] = { 1, 2, 3 };
    gguf_remove_key(e.kv, "tokenizer.ggml.precompiled_charsmap");
    gguf_set_arr_data(e.kv, "tokenizer.ggml.precompiled_charsmap", GGUF_TYPE_UINT8, map, 3);
    gguf_edit_write(&e, model_path);
    gguf_edit_free(&e);
    expect_error(model_path, "charsmap", MRA_ERR_FORMAT, "");

    e = gguf_edit_open(model_golden("roberta"));
    const int32_t types[2] = { 1, 1 };
    gguf_remove_key(e.kv, "tokenizer.ggml.token_type");
    gguf_set_arr_data(e.kv, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, 2);
    gguf_edit_write(&e, model_path);
    gguf_edit_free(&e);
    expect_error(model_path, "two types", MRA_ERR_FORMAT, "but 2 types");

    // fewer labels than classes: a model without labels
    e = gguf_edit_open(model_golden("roberta"));
    const char * label = "one";
    gguf_remove_key(e.kv, "bert.classifier.output_labels");
    gguf_set_arr_str(e.kv, "bert.classifier.output_labels", &label, 1);
    gguf_edit_write(&e, model_path);
    gguf_edit_free(&e);
    struct mra_model * m = mra_model_load(model_path, NULL, NULL);
    CHECK(m && mra_model_info(m).n_class == 3 && !mra_model_label(m, 0) && !mra_model_label(m, 2),
        "one label for three classes");
    mra_model_free(m);
}

int main(int argc, char ** argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s golden/models [damages per model [seed]]\n", argv[0]);
        return 2;
    }
    model_files_open("test-model-errors", argv[1]);
    const int n = argc > 2 ? atoi(argv[2]) : 2000;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    check_wrong();
    check_more();
    static const char * const names[] = { "roberta", "bert", "xlm-roberta", "mra-sparse" };
    for (int i = 0; i < 4; i++) {
        check_truncated(names[i]);
        check_flipped(names[i], n, seed + (uint64_t) i);
    }
    model_files_close();
    return summary("test-model-errors");
}
