// A loaded model: what its layers compute, sizes, weights and tokenizer. Constant after loading.
#pragma once

#include "gguf-file.h"
#include "mra-encoder.h"

#include "ggml-backend.h"

enum mra_act { MRA_ACT_NONE, MRA_ACT_GELU, MRA_ACT_GELU_TANH, MRA_ACT_RELU, MRA_ACT_SILU, MRA_ACT_TANH };

enum mra_position_kind {
    MRA_POSITION_LEARNT, // a row for each, added to the token's
    MRA_POSITION_ROPE,   // q and k turned
    MRA_POSITION_ALIBI,  // a slope for each head, times the distance, taken from the score
};

// What the layers of an architecture compute: a row of the table in arch.c, then what the file says otherwise.
struct mra_arch {
    const char * name; // general.architecture; its keys begin with it
    enum mra_position_kind position;
    bool interleaved;      // RoPE: channels 2c and 2c + 1 are a pair, else c and n_rot/2 + c
    bool pre_norm;         // norms stand before attention and feed-forward, else behind
    bool rms;              // norms do not subtract the mean
    bool norm_bias;        // norms have biases; otherwise they may
    bool no_embd_norm;     // no norm behind the embeddings
    bool gated;            // feed-forward: down(act(gate(x))*up(x)), gate a tensor or the first half of up; else plain
    bool own_files;        // files of llama.cpp's converter give other results than the model: refused
    const char * out_norm; // tensor of the norm behind the last layer, NULL: none
    enum mra_act act, cls_act;
    float eps;                        // of norms
    float rope_base, rope_base_local; // local: of layers with a window
    float rope_scale;                 // of positions
    int n_rot;                        // channels of a head that turn
    float max_bias;                   // ALiBi
    int window, pattern; // largest distance in a layer with a window, 0: none has one; every pattern-th has none
};

struct mra_norm {
    struct ggml_tensor *w, *b; // b may be NULL; w NULL: no norm
};

struct mra_layer {
    struct mra_dense qkv; // fused, else w is NULL and
    struct mra_dense q, k, v;
    struct mra_norm q_norm, k_norm; // over all heads; w NULL: none
    struct mra_dense out;
    struct mra_norm attn_norm;       // before attention if pre_norm (the first layer may have none), else behind
    struct mra_norm attn_norm_2;     // of norm(x + attention's norm), where w is not NULL
    struct mra_dense gate, up, down; // gate.w NULL: plain, or fused in up
    struct mra_norm ffn_norm;        // before feed-forward if pre_norm, else behind
    int window;                      // largest distance a token sees; -1: all
};

enum { MRA_MAX_DENSE = 4 };

struct mra_model {
    struct mra_model_info info;
    struct mra_arch arch;
    int n_head_kv;
    enum mra_act mlm_act;
    enum mra_pooling cls_pooling; // what the classifier sees: the first token, or the mean
    bool cls_late;                // it sees every token, and the mean of the logits counts

    struct ggml_tensor *token_embd, *token_types, *position_embd; // token_types may be NULL; position_embd: if learnt
    struct mra_norm embd_norm, out_norm;
    struct mra_layer * layers;           // [n_layer]
    struct mra_dense cls, cls_out;       // of sequences (info.n_class) or tokens (info.n_tag); w NULL: not there
    struct mra_norm cls_norm;            // between them
    struct mra_dense mlm_dense, mlm_out; // mlm_out.w: token_embd where it is tied
    struct mra_norm mlm_norm;
    struct mra_dense dense[MRA_MAX_DENSE]; // [n_dense] behind the pooling
    enum mra_act dense_act[MRA_MAX_DENSE];
    int n_dense;
    struct mra_dense sparse, colbert; // of tokens; w NULL: not there

    struct mra_plan * plan; // NULL: none
    uint64_t plan_model;    // what a plan for it says

    struct mra_tokenizer * tokenizer;
    struct mra_gguf file;                     // mapping, keys, and the tensors above
    int64_t labels_id;                        // key id of the labels, or -1
    int64_t prompt_names_id, prompt_texts_id; // of the prompts
    int n_prompts;
    const char * default_prompt; // its name, or NULL
    ggml_backend_dev_t dev;
    ggml_backend_buffer_t buffer;      // the weights
    ggml_backend_buffer_t host_buffer; // those whose rows the device cannot gather; NULL: it can
    struct ggml_context * host;        // tensors there of which the device has a copy, too; NULL: none
};

// does layer i see all tokens?
static inline bool mra_layer_is_global(const struct mra_layer * l) { return l->window < 0; }

// vocab.c: the tokenizer a file describes. *n_vocab: its number of tokens.
struct mra_tokenizer * mra_tokenizer_from_gguf(const struct mra_gguf * f, int64_t * n_vocab, struct mra_error * err);

// device.c
ggml_backend_dev_t mra_device_find(
    const char * name, struct mra_error * err); // NULL or "cpu", "cuda", "gpu", or ggml's name
double mra_now_ms(void);
