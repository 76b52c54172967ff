// x = norm(token + position + type); per layer: x = norm(x + out(attention(x))), x = norm(x + down(act(up(x)))); then
// the head. Tokens of all sequences lie end to end: no padding, and no tensor that grows with the square of a length.
#include "graph.h"

struct builder {
    struct ggml_context * ctx;
    const struct mra_model * m;
    const struct mra_graph_shape * s;
    struct mra_graph * g;
    struct mra_error * err;
};

enum mra_part mra_graph_part(const struct mra_graph * g, const struct ggml_tensor * t) {
    for (int i = 0; i < g->n_ends; i++)
        if (g->ends[i].node == t) return g->ends[i].part;
    return MRA_PART_COUNT;
}

// From here on NULL is what an operator gave that could not be built; it passes through, the reason is in b->err.

// the nodes of x come before all that follow; it is the last one of its part
static struct ggml_tensor * end_part(struct builder * b, struct ggml_tensor * x, enum mra_part part) {
    if (!x) return NULL;
    b->g->ends[b->g->n_ends++] = (struct mra_part_end) { x, part };
    ggml_build_forward_expand(b->g->gf, x);
    return x;
}

static struct ggml_tensor * input(struct builder * b, int n) {
    struct ggml_tensor * t = ggml_new_tensor_1d(b->ctx, GGML_TYPE_I32, n);
    ggml_set_input(t);
    return t;
}

static struct ggml_tensor * norm(struct builder * b, struct mra_norm l, struct ggml_tensor * x) {
    if (!x) return NULL;
    if (b->s->dense) return ggml_mra_norm(b->ctx, x, l.w, l.b, b->m->eps, b->err);
    return ggml_add(b->ctx, ggml_mul(b->ctx, ggml_norm(b->ctx, x, b->m->eps), l.w), l.b);
}

static struct ggml_tensor * activate(struct builder * b, enum mra_act act, struct ggml_tensor * x) {
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

// act(W x + b) + residual (or NULL)
static struct ggml_tensor * linear(
    struct builder * b, struct mra_dense l, struct ggml_tensor * x, enum mra_act act, struct ggml_tensor * residual) {
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

static struct ggml_tensor * embeddings(struct builder * b) {
    struct ggml_tensor * x = ggml_get_rows(b->ctx, b->m->token_embd, b->g->ids);
    x = ggml_add(b->ctx, x, ggml_get_rows(b->ctx, b->m->position_embd, b->g->positions));
    if (b->g->types) x = ggml_add(b->ctx, x, ggml_get_rows(b->ctx, b->m->token_types, b->g->types));
    return end_part(b, norm(b, b->m->embd_norm, x), MRA_PART_EMBED);
}

// tokens [first, first + n) of x [n_embd or 3 n_embd, n_tokens] as heads [d, n, n_head]; part: 0, or q, k, v of a fused
// tensor
static struct ggml_tensor * heads(struct builder * b, struct ggml_tensor * x, int part, int64_t first, int64_t n) {
    const int64_t n_head = b->m->info.n_head, d = b->m->info.n_embd / n_head;
    struct ggml_tensor * v = ggml_view_3d(
        b->ctx, x, d, n_head, n, d * sizeof(float), x->nb[1], first * x->nb[1] + part * n_head * d * sizeof(float));
    return ggml_permute(b->ctx, v, 0, 2, 1, 3);
}

// Frames of square cells, sequence by sequence. The result of each takes the place of its queries, so nothing is
// joined.
static struct ggml_tensor * attend_each(struct builder * b, struct ggml_tensor * qkv[3], const int part[3]) {
    const int64_t n_embd = b->m->info.n_embd;
    struct ggml_tensor * to = qkv[0];
    for (int i = 0; i < b->s->n_seq; i++) {
        const int64_t first = b->s->starts[i], n = b->s->starts[i + 1] - first;
        struct ggml_tensor * q = heads(b, to, part[0], first, n);
        struct ggml_tensor * k = heads(b, qkv[1] == qkv[0] ? to : qkv[1], part[1], first, n);
        struct ggml_tensor * v = heads(b, qkv[2] == qkv[0] ? to : qkv[2], part[2], first, n);
        struct ggml_tensor * o = ggml_mra_attn(b->ctx, q, k, v, NULL, &b->s->attn, b->err);
        if (!o) return NULL;
        o = ggml_reshape_2d(b->ctx, o, n_embd, n);
        if (b->s->n_seq == 1) return o;
        to = ggml_set_2d_inplace(b->ctx, to, o, to->nb[1], first * to->nb[1]);
        ggml_build_forward_expand(b->g->gf, to);
    }
    return to->ne[0] == n_embd ? to : ggml_view_2d(b->ctx, to, n_embd, b->s->n_tokens, to->nb[1], 0);
}

// q, k and v of all tokens: parts of one tensor, or three
static bool project(
    struct builder * b, const struct mra_layer * l, struct ggml_tensor * x, struct ggml_tensor * qkv[3], int part[3]) {
    const struct mra_dense each[3] = { l->q, l->k, l->v };
    if (l->qkv.w) {
        qkv[0] = qkv[1] = qkv[2] = linear(b, l->qkv, x, MRA_ACT_NONE, NULL);
    } else if (b->s->dense && x->ne[0] % 32 == 0) {
        qkv[0] = qkv[1] = qkv[2] = ggml_mra_linear(b->ctx, x, each, 3, false, NULL, b->s->attn.n_threads, b->err);
    } else {
        for (int i = 0; i < 3; i++)
            ggml_build_forward_expand(b->g->gf, qkv[i] = linear(b, each[i], x, MRA_ACT_NONE, NULL));
    }
    for (int i = 0; i < 3; i++) part[i] = qkv[1] == qkv[0] ? i : 0;
    return qkv[2] != NULL;
}

// -> [n_embd, n_tokens]
static struct ggml_tensor * attention(struct builder * b, const struct mra_layer * l, struct ggml_tensor * x) {
    struct ggml_tensor * qkv[3];
    int part[3];
    if (!project(b, l, x, qkv, part)) return NULL;
    end_part(b, qkv[2], MRA_PART_QKV);
    struct ggml_tensor * o;
    if (b->s->attn.frame == MRA_FRAME_SQUARE) {
        o = attend_each(b, qkv, part);
    } else {
        struct ggml_tensor * h[3];
        for (int i = 0; i < 3; i++) h[i] = heads(b, qkv[i], part[i], 0, b->s->n_tokens);
        o = ggml_mra_attn_packed(b->ctx, h[0], h[1], h[2], b->g->starts, b->s->max_len, &b->s->attn, b->err);
        if (o) o = ggml_reshape_2d(b->ctx, o, b->m->info.n_embd, b->s->n_tokens);
    }
    return o ? end_part(b, o, MRA_PART_ATTENTION) : NULL;
}

// what follows the attention o, row by row: [n_embd, n] -> [n_embd, n]
static struct ggml_tensor * feed_forward(
    struct builder * b, const struct mra_layer * l, struct ggml_tensor * x, struct ggml_tensor * o) {
    x = norm(b, l->attn_norm, linear(b, l->out, o, MRA_ACT_NONE, x));
    return norm(b, l->out_norm, linear(b, l->down, linear(b, l->up, x, b->m->act, NULL), MRA_ACT_NONE, x));
}

static struct ggml_tensor * rows_of(struct builder * b, struct ggml_tensor * x, int64_t first, int64_t n) {
    return ggml_view_2d(b->ctx, x, x->ne[0], n, x->nb[1], first * x->nb[1]);
}

// n_ffn_rows tokens at a time, each result in the place of its input: n_ff values of that many tokens are in memory,
// not of all.
static struct ggml_tensor * feed_forward_all(
    struct builder * b, const struct mra_layer * l, struct ggml_tensor * x, struct ggml_tensor * o) {
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

static struct ggml_tensor * head(struct builder * b, struct ggml_tensor * x) {
    const struct mra_model * m = b->m;
    switch (b->s->head) {
        case MRA_HEAD_NONE: return x;
        case MRA_HEAD_CLASS:
            if (m->cls.w) x = linear(b, m->cls, x, m->cls_act, NULL);
            return m->cls_out.w ? linear(b, m->cls_out, x, MRA_ACT_NONE, NULL) : x;
        case MRA_HEAD_MLM:
            x = norm(b, m->mlm_norm, linear(b, m->mlm_dense, x, m->mlm_act, NULL));
            return linear(b, m->mlm_out, x, MRA_ACT_NONE, NULL);
    }
    return NULL;
}

// Upper bounds of what the functions above add to a graph, tensors of the model included; views count as nodes.
enum {
    MAX_PER_GRAPH = 64,     // inputs, embeddings, the rows that are wanted, and the head with its weights
    MAX_LAYER_WEIGHTS = 18, // six dense layers and two norms have 16 tensors
    MAX_PER_LAYER = 16,     // q, k, v as three products with their biases, and the views of their heads
    MAX_PER_FFN_STEP = 24,  // two views, three dense layers of up to four nodes, two norms of three, and the set_2d
    MAX_PER_ATTENTION = 12, // views, reshape and set_2d around a call of ggml_mra_attn ...
    MAX_PER_LEVEL = 12,     // ... and per level of its frame: pools, scores, lists and states
    ENDS_PER_LAYER = 3,     // QKV, attention, feed-forward
};

size_t mra_graph_size(const struct mra_model * m, const struct mra_graph_shape * s) {
    const size_t n_ffn_steps = (size_t) (s->n_tokens + s->n_ffn_rows - 1) / s->n_ffn_rows,
                 n_calls = s->attn.frame == MRA_FRAME_SQUARE ? (size_t) s->n_seq : 1,
                 per_call = MAX_PER_ATTENTION + MAX_PER_LEVEL * MRA_MAX_LEVELS;
    return MAX_PER_GRAPH +
        (size_t) m->info.n_layer *
        (MAX_LAYER_WEIGHTS + MAX_PER_LAYER + n_ffn_steps * MAX_PER_FFN_STEP + n_calls * per_call);
}

size_t mra_graph_max_ends(const struct mra_model * m) { return (size_t) m->info.n_layer * ENDS_PER_LAYER + 2; }

enum mra_status mra_graph_build(struct mra_graph * g, struct ggml_context * ctx, const struct mra_model * m,
    const struct mra_graph_shape * s, struct mra_error * err) {
    struct mra_error e = { 0 };
    struct builder b = { ctx, m, s, g, &e };
    *g = (struct mra_graph) { .gf = ggml_new_graph_custom(ctx, mra_graph_size(m, s), false), .ends = g->ends };
    g->ids = input(&b, s->n_tokens);
    g->positions = input(&b, s->n_tokens);
    if (m->token_types) g->types = input(&b, s->n_tokens);
    if (s->attn.frame != MRA_FRAME_SQUARE) g->starts = input(&b, s->n_seq + 1);
    if (s->n_rows > 0) g->rows = input(&b, s->n_rows);

    struct ggml_tensor * x = embeddings(&b);
    for (int i = 0; x && i < m->info.n_layer; i++) {
        struct ggml_tensor * o = attention(&b, &m->layers[i], x);
        if (!o) return mra_fail(err, e.code, "%s", e.msg);
        if (g->rows && i + 1 == m->info.n_layer) { // behind the last attention a row needs no other
            o = ggml_get_rows(ctx, o, g->rows);
            x = ggml_get_rows(ctx, x, g->rows);
        }
        x = end_part(&b, feed_forward_all(&b, &m->layers[i], x, o), MRA_PART_FFN);
    }
    if (x && s->head != MRA_HEAD_NONE) x = end_part(&b, head(&b, x), MRA_PART_HEAD);
    if (!x) return mra_fail(err, e.code, "%s", e.msg);
    ggml_set_output(x);
    g->out = x;
    return MRA_OK;
}
