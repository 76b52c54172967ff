// Tensors -> weights of layers and heads, each checked for its shape.
#include "model-load.h"

#include <string.h>

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
    t->extra = m; // it has its place
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

// over n channels; optional: w may be absent
static enum mra_status find_norm(
    struct mra_model * m, struct mra_norm * l, bool optional, int layer, const char * what, struct mra_error * err) {
    char name[GGML_MAX_NAME];
    const int n = layer >= 0 ? snprintf(name, sizeof(name), "blk.%d.%s", layer, what)
                             : snprintf(name, sizeof(name), "%s", what);
    snprintf(name + n, sizeof(name) - n, ".weight");
    TRY(find(m, &l->w, optional, m->info.n_embd, 0, name, err));
    snprintf(name + n, sizeof(name) - n, ".bias");
    return l->w && !m->arch.rms ? find(m, &l->b, !m->arch.norm_bias, m->info.n_embd, 0, name, err) : MRA_OK;
}

static enum mra_status load_attention(struct mra_model * m, int i, struct mra_error * err) {
    struct mra_layer * l = &m->layers[i];
    const int64_t n = m->info.n_embd, n_kv = n / m->info.n_head * m->n_head_kv;
    TRY(find_linear(m, &l->qkv, true, i, "attn_qkv", n, n + 2 * n_kv, err));
    if (!l->qkv.w) {
        TRY(find_linear(m, &l->q, false, i, "attn_q", n, n, err));
        TRY(find_linear(m, &l->k, false, i, "attn_k", n, n_kv, err));
        TRY(find_linear(m, &l->v, false, i, "attn_v", n, n_kv, err));
    }
    if (m->n_head_kv == m->info.n_head && !m->arch.rms) { // jina v2 for code
        TRY(find_norm(m, &l->q_norm, true, i, "attn_q_norm", err));
        TRY(find_norm(m, &l->k_norm, true, i, "attn_k_norm", err));
        TRY(find_norm(m, &l->attn_norm_2, true, i, "attn_norm_2", err));
    }
    return find_linear(m, &l->out, false, i, "attn_output", n, n, err);
}

static enum mra_status load_layer(struct mra_model * m, int i, struct mra_error * err) {
    struct mra_layer * l = &m->layers[i];
    const int64_t n = m->info.n_embd, n_ff = m->info.n_ff;
    const bool pre = m->arch.pre_norm;
    TRY(load_attention(m, i, err));
    TRY(find_norm(m, &l->attn_norm, pre && i == 0 && !m->arch.rms, i, pre ? "attn_norm" : "attn_output_norm", err));
    if (m->arch.gated) TRY(find_linear(m, &l->gate, true, i, "ffn_gate", n, n_ff, err));
    if (m->arch.gated && l->q_norm.w && !l->gate.w)
        return mra_fail(err, MRA_ERR_UNSUPPORTED,
            "jina v2 for code with the gate inside of ffn_up, where llama.cpp's converter has it second and reads it "
            "first; convert with convert_hf.py");
    TRY(find_linear(m, &l->up, false, i, "ffn_up", n, m->arch.gated && !l->gate.w ? 2 * n_ff : n_ff, err));
    TRY(find_linear(m, &l->down, false, i, "ffn_down", n_ff, n, err));
    return find_norm(m, &l->ffn_norm, false, i, pre ? "ffn_norm" : "layer_output_norm", err);
}

// A tensor of a layer that has no place in the graph would be left out without a word.
static enum mra_status check_all_used(const struct mra_model * m, struct mra_error * err) {
    enum mra_status st = MRA_OK;
    for (struct ggml_tensor * t = ggml_get_first_tensor(m->file.meta); t; t = ggml_get_next_tensor(m->file.meta, t)) {
        if (st == MRA_OK && !t->extra && strncmp(ggml_get_name(t), "blk.", 4) == 0)
            st = mra_fail(err, MRA_ERR_UNSUPPORTED, "tensor '%s' is not part of %d layers of architecture '%s'",
                ggml_get_name(t), m->info.n_layer, m->arch.name);
        t->extra = NULL;
    }
    return st;
}

// of sequences ("cls") or of tokens ("tag"): out(norm(act(dense(x)))), each of which may be absent; *n: its labels
static enum mra_status load_classifier(struct mra_model * m, const char * name, int * n, struct mra_error * err) {
    char out[32], norm[32];
    snprintf(out, sizeof(out), "%s.output", name);
    snprintf(norm, sizeof(norm), "%s.norm", name);
    TRY(find_linear(m, &m->cls, true, -1, name, m->info.n_embd, -1, err));
    TRY(find_linear(m, &m->cls_out, true, -1, out, m->cls.w ? m->cls.w->ne[1] : m->info.n_embd, -1, err));
    TRY(find_norm(m, &m->cls_norm, true, -1, norm, err));
    if (m->cls_norm.w && !m->cls_out.w) { // a word predictor's, whose output llama.cpp's converter leaves out
        m->cls = (struct mra_dense) { 0 };
        m->cls_norm = (struct mra_norm) { 0 };
    }
    const struct ggml_tensor * last = m->cls_out.w ? m->cls_out.w : m->cls.w;
    if (last && last->ne[1] > 1 << 20) return mra_fail(err, MRA_ERR_FORMAT, "%lld classes", (long long) last->ne[1]);
    *n = last ? (int) last->ne[1] : 0;
    return MRA_OK;
}

// out(norm(act(dense(x)))): without dense it has an output of its own
static enum mra_status load_mlm(struct mra_model * m, struct mra_error * err) {
    const int64_t n = m->info.n_embd;
    TRY(find_linear(m, &m->mlm_dense, true, -1, "mlm.dense", n, n, err));
    TRY(find(m, &m->mlm_out.w, true, n, m->info.n_vocab, "mlm.output.weight", err));
    if (!m->mlm_dense.w && !m->mlm_out.w) return MRA_OK;
    if (m->mlm_dense.w) TRY(find_norm(m, &m->mlm_norm, false, -1, "mlm.norm", err));
    TRY(find(m, &m->mlm_out.b, !m->arch.norm_bias, m->info.n_vocab, 0, "mlm.output.bias", err));
    if (!m->mlm_out.w) m->mlm_out.w = m->token_embd;
    m->info.has_mlm = true;
    return MRA_OK;
}

// dense layers behind the pooling: dense.0, dense.1, ...
static enum mra_status load_dense(struct mra_model * m, struct mra_error * err) {
    m->info.n_pooled = m->info.n_embd;
    for (int i = 0; i <= MRA_MAX_DENSE; i++) {
        char name[32], key[48];
        struct mra_dense l = { 0 };
        snprintf(name, sizeof(name), "dense.%d", i);
        snprintf(key, sizeof(key), "mra.dense.%d.activation", i);
        TRY(find_linear(m, &l, true, -1, name, m->info.n_pooled, -1, err));
        if (!l.w) return MRA_OK;
        if (i == MRA_MAX_DENSE) return mra_fail(err, MRA_ERR_UNSUPPORTED, "more than %d dense layers", MRA_MAX_DENSE);
        TRY(mra_load_act(&m->file, key, &m->dense_act[i], err));
        m->dense[m->n_dense++] = l;
        m->info.n_pooled = (int) l.w->ne[1];
    }
    return MRA_OK;
}

static enum mra_status load_heads(struct mra_model * m, struct mra_error * err) {
    const int64_t n = m->info.n_embd;
    if (gguf_find_tensor(m->file.gguf, "tag.output.weight") >= 0) {
        if (gguf_find_tensor(m->file.gguf, "cls.output.weight") >= 0)
            return mra_fail(err, MRA_ERR_UNSUPPORTED, "a classifier of tokens and one of sequences");
        TRY(load_classifier(m, "tag", &m->info.n_tag, err));
    } else TRY(load_classifier(m, "cls", &m->info.n_class, err));
    // one label is a probability of its own, unless it is said to be a number
    if (m->info.n_class == 1 && m->info.problem == MRA_PROBLEM_SINGLE) m->info.problem = MRA_PROBLEM_MULTI;
    m->info.note = m->cls.w && !m->cls_out.w
        ? "the classifier has no pooler (llama.cpp's converter leaves BERT's out): its scores are not the model's; "
          "convert with convert_hf.py"
        : "";
    TRY(find_linear(m, &m->sparse, true, -1, "sparse", n, 1, err));
    TRY(find_linear(m, &m->colbert, true, -1, "colbert", n, -1, err));
    m->info.has_sparse = m->sparse.w != NULL;
    m->info.n_colbert = m->colbert.w ? (int) m->colbert.w->ne[1] : 0;
    TRY(load_dense(m, err));
    return load_mlm(m, err);
}

static enum mra_status load_embeddings(struct mra_model * m, struct mra_error * err) {
    struct mra_model_info * i = &m->info;
    TRY(find(m, &m->token_embd, false, i->n_embd, -1, "token_embd.weight", err));
    if (m->token_embd->ne[1] > INT32_MAX)
        return mra_fail(err, MRA_ERR_FORMAT, "%lld tokens", (long long) m->token_embd->ne[1]);
    i->n_vocab = (int) m->token_embd->ne[1];
    TRY(find(m, &m->token_types, true, i->n_embd, -1, "token_types.weight", err));
    i->n_types = m->token_types ? (int) (m->token_types->ne[1] < 32767 ? m->token_types->ne[1] : 32767) : 0;
    if (m->arch.position == MRA_POSITION_LEARNT) {
        TRY(find(m, &m->position_embd, false, i->n_embd, -1, "position_embd.weight", err));
        if (m->position_embd->ne[1] < i->n_ctx)
            return mra_fail(err, MRA_ERR_FORMAT, "context length %d, but only %lld positions", i->n_ctx,
                (long long) m->position_embd->ne[1]);
    }
    return m->arch.no_embd_norm ? MRA_OK : find_norm(m, &m->embd_norm, false, -1, "token_embd_norm", err);
}

enum mra_status mra_load_weights(struct mra_model * m, struct mra_error * err) {
    TRY(load_embeddings(m, err));
    for (int l = 0; l < m->info.n_layer; l++) TRY(load_layer(m, l, err));
    if (m->arch.out_norm) TRY(find_norm(m, &m->out_norm, false, -1, m->arch.out_norm, err));
    m->info.type = ggml_type_name(m->layers[0].up.w->type);
    TRY(load_heads(m, err));
    return check_all_used(m, err);
}
