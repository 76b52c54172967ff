// What a run counts and says at its end.
#pragma once

#include "engine.h"

struct report {
    int64_t n_done, n_failed, n_skipped; // records
    int64_t n_tokens;                    // computed
    int64_t done_bytes;                  // of the input
    double t_start, tokenize_ms, encode_ms, exact_ms, build_ms, write_ms, part_ms[MRA_PART_COUNT];
    double max_err, rel_err, cosine;   // --verify: of the worst record
    struct mra_error_summary estimate; // --estimate: of the record with the largest error
    double * errors;                   // of all records: [n_layer][n_head][MRA_ATTN_ERROR_SUMS], owned; or NULL
    double gflop, gflop_exact;         // --dry-run
    size_t compute_bytes;
};

void report_begin(struct report * r, const struct engine * e);
// of one mra_encode; exact_ms: what --verify took
void report_encoded(struct report * r, const struct mra_stats * stats, double exact_ms);
// --estimate: adds the sums of a sequence (mra_context_errors); NULL: nothing
void report_errors(struct report * r, const struct engine * e, const double * sums);
// All lines on stderr.
void report_end(const struct report * r, const struct engine * e, const struct options * o);
// of the program, where its input and output could be used
int report_exit_code(const struct report * r);
