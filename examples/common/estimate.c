// --dry-run: tokens, attention, work and memory of each record, without computing it.
#include "output.h"
#include "stream.h"

#include <math.h>
#include <stdio.h>

struct estimate {
    bool exact, int8;
    double work, gflop, gflop_exact, bytes;
};

// Activations of a batch: five rows of the width per token, the feed-forward part of a few tokens, and what attention
// adds for the longest text. Measured on the models of tests/ and MiniLM: right within a fifth from 500 tokens on, too
// high below.
static double activation_bytes(const struct mra_model_info * info, double tokens, double longest, bool exact) {
    const double d = info->n_embd;
    return 4 * (5 * tokens * d + (exact ? 1.4 : 3) * longest * d + fmin(tokens, MRA_DEFAULT_FFN_ROWS) * info->n_ff);
}

static struct estimate estimate(const struct engine * e, const struct item * it) {
    const double d = e->info.n_embd, layers = e->info.n_layer;
    struct estimate est = { .exact = true };
    double all = 0, longest = 0;
    for (int i = 0; i < it->n_seq; i++) {
        const struct mra_attention_choice c = mra_attention_of(e->model, &e->params, it->seqs[i].n);
        const double n = it->seqs[i].n, attn = 4 * n * n * d * layers / 1e9;
        if (!c.exact) est.exact = false;
        if (c.attn.type == MRA_ATTN_INT8) est.int8 = true;
        est.gflop += engine_gflop(&e->info, it->seqs[i].n, c.work);
        est.gflop_exact += engine_gflop(&e->info, it->seqs[i].n, 1);
        est.work += attn * c.work;
        all += attn;
        longest = fmax(longest, n);
    }
    est.work = all > 0 ? est.work / all : 1;
    est.bytes = activation_bytes(&e->info, longest, longest, est.exact);
    return est;
}

static const struct table_col cols[] = {
    { "record", 10, true },
    { "tokens", 8, false },
    { "passes", 6, false },
    { "attention", 9, false },
    { "type", 5, false },
    { "work", 6, false },
    { "GFLOP", 9, false },
    { "if exact", 9, false },
    { "memory MB", 9, false },
};
enum { N_COLS = sizeof(cols) / sizeof(cols[0]) };

static void begin(struct stream * s) {
    for (int i = 0; i < N_COLS && !s->o->json; i++)
        sink_printf(
            &s->out, cols[i].left ? "%-*s%s" : "%*s%s", cols[i].width, cols[i].title, i + 1 < N_COLS ? "  " : "\n");
}

static void emit(struct stream * s, struct item * it) {
    const struct estimate e = estimate(&s->engine, it);
    const double n_bytes = e.bytes + (double) s->engine.info.n_bytes;
    s->report.n_tokens += it->n_tokens;
    s->report.gflop += e.gflop;
    s->report.gflop_exact += e.gflop_exact;
    if ((size_t) e.bytes > s->report.compute_bytes) s->report.compute_bytes = (size_t) e.bytes;
    if (s->o->json) {
        stream_json_head(s, it);
        sink_printf(&s->out,
            "\"tokens\": %lld, \"passes\": %d, \"attention\": \"%s\", \"attention_type\": \"%s\", \"attention_work\": "
            "%.4g, \"gflop\": %.5g, "
            "\"gflop_exact\": %.5g, \"memory_bytes\": %.0f",
            (long long) it->n_tokens, it->n_seq, e.exact ? "exact" : "mra",
            mra_attn_numbers(e.int8 ? MRA_ATTN_INT8 : MRA_ATTN_FLOAT), e.work, e.gflop, e.gflop_exact, n_bytes);
        stream_json_tail(s, it);
        stream_line_end(s);
        return;
    }
    char name[64];
    const struct record * r = &it->rec;
    if (r->id) snprintf(name, sizeof(name), "%.60s", r->id);
    else snprintf(name, sizeof(name), "%.40s%s%lld", r->file ? r->file : "", r->file ? ":" : "", (long long) r->line);
    sink_printf(&s->out, "%-10s  %8lld  %6d  %9s  %5s  %6.3f  %9.2f  %9.2f  %9.1f\n", name, (long long) it->n_tokens,
        it->n_seq, e.exact ? "exact" : "mra", mra_attn_numbers(e.int8 ? MRA_ATTN_INT8 : MRA_ATTN_FLOAT), e.work,
        e.gflop, e.gflop_exact, n_bytes / 1e6);
    sink_commit(&s->out);
}

static void end(struct stream * s) {
    const struct mra_model_info * info = &s->engine.info;
    const struct report * r = &s->report;
    const double batch = fmin(s->o->batch_tokens, (double) r->n_tokens),
                 most = fmax((double) r->compute_bytes, activation_bytes(info, batch, 0, true));
    fprintf(stderr,
        "%s: %lld records, %lld tokens, %.1f GFLOP (%.1f with exact attention), about %.0f MB of memory (%.0f MB of it "
        "weights)\n",
        s->program, (long long) r->n_done, (long long) r->n_tokens, r->gflop, r->gflop_exact,
        (most + (double) info->n_bytes) / 1e6, (double) info->n_bytes / 1e6);
}

const struct handlers estimate_handlers = { .begin = begin, .emit = emit, .end = end };
