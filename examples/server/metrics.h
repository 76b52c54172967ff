// What a server counts, in Prometheus' text format.
#pragma once

#include "queue.h"

#include "common/sink.h"

enum { METRICS_ROUTES = 32, METRICS_BUCKETS = 14, METRICS_CODES = 16 };

struct histogram {
    atomic_llong counts[METRICS_BUCKETS + 1];
    _Atomic double sum;
};

struct metrics {
    atomic_llong calls[METRICS_ROUTES][METRICS_CODES]; // by route and status
    struct histogram seconds;                          // of calls that computed something
    struct histogram batch_sequences, batch_tokens;
    atomic_llong n_tokens, n_texts, n_truncated, n_batches;
    _Atomic double encode_seconds;
};

void metrics_call(struct metrics * m, int route, int status, double seconds); // seconds < 0: nothing was computed
void metrics_batch(struct metrics * m, int n_seq, int64_t n_tokens, double seconds);
// route_label(i, text, size): writes method="GET",route="/x"; false: there are no more
void metrics_print(
    struct metrics * m, struct queue * q, bool (*route_label)(int i, char * text, size_t size), struct sink * out);
