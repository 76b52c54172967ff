#include "metrics.h"

static const double second_bounds[METRICS_BUCKETS] = { .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30 };
static const double count_bounds[METRICS_BUCKETS] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192 };
static const int codes[METRICS_CODES] = { 200, 400, 401, 404, 405, 408, 413, 422, 424, 429, 500, 503 };

static void add(_Atomic double * to, double x) {
    double old = atomic_load(to);
    while (!atomic_compare_exchange_weak(to, &old, old + x)) {}
}

static void observe(struct histogram * h, const double * bounds, double x) {
    int i = 0;
    while (i < METRICS_BUCKETS && x > bounds[i]) i++;
    atomic_fetch_add(&h->counts[i], 1);
    add(&h->sum, x);
}

void metrics_call(struct metrics * m, int route, int status, double seconds) {
    int i = 0;
    while (i < METRICS_CODES - 1 && codes[i] != status) i++;
    if (route >= 0 && route < METRICS_ROUTES) atomic_fetch_add(&m->calls[route][i], 1);
    if (seconds >= 0) observe(&m->seconds, second_bounds, seconds);
}

void metrics_batch(struct metrics * m, int n_seq, int64_t n_tokens, double seconds) {
    observe(&m->batch_sequences, count_bounds, n_seq);
    observe(&m->batch_tokens, count_bounds, (double) n_tokens);
    atomic_fetch_add(&m->n_batches, 1);
    atomic_fetch_add(&m->n_tokens, n_tokens);
    atomic_fetch_add(&m->n_texts, n_seq);
    add(&m->encode_seconds, seconds);
}

static void head(struct sink * out, const char * name, const char * kind, const char * help) {
    sink_printf(out, "# HELP mra_%s %s\n# TYPE mra_%s %s\n", name, help, name, kind);
}
static void counter(struct sink * out, const char * name, const char * help, double x) {
    head(out, name, "counter", help);
    sink_printf(out, "mra_%s %.15g\n", name, x);
}
static void gauge(struct sink * out, const char * name, const char * help, double x) {
    head(out, name, "gauge", help);
    sink_printf(out, "mra_%s %.9g\n", name, x);
}

static void print_histogram(
    struct sink * out, const char * name, const char * help, struct histogram * h, const double * bounds) {
    head(out, name, "histogram", help);
    long long n = 0;
    for (int i = 0; i <= METRICS_BUCKETS; i++) {
        n += atomic_load(&h->counts[i]);
        if (i < METRICS_BUCKETS) sink_printf(out, "mra_%s_bucket{le=\"%g\"} %lld\n", name, bounds[i], n);
        else sink_printf(out, "mra_%s_bucket{le=\"+Inf\"} %lld\n", name, n);
    }
    sink_printf(out, "mra_%s_sum %.9g\nmra_%s_count %lld\n", name, atomic_load(&h->sum), name, n);
}

void metrics_print(
    struct metrics * m, struct queue * q, bool (*route_label)(int i, char * text, size_t size), struct sink * out) {
    head(out, "requests_total", "counter", "Requests by route and status.");
    char label[96];
    for (int r = 0; r < METRICS_ROUTES && route_label(r, label, sizeof(label)); r++) {
        for (int i = 0; i < METRICS_CODES; i++) {
            const long long n = atomic_load(&m->calls[r][i]);
            if (n && codes[i]) sink_printf(out, "mra_requests_total{%s,status=\"%d\"} %lld\n", label, codes[i], n);
            else if (n) sink_printf(out, "mra_requests_total{%s,status=\"other\"} %lld\n", label, n);
        }
    }
    const struct queue_state s = queue_state(q);
    print_histogram(out, "request_seconds", "Time of requests that were computed.", &m->seconds, second_bounds);
    print_histogram(out, "batch_texts", "Texts computed together.", &m->batch_sequences, count_bounds);
    print_histogram(out, "batch_tokens", "Tokens computed together.", &m->batch_tokens, count_bounds);
    counter(out, "tokens_total", "Tokens computed.", (double) atomic_load(&m->n_tokens));
    counter(out, "texts_total", "Texts computed.", (double) atomic_load(&m->n_texts));
    counter(out, "truncated_total", "Texts that were cut.", (double) atomic_load(&m->n_truncated));
    counter(out, "encode_seconds_total", "Time the encoder was busy.", atomic_load(&m->encode_seconds));
    counter(out, "clients_gone_total", "Requests dropped because their client had left.", (double) s.n_gone);
    counter(out, "timeouts_total", "Requests that took too long.", (double) s.n_late);
    gauge(out, "queue_requests", "Requests waiting or being computed.", s.n_jobs);
    gauge(out, "queue_seconds", "Predicted work of them.", s.waiting_ms / 1e3);
}
