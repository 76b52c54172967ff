// Loading: keys -> sizes and settings, tensors -> weights, each checked against what the keys promise.
#include "machine.h"
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(x) \
    do { \
        const enum mra_status st_ = (x); \
        if (st_ != MRA_OK) return st_; \
    } while (0)

// ---- keys ----

static enum mra_status required_int(
    const struct mra_gguf * f, const char * key, int64_t lo, int64_t hi, int * v, struct mra_error * err) {
    int64_t x = lo - 1;
    TRY(mra_gguf_int(f, key, lo, hi, &x, err));
    if (x < lo) return mra_fail(err, MRA_ERR_FORMAT, "no key '%s'", key);
    *v = (int) x;
    return MRA_OK;
}

static enum mra_status load_act(
    const struct mra_gguf * f, const char * key, enum mra_act * act, struct mra_error * err) {
    static const char * const names[] = {
        [MRA_ACT_GELU] = "gelu",
        [MRA_ACT_GELU_TANH] = "gelu_tanh",
        [MRA_ACT_RELU] = "relu",
        [MRA_ACT_SILU] = "silu",
        [MRA_ACT_TANH] = "tanh",
    };
    const char * name = NULL;
    TRY(mra_gguf_str(f, key, &name, err));
    for (size_t i = MRA_ACT_GELU; name && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            *act = (enum mra_act) i;
            return MRA_OK;
        }
    }
    return name ? mra_fail(err, MRA_ERR_UNSUPPORTED, "%s '%.40s'", key, name) : MRA_OK;
}

static enum mra_status load_sizes(struct mra_model * m, struct mra_error * err) {
    const struct mra_gguf * f = &m->file;
    struct mra_model_info * i = &m->info;
    const char * arch = NULL;
    TRY(mra_gguf_str(f, "general.architecture", &arch, err));
    if (!arch) return mra_fail(err, MRA_ERR_FORMAT, "no key 'general.architecture'");
    if (strcmp(arch, "bert") != 0)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "architecture '%.40s'; supported is bert", arch);
    TRY(required_int(f, "bert.block_count", 1, 1024, &i->n_layer, err));
    TRY(required_int(f, "bert.embedding_length", 8, 1 << 20, &i->n_embd, err));
    TRY(required_int(f, "bert.feed_forward_length", 1, 1 << 24, &i->n_ff, err));
    TRY(required_int(f, "bert.attention.head_count", 1, 4096, &i->n_head, err));
    TRY(required_int(f, "bert.context_length", 1, 1 << 24, &i->n_ctx, err));
    if (i->n_embd % i->n_head)
        return mra_fail(err, MRA_ERR_FORMAT, "embedding length %d is no multiple of %d heads", i->n_embd, i->n_head);
    const int d = i->n_embd / i->n_head;
    if (d % 8 || d > MRA_MAX_DIM)
        return mra_fail(
            err, MRA_ERR_UNSUPPORTED, "heads of %d channels; supported are multiples of 8 up to %d", d, MRA_MAX_DIM);
    int64_t n_kv = i->n_head;
    TRY(mra_gguf_int(f, "bert.attention.head_count_kv", i->n_head, i->n_head, &n_kv, err));
    m->eps = 1e-12f;
    TRY(mra_gguf_f32(f, "bert.attention.layer_norm_epsilon", &m->eps, err));
    if (!(m->eps >= 0 && m->eps < 1)) return mra_fail(err, MRA_ERR_FORMAT, "layer norm epsilon %g", (double) m->eps);
    bool causal = false;
    TRY(mra_gguf_bool(f, "bert.attention.causal", &causal, err));
    if (causal) return mra_fail(err, MRA_ERR_UNSUPPORTED, "causal attention");
    int64_t max_length = i->n_ctx;
    TRY(mra_gguf_int(f, "mra.max_length", 1, i->n_ctx, &max_length, err));
    i->max_length = (int) max_length;
    return MRA_OK;
}

static enum mra_status load_pooling(struct mra_model * m, struct mra_error * err) {
    static const char * const names[] = { "", "mean", "cls", "last", "max", "mean_sqrt_len" }; // enum mra_pooling
    const char * name = NULL;
    int64_t type = 0, cls_type = 2;
    TRY(mra_gguf_int(&m->file, "bert.pooling_type", 0, 4, &type, err));
    m->info.pooling = type >= 1 && type <= 3 ? (enum mra_pooling) type : MRA_POOLING_MEAN;
    TRY(mra_gguf_str(&m->file, "mra.pooling", &name, err));
    for (int i = 1; name && i <= MRA_POOLING_MEAN_SQRT; i++)
        if (strcmp(name, names[i]) == 0) {
            m->info.pooling = (enum mra_pooling) i;
            name = NULL;
        }
    if (name) return mra_fail(err, MRA_ERR_UNSUPPORTED, "mra.pooling '%.40s'", name);
    TRY(mra_gguf_bool(&m->file, "mra.normalize", &m->info.normalize, err));
    TRY(mra_gguf_int(&m->file, "bert.classifier.pooling_type", 0, 4, &cls_type, err));
    if (cls_type == 1 || cls_type == 3)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "a classifier of the mean or the last token");
    return MRA_OK;
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
    m->info.name = m->info.family = "";
    TRY(mra_gguf_str(f, "general.name", &m->info.name, err));
    TRY(mra_gguf_str(f, "mra.family", &m->info.family, err));
    m->act = m->mlm_act = MRA_ACT_GELU;
    m->cls_act = MRA_ACT_TANH;
    TRY(load_act(f, "mra.activation", &m->act, err));
    TRY(load_act(f, "mra.mlm.activation", &m->mlm_act, err));
    TRY(load_act(f, "mra.classifier.activation", &m->cls_act, err));
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

// ---- tensors ----

static bool is_matrix_type(enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32:
        case GGML_TYPE_F16:
        case GGML_TYPE_BF16:
        case GGML_TYPE_Q4_0:
        case GGML_TYPE_Q4_1:
        case GGML_TYPE_Q5_0:
        case GGML_TYPE_Q5_1:
        case GGML_TYPE_Q8_0:
        case GGML_TYPE_Q2_K:
        case GGML_TYPE_Q3_K:
        case GGML_TYPE_Q4_K:
        case GGML_TYPE_Q5_K:
        case GGML_TYPE_Q6_K:
        case GGML_TYPE_IQ4_NL:
        case GGML_TYPE_IQ4_XS:
        case GGML_TYPE_IQ3_S:
        case GGML_TYPE_IQ3_XXS:
        case GGML_TYPE_IQ2_S: return true;
        default: return false;
    }
}

// [ne0, ne1] of any matrix type, or with ne1 = 0 a vector [ne0] of f32; ne1 < 0: any number of rows. *out is NULL where
// it is absent and optional.
static enum mra_status find(struct mra_model * m, struct ggml_tensor ** out, bool optional, int64_t ne0, int64_t ne1,
    const char * name, struct mra_error * err) {
    struct ggml_tensor * t = *out = ggml_get_tensor(m->file.meta, name);
    if (!t) return optional ? MRA_OK : mra_fail(err, MRA_ERR_FORMAT, "no tensor '%s'", name);
    const bool vector = ne1 == 0;
    if (t->ne[0] != ne0 || (ne1 >= 0 && t->ne[1] != (vector ? 1 : ne1)) || t->ne[2] != 1 || t->ne[3] != 1) {
        return mra_fail(err, MRA_ERR_FORMAT, "tensor '%s' has shape [%lld, %lld, %lld, %lld], expected [%lld, %lld]",
            name, (long long) t->ne[0], (long long) t->ne[1], (long long) t->ne[2], (long long) t->ne[3],
            (long long) ne0, (long long) (vector ? 1 : ne1));
    }
    if (vector ? t->type != GGML_TYPE_F32 : !is_matrix_type(t->type)) {
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "tensor '%s' is %s", name, ggml_type_name(t->type));
    }
    return MRA_OK;
}

// layer < 0: not of a layer. n_out < 0: as many as there are. Optional: w may be absent; b always may.
static enum mra_status find_linear(struct mra_model * m, struct mra_dense * l, bool optional, int layer,
    const char * what, int64_t n_in, int64_t n_out, struct mra_error * err) {
    char name[GGML_MAX_NAME];
    const int n = layer >= 0 ? snprintf(name, sizeof(name), "blk.%d.%s", layer, what)
                             : snprintf(name, sizeof(name), "%s", what);
    snprintf(name + n, sizeof(name) - n, ".weight");
    TRY(find(m, &l->w, optional, n_in, n_out, name, err));
    snprintf(name + n, sizeof(name) - n, ".bias");
    return l->w ? find(m, &l->b, true, l->w->ne[1], 0, name, err) : MRA_OK;
}

static enum mra_status find_norm(
    struct mra_model * m, struct mra_norm * l, int layer, const char * what, struct mra_error * err) {
    char name[GGML_MAX_NAME];
    const int n = layer >= 0 ? snprintf(name, sizeof(name), "blk.%d.%s", layer, what)
                             : snprintf(name, sizeof(name), "%s", what);
    snprintf(name + n, sizeof(name) - n, ".weight");
    TRY(find(m, &l->w, false, m->info.n_embd, 0, name, err));
    snprintf(name + n, sizeof(name) - n, ".bias");
    return find(m, &l->b, false, m->info.n_embd, 0, name, err);
}

static enum mra_status load_layer(struct mra_model * m, int i, struct mra_error * err) {
    struct mra_layer * l = &m->layers[i];
    const int64_t n = m->info.n_embd, n_ff = m->info.n_ff;
    TRY(find_linear(m, &l->qkv, true, i, "attn_qkv", n, 3 * n, err));
    if (!l->qkv.w) {
        TRY(find_linear(m, &l->q, false, i, "attn_q", n, n, err));
        TRY(find_linear(m, &l->k, false, i, "attn_k", n, n, err));
        TRY(find_linear(m, &l->v, false, i, "attn_v", n, n, err));
    }
    TRY(find_linear(m, &l->out, false, i, "attn_output", n, n, err));
    TRY(find_norm(m, &l->attn_norm, i, "attn_output_norm", err));
    TRY(find_linear(m, &l->up, false, i, "ffn_up", n, n_ff, err));
    TRY(find_linear(m, &l->down, false, i, "ffn_down", n_ff, n, err));
    return find_norm(m, &l->out_norm, i, "layer_output_norm", err);
}

static enum mra_status load_heads(struct mra_model * m, struct mra_error * err) {
    const int64_t n = m->info.n_embd;
    TRY(find_linear(m, &m->cls, true, -1, "cls", n, -1, err));
    TRY(find_linear(m, &m->cls_out, true, -1, "cls.output", m->cls.w ? m->cls.w->ne[1] : n, -1, err));
    const struct ggml_tensor * last = m->cls_out.w ? m->cls_out.w : m->cls.w;
    if (last && last->ne[1] > 1 << 20) return mra_fail(err, MRA_ERR_FORMAT, "%lld classes", (long long) last->ne[1]);
    m->info.n_class = last ? (int) last->ne[1] : 0;
    // one label is a probability of its own, unless it is said to be a number
    if (m->info.n_class == 1 && m->info.problem == MRA_PROBLEM_SINGLE) m->info.problem = MRA_PROBLEM_MULTI;
    m->info.note = m->cls.w && !m->cls_out.w
        ? "the classifier has no pooler (llama.cpp's converter leaves BERT's out): its scores are not the model's; "
          "convert with convert_hf.py"
        : "";
    TRY(find_linear(m, &m->mlm_dense, true, -1, "mlm.dense", n, n, err));
    if (!m->mlm_dense.w) return MRA_OK;
    TRY(find_norm(m, &m->mlm_norm, -1, "mlm.norm", err));
    TRY(find(m, &m->mlm_out.w, true, n, m->info.n_vocab, "mlm.output.weight", err));
    TRY(find(m, &m->mlm_out.b, false, m->info.n_vocab, 0, "mlm.output.bias", err));
    if (!m->mlm_out.w) m->mlm_out.w = m->token_embd;
    m->info.has_mlm = true;
    return MRA_OK;
}

static enum mra_status load_tensors(struct mra_model * m, struct mra_error * err) {
    struct mra_model_info * i = &m->info;
    TRY(find(m, &m->token_embd, false, i->n_embd, -1, "token_embd.weight", err));
    if (m->token_embd->ne[1] > INT32_MAX)
        return mra_fail(err, MRA_ERR_FORMAT, "%lld tokens", (long long) m->token_embd->ne[1]);
    i->n_vocab = (int) m->token_embd->ne[1];
    TRY(find(m, &m->token_types, true, i->n_embd, -1, "token_types.weight", err));
    i->n_types = m->token_types ? (int) (m->token_types->ne[1] < 32767 ? m->token_types->ne[1] : 32767) : 0;
    TRY(find(m, &m->position_embd, false, i->n_embd, -1, "position_embd.weight", err));
    if (m->position_embd->ne[1] < i->n_ctx) {
        return mra_fail(err, MRA_ERR_FORMAT, "context length %d, but only %lld positions", i->n_ctx,
            (long long) m->position_embd->ne[1]);
    }
    TRY(find_norm(m, &m->embd_norm, -1, "token_embd_norm", err));
    m->layers = calloc((size_t) i->n_layer, sizeof(*m->layers));
    if (!m->layers) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    for (int l = 0; l < i->n_layer; l++) TRY(load_layer(m, l, err));
    i->type = ggml_type_name(m->layers[0].up.w->type);
    return load_heads(m, err);
}

static enum mra_status load_vocab(struct mra_model * m, struct mra_error * err) {
    int64_t n = 0;
    m->tokenizer = mra_tokenizer_from_gguf(&m->file, &n, err);
    if (!m->tokenizer) return err ? err->code : MRA_ERR_FORMAT;
    if (n > m->info.n_vocab)
        return mra_fail(err, MRA_ERR_FORMAT, "%lld tokens, but only %d embeddings", (long long) n, m->info.n_vocab);
    size_t n_labels = 0;
    TRY(mra_gguf_strings(&m->file, "bert.classifier.output_labels", &m->labels_id, &n_labels, err));
    if ((int64_t) n_labels != m->info.n_class) m->labels_id = -1; // some converters drop them
    return MRA_OK;
}

// ---- memory ----

// CPU: tensors point into the file's bytes. Elsewhere, or where the file's alignment is too small: copied.
static enum mra_status place_weights(struct mra_model * m, struct mra_error * err) {
    ggml_backend_buffer_type_t buft = ggml_backend_dev_buffer_type(m->dev);
    const bool in_place = ggml_backend_dev_type(m->dev) == GGML_BACKEND_DEVICE_TYPE_CPU &&
        gguf_get_alignment(m->file.gguf) % 32 == 0;
    const size_t free_bytes = !in_place && ggml_backend_buft_is_host(buft) ? mra_memory_free("") : SIZE_MAX;
    if (m->file.size > free_bytes) {
        return mra_fail(err, MRA_ERR_MEMORY, "%.1f MB of weights to copy, %.1f MB of memory are free",
            (double) m->file.size / 1e6, (double) free_bytes / 1e6);
    }
    m->buffer = in_place ? ggml_backend_cpu_buffer_from_ptr(m->file.data, m->file.size)
                         : ggml_backend_alloc_ctx_tensors_from_buft(m->file.meta, buft);
    if (!m->buffer) return mra_fail(err, MRA_ERR_MEMORY, "no memory for %zu bytes of weights", m->file.size);
    ggml_backend_buffer_set_usage(m->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (struct ggml_tensor * t = ggml_get_first_tensor(m->file.meta); t; t = ggml_get_next_tensor(m->file.meta, t)) {
        const void * data = mra_gguf_data(&m->file, t);
        if (!in_place) ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
        else if (ggml_backend_tensor_alloc(m->buffer, t, (void *) data) != GGML_STATUS_SUCCESS)
            return mra_fail(err, MRA_ERR_BACKEND, "cannot place '%s'", ggml_get_name(t));
        m->info.n_bytes += ggml_nbytes(t);
        m->info.n_params += ggml_nelements(t);
    }
    if (!in_place) mra_gguf_unmap(&m->file);
    return MRA_OK;
}

static enum mra_status load(
    struct mra_model * m, const char * path, const struct mra_model_params * params, struct mra_error * err) {
    m->labels_id = -1;
    m->dev = mra_device_find(params ? params->device : NULL, err);
    if (!m->dev) return MRA_ERR_DEVICE;
    TRY(mra_gguf_open(&m->file, path, params && params->no_mmap, err));
    TRY(load_sizes(m, err));
    TRY(load_settings(m, err));
    TRY(load_prompts(m, err));
    TRY(load_tensors(m, err));
    TRY(load_vocab(m, err));
    m->info.device = ggml_backend_dev_name(m->dev);
    return place_weights(m, err);
}

struct mra_model * mra_model_load(const char * path, const struct mra_model_params * params, struct mra_error * err) {
    const double t0 = mra_now_ms();
    struct mra_error e = { 0 };
    struct mra_model * m = path ? calloc(1, sizeof(*m)) : NULL;
    if (!m) {
        mra_fail(err, path ? MRA_ERR_MEMORY : MRA_ERR_ARG, path ? "out of memory" : "no path");
        return NULL;
    }
    const enum mra_status st = load(m, path, params, &e);
    if (st != MRA_OK) {
        if (st == MRA_ERR_DEVICE) mra_fail(err, st, "%s", e.msg); // not the file's fault
        else mra_fail(err, st, "%.100s: %s", path, e.msg);
        mra_model_free(m);
        return NULL;
    }
    m->info.load_ms = mra_now_ms() - t0;
    return m;
}

void mra_model_free(struct mra_model * m) {
    if (!m) return;
    if (m->tokenizer) mra_tokenizer_free(m->tokenizer);
    if (m->buffer) ggml_backend_buffer_free(m->buffer);
    mra_gguf_close(&m->file);
    free(m->layers);
    free(m);
}

struct mra_model_info mra_model_info(const struct mra_model * m) {
    return m ? m->info : (struct mra_model_info) { 0 };
}
const struct mra_tokenizer * mra_model_tokenizer(const struct mra_model * m) { return m ? m->tokenizer : NULL; }

const char * mra_model_label(const struct mra_model * m, int i) {
    if (!m || m->labels_id < 0 || i < 0 || i >= m->info.n_class) return NULL;
    return gguf_get_arr_str(m->file.gguf, m->labels_id, (size_t) i);
}

const char * mra_model_prompt_name(const struct mra_model * m, int i) {
    return i < 0 || i >= m->n_prompts ? NULL : gguf_get_arr_str(m->file.gguf, m->prompt_names_id, (size_t) i);
}

const char * mra_model_prompt(const struct mra_model * m, const char * name) {
    if (!name) name = m->default_prompt;
    for (int i = 0; name && i < m->n_prompts; i++)
        if (strcmp(mra_model_prompt_name(m, i), name) == 0)
            return gguf_get_arr_str(m->file.gguf, m->prompt_texts_id, (size_t) i);
    return NULL;
}

// drops tokens from the end of the longer text; specials stay
static void truncate_list(struct mra_token_list * list, size_t max) {
    size_t n[2] = { 0 }, drop = list->n > max ? list->n - max : 0, kept = 0, seen[2] = { 0 };
    for (size_t i = 0; i < list->n; i++)
        if (list->data[i].text >= 0) n[list->data[i].text]++;
    for (; drop > 0 && n[0] + n[1] > 0; drop--) n[n[1] > n[0] || n[0] == 0]--;
    for (size_t i = 0; i < list->n; i++) {
        const int t = list->data[i].text;
        if (t < 0 || seen[t]++ < n[t]) list->data[kept++] = list->data[i];
    }
    list->n = kept;
}

enum mra_status mra_model_tokenize(const struct mra_model * m, const char * a, size_t n_a, const char * b, size_t n_b,
    int max_tokens, struct mra_token_list * list, struct mra_error * err) {
    if (!m || !a || !list) return mra_fail(err, MRA_ERR_ARG, "no %s", !m ? "model" : !a ? "text" : "list");
    if (max_tokens < 0 || max_tokens > m->info.n_ctx)
        return mra_fail(err, MRA_ERR_ARG, "max_tokens = %d is not in 0..%d", max_tokens, m->info.n_ctx);
    TRY(mra_tokenize(m->tokenizer, a, n_a, b, n_b, MRA_TOKENIZE_ADD_SPECIAL, list, err));
    truncate_list(list, (size_t) (max_tokens ? max_tokens : m->info.max_length));
    if (list->n > (size_t) (max_tokens ? max_tokens : m->info.max_length))
        return mra_fail(err, MRA_ERR_TOO_LONG, "max_tokens = %d leaves no room for special tokens", max_tokens);
    for (size_t i = 0; i < list->n; i++)
        if (list->data[i].segment >= m->info.n_types) list->data[i].segment = 0;
    return MRA_OK;
}
