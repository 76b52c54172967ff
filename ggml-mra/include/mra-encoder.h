// Encoders of the BERT family (BERT, RoBERTa, XLM-R, MRA) from GGUF files, with multi-resolution attention for long
// texts.
//
//     struct mra_error     err;
//     struct mra_model   * model = mra_model_load("model.gguf", NULL, &err);                 // NULL: err.msg says why
//     struct mra_context * ctx   = mra_context_new(model, NULL, &err);
//     struct mra_token_list list = {0};
//     mra_model_tokenize(model, "a text", 6, NULL, 0, 0, &list, &err);
//     struct mra_seq    seq  = { .n = (int) list.n, .tokens = list.data };
//     struct mra_output want = { .kind = MRA_OUTPUT_POOLED };
//     struct mra_result r;
//     if (mra_encode(ctx, &seq, 1, &want, &r, &err) == MRA_OK) use(r.data, r.n_rows, r.n_cols);
//     mra_token_list_free(&list);
//     mra_context_free(ctx);
//     mra_model_free(model);
//
// A model does not change after loading: any number of threads may use it, each with a context of its own; they share
// the CPUs. Free contexts first.
#pragma once

#include "ggml-mra.h"
#include "mra-error.h"
#include "mra-tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- models ----------------------------------------------------------------------------------------------------

enum mra_pooling {
    MRA_POOLING_DEFAULT, // what the file says, else the mean
    MRA_POOLING_MEAN,
    MRA_POOLING_CLS, // the first token
    MRA_POOLING_LAST,
    MRA_POOLING_MAX,       // of each channel
    MRA_POOLING_MEAN_SQRT, // sum / sqrt(length)
};

enum mra_problem {
    MRA_PROBLEM_SINGLE,
    MRA_PROBLEM_MULTI,
    MRA_PROBLEM_REGRESSION
}; // softmax, sigmoid each, logits as they are

struct mra_model_params {
    const char * device; // NULL or "cpu"; "cuda": the first one of ggml's CUDA backend; "gpu": the first of any; or a
                         // name of ggml's, such as "CUDA1". MRA_ERR_DEVICE: there is none
    bool no_mmap;        // CPU: read the file instead of using it in place (it may then be changed or deleted)
};

struct mra_model_info {        // strings belong to the model
    const char *name, *family; // general.name or ""; "roberta", "bert", ... or "" in files from other converters
    const char * type;         // of the first layer's weights, such as "q8_0"
    const char * device;
    int n_layer, n_embd, n_head, n_ff, n_vocab, n_types;
    int n_ctx;                // most tokens of a sequence
    int max_length;           // texts were cut to this many tokens in training; n_ctx where the file does not say
    enum mra_pooling pooling; // the default
    bool normalize;           // whether pooled embeddings are divided by their length by default
    bool has_mlm;
    int n_class;       // 0: no classifier
    int n_tag;         // labels that a token may have; 0: no token classifier
    int n_pooled;      // numbers of an embedding: n_embd, or what dense layers behind the pooling make of it
    int n_colbert;     // numbers of a token's ColBERT vector; 0: it has none
    bool has_sparse;   // weights of tokens
    const char * note; // "", or what a user must know of the file's results, as a line
    enum mra_problem problem;
    bool has_mra; // trained with multi-resolution attention: `attn` says which
    struct mra_attn_params attn;
    size_t n_bytes; // weights in memory, mapped or copied
    int64_t n_params;
    double load_ms;
};

// params may be NULL. The caller owns the model.
struct mra_model * mra_model_load(const char * path, const struct mra_model_params * params, struct mra_error * err);
void mra_model_free(struct mra_model * model);                        // NULL is fine
struct mra_model_info mra_model_info(const struct mra_model * model); // NULL: all zero
// Of class or tag i; NULL: the file has none. Belongs to the model.
const char * mra_model_label(const struct mra_model * model, int i);

// Texts that sentence-transformers puts before every text, such as "query: ". Callers put them there; nothing here
// does. mra_model_prompt: of a name, with NULL of the one that is the default; NULL where there is none. Belong to the
// model.
const char * mra_model_prompt(const struct mra_model * model, const char * name);
const char * mra_model_prompt_name(const struct mra_model * model, int i); // NULL: there are no more

// The tokenizer belongs to the model.
const struct mra_tokenizer * mra_model_tokenizer(const struct mra_model * model);

// mra_tokenize with special tokens (b NULL: a single text), cut to max_tokens (0: max_length): tokens are dropped from
// the end of the longer text until it fits; list->data keeps its special tokens. Token types the model does not have
// become 0. The caller frees the list.
enum mra_status mra_model_tokenize(const struct mra_model * model, const char * a, size_t n_a, const char * b,
    size_t n_b, int max_tokens, struct mra_token_list * list, struct mra_error * err);

// ---- plans -----------------------------------------------------------------------------------------------------

// A plan gives every head of every layer its need: how many keys it keeps in the sorted frame, beside the other heads.
// Heads get shares of any budget in proportion to their needs, at most all keys. It is found on sample texts
// (mra-calibrate --plan) and lies in a model's file (keys mra.attention.plan.*, which other programs ignore) or beside
// it. A plan belongs to the weights it was found for, whatever type they have; it is refused for others.

// need : [n_layer][n_head], 0 to 1e6; copied. The caller owns the plan.
struct mra_plan * mra_plan_new(const struct mra_model * model, const float * need, struct mra_error * err);
// For calibration: shares as they are, whatever the budget (see ggml-mra.h: a large one is all keys). Not to be saved.
struct mra_plan * mra_plan_of_shares(const struct mra_model * model, const float * shares, struct mra_error * err);
struct mra_plan * mra_plan_load(const char * path, const struct mra_model * model, struct mra_error * err);
// model_path NULL: writes a file of its own; else a copy of that model's file with the plan in it.
enum mra_status mra_plan_save(
    const struct mra_plan * plan, const char * model_path, const char * path, struct mra_error * err);
const float * mra_plan_need(const struct mra_plan * plan);              // [n_layer][n_head]; NULL: NULL
const struct mra_plan * mra_model_plan(const struct mra_model * model); // of its file, belongs to it; NULL: none
void mra_plan_free(struct mra_plan * plan);                             // NULL is fine

// ---- contexts --------------------------------------------------------------------------------------------------

#define MRA_DEFAULT_BATCH      8192 // tokens computed at a time
#define MRA_DEFAULT_FFN_ROWS   512  // tokens whose feed-forward part is computed at a time
#define MRA_DEFAULT_ERROR_ROWS 128  // queries of a head whose error is measured
#define MRA_AUTO_EXACT         1024 // tokens up to which MRA_ATTENTION_AUTO is exact
#define MRA_AUTO_EXACT_INT8    8192 // the same where exact attention is in int8 and nobody chose `attn`
#define MRA_AUTO_BUDGET        0    // budget of a context's `attn`: nobody chose it

enum mra_attention {
    MRA_ATTENTION_AUTO, // a model trained with MRA: its own settings. Others: exact up to MRA_AUTO_EXACT tokens or
                        // where `attn` would be no less work, above that `attn`. With MRA_AUTO_BUDGET on a CPU, above
                        // that the sorted frame with a budget that follows the length: about .999 of exact's cosine
    MRA_ATTENTION_EXACT,
    MRA_ATTENTION_MRA, // `attn`, whatever the model and the length
};

// What attention is computed in (enum mra_attn_type of ggml-mra.h).
enum mra_attention_type {
    MRA_ATTENTION_TYPE_AUTO, // int8 where the weights are quantized, whose error is of the same size, and the CPU gains
                             // by it; else float
    MRA_ATTENTION_TYPE_FLOAT,
    MRA_ATTENTION_TYPE_INT8, // whatever the weights are. Floats where the CPU has no kernels for it and on other
                             // devices; square frames are refused
};

// Q, K and V of one layer of one sequence, as its attention is about to get them: channel c of head h of token i is
// ((const float *) ((const char *) q + i*row_bytes[0]))[h*d + c], of k and v likewise with row_bytes[1] and [2].
struct mra_attention_input {
    int layer, seq; // from 0; seq: of the sequences given to mra_encode
    int n, d;       // tokens, head size
    int n_head, n_head_kv;
    const float *q, *k, *v;
    size_t row_bytes[3];
    bool near;                   // this layer attends within a window, or with ALiBi: `attn` does not count
    struct mra_attn_params attn; // what is computed from them, with its scale
};

struct mra_context_params {
    // 0: as many as this process may use, shared evenly with the other contexts that compute at the same time: one
    // context per thread of a program is as fast as it can be. Else so many, whatever others do.
    int n_threads;
    enum mra_attention attention;
    enum mra_attention_type attention_type;
    // Default: columns, MRA_AUTO_BUDGET, which is 1/8 but where MRA_ATTENTION_AUTO chooses frame and budget by length.
    // Its type does not count: attention_type does
    struct mra_attn_params attn;
    // Of the sorted frame with a budget, on a CPU; NULL: the model's own, if it has one. Must outlive the context
    const struct mra_plan * plan;
    bool no_plan; // all heads alike
    int n_batch;  // most tokens of a pass, in whole sequences, one at least. Bounds the memory. 0: MRA_DEFAULT_BATCH
    // tokens whose feed-forward part is computed at a time; 0: MRA_DEFAULT_FFN_ROWS, on another device than the CPU all
    // of a pass as long as its memory allows it
    int n_ffn_rows;
    // Most bytes of a pass and its result. Passes become smaller than n_batch where that helps; a sequence that needs
    // more than this fails with MRA_ERR_MEMORY before it is computed. 0: what the machine has free when it is needed
    size_t max_bytes;
    // Queries of each head and layer for which exact attention is computed as well, to say how large the error of
    // attention is (mra_context_errors); 0: none, -1: MRA_DEFAULT_ERROR_ROWS. Costs n_error_rows/n of exact attention.
    int n_error_rows;
    // Largest relative error of attention (as mra_error_summary's `all`, upper end of its interval) that a text may
    // have; 0: any. A text that attention approximates gets the first of the budgets 1/8, 3/16, 1/4, 3/8, 1/2 and exact
    // attention that keeps it, instead of the budget of `attn`; budgets that cannot be enough by what the ones before
    // gave are left out. Each budget that is tried costs its work: together at most about 2.5 times exact attention,
    // mostly less than twice the last. Implies n_error_rows. Not for models that run as trained, or fixed counts
    float max_error;
    bool profile;    // times by part of the model and by operator (costs a little)
    bool ggml_dense; // dense layers and norms by ggml's own operators: slower, for comparison
    // Called on the thread of mra_encode: before each pass, and on the CPU behind each node of its graph. true ends
    // mra_encode with MRA_ERR_STOPPED; the context can be used again. May be NULL.
    bool (*stop)(void * user);
    void * stop_user;
    // Called on the thread of mra_encode with what each weight matrix is multiplied with: x : [n_rows][n_cols], rows
    // row_bytes apart. For calibration: implies ggml_dense, excludes profile, needs the model on the CPU. May be NULL.
    void (*on_weight)(
        void * user, const char * name, const float * x, int64_t n_rows, int64_t n_cols, size_t row_bytes);
    void * on_weight_user;
    // Called on the thread of mra_encode before each layer's attention, for each sequence; what x points to is gone
    // behind the call. Excludes profile and on_weight, needs the model on the CPU. May be NULL.
    void (*on_attention)(void * user, const struct mra_attention_input * x);
    void * on_attention_user;
};
struct mra_context_params mra_context_params_default(void);

// What a sequence of n_tokens gets with these params (NULL: the default), whatever else is in its batch.
struct mra_attention_choice {
    bool exact;
    bool trained;                 // not exact, but what the model was trained with
    struct mra_attn_params attn;  // frame, type that is really computed in, budget or counts, scale
    double work;                  // as a fraction of exact attention's, at most 1
    const struct mra_plan * plan; // that it follows; NULL: all heads alike
    char text[64];   // "exact", "exact, int8", "sorted, budget 0.125", "sorted, budget 0.25, planned", "32,1, as
                     // trained", with max_error "sorted, error at most 0.02": the budget is not known before
    int exact_up_to; // tokens up to which MRA_ATTENTION_AUTO would be exact
};
// All zero where model is NULL or n_tokens < 1.
struct mra_attention_choice mra_attention_of(
    const struct mra_model * model, const struct mra_context_params * params, int n_tokens);

// params may be NULL. The caller owns the context; the model must outlive it. model NULL: MRA_ERR_ARG.
struct mra_context * mra_context_new(
    const struct mra_model * model, const struct mra_context_params * params, struct mra_error * err);
void mra_context_free(struct mra_context * ctx); // NULL is fine

// "", or why attention runs on the CPU although the model is on another device (ggml-mra-backend.h). Belongs to the
// context.
const char * mra_context_note(const struct mra_context * ctx);

struct mra_seq {
    int n;
    const struct mra_token * tokens; // as the tokenizer gives them; or NULL and
    const int32_t * ids;             // [n]
    const int32_t * types;           // [n] token types; NULL: all 0
};

enum mra_output_kind {
    MRA_OUTPUT_TOKENS,  // last hidden states, a row per token, sequences end to end     [n_tokens][n_embd]
    MRA_OUTPUT_POOLED,  // an embedding per sequence                                     [n_seq][n_pooled]
    MRA_OUTPUT_CLASS,   // the classifier's logits                                       [n_seq][n_class]
    MRA_OUTPUT_MLM,     // masked-language-model logits at the given positions           [n_at][n_vocab]
    MRA_OUTPUT_SPANS,   // an embedding per span of tokens ("late chunking")             [n_span][n_pooled]
    MRA_OUTPUT_TAGS,    // the token classifier's logits, sequences end to end           [n_tokens][n_tag]
    MRA_OUTPUT_SPARSE,  // a weight per token, not negative (bge-m3)                     [n_tokens][1]
    MRA_OUTPUT_COLBERT, // a vector of length 1 per token (bge-m3)                      [n_tokens][n_colbert]
};

struct mra_at {
    int seq, token;
};

struct mra_span { // tokens [first, first + n) of a sequence, n >= 1
    int seq, first, n;
};

struct mra_output {
    enum mra_output_kind kind;
    enum mra_pooling pooling; // POOLED, SPANS; CLS and LAST of a span: its first and its last token
    int normalize;            // POOLED, SPANS: to length 1: 1 yes, -1 no, 0 the model's default
    int n_dims;               // POOLED, SPANS: keep the first n_dims numbers, before normalizing; 0: all
    const struct mra_at * at; // MLM: [n_at], in any order
    int n_at;
    const struct mra_span * spans; // SPANS: [n_span], in any order; they may overlap
    int n_span;
};

struct mra_result {
    const float * data; // [n_rows][n_cols], owned by the context, valid until its next mra_encode
    int64_t n_rows, n_cols;
};

// Any number of sequences, of any lengths from 1 to n_ctx; none is padded. They are sorted by length and computed in
// passes of at most n_batch tokens; rows come back in the caller's order. Hidden states of all tokens are kept for
// MRA_OUTPUT_TOKENS only: the others take what they need of a pass when it is done.
enum mra_status mra_encode(struct mra_context * ctx, const struct mra_seq * seqs, int n_seq,
    const struct mra_output * want, struct mra_result * result, struct mra_error * err);

// ---- entities --------------------------------------------------------------------------------------------------

// How tokens become entities: what transformers calls the aggregation strategy of its token-classification pipeline.
enum mra_aggregation {
    MRA_AGGREGATION_NONE,    // an entity is a token with its best label
    MRA_AGGREGATION_SIMPLE,  // neighbouring tokens of the same label (B-X begins another X) are one entity X
    MRA_AGGREGATION_FIRST,   // the same with words instead of tokens: the label of a word is that of its first token,
    MRA_AGGREGATION_AVERAGE, // the best of the mean of its tokens' probabilities,
    MRA_AGGREGATION_MAX,     // or that of its surest token
};

struct mra_entity {
    const char * label;  // belongs to the model; grouped: without what stands before its first '-'
    double score;        // probability of the label; the mean over what is grouped
    uint32_t start, end; // bytes of the text
    int token;           // the first one of it
};

struct mra_entity_list { // {0} is an empty list
    struct mra_entity * data;
    size_t n;
};
void mra_entity_list_free(struct mra_entity_list * list);

// Entities of text[0 .. n_text) in its order, from its tokens and their logits : [n_tokens][n_tag] of MRA_OUTPUT_TAGS.
// Special tokens and entities with the label `ignore` (NULL: "O"; "": none) are left out. Replaces what is in the list.
enum mra_status mra_entities(const struct mra_model * model, const char * text, size_t n_text,
    const struct mra_token * tokens, int n_tokens, const float * logits, enum mra_aggregation aggregation,
    const char * ignore, struct mra_entity_list * list, struct mra_error * err);

// ---- errors and times ------------------------------------------------------------------------------------------

// Sums of ggml_mra_attn_error (mra_attn_error_of tells the error): [n_layer][n_head][MRA_ATTN_ERROR_SUMS] of sequence
// seq of the last mra_encode. All 0: attention was exact in floats there (also: layers with a window), or the sequence
// was not needed. NULL: params.n_error_rows was 0, or there is no such sequence. Belong to the context until its next
// mra_encode. Independent of the batch and the number of threads.
const double * mra_context_errors(const struct mra_context * ctx, int seq);

// What sequence seq of the last mra_encode got with params.max_error; all zero where that is 0 or there is no such
// sequence.
struct mra_attention_choice mra_context_attention(const struct mra_context * ctx, int seq);

// The sums of a sequence in a few numbers. Layers and heads count from 0; relative errors, that is parts of exact.
struct mra_error_summary {
    int n_heads;                      // of all layers, whose attention is not exact in floats; 0: the rest is 0
    double mean;                      // over these heads
    struct mra_attn_error worst_head; // with its interval
    int layer, head;                  // of it
    struct mra_attn_error all;        // of all of them together, as ||out - exact|| / ||exact||, with its interval
};
struct mra_error_summary mra_error_summary_of(const double * sums, int n_layer, int n_head); // sums NULL: all 0

enum mra_part {
    MRA_PART_EMBED,
    MRA_PART_QKV,
    MRA_PART_ATTENTION,
    MRA_PART_FFN,
    MRA_PART_HEAD,
    MRA_PART_COUNT
}; // FFN: all behind attention

#define MRA_MAX_OP_TIMES 32
struct mra_op_time {
    const char * op;
    double ms;
    int n;
}; // ggml-mra's operators by ggml_mra_op_name, ggml's as "MUL_MAT"; nodes

struct mra_stats { // of the last mra_encode
    int64_t n_tokens;
    int n_graphs;
    int n_threads; // of the last pass
    double build_ms, compute_ms, total_ms;
    double part_ms[MRA_PART_COUNT]; // with params.profile
    int n_ops;                      // the same time by operator, with params.profile
    struct mra_op_time ops[MRA_MAX_OP_TIMES];
    size_t compute_bytes; // activations and scratch, largest so far
    size_t output_bytes;
};
struct mra_stats mra_context_stats(const struct mra_context * ctx);
const char * mra_part_name(enum mra_part part);

// ---- quantization ----------------------------------------------------------------------------------------------

struct mra_quantize_params {
    enum ggml_type type; // of the weight matrices
    int n_threads;       // 0: as many as this process may use
    // A GGUF file with an F32 tensor for each weight matrix, of its name: how much an error in each column matters, the
    // mean square of what it is multiplied with. Matrices that are not in it count all columns alike. May be NULL
    const char * imatrix;
    bool no_mmap; // read the file instead of mapping it: it may then be changed meanwhile
    // called after each tensor, also when it is copied; fallback: it does not fit `type`'s rows and got `to` instead.
    // May be NULL
    void (*progress)(
        void * user, int i, int n, const char * name, enum ggml_type from, enum ggml_type to, bool fallback);
    void * user;
};

struct mra_quantize_result {
    size_t n_in, n_out;                 // bytes of both files
    int n_quantized, n_fallback;        // tensors
    int64_t n_weights[GGML_TYPE_COUNT]; // of the weight matrices, by the type they got
    int64_t n_fallback_weights;         // of those that do not fit `type`'s rows
    int64_t fallback_row;               // row length of the first of them, 0: all fit
    enum ggml_type fallback_type;       // what it got instead
};

// "q8_0", "f16", ...: a type mra_quantize can write, or GGML_TYPE_COUNT
enum ggml_type mra_quantize_type(const char * name);

// Embeddings of positions and token types, norms, biases and the classifier's output stay as they are; attn_v gets f16
// in a q8_0 file, q8_0 in smaller ones. Writes out_path under a temporary name and renames it when it is complete.
// result may be NULL.
enum mra_status mra_quantize(const char * in_path, const char * out_path, const struct mra_quantize_params * params,
    struct mra_quantize_result * result, struct mra_error * err);

#ifdef __cplusplus
}
#endif
