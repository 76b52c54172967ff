// A pass: tokens of its sequences -> inputs of a graph -> computed -> rows, each where the caller wants it. Pooling of
// tokens t: mean = sum_t x_t / n, mean_sqrt = sum_t x_t / sqrt(n), max = max_t x_t, per channel.
#include "attention.h"
#include "head-plan.h"
#include "pass.h"

#include <math.h>

enum { POOL_ROWS = 256 }; // hidden states fetched at a time

struct pass {
    int a, b; // sequences order[a .. b)
    struct mra_graph_shape shape;
    struct mra_graph graph;
    int32_t *ids, *positions, *types, *starts, *rows; // in ctx->ints
    int32_t * row_to;                                 // [n_rows] row of the result
    const float * given;                              // [n_rows][n_embd] hidden states instead of tokens, or NULL
};

// whether single tokens are wanted, known before the graph is built
static bool needs_rows(const struct mra_job * j) {
    const bool pooled = j->want->kind == MRA_OUTPUT_POOLED || j->want->kind == MRA_OUTPUT_CLASS;
    return j->want->kind == MRA_OUTPUT_MLM ||
        (pooled && (j->pooling == MRA_POOLING_CLS || j->pooling == MRA_POOLING_LAST));
}

// whether a row for every token is
static bool of_tokens(enum mra_output_kind kind) {
    return kind == MRA_OUTPUT_TOKENS || kind == MRA_OUTPUT_TAGS || kind == MRA_OUTPUT_SPARSE ||
        kind == MRA_OUTPUT_COLBERT;
}

static enum mra_status reserve_inputs(struct mra_job * j, struct pass * p, struct mra_error * err) {
    const size_t n_tokens = (size_t) p->shape.n_tokens, n_seq = (size_t) p->shape.n_seq,
                 max_rows = j->want->kind == MRA_OUTPUT_MLM ? (size_t) j->want->n_at : n_seq;
    const enum mra_status st = mra_context_reserve(
        &j->ctx->ints, &j->ctx->ints_cap, (3 * n_tokens + n_seq + 1 + 2 * max_rows) * sizeof(int32_t), err);
    if (st != MRA_OK) return st;
    p->ids = j->ctx->ints;
    p->positions = p->ids + n_tokens;
    p->types = p->positions + n_tokens;
    p->starts = p->types + n_tokens;
    p->rows = p->starts + n_seq + 1;
    p->row_to = p->rows + max_rows;
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

static void fill_inputs(struct mra_job * j, struct pass * p) {
    struct mra_graph_shape * s = &p->shape;
    int32_t n = 0;
    for (int i = p->a; i < p->b; i++) {
        const struct mra_seq * q = &j->seqs[j->order[i]];
        p->starts[i - p->a] = j->start[j->order[i]] = n;
        if (q->n > s->max_len) s->max_len = q->n;
        for (int t = 0; t < q->n; t++, n++) {
            p->ids[n] = q->tokens ? q->tokens[t].id : q->ids[t];
            p->types[n] = q->tokens ? q->tokens[t].segment : q->types ? q->types[t] : 0;
            p->positions[n] = t;
        }
        if (needs_rows(j) && j->want->kind != MRA_OUTPUT_MLM) {
            p->rows[s->n_rows] = j->pooling == MRA_POOLING_LAST ? n - 1 : p->starts[i - p->a];
            p->row_to[s->n_rows++] = j->order[i];
        }
    }
    p->starts[s->n_seq] = n;
    for (int i = 0; j->want->kind == MRA_OUTPUT_MLM && i < j->want->n_at; i++) {
        const int32_t first = j->start[j->want->at[i].seq];
        if (first < 0) continue;
        p->rows[s->n_rows] = first + j->want->at[i].token;
        p->row_to[s->n_rows++] = i;
    }
    s->starts = p->starts;
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

static enum mra_status build(
    struct mra_context * ctx, struct pass * p, struct ggml_context * gctx, struct mra_error * err) {
    const enum mra_status st = mra_graph_build(&p->graph, gctx, ctx->model, &p->shape, err);
    if (st == MRA_OK && ctx->companion) ggml_backend_mra_pin(ctx->sched, p->graph.gf, ctx->companion);
    return st;
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

// row NaN: the result is NaN
static double larger(double x, float row) { return isnan(x) || x >= row ? x : row; }

// the embedding of tokens [first, first + n) of out, n >= 1 -> to [n_dims]
static enum mra_status pool(
    struct mra_job * j, const struct ggml_tensor * out, int64_t first, int64_t n, float * to, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    const int64_t d = j->n_cols;
    const enum mra_status st = mra_context_reserve((void **) &ctx->rows, &ctx->rows_cap,
        (size_t) (POOL_ROWS * d) * sizeof(float) + (size_t) d * sizeof(double), err);
    if (st != MRA_OK) return st;
    double * sum = (double *) ctx->rows;
    float * row = (float *) (sum + d);
    const bool max = j->pooling == MRA_POOLING_MAX;
    if (j->pooling == MRA_POOLING_LAST) first += n - 1;
    if (j->pooling == MRA_POOLING_CLS || j->pooling == MRA_POOLING_LAST) n = 1;
    for (int64_t c = 0; c < d; c++) sum[c] = max ? -INFINITY : 0;
    for (int64_t i = 0; i < n; i += POOL_ROWS) {
        const int64_t m = n - i < POOL_ROWS ? n - i : POOL_ROWS;
        ggml_backend_tensor_get(out, row, (size_t) (first + i) * out->nb[1], (size_t) m * out->nb[1]);
        for (int64_t r = 0; r < m; r++) {
            for (int64_t c = 0; c < d; c++) sum[c] = max ? larger(sum[c], row[r * d + c]) : sum[c] + row[r * d + c];
        }
    }
    const double scale = max ? 1 : j->pooling == MRA_POOLING_MEAN_SQRT ? 1.0 / sqrt((double) n) : 1.0 / (double) n;
    for (int64_t c = 0; c < j->n_dims; c++) to[c] = (float) (sum[c] * scale);
    return MRA_OK;
}

static enum mra_status fetch_spans(struct mra_job * j, const struct ggml_tensor * out, struct mra_error * err) {
    enum mra_status st = MRA_OK;
    for (int i = 0; st == MRA_OK && i < j->want->n_span; i++) {
        const struct mra_span * s = &j->want->spans[i];
        const int32_t start = j->start[s->seq];
        if (start >= 0) st = pool(j, out, start + s->first, s->n, j->ctx->out + i * j->n_dims, err);
    }
    return st;
}

static enum mra_status fetch(struct mra_job * j, struct pass * p, struct mra_error * err) {
    const struct ggml_tensor * out = p->graph.out;
    if (j->want->kind == MRA_OUTPUT_SPANS) return fetch_spans(j, out, err);
    for (int i = 0; i < p->shape.n_rows; i++) {
        ggml_backend_tensor_get(
            out, j->ctx->out + p->row_to[i] * j->n_dims, (size_t) i * out->nb[1], (size_t) j->n_dims * sizeof(float));
    }
    for (int i = p->a; i < p->b && p->shape.n_rows == 0; i++) {
        const int32_t first = p->starts[i - p->a], n = p->starts[i - p->a + 1] - first;
        if (of_tokens(j->want->kind)) {
            ggml_backend_tensor_get(out, j->ctx->out + j->first_row[j->order[i]] * j->n_cols,
                (size_t) first * out->nb[1], (size_t) n * out->nb[1]);
        } else {
            const enum mra_status st = pool(j, out, first, n, j->ctx->out + j->order[i] * j->n_dims, err);
            if (st != MRA_OK) return st;
        }
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
    p->shape.n_ffn_rows = ctx->params.n_ffn_rows;
    p->shape.dense = !ctx->params.ggml_dense && ctx->n_backends == 1; // the model is in the CPU's memory
}

enum mra_status mra_pass_head(struct mra_context * ctx, enum mra_head_kind head, const float * rows, int64_t n_rows,
    float * out, int64_t n_cols, struct mra_error * err) {
    const int64_t step = ctx->params.n_ffn_rows, n_embd = ctx->model->info.n_embd;
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

enum mra_status mra_pass_run(
    struct mra_job * j, int a, int b, const struct mra_attn_params * attn, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    struct pass p = { .a = a, .b = b, .shape.attn = *attn };
    prepare(ctx, &p);
    if (attn->frame != MRA_FRAME_EXACT || attn->type != MRA_ATTN_FLOAT) p.shape.n_error_rows = ctx->params.n_error_rows;
    p.shape.head = j->head;
    p.shape.n_seq = b - a;
    for (int i = a; i < b; i++) p.shape.n_tokens += j->seqs[j->order[i]].n;
    enum mra_status st = reserve_inputs(j, &p, err);
    if (st == MRA_OK) st = fill_shares(ctx, &p, err);
    if (st != MRA_OK) return st;
    fill_inputs(j, &p);
    st = compute(ctx, &p, j->order + a, err);
    if (st == MRA_OK) st = fetch(j, &p, err);
    if (st == MRA_OK) fetch_errors(j, &p);
    for (int i = a; i < b; i++) j->start[j->order[i]] = -1;
    ctx->stats.n_tokens += st == MRA_OK ? p.shape.n_tokens : 0;
    ctx->stats.n_graphs += st == MRA_OK;
    return st;
}
