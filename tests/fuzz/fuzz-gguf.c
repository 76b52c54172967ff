// A model file: it is refused with a line, or loads and then encodes 128 tokens and more with any attention.
#include "gguf-input.h"
#include "mra-encoder.h"

#include <stdlib.h>
#include <string.h>

enum { N_TOKENS = 136 };

static void quiet(enum ggml_log_level level, const char * text, void * user) {
    (void) text, (void) user;
    require(level != GGML_LOG_LEVEL_ERROR); // ggml must never get to complain
}

static void said(const struct mra_error * err) {
    require(err->code != MRA_OK && err->msg[0] && !strchr(err->msg, '\n'));
}

static void encode(struct mra_context * ctx, const struct mra_seq * seq, const struct mra_output * want) {
    struct mra_result r;
    struct mra_error err = { 0 };
    if (mra_encode(ctx, seq, 1, want, &r, &err) != MRA_OK) said(&err);
    else
        for (int64_t i = 0; i < r.n_rows * r.n_cols; i++) ((volatile const float *) r.data)[i];
}

static void use(const struct mra_model * m, struct choices c) {
    static const char * const frames[] = { "columns", "sorted", "mra2", "mra2s", "64,16,4,1", "exact" };
    const struct mra_model_info info = mra_model_info(m);
    struct mra_context_params p = mra_context_params_default();
    struct mra_error err = { 0 };
    struct mra_token_list list = { 0 };
    int32_t ids[N_TOKENS];
    const uint8_t how = take(&c), other = take(&c);
    p.n_threads = 1;
    p.attention = how & 1 ? MRA_ATTENTION_MRA : MRA_ATTENTION_AUTO;
    p.attn.budget = how & 2 ? .125f : .5f;
    p.attention_type = how & 4 ? MRA_ATTENTION_TYPE_INT8 : MRA_ATTENTION_TYPE_AUTO;
    p.n_error_rows = how & 8 ? 16 : 0;
    mra_attn_params_parse(&p.attn, frames[other % 6], &err);
    struct mra_context * ctx = mra_context_new(m, &p, &err);
    if (!ctx) {
        said(&err);
        return;
    }
    for (int i = 0; i < N_TOKENS; i++) ids[i] = i * 7 % info.n_vocab;
    struct mra_seq seq = { .n = info.n_ctx < N_TOKENS ? info.n_ctx : N_TOKENS, .ids = ids };
    const struct mra_at at = { 0, seq.n - 1 };
    const struct mra_output outputs[] = { { .kind = MRA_OUTPUT_POOLED }, { .kind = MRA_OUTPUT_CLASS },
        { .kind = MRA_OUTPUT_MLM, .at = &at, .n_at = 1 }, { .kind = MRA_OUTPUT_TOKENS } };
    encode(ctx, &seq, &outputs[how >> 4 & 3]); // one an input: it takes most of the time
    if (mra_model_tokenize(m, "A text, <mask> or [MASK].", 25, "caf\xc3\xa9", 5, 0, &list, &err) != MRA_OK) said(&err);
    else if (list.n && how & 64) {
        seq = (struct mra_seq) { .n = (int) list.n, .tokens = list.data };
        encode(ctx, &seq, &outputs[3]);
    }
    mra_token_list_free(&list);
    mra_context_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct gguf_input in;
    struct mra_error err = { 0 };
    ggml_log_set(quiet, NULL);
    if (!gguf_input_make(&in, data, size)) return 0;
    struct mra_model * m = mra_model_load(in.path, &(struct mra_model_params) { .no_mmap = data[3] & 128 }, &err);
    if (m) use(m, in.choice);
    else said(&err);
    mra_model_free(m);
    return 0;
}
