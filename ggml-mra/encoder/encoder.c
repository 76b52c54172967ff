// mra_encode: checks the request, cuts the batch into passes of whole sequences that share one kind of attention, runs
// each pass as a graph, and puts its rows where they belong.
#include "context.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AUTO_EXACT 1024 // mra-encoder.h says so
#define MAX_SQUARE 16   // sequences of a pass with a frame of square cells: each has nodes of its own
#define POOL_ROWS  256  // hidden states fetched at a time

struct job {
    struct mra_context * ctx;
    const struct mra_seq * seqs;
    int n_seq;
    const struct mra_output * want;
    enum mra_pooling pooling;
    int * order; // [n_order] sequences, exact ones first
    int n_order, n_exact;
    int64_t * first; // [n_seq] TOKENS: row of the result of each sequence's first token
    int32_t * at;    // [n_seq] first token within the pass, -1: not in it
    int64_t n_cols;
};

// ---- the request ----

static enum mra_status check_seq(const struct mra_model * m, const struct mra_seq * s, int i, struct mra_error * err) {
    if (s->n < 1) return mra_fail(err, MRA_ERR_ARG, "sequence %d is empty", i);
    if (s->n > m->info.n_ctx)
        return mra_fail(err, MRA_ERR_TOO_LONG, "sequence %d has %d tokens; the model takes %d", i, s->n, m->info.n_ctx);
    if (!s->tokens && !s->ids) return mra_fail(err, MRA_ERR_ARG, "sequence %d has no tokens", i);
    const int n_types = m->info.n_types > 0 ? m->info.n_types : 1;
    for (int j = 0; j < s->n; j++) {
        const int32_t id = s->tokens ? s->tokens[j].id : s->ids[j],
                      type = s->tokens ? s->tokens[j].segment
            : s->types                 ? s->types[j]
                                       : 0;
        if (id < 0 || id >= m->info.n_vocab)
            return mra_fail(
                err, MRA_ERR_ARG, "sequence %d, token %d: id %d is not in 0..%d", i, j, id, m->info.n_vocab - 1);
        if (type < 0 || type >= n_types)
            return mra_fail(
                err, MRA_ERR_ARG, "sequence %d, token %d: type %d is not in 0..%d", i, j, type, n_types - 1);
    }
    return MRA_OK;
}

static enum mra_status check_request(const struct mra_model * m, const struct mra_seq * seqs, int n_seq,
    const struct mra_output * w, struct mra_error * err) {
    if (n_seq < 1 || !seqs) return mra_fail(err, MRA_ERR_ARG, "no sequences");
    if ((unsigned) w->kind > MRA_OUTPUT_MLM) return mra_fail(err, MRA_ERR_ARG, "unknown output %d", (int) w->kind);
    if ((unsigned) w->pooling > MRA_POOLING_MEAN_SQRT)
        return mra_fail(err, MRA_ERR_ARG, "unknown pooling %d", (int) w->pooling);
    if (w->kind == MRA_OUTPUT_CLASS && m->info.n_class == 0)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "the model has no classifier");
    if (w->kind == MRA_OUTPUT_MLM && !m->info.has_mlm)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "the model has no masked-language-model head");
    if (w->kind == MRA_OUTPUT_MLM && (w->n_at < 1 || !w->at)) return mra_fail(err, MRA_ERR_ARG, "no positions");
    for (int i = 0; i < n_seq; i++) {
        const enum mra_status st = check_seq(m, &seqs[i], i, err);
        if (st != MRA_OK) return st;
    }
    for (int i = 0; w->kind == MRA_OUTPUT_MLM && i < w->n_at; i++) {
        if (w->at[i].seq < 0 || w->at[i].seq >= n_seq || w->at[i].token < 0 || w->at[i].token >= seqs[w->at[i].seq].n) {
            return mra_fail(
                err, MRA_ERR_ARG, "position %d: no token %d in sequence %d", i, w->at[i].token, w->at[i].seq);
        }
    }
    return MRA_OK;
}

// ---- attention of a sequence ----

static struct mra_attn_params own_attention(const struct mra_context * ctx) {
    const bool own = ctx->params.attention == MRA_ATTENTION_AUTO && ctx->model->info.has_mra;
    struct mra_attn_params p = own ? ctx->model->info.attn : ctx->params.attn;
    if (ctx->model->info.has_mra && !(p.scale > 0)) p.scale = ctx->model->info.attn.scale;
    p.n_threads = ctx->params.n_threads;
    return p;
}

static bool is_exact(const struct mra_context * ctx, int n) {
    const struct mra_attn_params p = own_attention(ctx);
    if (ctx->params.attention == MRA_ATTENTION_EXACT || p.frame == MRA_FRAME_EXACT) return true;
    if (p.frame == MRA_FRAME_SQUARE && p.counts[0] >= 0 && p.rule != MRA_RULE_ROW && p.sizes[1] == 1) {
        const int64_t n_blocks = (n + p.sizes[0] - 1) / p.sizes[0];
        if (p.counts[0] >= n_blocks * n_blocks) return true; // every cell refined is exact attention
    }
    if (ctx->params.attention == MRA_ATTENTION_MRA || ctx->model->info.has_mra) return false;
    return n <= AUTO_EXACT || mra_attn_work(&p, n, n) >= 1;
}

// fills order: sequences that are needed, the exact ones first
static void sort_sequences(struct job * j) {
    bool mlm = j->want->kind == MRA_OUTPUT_MLM;
    for (int i = 0; i < j->n_seq; i++) j->at[i] = mlm ? -1 : 0;
    for (int i = 0; mlm && i < j->want->n_at; i++) j->at[j->want->at[i].seq] = 0;
    for (int exact = 1; exact >= 0; exact--) {
        for (int i = 0; i < j->n_seq; i++)
            if (j->at[i] == 0 && is_exact(j->ctx, j->seqs[i].n) == (bool) exact) j->order[j->n_order++] = i;
        if (exact) j->n_exact = j->n_order;
    }
    for (int i = 0; i < j->n_seq; i++) j->at[i] = -1;
    int64_t n = 0;
    for (int i = 0; i < j->n_seq; i++) {
        j->first[i] = n;
        n += j->seqs[i].n;
    }
}

// ---- one pass: sequences order[a .. b) ----

struct pass {
    int a, b;
    struct mra_graph_shape shape;
    struct mra_graph graph;
    int32_t *ids, *positions, *types, *starts, *rows; // in ctx->ints
    int32_t * row_to;                                 // [n_rows] row of the result
};

static bool needs_rows(const struct job * j) {
    return j->want->kind == MRA_OUTPUT_CLASS || j->want->kind == MRA_OUTPUT_MLM ||
        (j->want->kind == MRA_OUTPUT_POOLED && (j->pooling == MRA_POOLING_CLS || j->pooling == MRA_POOLING_LAST));
}

static enum mra_status fill_inputs(struct job * j, struct pass * p, struct mra_error * err) {
    struct mra_graph_shape * s = &p->shape;
    const size_t n_tokens = (size_t) s->n_tokens, n_seq = (size_t) s->n_seq,
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
    int32_t n = 0;
    for (int i = p->a; i < p->b; i++) {
        const struct mra_seq * q = &j->seqs[j->order[i]];
        p->starts[i - p->a] = j->at[j->order[i]] = n;
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
        const int32_t first = j->at[j->want->at[i].seq];
        if (first < 0) continue;
        p->rows[s->n_rows] = first + j->want->at[i].token;
        p->row_to[s->n_rows++] = i;
    }
    for (int i = p->a; i < p->b; i++) j->at[j->order[i]] = -1;
    s->starts = p->starts;
    return MRA_OK;
}

static void set_input(struct ggml_tensor * t, const int32_t * data) {
    if (t && t->buffer) ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
}

static enum mra_status compute(struct job * j, struct pass * p, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    const double t0 = mra_now_ms();
    const size_t size = mra_graph_size(ctx->model, &p->shape),
                 bytes = size * ggml_tensor_overhead() + ggml_graph_overhead_custom(size, false);
    enum mra_status st = mra_context_reserve(&ctx->meta, &ctx->meta_cap, bytes, err);
    if (st == MRA_OK) st = mra_context_sched(ctx, size, err);
    if (st != MRA_OK) return st;
    struct ggml_context * gctx = ggml_init(
        (struct ggml_init_params) { .mem_size = bytes, .mem_buffer = ctx->meta, .no_alloc = true });
    if (!gctx) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    st = mra_graph_build(&p->graph, gctx, ctx->model, &p->shape, err);
    if (st == MRA_OK && ctx->companion) ggml_backend_mra_pin(ctx->sched, p->graph.gf, ctx->companion);
    if (st == MRA_OK && !ggml_backend_sched_alloc_graph(ctx->sched, p->graph.gf)) {
        st = mra_fail(err, MRA_ERR_MEMORY, "no memory for the activations of %d tokens", p->shape.n_tokens);
    }
    if (st == MRA_OK) {
        set_input(p->graph.ids, p->ids);
        set_input(p->graph.positions, p->positions);
        set_input(p->graph.types, p->types);
        set_input(p->graph.starts, p->starts);
        set_input(p->graph.rows, p->rows);
        const double t1 = ctx->part_start = ctx->op_start = mra_now_ms();
        const enum ggml_status gs = ggml_backend_sched_graph_compute(ctx->sched, p->graph.gf);
        if (gs != GGML_STATUS_SUCCESS) {
            const char * why = ctx->companion ? ggml_backend_mra_error(ctx->companion) : "";
            st = mra_fail(err, gs == GGML_STATUS_ALLOC_FAILED ? MRA_ERR_MEMORY : MRA_ERR_BACKEND, "ggml: %s",
                *why ? why : ggml_status_to_string(gs));
        }
        ctx->stats.build_ms += t1 - t0;
        ctx->stats.compute_ms += mra_now_ms() - t1;
    }
    size_t used = 0;
    for (int i = 0; i < ctx->n_backends; i++) used += ggml_backend_sched_get_buffer_size(ctx->sched, ctx->backends[i]);
    if (used > ctx->stats.compute_bytes) ctx->stats.compute_bytes = used;
    ggml_free(gctx); // the tensors stay in ctx->meta until the next pass
    return st;
}

// the embedding of tokens [first, first + n) of out -> to [n_cols]
static enum mra_status pool(
    struct job * j, const struct ggml_tensor * out, int64_t first, int64_t n, float * to, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    const int64_t d = j->n_cols;
    const enum mra_status st = mra_context_reserve((void **) &ctx->rows, &ctx->rows_cap,
        (size_t) (POOL_ROWS * d) * sizeof(float) + (size_t) d * sizeof(double), err);
    if (st != MRA_OK) return st;
    double * sum = (double *) ctx->rows;
    float * row = (float *) (sum + d);
    const bool max = j->pooling == MRA_POOLING_MAX;
    for (int64_t c = 0; c < d; c++) sum[c] = max ? -INFINITY : 0;
    for (int64_t i = 0; i < n; i += POOL_ROWS) {
        const int64_t m = n - i < POOL_ROWS ? n - i : POOL_ROWS;
        ggml_backend_tensor_get(out, row, (size_t) (first + i) * out->nb[1], (size_t) m * out->nb[1]);
        for (int64_t r = 0; r < m; r++) {
            for (int64_t c = 0; c < d; c++) sum[c] = max ? fmax(sum[c], row[r * d + c]) : sum[c] + row[r * d + c];
        }
    }
    const double scale = max ? 1 : j->pooling == MRA_POOLING_MEAN ? 1.0 / (double) n : 1.0 / sqrt((double) n);
    for (int64_t c = 0; c < d; c++) to[c] = (float) (sum[c] * scale);
    return MRA_OK;
}

static enum mra_status fetch(struct job * j, struct pass * p, struct mra_error * err) {
    const struct ggml_tensor * out = p->graph.out;
    for (int i = 0; i < p->shape.n_rows; i++) {
        ggml_backend_tensor_get(
            out, j->ctx->out + p->row_to[i] * j->n_cols, (size_t) i * out->nb[1], (size_t) j->n_cols * sizeof(float));
    }
    for (int i = p->a; i < p->b && p->shape.n_rows == 0; i++) {
        const int32_t first = p->starts[i - p->a], n = p->starts[i - p->a + 1] - first;
        if (j->want->kind == MRA_OUTPUT_TOKENS) {
            ggml_backend_tensor_get(out, j->ctx->out + j->first[j->order[i]] * j->n_cols, (size_t) first * out->nb[1],
                (size_t) n * out->nb[1]);
        } else {
            const enum mra_status st = pool(j, out, first, n, j->ctx->out + j->order[i] * j->n_cols, err);
            if (st != MRA_OK) return st;
        }
    }
    return MRA_OK;
}

static enum mra_status run(struct job * j, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    const struct mra_attn_params own = own_attention(ctx);
    struct mra_attn_params exact = mra_attn_params_exact();
    exact.scale = own.scale;
    exact.n_threads = own.n_threads;
    for (int a = 0; a < j->n_order;) {
        const bool is = a < j->n_exact;
        struct pass p = { .a = a, .b = a };
        p.shape.attn = is ? exact : own;
        p.shape.n_chunk = ctx->params.n_chunk;
        p.shape.dense = !ctx->params.ggml_dense && ctx->n_backends == 1; // the model is in the CPU's memory
        p.shape.head = j->want->kind == MRA_OUTPUT_CLASS ? MRA_HEAD_CLASS
            : j->want->kind == MRA_OUTPUT_MLM            ? MRA_HEAD_MLM
                                                         : MRA_HEAD_NONE;
        const int end = is ? j->n_exact : j->n_order, most = p.shape.attn.frame == MRA_FRAME_SQUARE ? MAX_SQUARE : end;
        do p.shape.n_tokens += j->seqs[j->order[p.b++]].n;
        while (p.b < end && p.b - a < most && p.shape.n_tokens + j->seqs[j->order[p.b]].n <= ctx->params.n_batch);
        p.shape.n_seq = p.b - a;
        enum mra_status st = fill_inputs(j, &p, err);
        if (st == MRA_OK) st = compute(j, &p, err);
        if (st == MRA_OK) st = fetch(j, &p, err);
        if (st != MRA_OK) return st;
        ctx->stats.n_tokens += p.shape.n_tokens;
        ctx->stats.n_graphs++;
        a = p.b;
    }
    return MRA_OK;
}

static void normalize_rows(float * x, int64_t n_rows, int64_t n_cols) {
    for (int64_t i = 0; i < n_rows; i++, x += n_cols) {
        double s = 0;
        for (int64_t c = 0; c < n_cols; c++) s += (double) x[c] * x[c];
        const float f = s > 0 ? (float) (1 / sqrt(s)) : 0;
        for (int64_t c = 0; c < n_cols; c++) x[c] *= f;
    }
}

enum mra_status mra_encode(struct mra_context * ctx, const struct mra_seq * seqs, int n_seq,
    const struct mra_output * want, struct mra_result * result, struct mra_error * err) {
    const struct mra_model_info * info = &ctx->model->info;
    const double t0 = mra_now_ms();
    *result = (struct mra_result) { 0 };
    enum mra_status st = check_request(ctx->model, seqs, n_seq, want, err);
    if (st != MRA_OK) return st;

    const size_t largest = ctx->stats.compute_bytes;
    ctx->stats = (struct mra_stats) { .compute_bytes = largest };
    struct job j = {
        .ctx = ctx, .seqs = seqs, .n_seq = n_seq, .want = want, .pooling = want->pooling ? want->pooling : info->pooling
    };
    if (want->kind == MRA_OUTPUT_CLASS) j.pooling = MRA_POOLING_CLS;
    j.first = malloc((size_t) n_seq * (sizeof(*j.first) + sizeof(*j.order) + sizeof(*j.at)));
    if (!j.first) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    j.order = (int *) (j.first + n_seq);
    j.at = (int32_t *) (j.order + n_seq);
    sort_sequences(&j);

    int64_t n_rows = n_seq;
    if (want->kind == MRA_OUTPUT_TOKENS) n_rows = j.first[n_seq - 1] + seqs[n_seq - 1].n;
    if (want->kind == MRA_OUTPUT_MLM) n_rows = want->n_at;
    j.n_cols = want->kind == MRA_OUTPUT_CLASS ? info->n_class
        : want->kind == MRA_OUTPUT_MLM        ? info->n_vocab
                                              : info->n_embd;
    ctx->stats.output_bytes = (size_t) (n_rows * j.n_cols) * sizeof(float);
    st = mra_context_reserve((void **) &ctx->out, &ctx->out_cap, ctx->stats.output_bytes, err);
    if (st == MRA_OK) st = run(&j, err);
    free(j.first);
    if (st != MRA_OK) return st;
    const bool normalize = want->normalize ? want->normalize > 0 : info->normalize;
    if (want->kind == MRA_OUTPUT_POOLED && normalize) normalize_rows(ctx->out, n_rows, j.n_cols);
    *result = (struct mra_result) { ctx->out, n_rows, j.n_cols };
    ctx->stats.total_ms = mra_now_ms() - t0;
    return MRA_OK;
}
