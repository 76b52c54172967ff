// A pass: tokens of its sequences -> inputs of a graph -> computed -> rows, each where the caller wants it.
#include "attention.h"
#include "head-plan.h"
#include "pass.h"

#include <string.h>

struct pass {
    int a, b; // sequences order[a .. b)
    struct mra_graph_shape shape;
    struct mra_graph graph;
    int32_t *ids, *positions, *types, *starts, *rows, *spans; // in ctx->ints
    int32_t *lengths, *padded, *unpadded;
    int32_t * row_to;    // [n_rows] or [n_spans] row of the result
    const float * given; // [n_rows][n_embd] hidden states instead of tokens, or NULL
};

// whether single tokens are wanted, known before the graph is built
static bool needs_rows(const struct mra_job * j) {
    const bool pooled = j->want->kind == MRA_OUTPUT_POOLED || j->want->kind == MRA_OUTPUT_CLASS;
    return j->want->kind == MRA_OUTPUT_MLM ||
        (pooled && (j->pooling == MRA_POOLING_CLS || j->pooling == MRA_POOLING_LAST));
}

// whether a row for every token is wanted
static bool of_tokens(enum mra_output_kind kind) {
    return kind == MRA_OUTPUT_TOKENS || kind == MRA_OUTPUT_TAGS || kind == MRA_OUTPUT_SPARSE ||
        kind == MRA_OUTPUT_COLBERT;
}

static enum mra_status reserve_inputs(struct mra_job * j, struct pass * p, struct mra_error * err) {
    const size_t n_tokens = (size_t) p->shape.n_tokens, n_seq = (size_t) p->shape.n_seq,
                 n_padded = p->shape.together ? (size_t) p->shape.max_len * n_seq : 0,
                 max_rows = j->want->kind == MRA_OUTPUT_MLM ? (size_t) j->want->n_at
        : j->want->kind == MRA_OUTPUT_SPANS                 ? (size_t) j->want->n_span
                                                            : n_seq;
    const enum mra_status st = mra_context_reserve(&j->ctx->ints, &j->ctx->ints_cap,
        (4 * n_tokens + 2 * n_seq + 1 + n_padded + 4 * max_rows) * sizeof(int32_t), err);
    if (st != MRA_OK) return st;
    p->ids = j->ctx->ints;
    p->positions = p->ids + n_tokens;
    p->types = p->positions + n_tokens;
    p->starts = p->types + n_tokens;
    p->rows = p->starts + n_seq + 1;
    p->spans = p->rows + max_rows;
    p->row_to = p->spans + 2 * max_rows;
    p->lengths = p->row_to + max_rows;
    p->unpadded = p->lengths + n_seq;
    p->padded = p->unpadded + n_tokens;
    return MRA_OK;
}

// ctx->head_shares, where heads have different ones
static enum mra_status fill_shares(struct mra_context * ctx, struct pass * p, struct mra_error * err) {
    const struct mra_model * m = ctx->model;
    const struct mra_plan * plan = mra_attention_plan(m, &ctx->params, &p->shape.attn);
    p->shape.planned = plan != NULL;
    if (!plan) return MRA_OK;
    const int n = plan->n_layer * plan->n_head;
    const struct mra_share_rule rule = mra_share_rule_of(plan, m, p->shape.attn.budget);
    const enum mra_status st = mra_context_reserve(
        (void **) &ctx->head_shares, &ctx->head_shares_cap, (size_t) n * sizeof(float), err);
    for (int i = 0; st == MRA_OK && i < n; i++) ctx->head_shares[i] = mra_share_of(rule, plan->need[i]);
    return st;
}

static void add_row(struct pass * p, int32_t token, int to) {
    p->rows[p->shape.n_rows] = token;
    p->row_to[p->shape.n_rows++] = to;
}

// of the first token or the last one, or of all n tokens from `first` on
static void add_span(struct pass * p, enum mra_pooling pooling, int32_t first, int32_t n, int to) {
    int32_t * span = p->spans + 2 * p->shape.n_spans;
    const bool one = pooling == MRA_POOLING_CLS || pooling == MRA_POOLING_LAST;
    span[0] = pooling == MRA_POOLING_LAST ? first + n - 1 : first;
    span[1] = one ? 1 : n;
    p->row_to[p->shape.n_spans++] = to;
}

// which rows of the hidden states are wanted, or which are pooled
static void fill_wanted(struct mra_job * j, struct pass * p) {
    const struct mra_output * w = j->want;
    for (int i = p->a; i < p->b && (w->kind == MRA_OUTPUT_POOLED || w->kind == MRA_OUTPUT_CLASS); i++) {
        const int32_t first = p->starts[i - p->a], n = p->starts[i - p->a + 1] - first;
        if (needs_rows(j)) add_row(p, j->pooling == MRA_POOLING_LAST ? first + n - 1 : first, j->order[i]);
        else add_span(p, j->pooling, first, n, j->order[i]);
    }
    for (int i = 0; w->kind == MRA_OUTPUT_MLM && i < w->n_at; i++) {
        const int32_t first = j->start[w->at[i].seq];
        if (first >= 0) add_row(p, first + w->at[i].token, i);
    }
    for (int i = 0; w->kind == MRA_OUTPUT_SPANS && i < w->n_span; i++) {
        const int32_t first = j->start[w->spans[i].seq];
        if (first >= 0) add_span(p, j->pooling, first + w->spans[i].first, w->spans[i].n, i);
    }
    p->shape.pool = j->pooling == MRA_POOLING_MAX ? MRA_SPAN_MAX
        : j->pooling == MRA_POOLING_MEAN_SQRT     ? MRA_SPAN_MEAN_SQRT
                                                  : MRA_SPAN_MEAN;
}

// a place behind a sequence has its first token
static void fill_padded(struct pass * p) {
    const struct mra_graph_shape * s = &p->shape;
    for (int i = 0; i < s->n_seq; i++) {
        const int32_t first = s->starts[i], n = p->lengths[i] = s->starts[i + 1] - first, at = i * s->max_len;
        for (int t = 0; t < s->max_len; t++) p->padded[at + t] = t < n ? first + t : first;
        for (int t = 0; t < n; t++) p->unpadded[first + t] = at + t;
    }
}

static void fill_inputs(struct mra_job * j, struct pass * p) {
    struct mra_graph_shape * s = &p->shape;
    int32_t n = 0;
    for (int i = p->a; i < p->b; i++) {
        const struct mra_seq * q = &j->seqs[j->order[i]];
        p->starts[i - p->a] = j->start[j->order[i]] = n;
        for (int t = 0; t < q->n; t++, n++) {
            p->ids[n] = q->tokens ? q->tokens[t].id : q->ids[t];
            p->types[n] = q->tokens ? q->tokens[t].segment : q->types ? q->types[t] : 0;
            p->positions[n] = t;
        }
    }
    p->starts[s->n_seq] = n;
    s->starts = p->starts;
    if (s->together) fill_padded(p);
    fill_wanted(j, p);
}

// ---- the graph ----

static void set_input(struct ggml_tensor * t, const void * data) {
    if (t && t->buffer) ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
}

static enum mra_status compute_graph(
    struct mra_context * ctx, struct pass * p, const int * seqs, struct mra_error * err) {
    set_input(p->graph.ids, p->ids);
    set_input(p->graph.positions, p->positions);
    set_input(p->graph.types, p->types);
    set_input(p->graph.starts, p->starts);
    set_input(p->graph.rows, p->rows);
    set_input(p->graph.spans, p->spans);
    set_input(p->graph.lengths, p->lengths);
    set_input(p->graph.padded, p->padded);
    set_input(p->graph.unpadded, p->unpadded);
    set_input(p->graph.shares, ctx->head_shares);
    set_input(p->graph.given, p->given);
    const double t0 = ctx->part_start = ctx->op_start = mra_now_ms();
    ctx->graph = &p->graph;
    ctx->shape = &p->shape;
    ctx->seqs = seqs;
    const enum ggml_status st = ggml_backend_sched_graph_compute(ctx->sched, p->graph.gf);
    ctx->graph = NULL;
    ctx->stats.compute_ms += mra_now_ms() - t0;
    if (st == GGML_STATUS_SUCCESS) return MRA_OK;
    if (st == GGML_STATUS_ABORTED) return mra_fail(err, MRA_ERR_STOPPED, "stopped");
    const char * why = ctx->companion ? ggml_backend_mra_error(ctx->companion) : "";
    return mra_fail(err, st == GGML_STATUS_ALLOC_FAILED ? MRA_ERR_MEMORY : MRA_ERR_BACKEND, "ggml: %s",
        *why ? why : ggml_status_to_string(st));
}

static bool on_host(const struct ggml_tensor * w) { return w && ggml_backend_buffer_is_host(w->buffer); }

// Inputs lie on the device before it begins: ggml would copy each when it is first needed, and wait for it.
static void place_inputs(struct mra_context * ctx, struct mra_graph * g) {
    const struct mra_model * m = ctx->model;
    struct ggml_tensor * const inputs[] = { on_host(m->token_embd) ? NULL : g->ids,
        on_host(m->position_embd) ? NULL : g->positions, on_host(m->token_types) ? NULL : g->types, g->starts, g->rows,
        g->spans, g->lengths, g->padded, g->unpadded, g->given };
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
        if (inputs[i]) ggml_backend_sched_set_tensor_backend(ctx->sched, inputs[i], ctx->backends[0]);
}

static enum mra_status build(
    struct mra_context * ctx, struct pass * p, struct ggml_context * gctx, struct mra_error * err) {
    const enum mra_status st = mra_graph_build(&p->graph, gctx, ctx->model, &p->shape, err);
    if (st != MRA_OK || !ctx->companion) return st;
    ggml_backend_mra_pin(ctx->sched, p->graph.gf, ctx->companion);
    place_inputs(ctx, &p->graph);
    return MRA_OK;
}

// seqs [p->shape.n_seq]: the caller's numbers of the sequences; NULL: of rows that are given
static enum mra_status compute(struct mra_context * ctx, struct pass * p, const int * seqs, struct mra_error * err) {
    const double t0 = mra_now_ms();
    const size_t size = mra_graph_size(ctx->model, &p->shape),
                 n_ends = GGML_PAD(mra_graph_max_ends(ctx->model) * sizeof(struct mra_part_end), GGML_MEM_ALIGN),
                 n_errors = GGML_PAD(
                     (size_t) ctx->model->info.n_layer * mra_graph_n_errors(&p->shape) * sizeof(struct ggml_tensor *),
                     GGML_MEM_ALIGN),
                 n_qkv = GGML_PAD((size_t) ctx->model->info.n_layer * sizeof(struct mra_graph_qkv), GGML_MEM_ALIGN),
                 bytes = size * ggml_tensor_overhead() + ggml_graph_overhead_custom(size, false);
    enum mra_status st = mra_context_reserve(&ctx->meta, &ctx->meta_cap, n_ends + n_errors + n_qkv + bytes, err);
    if (st == MRA_OK) st = mra_context_sched(ctx, size, err);
    if (st != MRA_OK) return st;
    p->graph.ends = ctx->meta;
    p->graph.errors = (struct ggml_tensor **) ((char *) ctx->meta + n_ends);
    p->graph.qkv = (struct mra_graph_qkv *) ((char *) ctx->meta + n_ends + n_errors);
    struct ggml_context * gctx = ggml_init((struct ggml_init_params) {
        .mem_size = bytes, .mem_buffer = (char *) ctx->meta + n_ends + n_errors + n_qkv, .no_alloc = true });
    if (!gctx) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    st = build(ctx, p, gctx, err);
    if (st == MRA_OK) st = mra_context_reserve_graph(ctx, p->graph.gf, p->shape.n_tokens, err);
    if (st == MRA_OK && ctx->n_backends > 1) {
        ggml_reset(gctx);
        st = build(ctx, p, gctx, err);
    }
    if (st == MRA_OK && !ggml_backend_sched_alloc_graph(ctx->sched, p->graph.gf))
        st = mra_fail(err, MRA_ERR_MEMORY, "no memory for the activations of %d tokens", p->shape.n_tokens);
    ctx->stats.build_ms += mra_now_ms() - t0;
    if (st == MRA_OK) st = compute_graph(ctx, p, seqs, err);
    size_t used = 0;
    for (int i = 0; i < ctx->n_backends && ctx->sched; i++)
        used += ggml_backend_sched_get_buffer_size(ctx->sched, ctx->backends[i]);
    if (used > ctx->stats.compute_bytes) ctx->stats.compute_bytes = used;
    ggml_free(gctx); // the tensors stay in ctx->meta until the next pass
    return st;
}

// ---- rows ----

// n rows of n_cols each, in one transfer: a device's would wait for each other
static enum mra_status fetch_rows(struct mra_job * j, struct pass * p, int n, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    const size_t bytes = ggml_nbytes(p->graph.out);
    const enum mra_status st = mra_context_reserve((void **) &ctx->rows, &ctx->rows_cap, bytes, err);
    if (st != MRA_OK) return st;
    ggml_backend_tensor_get(p->graph.out, ctx->rows, 0, bytes);
    for (int i = 0; i < n; i++)
        memcpy(ctx->out + p->row_to[i] * j->n_dims, ctx->rows + i * j->n_cols, (size_t) j->n_dims * sizeof(float));
    return MRA_OK;
}

static enum mra_status fetch(struct mra_job * j, struct pass * p, struct mra_error * err) {
    const struct ggml_tensor * out = p->graph.out;
    const int n = p->shape.n_rows + p->shape.n_spans;
    if (n > 1 && j->ctx->n_backends > 1 && j->want->kind != MRA_OUTPUT_MLM) return fetch_rows(j, p, n, err);
    for (int i = 0; i < n; i++) {
        ggml_backend_tensor_get(
            out, j->ctx->out + p->row_to[i] * j->n_dims, (size_t) i * out->nb[1], (size_t) j->n_dims * sizeof(float));
    }
    for (int i = p->a; i < p->b && of_tokens(j->want->kind); i++) {
        const int32_t first = p->starts[i - p->a];
        ggml_backend_tensor_get(out, j->ctx->out + j->first_row[j->order[i]] * j->n_cols, (size_t) first * out->nb[1],
            (size_t) (p->starts[i - p->a + 1] - first) * out->nb[1]);
    }
    return MRA_OK;
}

// the sums of every sequence to its place in ctx->errors
static void fetch_errors(struct mra_job * j, const struct pass * p) {
    const struct mra_model_info * info = &j->ctx->model->info;
    const size_t n_head = (size_t) info->n_head * MRA_ATTN_ERROR_SUMS;
    const int n = mra_graph_n_errors(&p->shape);
    for (int l = 0; l < info->n_layer; l++)
        for (int i = p->a; i < p->b && n > 0; i++) {
            const int at = i - p->a;
            const struct ggml_tensor * e = p->graph.errors[l * n + (n > 1 ? at : 0)];
            double * to = j->ctx->errors + ((size_t) j->order[i] * info->n_layer + l) * n_head;
            if (e) ggml_backend_tensor_get(e, to, (n > 1 ? 0 : (size_t) at) * e->nb[2], n_head * sizeof(double));
        }
}

static void prepare(struct mra_context * ctx, struct pass * p) {
    mra_context_choose_threads(ctx);
    ctx->stats.n_threads = ctx->n_threads;
    p->shape.attn.n_threads = ctx->n_threads;
    p->shape.n_ffn_rows = mra_context_ffn_rows(ctx);
    p->shape.dense = !ctx->params.ggml_dense && ctx->n_backends == 1; // the model is in the CPU's memory
}

enum mra_status mra_pass_head(struct mra_context * ctx, enum mra_head_kind head, const float * rows, int64_t n_rows,
    float * out, int64_t n_cols, struct mra_error * err) {
    const int64_t step = mra_context_ffn_rows(ctx), n_embd = ctx->model->info.n_embd;
    for (int64_t i = 0; i < n_rows; i += step) {
        const int n = (int) (n_rows - i < step ? n_rows - i : step);
        struct pass p = { .given = rows + i * n_embd,
            .shape = { .n_tokens = n, .n_rows = n, .head = head, .given = true } };
        prepare(ctx, &p);
        const enum mra_status st = compute(ctx, &p, NULL, err);
        if (st != MRA_OK) return st;
        ggml_backend_tensor_get(p.graph.out, out + i * n_cols, 0, (size_t) (n * n_cols) * sizeof(float));
    }
    return MRA_OK;
}

// Elsewhere sequences one after the other cost nothing but their own work. The errors are measured that way, too.
bool mra_pass_pads(const struct mra_context * ctx, const struct mra_attn_params * attn) {
    return attn->frame == MRA_FRAME_SQUARE && ctx->companion && ctx->params.n_error_rows == 0;
}

// Where the device has no memory for a pass, its feed-forward part is cut into slices, as many as it takes, or as on
// the CPU; what is not enough then is the caller's.
static enum mra_status compute_pass(struct mra_job * j, struct pass * p, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    if (p->shape.n_ffn_rows > p->shape.n_tokens) p->shape.n_ffn_rows = p->shape.n_tokens;
    for (;;) {
        const enum mra_status st = compute(ctx, p, j->order + p->a, err);
        if (st != MRA_ERR_MEMORY || ctx->n_backends == 1 || p->shape.n_ffn_rows <= MRA_DEFAULT_FFN_ROWS) return st;
        const int half = (p->shape.n_ffn_rows + 1) / 2;
        p->shape.n_ffn_rows = half < MRA_DEFAULT_FFN_ROWS ? MRA_DEFAULT_FFN_ROWS : half;
    }
}

enum mra_status mra_pass_run(
    struct mra_job * j, int a, int b, const struct mra_attn_params * attn, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    struct pass p = { .a = a, .b = b, .shape.attn = *attn };
    prepare(ctx, &p);
    if (attn->frame != MRA_FRAME_EXACT || attn->type != MRA_ATTN_FLOAT) p.shape.n_error_rows = ctx->params.n_error_rows;
    p.shape.head = j->head;
    p.shape.n_seq = b - a;
    p.shape.together = p.shape.n_seq > 1 && mra_pass_pads(ctx, attn);
    for (int i = a; i < b; i++) {
        const int n = j->seqs[j->order[i]].n;
        p.shape.n_tokens += n;
        if (n > p.shape.max_len) p.shape.max_len = n;
    }
    enum mra_status st = reserve_inputs(j, &p, err);
    if (st == MRA_OK) st = fill_shares(ctx, &p, err);
    if (st != MRA_OK) return st;
    fill_inputs(j, &p);
    st = compute_pass(j, &p, err);
    if (st == MRA_OK) st = fetch(j, &p, err);
    if (st == MRA_OK) fetch_errors(j, &p);
    for (int i = a; i < b; i++) j->start[j->order[i]] = -1;
    ctx->stats.n_tokens += st == MRA_OK ? p.shape.n_tokens : 0;
    ctx->stats.n_graphs += st == MRA_OK;
    return st;
}
