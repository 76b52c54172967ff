// The attention of a layer: q, k, v = projections of x, normalised and turned where the model does that; o =
// attention(q, k, v), head by head, in a frame of cells or within a window.
#include "graph-impl.h"

#include <math.h>

enum { HEAD_MULTIPLE = 8 }; // channels of a head in attention's operators

// q, k or v of all tokens: n_head heads of d channels side by side in each row of x, from channel `at` on
struct heads {
    struct ggml_tensor * x;
    int64_t at, n_head, d;
};

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

// tokens [first, first + n) as [d, n_head, n]
static struct ggml_tensor * split_heads(struct mra_graph_builder * b, struct heads h, int64_t first, int64_t n) {
    return ggml_view_3d(b->ctx, h.x, h.d, h.n_head, n, h.d * (int64_t) sizeof(float), h.x->nb[1],
        first * h.x->nb[1] + h.at * sizeof(float));
}

// the same as [d, n, n_head]
static struct ggml_tensor * heads_of(struct mra_graph_builder * b, struct heads h, int64_t first, int64_t n) {
    return ggml_permute(b->ctx, split_heads(b, h, first, n), 0, 2, 1, 3);
}

// q, k and v of all tokens, in one tensor or in three
static bool project(
    struct mra_graph_builder * b, const struct mra_layer * l, struct ggml_tensor * x, struct heads h[3]) {
    const struct mra_dense each[3] = { l->q, l->k, l->v };
    const int64_t n_q = b->m->info.n_embd, n_kv = (int64_t) mra_graph_head_size(b) * b->m->n_head_kv;
    struct ggml_tensor * y = NULL;
    if (!x) return false;
    if (l->qkv.w) y = mra_graph_linear(b, l->qkv, x, MRA_ACT_NONE, NULL);
    else if (b->s->dense && x->ne[0] % 32 == 0)
        y = ggml_mra_linear(b->ctx, x, each, 3, false, NULL, b->s->attn.n_threads, b->err);
    else {
        for (int i = 0; i < 3; i++)
            ggml_build_forward_expand(b->g->gf, h[i].x = mra_graph_linear(b, each[i], x, MRA_ACT_NONE, NULL));
    }
    for (int i = 0; i < 3; i++) {
        const bool fused = l->qkv.w || (b->s->dense && x->ne[0] % 32 == 0);
        if (fused) h[i].x = y;
        h[i].at = !fused || i == 0 ? 0 : n_q + (i - 1) * n_kv;
        h[i].n_head = i ? b->m->n_head_kv : b->m->info.n_head;
        h[i].d = mra_graph_head_size(b);
    }
    return h[2].x != NULL;
}

// norms of q and k, each over all of its heads
static bool norm_heads(struct mra_graph_builder * b, const struct mra_layer * l, struct heads h[3]) {
    const struct mra_norm norms[2] = { l->q_norm, l->k_norm };
    for (int i = 0; i < 2; i++) {
        if (!norms[i].w) continue;
        const int64_t n = h[i].n_head * mra_graph_head_size(b);
        struct ggml_tensor * x = ggml_view_2d(
            b->ctx, h[i].x, n, b->s->n_tokens, h[i].x->nb[1], h[i].at * sizeof(float));
        h[i].x = mra_graph_norm(b, norms[i], b->s->dense ? x : ggml_cont(b->ctx, x));
        h[i].at = 0;
        if (!h[i].x) return false;
    }
    return true;
}

// the table of a layer's RoPE
static struct ggml_tensor * turns_of(struct mra_graph_builder * b, const struct mra_layer * l) {
    const struct mra_arch * a = &b->m->arch;
    struct ggml_tensor ** t = &b->turns[!mra_layer_is_global(l)];
    if (!*t)
        *t = ggml_mra_rope_table(b->ctx, b->g->positions, a->n_rot,
            mra_layer_is_global(l) ? a->rope_base : a->rope_base_local, a->rope_scale, b->err);
    return *t;
}

// RoPE of q and k: in place where they are side by side in memory of the CPU
static bool turn_heads(struct mra_graph_builder * b, const struct mra_layer * l, struct heads h[3]) {
    const struct mra_arch * a = &b->m->arch;
    const int d = mra_graph_head_size(b);
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
static void pad_heads(struct mra_graph_builder * b, struct heads h[3]) {
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
static struct ggml_tensor * cut_heads(struct mra_graph_builder * b, struct ggml_tensor * o, int64_t d) {
    const int64_t n_head = b->m->info.n_head, n = b->s->n_tokens;
    if (!o || d == mra_graph_head_size(b)) return o;
    o = ggml_view_3d(b->ctx, o, mra_graph_head_size(b), n_head, n, d * (int64_t) sizeof(float), o->nb[1], 0);
    return ggml_reshape_2d(b->ctx, ggml_cont(b->ctx, o), b->m->info.n_embd, n);
}

int mra_graph_n_errors(const struct mra_graph_shape * s) {
    return s->n_error_rows == 0 ? 0 : s->attn.frame == MRA_FRAME_SQUARE ? s->n_seq : 1;
}

// The error of o, the attention of q, k, v = t[0..2]: of all sequences, or (square cells) of sequence i. It is computed
// before anything takes the place of the queries. false: it could not be built.
static bool measure(struct mra_graph_builder * b, struct ggml_tensor * t[3], struct ggml_tensor * o, int i) {
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
static struct ggml_tensor * attend_each(struct mra_graph_builder * b, struct heads h[3]) {
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

// Frames of square cells, all sequences at once: [d, max_len, n_head, n_seq], each padded behind its last token. What
// is computed there is never read.
static struct ggml_tensor * attend_together(struct mra_graph_builder * b, struct heads h[3]) {
    const struct mra_graph_shape * s = b->s;
    struct ggml_tensor *t[3], *x[3];
    for (int c = 0; c < 3; c++) {
        x[c] = c > 0 && h[c].x == h[0].x ? x[0] : b->g->padded ? ggml_get_rows(b->ctx, h[c].x, b->g->padded) : h[c].x;
        t[c] = ggml_view_4d(b->ctx, x[c], h[c].d, h[c].n_head, s->max_len, s->n_seq, h[c].d * (int64_t) sizeof(float),
            x[c]->nb[1], s->max_len * x[c]->nb[1], h[c].at * sizeof(float));
        t[c] = ggml_permute(b->ctx, t[c], 0, 2, 1, 3);
    }
    struct ggml_tensor * o = ggml_mra_attn(b->ctx, t[0], t[1], t[2], b->g->lengths, &s->attn, b->err);
    if (!o) return NULL;
    o = ggml_reshape_2d(b->ctx, o, h[0].d * h[0].n_head, (int64_t) s->max_len * s->n_seq);
    return b->g->unpadded ? ggml_get_rows(b->ctx, o, b->g->unpadded) : o;
}

// -> [d*n_head, n_tokens]
static struct ggml_tensor * attend(struct mra_graph_builder * b, const struct mra_layer * l, struct heads h[3]) {
    const struct mra_graph_shape * s = b->s;
    const bool near = !mra_layer_is_global(l) || b->m->arch.position == MRA_POSITION_ALIBI;
    if (!near && s->attn.frame == MRA_FRAME_SQUARE) return s->together ? attend_together(b, h) : attend_each(b, h);
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

struct ggml_tensor * mra_graph_attention(
    struct mra_graph_builder * b, const struct mra_layer * l, struct ggml_tensor * x) {
    struct heads h[3];
    if (b->m->arch.pre_norm) x = mra_graph_norm(b, l->attn_norm, x);
    if (!project(b, l, x, h) || !norm_heads(b, l, h) || !turn_heads(b, l, h)) return NULL;
    struct mra_graph_qkv * qkv = &b->g->qkv[b->layer];
    for (int i = 0; i < 3; i++) {
        ggml_build_forward_expand(b->g->gf, h[i].x);
        qkv->x[i] = h[i].x;
        qkv->at[i] = h[i].at;
    }
    qkv->last = ggml_graph_node(b->g->gf, -1);
    mra_graph_end_part(b, h[2].x, MRA_PART_QKV);
    pad_heads(b, h);
    return mra_graph_end_part(b, cut_heads(b, attend(b, l, h), h[0].d), MRA_PART_ATTENTION);
}
