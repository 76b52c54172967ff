// A loaded model: sizes, weights and tokenizer. Constant after loading.
#pragma once

#include "gguf-file.h"
#include "mra-encoder.h"

#include "ggml-backend.h"

enum mra_act { MRA_ACT_NONE, MRA_ACT_GELU, MRA_ACT_GELU_TANH, MRA_ACT_RELU, MRA_ACT_SILU, MRA_ACT_TANH };

struct mra_norm {
    struct ggml_tensor *w, *b;
};

struct mra_layer {
    struct mra_dense qkv; // fused, else w is NULL and
    struct mra_dense q, k, v;
    struct mra_dense out;
    struct mra_norm attn_norm;
    struct mra_dense up, down;
    struct mra_norm out_norm;
};

struct mra_model {
    struct mra_model_info info;
    float eps;
    enum mra_act act, mlm_act, cls_act;

    struct ggml_tensor *token_embd, *token_types, *position_embd; // token_types may be NULL
    struct mra_norm embd_norm;
    struct mra_layer * layers;           // [n_layer]
    struct mra_dense cls, cls_out;       // w NULL: not there
    struct mra_dense mlm_dense, mlm_out; // mlm_out.w: token_embd where it is tied
    struct mra_norm mlm_norm;

    struct mra_tokenizer * tokenizer;
    struct mra_gguf file;                     // mapping, keys, and the tensors above
    int64_t labels_id;                        // key id of the labels, or -1
    int64_t prompt_names_id, prompt_texts_id; // of the prompts
    int n_prompts;
    const char * default_prompt; // its name, or NULL
    ggml_backend_dev_t dev;
    ggml_backend_buffer_t buffer; // the weights
};

// vocab.c: the tokenizer a file describes. *n_vocab: its number of tokens.
struct mra_tokenizer * mra_tokenizer_from_gguf(const struct mra_gguf * f, int64_t * n_vocab, struct mra_error * err);

// device.c
ggml_backend_dev_t mra_device_find(
    const char * name, struct mra_error * err); // NULL or "cpu", "cuda", "gpu", or ggml's name
double mra_now_ms(void);
