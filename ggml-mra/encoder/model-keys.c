// Keys -> sizes and settings.
#include "model-load.h"

#include <stdlib.h>
#include <string.h>

static enum mra_status required_int(
    const struct mra_model * m, const char * name, int64_t lo, int64_t hi, int * v, struct mra_error * err) {
    const struct mra_key key = mra_key(m, name);
    int64_t x = lo - 1;
    TRY(mra_gguf_int(&m->file, key.name, lo, hi, &x, err));
    if (x < lo) return mra_fail(err, MRA_ERR_FORMAT, "no key '%s'", key.name);
    *v = (int) x;
    return MRA_OK;
}

enum mra_status mra_load_act(const struct mra_gguf * f, const char * key, enum mra_act * act, struct mra_error * err) {
    static const struct {
        const char * name;
        enum mra_act act;
    } acts[] = { { "gelu", MRA_ACT_GELU }, { "gelu_tanh", MRA_ACT_GELU_TANH }, { "relu", MRA_ACT_RELU },
        { "silu", MRA_ACT_SILU }, { "tanh", MRA_ACT_TANH }, // Hugging Face's names, in files of other converters:
        { "gelu_new", MRA_ACT_GELU_TANH }, { "gelu_pytorch_tanh", MRA_ACT_GELU_TANH }, { "swish", MRA_ACT_SILU } };
    const char * name = NULL;
    TRY(mra_gguf_str(f, key, &name, err));
    for (size_t i = 0; name && i < sizeof(acts) / sizeof(acts[0]); i++) {
        if (strcmp(name, acts[i].name) == 0) {
            *act = acts[i].act;
            return MRA_OK;
        }
    }
    return name ? mra_fail(err, MRA_ERR_UNSUPPORTED, "%s '%.40s'", key, name) : MRA_OK;
}

// heads of q, and of k and v
static enum mra_status load_heads(struct mra_model * m, struct mra_error * err) {
    struct mra_model_info * i = &m->info;
    TRY(required_int(m, "attention.head_count", 1, 4096, &i->n_head, err));
    if (i->n_embd % i->n_head)
        return mra_fail(err, MRA_ERR_FORMAT, "embedding length %d is no multiple of %d heads", i->n_embd, i->n_head);
    const int d = i->n_embd / i->n_head;
    if (d > MRA_MAX_DIM)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "heads of %d channels; supported are up to %d", d, MRA_MAX_DIM);
    int64_t n_kv = i->n_head, n_rot = d;
    TRY(mra_gguf_int(&m->file, mra_key(m, "attention.head_count_kv").name, 1, i->n_head, &n_kv, err));
    if (i->n_head % n_kv)
        return mra_fail(err, MRA_ERR_FORMAT, "%d heads are no multiple of %d heads of keys", i->n_head, (int) n_kv);
    m->n_head_kv = (int) n_kv;
    static const char * const lengths[] = { "attention.key_length", "attention.value_length" };
    for (int t = 0; t < 2; t++) {
        int64_t n = d;
        TRY(mra_gguf_int(&m->file, mra_key(m, lengths[t]).name, 1, 1 << 20, &n, err));
        if (n != d)
            return mra_fail(err, MRA_ERR_UNSUPPORTED, "heads of %lld channels in an embedding of %d x %d",
                (long long) n, i->n_head, d);
    }
    TRY(mra_gguf_int(&m->file, mra_key(m, "rope.dimension_count").name, 2, d, &n_rot, err));
    if (n_rot % 2 && m->arch.position == MRA_POSITION_ROPE)
        return mra_fail(err, MRA_ERR_FORMAT, "%d channels turn: not an even number", (int) n_rot);
    m->arch.n_rot = (int) n_rot;
    return MRA_OK;
}

// Which layers have a window: all but every pattern-th from the first on, or those that an array names.
static enum mra_status load_windows(struct mra_model * m, struct mra_error * err) {
    const struct mra_key key = mra_key(m, "attention.sliding_window_pattern");
    const struct mra_gguf * f = &m->file;
    const void * list = NULL;
    size_t n = 0;
    int64_t window = 0, pattern = m->arch.pattern;
    TRY(mra_gguf_int(f, mra_key(m, "attention.sliding_window").name, 0, 1 << 24, &window, err));
    if (window > 0 && m->arch.pattern == 0)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "a sliding window in architecture '%s'", m->arch.name);
    const int64_t id = gguf_find_key(f->gguf, key.name);
    if (id >= 0 && gguf_get_kv_type(f->gguf, id) == GGUF_TYPE_ARRAY) {
        TRY(mra_gguf_array(f, key.name, GGUF_TYPE_BOOL, &list, &n, err));
        if (n != (size_t) m->info.n_layer)
            return mra_fail(err, MRA_ERR_FORMAT, "%s has %zu entries, not %d", key.name, n, m->info.n_layer);
    } else TRY(mra_gguf_int(f, key.name, 1, 1 << 16, &pattern, err));
    for (int i = 0; i < m->info.n_layer; i++) {
        const bool local = list ? ((const int8_t *) list)[i] != 0 : pattern > 0 && i % pattern != 0;
        m->layers[i].window = window > 0 && local ? (int) window / 2 : -1;
    }
    return MRA_OK;
}

static enum mra_status load_sizes(struct mra_model * m, struct mra_error * err) {
    struct mra_model_info * i = &m->info;
    TRY(required_int(m, "block_count", 1, 1024, &i->n_layer, err));
    TRY(required_int(m, "embedding_length", 8, 1 << 20, &i->n_embd, err));
    TRY(required_int(m, "feed_forward_length", 1, 1 << 24, &i->n_ff, err));
    TRY(required_int(m, "context_length", 1, 1 << 24, &i->n_ctx, err));
    TRY(load_heads(m, err));
    bool causal = false;
    TRY(mra_gguf_bool(&m->file, mra_key(m, "attention.causal").name, &causal, err));
    if (causal) return mra_fail(err, MRA_ERR_UNSUPPORTED, "causal attention");
    int64_t max_length = i->n_ctx;
    TRY(mra_gguf_int(&m->file, "mra.max_length", 1, i->n_ctx, &max_length, err));
    i->max_length = (int) max_length;
    m->layers = calloc((size_t) i->n_layer, sizeof(*m->layers));
    return m->layers ? load_windows(m, err) : mra_fail(err, MRA_ERR_MEMORY, "out of memory");
}

static enum mra_status load_pooling(struct mra_model * m, struct mra_error * err) {
    static const char * const names[] = { "", "mean", "cls", "last", "max", "mean_sqrt_len" }; // enum mra_pooling
    const char * name = NULL;
    int64_t type = 0, cls_type = 2;
    TRY(mra_gguf_int(&m->file, mra_key(m, "pooling_type").name, 0, 4, &type, err));
    m->info.pooling = type >= 1 && type <= 3 ? (enum mra_pooling) type : MRA_POOLING_MEAN;
    TRY(mra_gguf_str(&m->file, "mra.pooling", &name, err));
    for (int i = 1; name && i <= MRA_POOLING_MEAN_SQRT; i++)
        if (strcmp(name, names[i]) == 0) {
            m->info.pooling = (enum mra_pooling) i;
            name = NULL;
        }
    if (name) return mra_fail(err, MRA_ERR_UNSUPPORTED, "mra.pooling '%.40s'", name);
    TRY(mra_gguf_bool(&m->file, "mra.normalize", &m->info.normalize, err));
    TRY(mra_gguf_int(&m->file, mra_key(m, "classifier.pooling_type").name, 0, 4, &cls_type, err));
    m->cls_pooling = (enum mra_pooling) cls_type;
    TRY(mra_gguf_bool(&m->file, "mra.classifier.late", &m->cls_late, err));
    return cls_type == MRA_POOLING_MEAN || cls_type == MRA_POOLING_CLS
        ? MRA_OK
        : mra_fail(err, MRA_ERR_UNSUPPORTED,
              "classifier.pooling_type %d: a classifier sees the first token or the mean", (int) cls_type);
}

static enum mra_status load_attention(struct mra_model * m, struct mra_error * err) {
    const struct mra_gguf * f = &m->file;
    int64_t per_row = 0, first = 0, diag = 0, max_pos = m->info.n_ctx;
    const char * mode = "full";
    float scale = 0;
    TRY(mra_gguf_int(f, "mra.attention.block_per_row", 1, 1 << 16, &per_row, err));
    if (per_row == 0) return MRA_OK;
    TRY(mra_gguf_int(f, "mra.attention.initial_prior_first_n_blocks", 0, 65535, &first, err));
    TRY(mra_gguf_int(f, "mra.attention.initial_prior_diagonal_n_blocks", 0, 65535, &diag, err));
    TRY(mra_gguf_int(f, "mra.attention.max_position_embeddings", 1, 1 << 19, &max_pos, err));
    TRY(mra_gguf_f32(f, "mra.attention.scale", &scale, err));
    TRY(mra_gguf_str(f, "mra.attention.approx_mode", &mode, err));
    if (strcmp(mode, "full") && strcmp(mode, "sparse"))
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "mra.attention.approx_mode '%.40s'", mode);
    if (!(scale >= 0)) return mra_fail(err, MRA_ERR_FORMAT, "mra.attention.scale %g", (double) scale);
    if (max_pos > (1 << 24) || max_pos / 32 * per_row > INT32_MAX)
        return mra_fail(err, MRA_ERR_FORMAT, "mra.attention.block_per_row %lld", (long long) per_row);
    m->info.attn = mra_attn_params_checkpoint(
        (int) max_pos, (int) per_row, (int) first, (int) diag, strcmp(mode, "sparse") == 0);
    m->info.attn.scale = scale;
    m->info.has_mra = true;
    return MRA_OK;
}

static enum mra_status load_settings(struct mra_model * m, struct mra_error * err) {
    const struct mra_gguf * f = &m->file;
    const char * problem = NULL;
    m->info.name = "";
    m->info.family = strcmp(m->arch.name, "bert") ? m->arch.name : "";
    TRY(mra_gguf_str(f, "general.name", &m->info.name, err));
    TRY(mra_gguf_str(f, "mra.family", &m->info.family, err));
    m->mlm_act = MRA_ACT_GELU;
    TRY(mra_load_act(f, "mra.mlm.activation", &m->mlm_act, err));
    TRY(load_pooling(m, err));
    TRY(load_attention(m, err));
    TRY(mra_gguf_str(f, "mra.classifier.problem_type", &problem, err));
    if (problem)
        m->info.problem = problem[0] == 'm' ? MRA_PROBLEM_MULTI
            : problem[0] == 'r'             ? MRA_PROBLEM_REGRESSION
                                            : MRA_PROBLEM_SINGLE;
    return MRA_OK;
}

static enum mra_status load_prompts(struct mra_model * m, struct mra_error * err) {
    size_t n_names, n_texts;
    TRY(mra_gguf_strings(&m->file, "mra.prompts.names", &m->prompt_names_id, &n_names, err));
    TRY(mra_gguf_strings(&m->file, "mra.prompts.texts", &m->prompt_texts_id, &n_texts, err));
    TRY(mra_gguf_str(&m->file, "mra.prompts.default", &m->default_prompt, err));
    if (n_names != n_texts || n_names > INT32_MAX)
        return mra_fail(err, MRA_ERR_FORMAT, "%zu names of %zu prompts", n_names, n_texts);
    m->n_prompts = (int) n_names;
    if (m->default_prompt && !mra_model_prompt(m, m->default_prompt))
        return mra_fail(err, MRA_ERR_FORMAT, "mra.prompts.default '%.40s' is no prompt", m->default_prompt);
    return MRA_OK;
}

enum mra_status mra_load_keys(struct mra_model * m, struct mra_error * err) {
    TRY(load_sizes(m, err));
    TRY(load_settings(m, err));
    return load_prompts(m, err);
}
