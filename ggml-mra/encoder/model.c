// Loading: keys -> sizes and settings, tensors -> weights, each checked against what the keys promise; then the
// memory of the weights.
#include "head-plan.h"
#include "machine.h"
#include "model-load.h"

#include <stdlib.h>
#include <string.h>

static enum mra_status load_vocab(struct mra_model * m, struct mra_error * err) {
    int64_t n = 0;
    m->tokenizer = mra_tokenizer_from_gguf(&m->file, &n, err);
    if (!m->tokenizer) return err ? err->code : MRA_ERR_FORMAT;
    if (n > m->info.n_vocab)
        return mra_fail(err, MRA_ERR_FORMAT, "%lld tokens, but only %d embeddings", (long long) n, m->info.n_vocab);
    size_t n_labels = 0;
    TRY(mra_gguf_strings(&m->file, mra_key(m, "classifier.output_labels").name, &m->labels_id, &n_labels, err));
    if ((int64_t) n_labels != m->info.n_class + m->info.n_tag) m->labels_id = -1; // some converters drop them
    if (m->info.n_tag && m->labels_id < 0)
        return mra_fail(err, MRA_ERR_FORMAT, "%d tags, but %zu labels", m->info.n_tag, n_labels);
    return MRA_OK;
}

// ---- memory ----

// Whether the device can gather rows of t. If not, ggml would copy all of t to the host in every pass.
static enum mra_status gathers(const struct mra_model * m, struct ggml_tensor * t, bool * yes, struct mra_error * err) {
    struct ggml_context * ctx = ggml_init(
        (struct ggml_init_params) { .mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true });
    if (!ctx) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    *yes = ggml_backend_dev_supports_op(m->dev, ggml_get_rows(ctx, t, ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 1)));
    ggml_free(ctx);
    return MRA_OK;
}

// Weights whose rows the device cannot gather stay in the host's memory, so that only the gathered rows cross the bus.
// One that is also the matrix of a product is in both.
static enum mra_status place_rows(struct mra_model * m, struct mra_error * err) {
    struct ggml_tensor ** const of[3] = { &m->token_embd, &m->position_embd, &m->token_types };
    struct ggml_tensor * stay[3];
    ggml_backend_buffer_type_t buft = ggml_backend_cpu_buffer_type();
    const size_t align = ggml_backend_buft_get_alignment(buft);
    size_t n = 0, at[3];
    for (int i = 0; i < 3; i++) {
        bool yes = true;
        if (*of[i]) TRY(gathers(m, *of[i], &yes, err));
        stay[i] = yes ? NULL : *of[i];
        at[i] = n;
        if (stay[i]) n += GGML_PAD(ggml_nbytes(stay[i]), align);
    }
    if (n == 0) return MRA_OK;
    m->host = ggml_init((struct ggml_init_params) { .mem_size = 3 * ggml_tensor_overhead(), .no_alloc = true });
    m->host_buffer = ggml_backend_buft_alloc_buffer(buft, n);
    if (!m->host || !m->host_buffer) return mra_fail(err, MRA_ERR_MEMORY, "no memory for %zu bytes of weights", n);
    ggml_backend_buffer_set_usage(m->host_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (int i = 0; i < 3; i++) {
        if (!stay[i]) continue;
        if (stay[i] == m->mlm_out.w) *of[i] = ggml_dup_tensor(m->host, stay[i]);
        if (ggml_backend_tensor_alloc(
                m->host_buffer, *of[i], (char *) ggml_backend_buffer_get_base(m->host_buffer) + at[i]))
            return mra_fail(err, MRA_ERR_BACKEND, "cannot place '%s'", ggml_get_name(stay[i]));
        if (*of[i] != stay[i])
            ggml_backend_tensor_set(*of[i], mra_gguf_data(&m->file, stay[i]), 0, ggml_nbytes(stay[i]));
    }
    return MRA_OK;
}

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
    if (!in_place) TRY(place_rows(m, err));
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
    TRY(mra_load_arch(m, err));
    TRY(mra_load_keys(m, err));
    TRY(mra_load_weights(m, err));
    TRY(load_vocab(m, err));
    m->plan_model = mra_plan_model(m);
    TRY(mra_plan_of_file(&m->file, m, &m->plan, err));
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
    if (m->host_buffer) ggml_backend_buffer_free(m->host_buffer);
    if (m->host) ggml_free(m->host);
    mra_gguf_close(&m->file);
    mra_plan_free(m->plan);
    free(m->layers);
    free(m);
}

struct mra_model_info mra_model_info(const struct mra_model * m) {
    return m ? m->info : (struct mra_model_info) { 0 };
}
const struct mra_tokenizer * mra_model_tokenizer(const struct mra_model * m) { return m ? m->tokenizer : NULL; }

const char * mra_model_label(const struct mra_model * m, int i) {
    if (!m || m->labels_id < 0 || i < 0 || i >= m->info.n_class + m->info.n_tag) return NULL;
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
