#include "report.h"
#include "clock.h"
#include "signals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

void report_begin(struct report * r, const struct engine * e) {
    *r = (struct report) { .cosine = INFINITY, .t_start = now_ms() - e->load_ms };
}

void report_encoded(struct report * r, const struct mra_stats * stats, double exact_ms) {
    r->n_tokens += stats->n_tokens;
    r->encode_ms += stats->total_ms;
    r->exact_ms += exact_ms;
    r->build_ms += stats->build_ms;
    for (int i = 0; i < MRA_PART_COUNT; i++) r->part_ms[i] += stats->part_ms[i];
    if (stats->compute_bytes > r->compute_bytes) r->compute_bytes = stats->compute_bytes;
}

static void print_verify(const struct report * r, const char * program) {
    fprintf(stderr,
        "%s: against exact attention, worst record: max error %.3g, relative error %.3g, cosine %.6f; exact took %.2f "
        "s, this %.2f s\n",
        program, r->max_err, r->rel_err, r->cosine, r->exact_ms / 1e3, r->encode_ms / 1e3);
}

void report_errors(struct report * r, const struct engine * e, const double * sums) {
    const size_t n = (size_t) e->info.n_layer * e->info.n_head * MRA_ATTN_ERROR_SUMS;
    if (!sums) return;
    if (!r->errors && !(r->errors = calloc(n, sizeof(double)))) fatal(e->program, "out of memory");
    for (size_t i = 0; i < n; i++) r->errors[i] += sums[i];
}

static void print_estimate(const struct report * r, const struct engine * e, bool table) {
    const struct mra_error_summary * s = &r->estimate;
    if (s->n_heads == 0) {
        fprintf(stderr, "%s: error of attention: none, it was exact in floats\n", e->program);
        return;
    }
    fprintf(stderr,
        "%s: error of attention, estimated, worst record: all heads %.3g (%.3g to %.3g), mean of heads %.3g, worst "
        "head %.3g (%.3g to %.3g; layer %d, head %d)\n",
        e->program, s->all.error, s->all.low, s->all.high, s->mean, s->worst_head.error, s->worst_head.low,
        s->worst_head.high, s->layer, s->head);
    for (int l = 0; table && l < e->info.n_layer; l++) {
        fprintf(stderr, "%s: layer %2d:", e->program, l);
        for (int h = 0; h < e->info.n_head; h++) {
            const double * sums = r->errors + ((size_t) l * e->info.n_head + h) * MRA_ATTN_ERROR_SUMS;
            fprintf(stderr, " %.3f", mra_attn_error_of(sums).error);
        }
        fprintf(stderr, "%s\n", l ? "" : "   relative error of each head, all records");
    }
}

static void print_times(const struct report * r, const struct engine * e) {
    const double total = now_ms() - r->t_start;
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    fprintf(stderr,
        "%s: %lld records, %lld tokens in %.2f s (%.0f tokens/s); memory: %.1f MB activations, %.1f MB weights, %.0f "
        "MB at most in all\n",
        e->program, (long long) r->n_done, (long long) r->n_tokens, total / 1e3,
        r->encode_ms > 0 ? (double) r->n_tokens / r->encode_ms * 1e3 : 0, (double) r->compute_bytes / 1e6,
        (double) e->info.n_bytes / 1e6, (double) u.ru_maxrss * 1024 / 1e6);
    fprintf(stderr, "%s: load %.0f ms, tokenize %.0f ms, graphs %.0f ms", e->program, e->load_ms, r->tokenize_ms,
        r->build_ms);
    for (int i = 0; i < MRA_PART_COUNT; i++)
        fprintf(stderr, ", %s %.0f ms", mra_part_name((enum mra_part) i), r->part_ms[i]);
    if (e->exact) fprintf(stderr, ", exact %.0f ms", r->exact_ms);
    fprintf(stderr, ", write %.0f ms\n", r->write_ms);
}

void report_end(const struct report * r, const struct engine * e, const struct options * o) {
    const long long n_done = r->n_done, n_failed = r->n_failed;
    if (e->exact && n_done) print_verify(r, e->program);
    if (o->estimate && e->ctx && n_done) print_estimate(r, e, o->verbose);
    if (o->verbose && e->ctx) print_times(r, e);
    if (r->n_skipped) fprintf(stderr, "%s: %lld records were finished before\n", e->program, (long long) r->n_skipped);
    if (interrupted()) fprintf(stderr, "%s: interrupted after %lld records\n", e->program, n_done);
    if (n_failed) fprintf(stderr, "%s: %lld of %lld records failed\n", e->program, n_failed, n_done + n_failed);
}

int report_exit_code(const struct report * r) { return interrupted() ? 130 : r->n_failed ? 3 : 0; }
