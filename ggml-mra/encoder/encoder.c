// mra_encode: checks the request, sorts its sequences by attention and length, cuts them into passes and runs those.
#include "attention.h"
#include "pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SQUARE = 16 }; // sequences of a pass with a frame of square cells, where each has nodes of its own

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

static bool is_span(const struct mra_span * s, const struct mra_seq * seqs, int n_seq) {
    return s->seq >= 0 && s->seq < n_seq && s->first >= 0 && s->n >= 1 && s->first < seqs[s->seq].n &&
        s->n <= seqs[s->seq].n - s->first;
}

// positions and spans, each inside its sequence
static enum mra_status check_places(
    const struct mra_seq * seqs, int n_seq, const struct mra_output * w, struct mra_error * err) {
    if (w->kind == MRA_OUTPUT_MLM && (w->n_at < 1 || !w->at)) return mra_fail(err, MRA_ERR_ARG, "no positions");
    if (w->kind == MRA_OUTPUT_SPANS && (w->n_span < 1 || !w->spans)) return mra_fail(err, MRA_ERR_ARG, "no spans");
    for (int i = 0; w->kind == MRA_OUTPUT_MLM && i < w->n_at; i++) {
        const struct mra_span one = { w->at[i].seq, w->at[i].token, 1 };
        if (!is_span(&one, seqs, n_seq))
            return mra_fail(err, MRA_ERR_ARG, "position %d: no token %d in sequence %d", i, one.first, one.seq);
    }
    for (int i = 0; w->kind == MRA_OUTPUT_SPANS && i < w->n_span; i++) {
        const struct mra_span * s = &w->spans[i];
        if (!is_span(s, seqs, n_seq))
            return mra_fail(err, MRA_ERR_ARG, "span %d: no tokens %d to %d + %d in sequence %d", i, s->first, s->first,
                s->n, s->seq);
    }
    return MRA_OK;
}

static enum mra_status check_request(const struct mra_model * m, const struct mra_seq * seqs, int n_seq,
    const struct mra_output * w, struct mra_error * err) {
    if (n_seq < 1 || !seqs) return mra_fail(err, MRA_ERR_ARG, "no sequences");
    if ((unsigned) w->kind > MRA_OUTPUT_COLBERT) return mra_fail(err, MRA_ERR_ARG, "unknown output %d", (int) w->kind);
    if ((unsigned) w->pooling > MRA_POOLING_MEAN_SQRT)
        return mra_fail(err, MRA_ERR_ARG, "unknown pooling %d", (int) w->pooling);
    if (w->n_dims < 0 || w->n_dims > m->info.n_pooled)
        return mra_fail(err, MRA_ERR_ARG, "n_dims = %d is not in 0..%d", w->n_dims, m->info.n_pooled);
    if (w->kind == MRA_OUTPUT_CLASS && m->info.n_class == 0)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "the model has no classifier");
    if (w->kind == MRA_OUTPUT_TAGS && m->info.n_tag == 0)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "the model has no token classifier");
    if (w->kind == MRA_OUTPUT_SPARSE && !m->info.has_sparse)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "the model has no weights of tokens");
    if (w->kind == MRA_OUTPUT_COLBERT && m->info.n_colbert == 0)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "the model has no ColBERT vectors");
    if (w->kind == MRA_OUTPUT_MLM && !m->info.has_mlm)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "the model has no masked-language-model head");
    for (int i = 0; i < n_seq; i++) {
        const enum mra_status st = check_seq(m, &seqs[i], i, err);
        if (st != MRA_OK) return st;
    }
    return check_places(seqs, n_seq, w, err);
}

// ---- passes ----

struct place { // of a sequence among those to be computed
    bool exact;
    int n, i;
};

static int compare_places(const void * a, const void * b) {
    const struct place *x = a, *y = b;
    if (x->exact != y->exact) return x->exact ? -1 : 1;
    return x->n != y->n ? (x->n < y->n ? -1 : 1) : x->i < y->i ? -1 : x->i > y->i;
}

// Fills order: sequences that are needed, the exact ones first, then by length. Those of a pass are then alike, so that
// no thread waits long for another.
static enum mra_status sort_sequences(struct mra_job * j, struct mra_error * err) {
    struct place * places = malloc((size_t) j->n_seq * sizeof(*places));
    if (!places) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    const bool at = j->want->kind == MRA_OUTPUT_MLM, spans = j->want->kind == MRA_OUTPUT_SPANS;
    for (int i = 0; i < j->n_seq; i++) j->start[i] = at || spans ? -1 : 0; // 0: needed
    for (int i = 0; at && i < j->want->n_at; i++) j->start[j->want->at[i].seq] = 0;
    for (int i = 0; spans && i < j->want->n_span; i++) j->start[j->want->spans[i].seq] = 0;
    int64_t n_rows = 0;
    for (int i = 0; i < j->n_seq; i++) {
        const int n = j->seqs[i].n;
        if (j->start[i] == 0)
            places[j->n_order++] = (struct place) { mra_attention_is_exact(j->ctx->model, &j->ctx->params, n), n, i };
        j->start[i] = -1;
        j->first_row[i] = n_rows;
        n_rows += n;
    }
    qsort(places, (size_t) j->n_order, sizeof(*places), compare_places);
    for (int i = 0; i < j->n_order; i++) {
        j->order[i] = places[i].i;
        j->n_exact += places[i].exact;
    }
    free(places);
    return MRA_OK;
}

// of sequence i of the order
static struct mra_attn_params attention_of(const struct mra_job * j, int i) {
    const struct mra_context * ctx = j->ctx;
    const int seq = j->order[i], n = j->seqs[seq].n;
    if (i < j->n_exact) return mra_attention_exact(ctx->model, &ctx->params);
    if (ctx->n_sought) return mra_attention_step(ctx->model, &ctx->params, n, ctx->sought[seq].step);
    return mra_attention_approximate(ctx->model, &ctx->params, n);
}

static bool same_attention(const struct mra_attn_params * a, const struct mra_attn_params * b) {
    return a->budget == b->budget && a->frame == b->frame && a->type == b->type;
}

// sequences from `first` of the order on
static enum mra_status run(struct mra_job * j, int first, struct mra_error * err) {
    const struct mra_context_params * params = &j->ctx->params;
    int64_t most_tokens = params->n_batch; // of a pass with several sequences: less where there is no memory for it
    for (int a = first, b; a < j->n_order; a = b) {
        const bool is_exact = a < j->n_exact;
        const struct mra_attn_params attn = attention_of(j, a);
        const bool pads = mra_pass_pads(j->ctx, &attn);
        const int end = is_exact ? j->n_exact : j->n_order,
                  most = attn.frame == MRA_FRAME_SQUARE && !pads ? MAX_SQUARE : end;
        int64_t n_tokens = j->seqs[j->order[a]].n;
        for (b = a + 1; b < end && b - a < most && n_tokens + j->seqs[j->order[b]].n <= most_tokens; b++) {
            const struct mra_attn_params next = attention_of(j, b);
            const int64_t n = j->seqs[j->order[b]].n; // the longest so far
            if (!same_attention(&next, &attn)) break; // a pass has one
            if (pads && n * (b - a + 1) > most_tokens) break;
            n_tokens += n;
        }
        if (params->stop && params->stop(params->stop_user)) return mra_fail(err, MRA_ERR_STOPPED, "stopped");
        enum mra_status st = mra_gguf_recheck(&j->ctx->model->file, err);
        if (st == MRA_OK) st = mra_pass_run(j, a, b, &attn, err);
        if (st == MRA_ERR_MEMORY && b - a > 1) {
            most_tokens = n_tokens / 2;
            b = a;
        } else if (st != MRA_OK) return st;
    }
    return MRA_OK;
}

// max_error: every sequence begins with the smallest budget
static enum mra_status begin_search(struct mra_job * j, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    ctx->n_sought = 0;
    if (!mra_attention_seeks(ctx->model, &ctx->params)) return MRA_OK;
    const enum mra_status st = mra_context_reserve(
        (void **) &ctx->sought, &ctx->sought_cap, (size_t) j->n_seq * sizeof(*ctx->sought), err);
    if (st != MRA_OK) return st;
    for (int i = 0; i < j->n_seq; i++) ctx->sought[i] = (struct mra_sought) { -1, j->seqs[i].n };
    for (int i = j->n_exact; i < j->n_order; i++) ctx->sought[j->order[i]].step = 0;
    ctx->n_sought = j->n_seq;
    return MRA_OK;
}

// Sequences whose error is too large once more, with a larger budget, until there are none. Which budget a sequence
// gets depends on its own errors alone.
static enum mra_status search(struct mra_job * j, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    const struct mra_model_info * info = &ctx->model->info;
    const size_t n_sums = (size_t) info->n_layer * info->n_head * MRA_ATTN_ERROR_SUMS;
    enum mra_status st = MRA_OK;
    while (st == MRA_OK && j->n_order > j->n_exact) {
        int n = j->n_exact;
        for (int i = j->n_exact; i < j->n_order; i++) {
            const int seq = j->order[i], step = ctx->sought[seq].step;
            double * sums = ctx->errors + (size_t) seq * n_sums;
            const struct mra_attn_error e = mra_error_summary_of(sums, info->n_layer, info->n_head).all;
            const int next = mra_attention_next_step(&ctx->params, step, e);
            if (next == step) continue;
            ctx->sought[seq].step = next;
            memset(sums, 0, n_sums * sizeof(*sums)); // exact attention in floats measures none
            int at = n++;
            for (; at > j->n_exact && ctx->sought[j->order[at - 1]].step > next; at--) j->order[at] = j->order[at - 1];
            j->order[at] = seq;
        }
        j->n_order = n;
        st = run(j, j->n_exact, err);
    }
    return st;
}

static void normalize_rows(float * x, int64_t n_rows, int64_t n_cols) {
    for (int64_t i = 0; i < n_rows; i++, x += n_cols) {
        double s = 0;
        for (int64_t c = 0; c < n_cols; c++) s += (double) x[c] * x[c];
        const float f = s > 0 ? (float) (1 / sqrt(s)) : 0;
        for (int64_t c = 0; c < n_cols; c++) x[c] *= f;
    }
}

static int64_t count_rows(const struct mra_job * j) {
    switch (j->want->kind) {
        case MRA_OUTPUT_TOKENS:
        case MRA_OUTPUT_TAGS:
        case MRA_OUTPUT_SPARSE:
        case MRA_OUTPUT_COLBERT: return j->first_row[j->n_seq - 1] + j->seqs[j->n_seq - 1].n;
        case MRA_OUTPUT_MLM: return j->want->n_at;
        case MRA_OUTPUT_SPANS: return j->want->n_span;
        default: return j->n_seq;
    }
}

// ctx->errors for all sequences, 0
static enum mra_status reserve_errors(struct mra_job * j, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    const struct mra_model_info * info = &ctx->model->info;
    const size_t bytes = (size_t) j->n_seq * info->n_layer * info->n_head * MRA_ATTN_ERROR_SUMS * sizeof(double);
    if (ctx->params.n_error_rows == 0) return MRA_OK;
    const enum mra_status st = mra_context_reserve((void **) &ctx->errors, &ctx->errors_cap, bytes, err);
    if (st != MRA_OK) return st;
    memset(ctx->errors, 0, bytes);
    ctx->n_errors = j->n_seq;
    return MRA_OK;
}

// which head is computed where, and how many numbers it gives
static void choose_head(struct mra_job * j) {
    const struct mra_model * m = j->ctx->model;
    const bool mean = !m->cls_late && m->cls_pooling == MRA_POOLING_MEAN;
    j->n_cols = m->info.n_embd;
    switch (j->want->kind) {
        case MRA_OUTPUT_TOKENS: break;
        case MRA_OUTPUT_POOLED:
        case MRA_OUTPUT_SPANS: j->later = m->n_dense > 0 ? MRA_HEAD_DENSE : MRA_HEAD_NONE; break;
        case MRA_OUTPUT_CLASS:
            j->pooling = mean || m->cls_late ? MRA_POOLING_MEAN : MRA_POOLING_CLS; // of hidden states, or of logits
            if (mean) j->later = MRA_HEAD_CLASS;
            else {
                j->head = MRA_HEAD_CLASS;
                j->n_cols = m->info.n_class;
            }
            break;
        case MRA_OUTPUT_TAGS:
            j->head = MRA_HEAD_CLASS;
            j->n_cols = m->info.n_tag;
            break;
        case MRA_OUTPUT_MLM:
            j->head = MRA_HEAD_MLM;
            j->n_cols = m->info.n_vocab;
            break;
        case MRA_OUTPUT_SPARSE:
            j->head = MRA_HEAD_SPARSE;
            j->n_cols = 1;
            break;
        case MRA_OUTPUT_COLBERT:
            j->head = MRA_HEAD_COLBERT;
            j->n_cols = m->info.n_colbert;
            break;
    }
    j->n_dims = j->n_cols;
}

// the head of pooled rows: x : [n_rows][n_embd] -> *out : [n_rows][n_dims]
static enum mra_status run_later(
    struct mra_job * j, const float * x, int64_t n_rows, int64_t n_dims, float ** out, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    const struct mra_model_info * info = &ctx->model->info;
    const int64_t n = j->later == MRA_HEAD_CLASS ? info->n_class : info->n_pooled;
    enum mra_status st = mra_context_reserve(
        (void **) &ctx->later, &ctx->later_cap, (size_t) (n_rows * n) * sizeof(float), err);
    if (st == MRA_OK) st = mra_pass_head(ctx, j->later, x, n_rows, ctx->later, n, err);
    if (st != MRA_OK) return st;
    for (int64_t i = 1; i < n_rows && n_dims < n; i++)
        memmove(ctx->later + i * n_dims, ctx->later + i * n, (size_t) n_dims * sizeof(float));
    *out = ctx->later;
    return MRA_OK;
}

// the job is checked
static enum mra_status encode(struct mra_job * j, struct mra_result * result, struct mra_error * err) {
    struct mra_context * ctx = j->ctx;
    const struct mra_model_info * info = &ctx->model->info;
    const bool pooled = j->want->kind == MRA_OUTPUT_POOLED || j->want->kind == MRA_OUTPUT_SPANS;
    enum mra_status st = sort_sequences(j, err);
    if (st != MRA_OK) return st;
    choose_head(j);
    int64_t n_dims = j->later == MRA_HEAD_CLASS ? info->n_class : pooled ? info->n_pooled : j->n_dims;
    if (pooled && j->want->n_dims) n_dims = j->want->n_dims;
    if (j->later == MRA_HEAD_NONE) j->n_dims = n_dims;
    const int64_t n_rows = count_rows(j);
    ctx->stats.output_bytes = (size_t) (n_rows * j->n_dims) * sizeof(float);
    st = mra_context_reserve((void **) &ctx->out, &ctx->out_cap, ctx->stats.output_bytes, err);
    if (st == MRA_OK) st = reserve_errors(j, err);
    if (st == MRA_OK) st = begin_search(j, err);
    if (st == MRA_OK) st = run(j, 0, err);
    if (st == MRA_OK && ctx->n_sought) st = search(j, err);
    float * out = ctx->out;
    if (st == MRA_OK && j->later != MRA_HEAD_NONE) st = run_later(j, ctx->out, n_rows, n_dims, &out, err);
    if (st == MRA_OK) st = mra_gguf_recheck(&ctx->model->file, err); // what was computed is of the weights as loaded
    if (st != MRA_OK) return st;
    const bool normalize = j->want->normalize ? j->want->normalize > 0 : info->normalize;
    if ((pooled && normalize) || j->want->kind == MRA_OUTPUT_COLBERT) normalize_rows(out, n_rows, n_dims);
    *result = (struct mra_result) { out, n_rows, n_dims };
    return MRA_OK;
}

enum mra_status mra_encode(struct mra_context * ctx, const struct mra_seq * seqs, int n_seq,
    const struct mra_output * want, struct mra_result * result, struct mra_error * err) {
    if (result) *result = (struct mra_result) { 0 };
    if (!ctx || !want || !result)
        return mra_fail(err, MRA_ERR_ARG, "no %s", !ctx ? "context" : !want ? "output" : "result");
    const double t0 = mra_now_ms();
    enum mra_status st = check_request(ctx->model, seqs, n_seq, want, err);
    if (st != MRA_OK) return st;

    ctx->n_errors = ctx->n_sought = 0;
    const size_t largest = ctx->stats.compute_bytes;
    ctx->stats = (struct mra_stats) { .compute_bytes = largest };
    struct mra_job j = { .ctx = ctx, .seqs = seqs, .n_seq = n_seq, .want = want };
    j.pooling = want->pooling ? want->pooling : ctx->model->info.pooling;
    j.first_row = malloc((size_t) n_seq * (sizeof(*j.first_row) + sizeof(*j.order) + sizeof(*j.start)));
    if (!j.first_row) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    j.order = (int *) (j.first_row + n_seq);
    j.start = (int32_t *) (j.order + n_seq);
    mra_threads_enter(&ctx->at_work);
    st = encode(&j, result, err);
    mra_threads_leave(&ctx->at_work);
    free(j.first_row);
    ctx->stats.total_ms = mra_now_ms() - t0;
    return st;
}
