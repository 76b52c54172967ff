// What the C compiler made of the structs and constants that ggml_mra/_library.py writes down a second time, so that
// the two can never be out of step: the package compares all of it when it is imported.
#include "mra-encoder.h"

#include <stddef.h>

struct mra_layout {
    const char * name; // "mra_seq", "mra_seq.n" or "MRA_OK"; NULL: the end
    size_t size;       // of the struct or member; 0: a constant
    size_t at;         // offset of the member, value of the constant
};

const struct mra_layout * mra_python_layout(void);

#define STRUCT(s) \
    { #s, sizeof(struct s), 0 }
#define MEMBER(s, m) \
    { #s "." #m, sizeof(((struct s *) 0)->m), offsetof(struct s, m) }
#define VALUE(v) \
    { #v, 0, (size_t) (v) }

// clang-format off
static const struct mra_layout layout[] = {
    STRUCT(mra_error), MEMBER(mra_error, code), MEMBER(mra_error, msg),

    STRUCT(mra_model_params), MEMBER(mra_model_params, device), MEMBER(mra_model_params, no_mmap),

    STRUCT(mra_attn_params),
    MEMBER(mra_attn_params, frame), MEMBER(mra_attn_params, type), MEMBER(mra_attn_params, scale),
    MEMBER(mra_attn_params, budget), MEMBER(mra_attn_params, counts), MEMBER(mra_attn_params, sizes),
    MEMBER(mra_attn_params, rule), MEMBER(mra_attn_params, block), MEMBER(mra_attn_params, first_n),
    MEMBER(mra_attn_params, diag_n), MEMBER(mra_attn_params, finest_only), MEMBER(mra_attn_params, n_threads),
    MEMBER(mra_attn_params, shares),

    STRUCT(mra_model_info),
    MEMBER(mra_model_info, name), MEMBER(mra_model_info, family), MEMBER(mra_model_info, type),
    MEMBER(mra_model_info, device), MEMBER(mra_model_info, n_layer), MEMBER(mra_model_info, n_embd),
    MEMBER(mra_model_info, n_head), MEMBER(mra_model_info, n_ff), MEMBER(mra_model_info, n_vocab),
    MEMBER(mra_model_info, n_types), MEMBER(mra_model_info, n_ctx), MEMBER(mra_model_info, max_length),
    MEMBER(mra_model_info, pooling), MEMBER(mra_model_info, normalize), MEMBER(mra_model_info, has_mlm),
    MEMBER(mra_model_info, n_class), MEMBER(mra_model_info, n_tag), MEMBER(mra_model_info, n_pooled),
    MEMBER(mra_model_info, n_colbert), MEMBER(mra_model_info, has_sparse), MEMBER(mra_model_info, note),
    MEMBER(mra_model_info, problem),
    MEMBER(mra_model_info, has_mra), MEMBER(mra_model_info, attn), MEMBER(mra_model_info, n_bytes),
    MEMBER(mra_model_info, n_params), MEMBER(mra_model_info, load_ms),

    STRUCT(mra_context_params),
    MEMBER(mra_context_params, n_threads), MEMBER(mra_context_params, attention),
    MEMBER(mra_context_params, attention_type), MEMBER(mra_context_params, attn), MEMBER(mra_context_params, plan),
    MEMBER(mra_context_params, no_plan), MEMBER(mra_context_params, n_batch),
    MEMBER(mra_context_params, n_ffn_rows), MEMBER(mra_context_params, max_bytes),
    MEMBER(mra_context_params, n_error_rows), MEMBER(mra_context_params, max_error),
    MEMBER(mra_context_params, profile),
    MEMBER(mra_context_params, ggml_dense), MEMBER(mra_context_params, stop), MEMBER(mra_context_params, stop_user),
    MEMBER(mra_context_params, on_weight), MEMBER(mra_context_params, on_weight_user),
    MEMBER(mra_context_params, on_attention), MEMBER(mra_context_params, on_attention_user),

    STRUCT(mra_attention_choice),
    MEMBER(mra_attention_choice, exact), MEMBER(mra_attention_choice, trained), MEMBER(mra_attention_choice, attn),
    MEMBER(mra_attention_choice, work), MEMBER(mra_attention_choice, plan), MEMBER(mra_attention_choice, text),
    MEMBER(mra_attention_choice, exact_up_to),

    STRUCT(mra_token),
    MEMBER(mra_token, id), MEMBER(mra_token, start), MEMBER(mra_token, end), MEMBER(mra_token, text),
    MEMBER(mra_token, segment),

    STRUCT(mra_token_list), MEMBER(mra_token_list, data), MEMBER(mra_token_list, n), MEMBER(mra_token_list, cap),

    STRUCT(mra_seq), MEMBER(mra_seq, n), MEMBER(mra_seq, tokens), MEMBER(mra_seq, ids), MEMBER(mra_seq, types),

    STRUCT(mra_at), MEMBER(mra_at, seq), MEMBER(mra_at, token),

    STRUCT(mra_output),
    MEMBER(mra_output, kind), MEMBER(mra_output, pooling), MEMBER(mra_output, normalize), MEMBER(mra_output, n_dims),
    MEMBER(mra_output, at), MEMBER(mra_output, n_at), MEMBER(mra_output, spans), MEMBER(mra_output, n_span),

    STRUCT(mra_result), MEMBER(mra_result, data), MEMBER(mra_result, n_rows), MEMBER(mra_result, n_cols),

    STRUCT(mra_attn_error),
    MEMBER(mra_attn_error, error), MEMBER(mra_attn_error, low), MEMBER(mra_attn_error, high),

    STRUCT(mra_error_summary),
    MEMBER(mra_error_summary, n_heads), MEMBER(mra_error_summary, mean), MEMBER(mra_error_summary, worst_head),
    MEMBER(mra_error_summary, layer), MEMBER(mra_error_summary, head), MEMBER(mra_error_summary, all),

    VALUE(MRA_OK), VALUE(MRA_ERR_ARG), VALUE(MRA_ERR_SHAPE), VALUE(MRA_ERR_IO), VALUE(MRA_ERR_FORMAT),
    VALUE(MRA_ERR_UNSUPPORTED), VALUE(MRA_ERR_TOO_LONG), VALUE(MRA_ERR_MEMORY), VALUE(MRA_ERR_BACKEND),
    VALUE(MRA_ERR_DEVICE), VALUE(MRA_ERR_STOPPED),
    VALUE(MRA_POOLING_DEFAULT), VALUE(MRA_POOLING_MEAN), VALUE(MRA_POOLING_CLS), VALUE(MRA_POOLING_LAST),
    VALUE(MRA_POOLING_MAX), VALUE(MRA_POOLING_MEAN_SQRT),
    VALUE(MRA_PROBLEM_SINGLE), VALUE(MRA_PROBLEM_MULTI), VALUE(MRA_PROBLEM_REGRESSION),
    VALUE(MRA_ATTENTION_AUTO), VALUE(MRA_ATTENTION_EXACT), VALUE(MRA_ATTENTION_MRA),
    VALUE(MRA_ATTENTION_TYPE_AUTO), VALUE(MRA_ATTENTION_TYPE_FLOAT), VALUE(MRA_ATTENTION_TYPE_INT8),
    VALUE(MRA_OUTPUT_TOKENS), VALUE(MRA_OUTPUT_POOLED), VALUE(MRA_OUTPUT_CLASS), VALUE(MRA_OUTPUT_MLM),
    VALUE(MRA_TOKENIZE_ADD_SPECIAL), VALUE(MRA_DEFAULT_BATCH), VALUE(MRA_MAX_LEVELS),
    { NULL, 0, 0 },
};
// clang-format on

const struct mra_layout * mra_python_layout(void) { return layout; }
