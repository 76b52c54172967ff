// --dry-run: tokens, attention, work and memory of each record, without computing it.
#include "output.h"
#include "stream.h"

#include <math.h>
#include <stdio.h>

struct estimate {
    bool exact;
    double work, gflop, gflop_exact, bytes;
};

// the same choice as MRA_ATTENTION_AUTO's in mra-encoder.h
static bool is_exact(const struct stream * s, const struct mra_attn_params * p, int n) {
    if (s->o->attention == MRA_ATTENTION_EXACT || p->frame == MRA_FRAME_EXACT) return true;
    if (s->o->attention == MRA_ATTENTION_MRA) return false;
    return mra_attn_work(p, n, n) >= 1 || (!s->info.has_mra && n <= 1024);
}

// Activations of a batch: five rows of the width per token, the feed-forward part of 512 tokens, and what attention
// adds for the longest text. Measured on the models of tests/ and MiniLM: right within a fifth from 500 tokens on, too
// high below.
static double activation_bytes(const struct stream * s, double tokens, double longest, bool exact) {
    const double d = s->info.n_embd;
    return 4 * (5 * tokens * d + (exact ? 1.4 : 3) * longest * d + fmin(tokens, 512) * s->info.n_ff);
}

static struct estimate estimate(const struct stream * s, const struct item * it) {
    const bool own = s->o->attention == MRA_ATTENTION_AUTO && s->info.has_mra;
    const struct mra_attn_params p = own ? s->info.attn : s->o->attn;
    const double d = s->info.n_embd, layers = s->info.n_layer;
    struct estimate e = { .exact = true };
    double all = 0, longest = 0;
    for (int i = 0; i < it->n_seq; i++) {
        const double n = it->seqs[i].n, dense = 2 * n * (4 * d * d + 2 * d * s->info.n_ff) * layers / 1e9,
                     attn = 4 * n * n * d * layers / 1e9;
        const bool exact = is_exact(s, &p, it->seqs[i].n);
        const double w = exact ? 1 : fmin(1, mra_attn_work(&p, it->seqs[i].n, it->seqs[i].n));
        if (!exact) e.exact = false;
        e.gflop += dense + attn * w;
        e.gflop_exact += dense + attn;
        e.work += attn * w;
        all += attn;
        longest = fmax(longest, n);
    }
    e.work = all > 0 ? e.work / all : 1;
    e.bytes = activation_bytes(s, longest, longest, e.exact);
    return e;
}

static const struct table_col cols[] = {
    { "record", 10, true },
    { "tokens", 8, false },
    { "passes", 6, false },
    { "attention", 9, false },
    { "work", 6, false },
    { "GFLOP", 9, false },
    { "if exact", 9, false },
    { "memory MB", 9, false },
};
enum { N_COLS = sizeof(cols) / sizeof(cols[0]) };

void estimate_begin(struct stream * s) {
    for (int i = 0; i < N_COLS && !s->o->json; i++)
        sink_printf(
            &s->out, cols[i].left ? "%-*s%s" : "%*s%s", cols[i].width, cols[i].title, i + 1 < N_COLS ? "  " : "\n");
}

void estimate_emit(struct stream * s, struct item * it) {
    const struct estimate e = estimate(s, it);
    s->n_computed += it->n_tokens;
    s->gflop += e.gflop;
    s->gflop_exact += e.gflop_exact;
    if ((size_t) e.bytes > s->compute_bytes) s->compute_bytes = (size_t) e.bytes;
    if (s->o->json) {
        stream_json_head(s, it);
        sink_printf(&s->out,
            "\"tokens\": %lld, \"passes\": %d, \"attention\": \"%s\", \"attention_work\": %.4g, \"gflop\": %.5g, "
            "\"gflop_exact\": %.5g, \"memory_bytes\": %.0f",
            (long long) it->n_tokens, it->n_seq, e.exact ? "exact" : "mra", e.work, e.gflop, e.gflop_exact,
            e.bytes + (double) s->info.n_bytes);
        stream_json_tail(s, it);
        stream_line_end(s);
        return;
    }
    char name[32];
    if (it->rec.id) snprintf(name, sizeof(name), "%.30s", it->rec.id);
    else snprintf(name, sizeof(name), "%lld", (long long) it->rec.line);
    sink_printf(&s->out, "%-10s  %8lld  %6d  %9s  %6.3f  %9.2f  %9.2f  %9.1f\n", name, (long long) it->n_tokens,
        it->n_seq, e.exact ? "exact" : "mra", e.work, e.gflop, e.gflop_exact,
        (e.bytes + (double) s->info.n_bytes) / 1e6);
    sink_commit(&s->out);
}

void estimate_end(struct stream * s) {
    const double batch = fmin(s->o->batch_tokens ? s->o->batch_tokens : 8192, (double) s->n_computed),
                 most = fmax((double) s->compute_bytes, activation_bytes(s, batch, 0, true));
    fprintf(stderr,
        "%s: %lld records, %lld tokens, %.1f GFLOP (%.1f with exact attention), about %.0f MB of memory (%.0f MB of it "
        "weights)\n",
        s->program, (long long) s->n_done, (long long) s->n_computed, s->gflop, s->gflop_exact,
        (most + (double) s->info.n_bytes) / 1e6, (double) s->info.n_bytes / 1e6);
}
