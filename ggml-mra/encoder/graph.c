// x = norm(token + position + type); per layer x = norm(x + out(attention(x))), x = norm(x + ffn(x)), or with the norms
// before attention and feed-forward x = x + out(attention(norm(x))), x = x + ffn(norm(x)); then the head. ffn(x) =
// down(act(up(x))), or down(act(gate(x))*up(x)). Tokens of all sequences lie end to end: no padding, and no tensor that
// grows with the square of a length.
#include "graph-impl.h"

#include <math.h>

enum mra_part mra_graph_part(const struct mra_graph * g, const struct ggml_tensor * t) {
    for (int i = 0; i < g->n_ends; i++)
        if (g->ends[i].node == t) return g->ends[i].part;
    return MRA_PART_COUNT;
}

struct ggml_tensor * mra_graph_end_part(struct mra_graph_builder * b, struct ggml_tensor * x, enum mra_part part) {
    if (!x) return NULL;
    b->g->ends[b->g->n_ends++] = (struct mra_part_end) { x, part };
    ggml_build_forward_expand(b->g->gf, x);
    return x;
}

static struct ggml_tensor * input(struct mra_graph_builder * b, int n) {
    struct ggml_tensor * t = ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, n);
    ggml_set_input(t);
    return t;
}

struct ggml_tensor * mra_graph_norm(struct mra_graph_builder * b, struct mra_norm l, struct ggml_tensor * x) {
    if (!x || !l.w) return x;
    const float eps = b->m->arch.eps;
    if (b->s->dense)
        return b->m->arch.rms ? ggml_mra_rms_norm(b->ctx, x, l.w, eps, b->err)
                              : ggml_mra_norm(b->ctx, x, l.w, l.b, eps, b->err);
    x = ggml_mul(b->ctx, b->m->arch.rms ? ggml_rms_norm(b->ctx, x, eps) : ggml_norm(b->ctx, x, eps), l.w);
    return l.b ? ggml_add(b->ctx, x, l.b) : x;
}

static struct ggml_tensor * activate(struct mra_graph_builder * b, enum mra_act act, struct ggml_tensor * x) {
    switch (act) {
        case MRA_ACT_NONE: return x;
        case MRA_ACT_GELU: return ggml_gelu_erf(b->ctx, x);
        case MRA_ACT_GELU_TANH: return ggml_gelu(b->ctx, x);
        case MRA_ACT_RELU: return ggml_relu(b->ctx, x);
        case MRA_ACT_SILU: return ggml_silu(b->ctx, x);
        case MRA_ACT_TANH: return ggml_tanh(b->ctx, x);
    }
    return x;
}

struct ggml_tensor * mra_graph_linear(struct mra_graph_builder * b, struct mra_dense l, struct ggml_tensor * x,
    enum mra_act act, struct ggml_tensor * residual) {
    if (!x) return NULL;
    if (b->s->dense && l.w->ne[0] % 32 == 0) {
        const bool fused = act == MRA_ACT_NONE || act == MRA_ACT_GELU;
        x = ggml_mra_linear(
            b->ctx, x, &l, 1, act == MRA_ACT_GELU, fused ? residual : NULL, b->s->attn.n_threads, b->err);
        if (!x || fused) return x;
    } else {
        x = ggml_mul_mat(b->ctx, l.w, x);
        if (l.b) x = ggml_add(b->ctx, x, l.b);
    }
    x = activate(b, act, x);
    return residual ? ggml_add(b->ctx, x, residual) : x;
}

static struct ggml_tensor * embeddings(struct mra_graph_builder * b) {
    struct ggml_tensor * x = ggml_get_rows(b->ctx, b->m->token_embd, b->g->ids);
    if (b->m->position_embd) x = ggml_add(b->ctx, x, ggml_get_rows(b->ctx, b->m->position_embd, b->g->positions));
    if (b->g->types) x = ggml_add(b->ctx, x, ggml_get_rows(b->ctx, b->m->token_types, b->g->types));
    return mra_graph_end_part(b, mra_graph_norm(b, b->m->embd_norm, x), MRA_PART_EMBED);
}

static const enum mra_glu glu_of[] = { [MRA_ACT_GELU] = MRA_GLU_GELU,
    [MRA_ACT_GELU_TANH] = MRA_GLU_GELU_TANH,
    [MRA_ACT_RELU] = MRA_GLU_RELU,
    [MRA_ACT_SILU] = MRA_GLU_SILU };

// up, or gate and up; one tensor may hold both. Their number.
static int up_weights(const struct mra_layer * l, struct mra_dense w[2]) {
    w[0] = l->gate.w ? l->gate : l->up;
    w[1] = l->up;
    return l->gate.w ? 2 : 1;
}

// our operators take gate and up as one node
static bool one_node(const struct mra_graph_builder * b, const struct mra_layer * l) {
    const struct ggml_tensor *gate = l->gate.w, *up = l->up.w;
    return b->s->dense && up->ne[0] % 32 == 0 &&
        (!gate || gate->type == up->type || (ggml_is_quantized(gate->type) && ggml_is_quantized(up->type)));
}

// act(up(x)), or act(gate(x))*up(x)
static struct ggml_tensor * inner(struct mra_graph_builder * b, const struct mra_layer * l, struct ggml_tensor * x) {
    static const enum ggml_glu_op of_ggml[] = { [MRA_ACT_GELU] = GGML_GLU_OP_GEGLU_ERF,
        [MRA_ACT_GELU_TANH] = GGML_GLU_OP_GEGLU,
        [MRA_ACT_RELU] = GGML_GLU_OP_REGLU,
        [MRA_ACT_SILU] = GGML_GLU_OP_SWIGLU };
    const enum mra_act act = b->m->arch.act;
    if (!b->m->arch.gated) return mra_graph_linear(b, l->up, x, act, NULL);
    struct mra_dense w[2];
    const int n_w = up_weights(l, w);
    if (one_node(b, l)) return ggml_mra_linear_glu(b->ctx, x, w, n_w, glu_of[act], b->s->attn.n_threads, b->err);
    struct ggml_tensor * y = mra_graph_linear(b, w[0], x, MRA_ACT_NONE, NULL);
    if (n_w == 1) return y ? ggml_glu(b->ctx, y, of_ggml[act], false) : NULL;
    x = mra_graph_linear(b, l->up, x, MRA_ACT_NONE, NULL);
    return x && y ? ggml_glu_split(b->ctx, y, x, of_ggml[act]) : NULL;
}

// down(inner(x)) + residual
static struct ggml_tensor * ffn(
    struct mra_graph_builder * b, const struct mra_layer * l, struct ggml_tensor * x, struct ggml_tensor * residual) {
    const struct mra_arch * a = &b->m->arch;
    if (!x) return NULL;
    if (!one_node(b, l) || l->down.w->ne[0] % 32 || !(a->gated || a->act == MRA_ACT_GELU))
        return mra_graph_linear(b, l->down, inner(b, l, x), MRA_ACT_NONE, residual);
    struct mra_ffn f = { .gated = a->gated, .act = glu_of[a->act], .down = l->down };
    f.n_up = up_weights(l, f.up);
    return ggml_mra_ffn(b->ctx, x, &f, residual, b->s->attn.n_threads, b->err);
}

// what follows the attention o, row by row: [n_embd, n] -> [n_embd, n]
static struct ggml_tensor * feed_forward(
    struct mra_graph_builder * b, const struct mra_layer * l, struct ggml_tensor * x, struct ggml_tensor * o) {
    struct ggml_tensor * y = mra_graph_linear(b, l->out, o, MRA_ACT_NONE, x);
    if (b->m->arch.pre_norm) return ffn(b, l, mra_graph_norm(b, l->ffn_norm, y), y);
    y = mra_graph_norm(b, l->attn_norm, y);
    if (y && l->attn_norm_2.w) y = mra_graph_norm(b, l->attn_norm_2, ggml_add(b->ctx, y, x));
    return mra_graph_norm(b, l->ffn_norm, ffn(b, l, y, y));
}

static struct ggml_tensor * rows_of(struct mra_graph_builder * b, struct ggml_tensor * x, int64_t first, int64_t n) {
    return ggml_view_2d(b->ctx, x, x->ne[0], n, x->nb[1], first * x->nb[1]);
}

// n_ffn_rows tokens at a time, each result in the place of its input: n_ff values of that many tokens are in memory,
// not of all.
static struct ggml_tensor * feed_forward_all(
    struct mra_graph_builder * b, const struct mra_layer * l, struct ggml_tensor * x, struct ggml_tensor * o) {
    const int64_t n = x->ne[1], step = b->s->n_ffn_rows;
    if (n <= step) return feed_forward(b, l, x, o);
    for (int64_t i = 0; i < n; i += step) {
        const int64_t m = i + step < n ? step : n - i;
        struct ggml_tensor * y = feed_forward(b, l, rows_of(b, x, i, m), rows_of(b, o, i, m));
        if (!y) return NULL;
        x = ggml_set_2d_inplace(b->ctx, x, y, x->nb[1], i * x->nb[1]);
        ggml_build_forward_expand(b->g->gf, x);
    }
    return x;
}

static struct ggml_tensor * head(struct mra_graph_builder * b, struct ggml_tensor * x) {
    const struct mra_model * m = b->m;
    switch (b->s->head) {
        case MRA_HEAD_NONE: return x;
        case MRA_HEAD_CLASS:
            if (m->cls.w) x = mra_graph_norm(b, m->cls_norm, mra_graph_linear(b, m->cls, x, m->arch.cls_act, NULL));
            return m->cls_out.w ? mra_graph_linear(b, m->cls_out, x, MRA_ACT_NONE, NULL) : x;
        case MRA_HEAD_MLM:
            if (m->mlm_dense.w)
                x = mra_graph_norm(b, m->mlm_norm, mra_graph_linear(b, m->mlm_dense, x, m->mlm_act, NULL));
            return mra_graph_linear(b, m->mlm_out, x, MRA_ACT_NONE, NULL);
        case MRA_HEAD_SPARSE: return mra_graph_linear(b, m->sparse, x, MRA_ACT_RELU, NULL);
        case MRA_HEAD_COLBERT: return mra_graph_linear(b, m->colbert, x, MRA_ACT_NONE, NULL);
        case MRA_HEAD_DENSE:
            for (int i = 0; i < m->n_dense; i++) x = mra_graph_linear(b, m->dense[i], x, m->dense_act[i], NULL);
            return x;
    }
    return NULL;
}

// Upper bounds of what the functions above add to a graph, tensors of the model included; views count as nodes.
enum {
    MAX_PER_GRAPH =
        74, // inputs, embeddings, tables, the rows that are wanted, the last norm, the head with its weights, pooling
    MAX_LAYER_WEIGHTS = 24, // seven dense layers and five norms
    MAX_PER_LAYER = 52, // a norm, q, k, v as three products with biases, norms and turns, heads padded, cut and viewed
    MAX_PER_FFN_STEP = 36, // two views, four dense layers of up to four nodes, a gate, three norms of three, the set_2d
    MAX_PER_ATTENTION =
        20,             // views, reshape and set_2d or rows around a call of ggml_mra_attn, the node of its error ...
    MAX_PER_LEVEL = 12, // ... and per level of its frame: pools, scores, lists and states
    ENDS_PER_LAYER = 3, // QKV, attention, feed-forward
};

size_t mra_graph_size(const struct mra_model * m, const struct mra_graph_shape * s) {
    const size_t n_ffn_steps = (size_t) (s->n_tokens + s->n_ffn_rows - 1) / s->n_ffn_rows,
                 n_calls = s->attn.frame == MRA_FRAME_SQUARE && !s->together ? (size_t) s->n_seq : 1,
                 per_call = MAX_PER_ATTENTION + MAX_PER_LEVEL * MRA_MAX_LEVELS;
    return MAX_PER_GRAPH +
        (size_t) m->info.n_layer *
        (MAX_LAYER_WEIGHTS + MAX_PER_LAYER + n_ffn_steps * MAX_PER_FFN_STEP + n_calls * per_call);
}

size_t mra_graph_max_ends(const struct mra_model * m) { return (size_t) m->info.n_layer * ENDS_PER_LAYER + 4; }

// the layers, from the tokens to the hidden states that are wanted
static struct ggml_tensor * layers(struct mra_graph_builder * b) {
    const struct mra_model * m = b->m;
    const struct mra_graph_shape * s = b->s;
    struct mra_graph * g = b->g;
    bool starts = s->attn.frame != MRA_FRAME_SQUARE || m->arch.position == MRA_POSITION_ALIBI;
    for (int i = 0; i < m->info.n_layer; i++) starts |= !mra_layer_is_global(&m->layers[i]);
    g->ids = input(b, s->n_tokens);
    if (m->arch.position != MRA_POSITION_ALIBI) g->positions = input(b, s->n_tokens);
    if (m->token_types) g->types = input(b, s->n_tokens);
    if (starts) g->starts = input(b, s->n_seq + 1);
    if (s->n_rows > 0) g->rows = input(b, s->n_rows);
    if (s->together) g->lengths = input(b, s->n_seq);
    if (s->together && s->max_len * s->n_seq > s->n_tokens) {
        g->padded = input(b, s->max_len * s->n_seq);
        g->unpadded = input(b, s->n_tokens);
    }
    if (s->planned) {
        g->shares = ggml_new_tensor_2d(b->ctx, GGML_TYPE_F32, m->info.n_head, m->info.n_layer);
        ggml_set_input(g->shares);
    }

    struct ggml_tensor * x = embeddings(b);
    for (int i = 0; x && i < m->info.n_layer; i++) {
        b->layer = i;
        struct ggml_tensor * o = mra_graph_attention(b, &m->layers[i], x);
        if (!o) return NULL;
        if (g->rows && i + 1 == m->info.n_layer) { // behind the last attention a row needs no other
            o = ggml_get_rows(b->ctx, o, g->rows);
            x = ggml_get_rows(b->ctx, x, g->rows);
        }
        x = mra_graph_end_part(b, feed_forward_all(b, &m->layers[i], x, o), MRA_PART_FFN);
    }
    return m->out_norm.w ? mra_graph_end_part(b, mra_graph_norm(b, m->out_norm, x), MRA_PART_FFN) : x;
}

enum mra_status mra_graph_build(struct mra_graph * g, struct ggml_context * ctx, const struct mra_model * m,
    const struct mra_graph_shape * s, struct mra_error * err) {
    struct mra_error e = { 0 };
    struct mra_graph_shape own = *s;
    struct mra_graph_builder b = { .ctx = ctx, .m = m, .s = &own, .g = g, .err = &e };
    if (!(own.attn.scale > 0))
        own.attn.scale = 1 / sqrtf((float) mra_graph_head_size(&b)); // of heads before they are padded
    *g = (struct mra_graph) { .gf = ggml_new_graph_custom(ctx, mra_graph_size(m, s), false),
        .ends = g->ends,
        .errors = g->errors,
        .qkv = g->qkv };
    for (int i = 0; i < m->info.n_layer * mra_graph_n_errors(s); i++) g->errors[i] = NULL;
    struct ggml_tensor * x;
    if (s->given) {
        x = g->given = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, m->info.n_embd, s->n_rows);
        ggml_set_input(x);
    } else x = layers(&b);
    if (x && s->head != MRA_HEAD_NONE) x = mra_graph_end_part(&b, head(&b, x), MRA_PART_HEAD);
    if (x && s->n_spans > 0) {
        g->spans = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, s->n_spans);
        ggml_set_input(g->spans);
        x = mra_graph_end_part(&b, ggml_mra_span_pool(ctx, x, g->spans, s->pool, &e), MRA_PART_HEAD);
    }
    if (!x) return mra_fail(err, e.code, "%s", e.msg);
    ggml_set_output(x);
    g->out = x;
    return MRA_OK;
}
