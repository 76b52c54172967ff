#include "http.h"
#include "routes.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    IDLE_S = 60,               // a connection without a byte is closed
    DISCARD = 256 * 1000000,   // so much of a body that is refused is read, so that the client sees the reply
    BODIES = 16,               // bodies of the largest size that may be in memory
    CONNECTION_BYTES = 1 << 16 // buffers of a connection
};

struct http {
    struct server * server;
    struct MHD_Daemon * daemon;
    int fd;
};

struct exchange { // a call and its connection
    struct call call;
    struct MHD_Connection * connection;
    bool refused, queued;
    int64_t n_received;
    char method[8];
};

// ---- receiving ----

static const char * header(struct MHD_Connection * con, const char * name) {
    return MHD_lookup_connection_value(con, MHD_HEADER_KIND, name);
}

static void check_key(struct call * c, struct MHD_Connection * con) {
    const struct keys * keys = &c->server->settings.keys;
    if (c->status || keys->n == 0 || c->route->open) return;
    const char * given = header(con, "Authorization");
    if (given && strncasecmp(given, "Bearer ", 7) == 0 && keys_have(keys, given + 7, strlen(given + 7))) return;
    call_fail(c, 401, NULL, given ? "wrong key" : "no key: send Authorization: Bearer KEY");
}

static void too_large(struct call * c) {
    call_fail(c, 413, NULL, "the body is larger than %g MB (mra-server --max-body)",
        (double) c->server->settings.max_body / 1e6);
}

// The head of a request is there. NULL: no memory, the connection is closed.
static struct exchange * begin(struct server * s, struct MHD_Connection * con, const char * method, const char * url) {
    struct exchange * x = calloc(1, sizeof(*x));
    if (!x) return NULL;
    atomic_fetch_add(&s->n_calls, 1);
    snprintf(x->method, sizeof(x->method), "%s", method);
    x->connection = con;
    struct call * c = &x->call;
    c->server = s;
    c->t_start = now_ms();
    c->out.fd = -1;
    routes_find(c, method, url);
    check_key(c, con);
    const char * length = header(con, "Content-Length");
    if (!c->status && length && strtoull(length, NULL, 10) > s->settings.max_body) too_large(c);
    if (!c->status && atomic_load(&s->stopping) && !c->route->open) call_fail(c, 503, NULL, "stopping");
    x->refused = c->status != 0;
    return x;
}

// data[0 .. n) of the body
static void receive(struct exchange * x, const char * data, size_t n) {
    struct call * c = &x->call;
    struct server * s = c->server;
    x->n_received += (int64_t) n;
    if (x->refused) return;
    if (c->n_body + n > s->settings.max_body) too_large(c);
    else if (now_ms() - c->t_start > s->settings.timeout_ms) call_fail(c, 408, NULL, "the body took too long");
    else if (c->n_body + n + 1 > c->cap_body) {
        const size_t cap = 2 * (c->n_body + n) + 1024, more = cap - c->cap_body;
        if (atomic_fetch_add(&s->body_bytes, (long long) more) > (long long) (BODIES * s->settings.max_body)) {
            atomic_fetch_sub(&s->body_bytes, (long long) more);
            call_fail(c, 429, NULL, "too many requests are being received");
            c->retry_s = 1;
        } else {
            char * body = realloc(c->body, cap);
            if (body) c->body = body;
            else call_fail(c, 500, NULL, "out of memory");
            c->cap_body += more;
        }
    }
    x->refused = c->status != 0;
    if (x->refused) return;
    memcpy(c->body + c->n_body, data, n);
    c->n_body += n;
    c->body[c->n_body] = 0;
}

// ---- sending ----

static void add_header(struct MHD_Response * r, const char * name, const char * fmt, double x) {
    char text[64];
    snprintf(text, sizeof(text), fmt, x);
    MHD_add_response_header(r, name, text);
}

// how it was computed, as text-embeddings-inference says it, and which attention ran
static void add_times(struct MHD_Response * r, struct call * c) {
    const struct job * j = c->job;
    char truncated[256] = "";
    size_t at = 0;
    int n = 0;
    for (int i = 0; i < j->n_seq; i++) {
        if (!job_is_truncated(j, i)) continue;
        n++;
        if (at < sizeof(truncated) - 16)
            at += (size_t) snprintf(
                truncated + at, sizeof(truncated) - at, "%s%d", at ? "," : "", i - (c->ask.cosine ? 1 : 0));
    }
    add_header(r, "x-compute-tokens", "%.0f", (double) j->n_tokens);
    add_header(r, "x-tokenization-time", "%.3f", c->tokenize_ms);
    add_header(r, "x-queue-time", "%.3f", j->taken - j->arrived);
    add_header(r, "x-inference-time", "%.3f", j->done - j->taken);
    add_header(r, "x-total-time", "%.3f", now_ms() - c->t_start);
    MHD_add_response_header(r, "x-attention", job_attention(j).text);
    MHD_add_response_header(r, "x-model", j->model->id);
    if (c->ask.cosine) MHD_add_response_header(r, "x-scores", "cosine");
    if (n) {
        add_header(r, "x-truncated-count", "%.0f", n);
        MHD_add_response_header(r, "x-truncated", truncated);
        atomic_fetch_add(&c->server->metrics.n_truncated, n);
    }
}

static enum MHD_Result send_reply(struct exchange * x) {
    struct call * c = &x->call;
    if (c->out.error) call_fail(c, 500, NULL, "out of memory");
    struct MHD_Response * r = MHD_create_response_from_buffer(c->out.n, c->out.buf, MHD_RESPMEM_MUST_FREE);
    if (!r) return MHD_NO;
    c->out.buf = NULL;
    MHD_add_response_header(r, "Content-Type", c->type);
    if (c->retry_s) add_header(r, "Retry-After", "%.0f", c->retry_s);
    if (*c->allow) MHD_add_response_header(r, "Allow", c->allow);
    if (c->status == 401) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (c->status == 200 && c->job) add_times(r, c);
    if (atomic_load(&c->server->stopping)) MHD_add_response_header(r, "Connection", "close");
    const enum MHD_Result good = MHD_queue_response(x->connection, (unsigned) c->status, r);
    MHD_destroy_response(r);
    const double ms = now_ms() - c->t_start;
    metrics_call(&c->server->metrics, route_index(c->route), c->status, c->status == 200 && c->job ? ms / 1e3 : -1);
    if (c->server->settings.o.verbose) {
        fprintf(stderr, "mra-server: %s %s %d, %zu bytes, %.1f ms", x->method, c->route ? c->route->path : "?",
            c->status, c->n_body, ms);
        if (c->job) fprintf(stderr, ", %d texts, %lld tokens", c->job->n_seq, (long long) c->job->n_tokens);
        fputc('\n', stderr);
    }
    return good;
}

// ---- serving ----

static void resume(void * user) { MHD_resume_connection(user); }

// the request is complete
static enum MHD_Result serve(struct exchange * x) {
    struct call * c = &x->call;
    struct job * j;
    if (!c->status) c->route->prepare(c);
    if (c->status || !(j = c->job)) return send_reply(x);
    if (!queue_admit(c->server->queue, j, &c->retry_s)) {
        if (atomic_load(&c->server->stopping)) call_fail(c, 503, NULL, "stopping");
        else call_fail(c, 429, NULL, "overloaded: ask again in %d s", c->retry_s);
        return send_reply(x);
    }
    const union MHD_ConnectionInfo * info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    j->fd = info ? info->connect_fd : -1;
    j->wake = resume;
    j->wake_user = x->connection;
    x->queued = true;
    MHD_suspend_connection(x->connection);
    queue_put(c->server->queue, j);
    return MHD_YES;
}

// the job is no longer waiting
static enum MHD_Result finish(struct exchange * x) {
    struct call * c = &x->call;
    switch (atomic_load(&c->job->state)) {
        case JOB_DONE: c->route->finish(c); break;
        case JOB_FAILED: call_fail(c, c->job->status, NULL, "%s", c->job->err.msg); break;
        default: return MHD_NO; // nobody is there to read a reply
    }
    return send_reply(x);
}

static enum MHD_Result on_request(void * cls, struct MHD_Connection * con, const char * url, const char * method,
    const char * version, const char * data, size_t * n_data, void ** state) {
    struct http * h = cls;
    struct exchange * x = *state;
    (void) version;
    if (!x) {
        *state = x = begin(h->server, con, method, url);
        if (!x) return MHD_NO;
        const char * expect = header(con, "Expect");
        return x->refused && expect ? send_reply(x) : MHD_YES; // a client that asks first gets its answer first
    }
    if (x->queued) return finish(x);
    if (*n_data == 0) return serve(x);
    receive(x, data, *n_data);
    *n_data = 0;
    return x->refused && x->n_received > DISCARD ? MHD_NO : MHD_YES;
}

static void on_end(void * cls, struct MHD_Connection * con, void ** state, enum MHD_RequestTerminationCode why) {
    struct http * h = cls;
    struct exchange * x = *state;
    (void) con, (void) why;
    if (!x) return;
    atomic_fetch_sub(&h->server->body_bytes, (long long) x->call.cap_body);
    call_free(&x->call); // the first member: frees x
    *state = NULL;
    atomic_fetch_sub(&h->server->n_calls, 1);
}

// ---- the daemon ----

static int try_listen(const struct addrinfo * a) {
    const int one = 1, fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int listen_at(const char * program, const char * host, int port) {
    char service[16];
    snprintf(service, sizeof(service), "%d", port);
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo * list = NULL;
    const int rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0) fatal(program, "--host %s: %s", host, gai_strerror(rc));
    int fd = -1;
    for (const struct addrinfo * a = list; a && fd < 0; a = a->ai_next) fd = try_listen(a);
    if (fd < 0) fatal(program, "cannot listen on %s, port %d: %s", host, port, strerror(errno));
    freeaddrinfo(list);
    return fd;
}

static int port_of(int fd) {
    struct sockaddr_storage a;
    socklen_t n = sizeof(a);
    if (getsockname(fd, (struct sockaddr *) &a, &n) != 0) return 0;
    return ntohs(
        a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *) &a)->sin6_port : ((struct sockaddr_in *) &a)->sin_port);
}

struct http * http_start(struct server * s, const char * program, int * port) {
    const struct settings * o = &s->settings;
    struct http * h = calloc(1, sizeof(*h));
    if (!h) fatal(program, "out of memory");
    h->server = s;
    h->fd = listen_at(program, o->host, o->port);
    *port = port_of(h->fd);
    const int most = o->max_connections > o->http_threads ? o->max_connections : o->http_threads;
    h->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, h,
        MHD_OPTION_LISTEN_SOCKET, h->fd, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned) (o->http_threads > 1 ? o->http_threads : 0), MHD_OPTION_NOTIFY_COMPLETED, on_end, h,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) IDLE_S, MHD_OPTION_CONNECTION_LIMIT, (unsigned) most,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) CONNECTION_BYTES, MHD_OPTION_END);
    if (!h->daemon) fatal(program, "libmicrohttpd does not start");
    return h;
}

void http_quiesce(struct http * h) {
    const int fd = MHD_quiesce_daemon(h->daemon);
    if (fd >= 0) close(fd);
}

void http_stop(struct http * h) {
    MHD_stop_daemon(h->daemon);
    free(h);
}
