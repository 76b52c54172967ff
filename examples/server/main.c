// mra-server: embeddings, reranking and classification over HTTP.
#include "http.h"
#include "worker.h"

#include "common/clock.h"
#include "common/signals.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char program[] = "mra-server";
enum { TICK_MS = 20 };

static void tick(void) {
    const struct timespec t = { .tv_nsec = TICK_MS * 1000000L };
    nanosleep(&t, NULL);
}

static bool is_loopback(const char * host) {
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

static void say_ready(const struct settings * s, int port) {
    const bool v6 = strchr(s->host, ':') != NULL;
    if (!is_loopback(s->host) && s->keys.n == 0)
        fprintf(stderr, "%s: anyone who reaches %s may use it: --api-key-file asks for a key\n", program, s->host);
    fprintf(stderr, "%s: listening on http://%s%s%s:%d\n", program, v6 ? "[" : "", s->host, v6 ? "]" : "", port);
}

// What was accepted is finished; replies that nobody reads do not hold the end up for ever.
static void wind_down(struct server * s, struct http * http) {
    const double until = now_ms() + s->settings.timeout_ms + 5e3;
    fprintf(stderr, "%s: stopping; %d requests are being served\n", program, atomic_load(&s->n_calls));
    atomic_store(&s->stopping, true);
    http_quiesce(http);
    while (atomic_load(&s->n_calls) > 0 && now_ms() < until) {
        queue_watch(s->queue);
        tick();
    }
    queue_close(s->queue);
    while (queue_state(s->queue).n_jobs > 0) {
        queue_watch(s->queue);
        tick();
    }
}

int main(int argc, char ** argv) {
    static struct server s;
    s.settings = settings_read(argc, argv);
    signals_catch();
    struct worker * w = worker_new();
    if (!w) fatal(program, "out of memory");
    s.models = models_open(program, &s.settings, worker_stop, w);
    s.queue = queue_new(&(struct queue_limits) { .batch_ms = s.settings.batch_ms,
        .max_ms = s.settings.max_queue_ms,
        .timeout_ms = s.settings.timeout_ms,
        .max_jobs = s.settings.max_connections + s.settings.http_threads });
    if (!s.queue) fatal(program, "out of memory");
    if (!worker_start(w, s.queue, &s.metrics)) fatal(program, "no thread for the encoder");
    int port;
    struct http * http = http_start(&s, program, &port);
    say_ready(&s.settings, port);
    while (!interrupted()) {
        queue_watch(s.queue);
        tick();
    }
    wind_down(&s, http);
    worker_end(w);
    http_stop(http);
    queue_free(s.queue);
    models_free(&s.models);
    settings_free(&s.settings);
    return 0;
}
