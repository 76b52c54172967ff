// x = norm(token + position + type); per layer x = norm(x + out(attention(x))), x = norm(x + ffn(x)), or with the norms
// before attention and feed-forward x = x + out(attention(norm(x))), x = x + ffn(norm(x)); then the head. ffn(x) =
// down(act(up(x))), or down(act(gate(x))*up(x)). Tokens of all sequences lie end to end: no padding, and no tensor that
// grows with the square of a length.
#include "graph.h"

#include <math.h>

enum { HEAD_MULTIPLE = 8 }; // channels of a head in attention's operators

struct builder {
    struct ggml_context * ctx;
    const struct mra_model * m;
    const struct mra_graph_shape * s;
    struct mra_graph * g;
    struct mra_error * err;
    int layer;
    struct ggml_tensor * turns[2]; // tables of RoPE: of layers without a window, of those with one; NULL: not used yet
};

// q, k or v of all tokens: n_head heads of d channels side by side in each row of x, from channel `at` on
struct heads {
    struct ggml_tensor * x;
    int64_t at, n_head, d;
};

enum mra_part mra_graph_part(const struct mra_graph * g, const struct ggml_tensor * t) {
    for (int i = 0; i < g->n_ends; i++)
        if (g->ends[i].node == t) return g->ends[i].part;
    return MRA_PART_COUNT;
}

bool mra_graph_give_qkv(const struct mra_graph * g, const struct mra_model * m, const struct mra_graph_shape * s,
    const int * seqs, const struct ggml_tensor * t, const struct mra_context_params * params) {
    int l = 0;
    while (l < m->info.n_layer && g->qkv[l].last != t) l++;
    if (l == m->info.n_layer || !params) return l < m->info.n_layer;
    const struct mra_graph_qkv * of = &g->qkv[l];
    struct mra_attention_input x = { .layer = l,
        .d = m->info.n_embd / m->info.n_head,
        .n_head = m->info.n_head,
        .n_head_kv = m->n_head_kv,
        .near = !mra_layer_is_global(&m->layers[l]) || m->arch.position == MRA_POSITION_ALIBI,
        .attn = s->attn };
    if (!(x.attn.scale > 0)) x.attn.scale = 1 / sqrtf((float) x.d);
    for (int i = 0; i < s->n_seq; i++) {
        const float ** const to[3] = { &x.q, &x.k, &x.v };
        x.seq = seqs[i];
        x.n = s->starts[i + 1] - s->starts[i];
        for (int c = 0; c < 3; c++) {
            x.row_bytes[c] = of->x[c]->nb[1];
            *to[c] = (const float *) ((const char *) of->x[c]->data + s->starts[i] * x.row_bytes[c]) + of->at[c];
        }
        params->on_attention(params->on_attention_user, &x);
    }
    return true;
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
    if (!x || !l.w) return x;
    const float eps = b->m->arch.eps;
    if (b->s->dense)
        return b->m->arch.rms ? ggml_mra_rms_norm(b->ctx, x, l.w, eps, b->err)
                              : ggml_mra_norm(b->ctx, x, l.w, l.b, eps, b->err);
    x = ggml_mul(b->ctx, b->m->arch.rms ? ggml_rms_norm(b->ctx, x, eps) : ggml_norm(b->ctx, x, eps), l.w);
    return l.b ? ggml_add(b->ctx, x, l.b) : x;
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
    if (b->m->position_embd) x = ggml_add(b->ctx, x, ggml_get_rows(b->ctx, b->m->position_embd, b->g->positions));
    if (b->g->types) x = ggml_add(b->ctx, x, ggml_get_rows(b->ctx, b->m->token_types, b->g->types));
    return end_part(b, norm(b, b->m->embd_norm, x), MRA_PART_EMBED);
}

static int head_size(const struct builder * b) { return b->m->info.n_embd / b->m->info.n_head; }

// tokens [first, first + n) as [d, n_head, n]
static struct ggml_tensor * split_heads(struct builder * b, struct heads h, int64_t first, int64_t n) {
    return ggml_view_3d(b->ctx, h.x, h.d, h.n_head, n, h.d * (int64_t) sizeof(float), h.x->nb[1],
        first * h.x->nb[1] + h.at * sizeof(float));
}

// the same as [d, n, n_head]
static struct ggml_tensor * heads_of(struct builder * b, struct heads h, int64_t first, int64_t n) {
    return ggml_permute(b->ctx, split_heads(b, h, first, n), 0, 2, 1, 3);
}

// q, k and v of all tokens, in one tensor or in three
static bool project(struct builder * b, const struct mra_layer * l, struct ggml_tensor * x, struct heads h[3]) {
    const struct mra_dense each[3] = { l->q, l->k, l->v };
    const int64_t n_q = b->m->info.n_embd, n_kv = (int64_t) head_size(b) * b->m->n_head_kv;
    struct ggml_tensor * y = NULL;
    if (!x) return false;
    if (l->qkv.w) y = linear(b, l->qkv, x, MRA_ACT_NONE, NULL);
    else if (b->s->dense && x->ne[0] % 32 == 0)
        y = ggml_mra_linear(b->ctx, x, each, 3, false, NULL, b->s->attn.n_threads, b->err);
    else {
        for (int i = 0; i < 3; i++)
            ggml_build_forward_expand(b->g->gf, h[i].x = linear(b, each[i], x, MRA_ACT_NONE, NULL));
    }
    for (int i = 0; i < 3; i++) {
        const bool fused = l->qkv.w || (b->s->dense && x->ne[0] % 32 == 0);
        if (fused) h[i].x = y;
        h[i].at = !fused || i == 0 ? 0 : n_q + (i - 1) * n_kv;
        h[i].n_head = i ? b->m->n_head_kv : b->m->info.n_head;
        h[i].d = head_size(b);
    }
    return h[2].x != NULL;
}

// norms of q and k, each over all of its heads
static bool norm_heads(struct builder * b, const struct mra_layer * l, struct heads h[3]) {
    const struct mra_norm norms[2] = { l->q_norm, l->k_norm };
    for (int i = 0; i < 2; i++) {
        if (!norms[i].w) continue;
        const int64_t n = h[i].n_head * head_size(b);
        struct ggml_tensor * x = ggml_view_2d(
            b->ctx, h[i].x, n, b->s->n_tokens, h[i].x->nb[1], h[i].at * sizeof(float));
        h[i].x = norm(b, norms[i], b->s->dense ? x : ggml_cont(b->ctx, x));
        h[i].at = 0;
        if (!h[i].x) return false;
    }
    return true;
}

// the table of a layer's RoPE
static struct ggml_tensor * turns_of(struct builder * b, const struct mra_layer * l) {
    const struct mra_arch * a = &b->m->arch;
    struct ggml_tensor ** t = &b->turns[!mra_layer_is_global(l)];
    if (!*t)
        *t = ggml_mra_rope_table(b->ctx, b->g->positions, a->n_rot,
            mra_layer_is_global(l) ? a->rope_base : a->rope_base_local, a->rope_scale, b->err);
    return *t;
}

// RoPE of q and k: in place where they are side by side in memory of the CPU
static bool turn_heads(struct builder * b, const struct mra_layer * l, struct heads h[3]) {
    const struct mra_arch * a = &b->m->arch;
    const int d = head_size(b);
    if (a->position != MRA_POSITION_ROPE) return true;
    const float base = mra_layer_is_global(l) ? a->rope_base : a->rope_base_local;
    if (b->s->dense && h[0].x == h[1].x) {
        struct ggml_tensor * y = ggml_mra_rope(
            b->ctx, h[0].x, turns_of(b, l), d, (int) (h[0].n_head + h[1].n_head), a->interleaved, b->err);
        h[0].x = h[1].x = h[2].x = y;
        return y != NULL;
    }
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor * x = split_heads(b, h[i], 0, b->s->n_tokens);
        x = ggml_rope_ext(b->ctx, x, b->g->positions, NULL, a->n_rot,
            a->interleaved ? GGML_ROPE_TYPE_NORMAL : GGML_ROPE_TYPE_NEOX, 0, base, a->rope_scale, 0, 1, 0, 0);
        h[i].x = ggml_reshape_2d(b->ctx, x, d * h[i].n_head, b->s->n_tokens);
        h[i].at = 0;
        ggml_build_forward_expand(b->g->gf, h[i].x);
    }
    return true;
}

// Attention takes heads of a multiple of 8 channels. Others get zeros behind their own, which change no score;
// cut_heads takes them off the result.
static void pad_heads(struct builder * b, struct heads h[3]) {
    const int64_t n = b->s->n_tokens;
    for (int i = 0; i < 3; i++) {
        const int more = (int) (-h[i].d & (HEAD_MULTIPLE - 1));
        if (more == 0) continue;
        struct ggml_tensor * x = ggml_pad(b->ctx, split_heads(b, h[i], 0, n), more, 0, 0, 0);
        h[i].d += more;
        h[i].x = ggml_reshape_2d(b->ctx, x, h[i].d * h[i].n_head, n);
        h[i].at = 0;
    }
}

// [d*n_head, n_tokens], d of padded heads -> [n_embd, n_tokens]
static struct ggml_tensor * cut_heads(struct builder * b, struct ggml_tensor * o, int64_t d) {
    const int64_t n_head = b->m->info.n_head, n = b->s->n_tokens;
    if (!o || d == head_size(b)) return o;
    o = ggml_view_3d(b->ctx, o, head_size(b), n_head, n, d * (int64_t) sizeof(float), o->nb[1], 0);
    return ggml_reshape_2d(b->ctx, ggml_cont(b->ctx, o), b->m->info.n_embd, n);
}

int mra_graph_n_errors(const struct mra_graph_shape * s) {
    return s->n_error_rows == 0 ? 0 : s->attn.frame == MRA_FRAME_SQUARE ? s->n_seq : 1;
}

// The error of o, the attention of q, k, v = t[0..2]: of all sequences, or (square cells) of sequence i. It is computed
// before anything takes the place of the queries. false: it could not be built.
static bool measure(struct builder * b, struct ggml_tensor * t[3], struct ggml_tensor * o, int i) {
    const struct mra_graph_shape * s = b->s;
    if (s->n_error_rows == 0 || !o) return o != NULL;
    struct ggml_tensor * e = s->attn.frame == MRA_FRAME_SQUARE
        ? ggml_mra_attn_error(
              b->ctx, t[0], t[1], t[2], o, NULL, s->n_error_rows, s->attn.scale, s->attn.n_threads, b->err)
        : ggml_mra_attn_error_packed(b->ctx, t[0], t[1], t[2], o, b->g->starts, s->max_len, s->n_error_rows,
              s->attn.scale, s->attn.n_threads, b->err);
    if (!e) return false;
    ggml_set_output(e);
    ggml_build_forward_expand(b->g->gf, e);
    b->g->errors[b->layer * mra_graph_n_errors(s) + i] = e;
    return true;
}

// Frames of square cells, sequence by sequence. The result of each takes the place of its queries, so nothing is
// joined.
static struct ggml_tensor * attend_each(struct builder * b, struct heads h[3]) {
    const int64_t width = h[0].d * h[0].n_head;
    const bool shared[2] = { h[1].x == h[0].x, h[2].x == h[0].x };
    for (int i = 0; i < b->s->n_seq; i++) {
        const int64_t first = b->s->starts[i], n = b->s->starts[i + 1] - first;
        struct ggml_tensor * t[3];
        for (int c = 0; c < 3; c++) t[c] = heads_of(b, h[c], first, n);
        struct ggml_tensor * o = ggml_mra_attn(b->ctx, t[0], t[1], t[2], NULL, &b->s->attn, b->err);
        if (!measure(b, t, o, i)) return NULL;
        o = ggml_reshape_2d(b->ctx, o, width, n);
        if (b->s->n_seq == 1) return o;
        struct ggml_tensor * to = ggml_set_2d_inplace(b->ctx, h[0].x, o, h[0].x->nb[1], first * h[0].x->nb[1]);
        ggml_build_forward_expand(b->g->gf, to);
        h[0].x = to;
        for (int c = 0; c < 2; c++)
            if (shared[c]) h[c + 1].x = to;
    }
    struct ggml_tensor * to = h[0].x;
    return to->ne[0] == width ? to : ggml_view_2d(b->ctx, to, width, b->s->n_tokens, to->nb[1], 0);
}

// -> [d*n_head, n_tokens]
static struct ggml_tensor * attend(struct builder * b, const struct mra_layer * l, struct heads h[3]) {
    const struct mra_graph_shape * s = b->s;
    const bool near = !mra_layer_is_global(l) || b->m->arch.position == MRA_POSITION_ALIBI;
    if (!near && s->attn.frame == MRA_FRAME_SQUARE) return attend_each(b, h);
    struct ggml_tensor *t[3], *o;
    for (int i = 0; i < 3; i++) t[i] = heads_of(b, h[i], 0, s->n_tokens);
    if (near) {
        const struct mra_window_params p = { .window = l->window,
            .max_bias = b->m->arch.max_bias,
            .scale = s->attn.scale,
            .n_threads = s->attn.n_threads,
            .type = s->attn.type };
        o = ggml_mra_window_attn(b->ctx, t[0], t[1], t[2], b->g->starts, s->max_len, &p, b->err);
    } else {
        struct mra_attn_params attn = s->attn;
        const int64_t n_head = b->m->info.n_head;
        if (s->planned)
            attn.shares = ggml_view_1d(b->ctx, b->g->shares, n_head, b->layer * n_head * (int64_t) sizeof(float));
        o = ggml_mra_attn_packed(b->ctx, t[0], t[1], t[2], b->g->starts, s->max_len, &attn, b->err);
        if (!measure(b, t, o, 0)) return NULL;
    }
    return o ? ggml_reshape_2d(b->ctx, o, h[0].d * h[0].n_head, s->n_tokens) : NULL;
}

// -> [n_embd, n_tokens]
static struct ggml_tensor * attention(struct builder * b, const struct mra_layer * l, struct ggml_tensor * x) {
    struct heads h[3];
    if (b->m->arch.pre_norm) x = norm(b, l->attn_norm, x);
    if (!project(b, l, x, h) || !norm_heads(b, l, h) || !turn_heads(b, l, h)) return NULL;
    struct mra_graph_qkv * qkv = &b->g->qkv[b->layer];
    for (int i = 0; i < 3; i++) {
        ggml_build_forward_expand(b->g->gf, h[i].x);
        qkv->x[i] = h[i].x;
        qkv->at[i] = h[i].at;
    }
    qkv->last = ggml_graph_node(b->g->gf, -1);
    end_part(b, h[2].x, MRA_PART_QKV);
    pad_heads(b, h);
    return end_part(b, cut_heads(b, attend(b, l, h), h[0].d), MRA_PART_ATTENTION);
}

// act(up(x)), or act(gate(x))*up(x)
static struct ggml_tensor * inner(struct builder * b, const struct mra_layer * l, struct ggml_tensor * x) {
    static const enum mra_glu ours[] = { [MRA_ACT_GELU] = MRA_GLU_GELU,
        [MRA_ACT_GELU_TANH] = MRA_GLU_GELU_TANH,
        [MRA_ACT_RELU] = MRA_GLU_RELU,
        [MRA_ACT_SILU] = MRA_GLU_SILU };
    static const enum ggml_glu_op of_ggml[] = { [MRA_ACT_GELU] = GGML_GLU_OP_GEGLU_ERF,
        [MRA_ACT_GELU_TANH] = GGML_GLU_OP_GEGLU,
        [MRA_ACT_RELU] = GGML_GLU_OP_REGLU,
        [MRA_ACT_SILU] = GGML_GLU_OP_SWIGLU };
    const enum mra_act act = b->m->arch.act;
    if (!b->m->arch.gated) return linear(b, l->up, x, act, NULL);
    if (!x) return NULL;
    const struct mra_dense w[2] = { l->gate.w ? l->gate : l->up, l->up };
    if (b->s->dense && x->ne[0] % 32 == 0) {
        x = ggml_mra_linear(b->ctx, x, w, l->gate.w ? 2 : 1, false, NULL, b->s->attn.n_threads, b->err);
        return x ? ggml_mra_glu(b->ctx, x, ours[act], b->err) : NULL;
    }
    struct ggml_tensor * y = linear(b, w[0], x, MRA_ACT_NONE, NULL);
    return l->gate.w ? ggml_glu_split(b->ctx, y, linear(b, l->up, x, MRA_ACT_NONE, NULL), of_ggml[act])
                     : ggml_glu(b->ctx, y, of_ggml[act], false);
}

// what follows the attention o, row by row: [n_embd, n] -> [n_embd, n]
static struct ggml_tensor * feed_forward(
    struct builder * b, const struct mra_layer * l, struct ggml_tensor * x, struct ggml_tensor * o) {
    struct ggml_tensor * y = linear(b, l->out, o, MRA_ACT_NONE, x);
    if (b->m->arch.pre_norm) return linear(b, l->down, inner(b, l, norm(b, l->ffn_norm, y)), MRA_ACT_NONE, y);
    y = norm(b, l->attn_norm, y);
    if (y && l->attn_norm_2.w) y = norm(b, l->attn_norm_2, ggml_add(b->ctx, y, x));
    return norm(b, l->ffn_norm, linear(b, l->down, inner(b, l, y), MRA_ACT_NONE, y));
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
            if (m->cls.w) x = norm(b, m->cls_norm, linear(b, m->cls, x, m->arch.cls_act, NULL));
            return m->cls_out.w ? linear(b, m->cls_out, x, MRA_ACT_NONE, NULL) : x;
        case MRA_HEAD_MLM:
            if (m->mlm_dense.w) x = norm(b, m->mlm_norm, linear(b, m->mlm_dense, x, m->mlm_act, NULL));
            return linear(b, m->mlm_out, x, MRA_ACT_NONE, NULL);
        case MRA_HEAD_SPARSE: return linear(b, m->sparse, x, MRA_ACT_RELU, NULL);
        case MRA_HEAD_COLBERT: return linear(b, m->colbert, x, MRA_ACT_NONE, NULL);
        case MRA_HEAD_DENSE:
            for (int i = 0; i < m->n_dense; i++) x = linear(b, m->dense[i], x, m->dense_act[i], NULL);
            return x;
    }
    return NULL;
}

// Upper bounds of what the functions above add to a graph, tensors of the model included; views count as nodes.
enum {
    MAX_PER_GRAPH =
        72, // inputs, embeddings, tables, the rows that are wanted, the last norm, the head with its weights
    MAX_LAYER_WEIGHTS = 24, // seven dense layers and five norms
    MAX_PER_LAYER = 52, // a norm, q, k, v as three products with biases, norms and turns, heads padded, cut and viewed
    MAX_PER_FFN_STEP = 36, // two views, four dense layers of up to four nodes, a gate, three norms of three, the set_2d
    MAX_PER_ATTENTION = 16, // views, reshape and set_2d around a call of ggml_mra_attn, the node of its error ...
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

size_t mra_graph_max_ends(const struct mra_model * m) { return (size_t) m->info.n_layer * ENDS_PER_LAYER + 3; }

// the layers, from the tokens to the hidden states that are wanted
static struct ggml_tensor * layers(struct builder * b) {
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
    if (s->planned) {
        g->shares = ggml_new_tensor_2d(b->ctx, GGML_TYPE_F32, m->info.n_head, m->info.n_layer);
        ggml_set_input(g->shares);
    }

    struct ggml_tensor * x = embeddings(b);
    for (int i = 0; x && i < m->info.n_layer; i++) {
        b->layer = i;
        struct ggml_tensor * o = attention(b, &m->layers[i], x);
        if (!o) return NULL;
        if (g->rows && i + 1 == m->info.n_layer) { // behind the last attention a row needs no other
            o = ggml_get_rows(b->ctx, o, g->rows);
            x = ggml_get_rows(b->ctx, x, g->rows);
        }
        x = end_part(b, feed_forward_all(b, &m->layers[i], x, o), MRA_PART_FFN);
    }
    return m->out_norm.w ? end_part(b, norm(b, m->out_norm, x), MRA_PART_FFN) : x;
}

enum mra_status mra_graph_build(struct mra_graph * g, struct ggml_context * ctx, const struct mra_model * m,
    const struct mra_graph_shape * s, struct mra_error * err) {
    struct mra_error e = { 0 };
    struct mra_graph_shape own = *s;
    struct builder b = { .ctx = ctx, .m = m, .s = &own, .g = g, .err = &e };
    if (!(own.attn.scale > 0)) own.attn.scale = 1 / sqrtf((float) head_size(&b)); // of heads before they are padded
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
    if (x && s->head != MRA_HEAD_NONE) x = end_part(&b, head(&b, x), MRA_PART_HEAD);
    if (!x) return mra_fail(err, e.code, "%s", e.msg);
    ggml_set_output(x);
    g->out = x;
    return MRA_OK;
}
