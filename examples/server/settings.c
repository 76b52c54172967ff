#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_HOST = 3000,
    OPT_PORT,
    OPT_ALIAS,
    OPT_KEY,
    OPT_KEY_FILE,
    OPT_IDS,
    OPT_SPARSE,
    OPT_MAX_INPUTS,
    OPT_MAX_BODY,
    OPT_MAX_QUEUE,
    OPT_TIMEOUT,
    OPT_BATCH_MS,
    OPT_CONNECTIONS,
    OPT_HTTP_THREADS,
};

static const struct arg_opt own[] = {
    { 'm', "model", "FILE",
        "GGUF file (see convert/); required. Given again: another model, such as a reranker;\na request takes the "
        "first that can do it, or names one" },
    { OPT_ALIAS, "alias", "NAME", "another name for the model before it, for requests that name theirs" },
    { OPT_HOST, "host", "NAME", "address to listen on (default 127.0.0.1: this machine only; 0.0.0.0: all)" },
    { OPT_PORT, "port", "N", "port (default 8080; 0: any that is free)" },
    { OPT_KEY, "api-key", "KEY",
        "requests must send \"Authorization: Bearer KEY\"; may be given several times.\nOther users of this machine "
        "can see it:" },
    { OPT_KEY_FILE, "api-key-file", "FILE", "the same, a key per line" },
    { OPT_IDS, "accept-token-ids", NULL,
        "take lists of token ids as input: whole sequences of this model's own\ntokenizer, special tokens included" },
    { OPT_SPARSE, "sparse", NULL, "the model was trained as SPLADE: serve /embed_sparse" },
    { OPT_MAX_INPUTS, "max-inputs", "N", "most texts of a request (default 2048)" },
    { OPT_MAX_BODY, "max-body", "MB", "most megabytes of a request (default 16)" },
    { OPT_MAX_QUEUE, "max-queue", "S", "seconds of waiting work from which on requests are turned away (default 30)" },
    { OPT_TIMEOUT, "timeout", "S", "most seconds of a request (default 60)" },
    { OPT_BATCH_MS, "batch-ms", "N", "milliseconds of work that are computed together (default 50)" },
    { OPT_CONNECTIONS, "max-connections", "N", "connections at a time (default 1000)" },
    { OPT_HTTP_THREADS, "http-threads", "N", "threads that read requests, tokenize and write replies (default 2)" },
    { 'v', "verbose", NULL, "print a line for each request" },
};
enum { N_OWN = sizeof(own) / sizeof(own[0]), MAX_SHARED = 64 };

// options of the other programs that mean nothing here
static const char * const not_here[] = { "model", "file", "input", "column", "no-header", "utf8", "files", "pattern",
    "output", "resume", "json", "verbose", "verify", "dry-run" };

static const char notes[] =
    "routes:\n"
    "  POST /v1/embeddings, GET /v1/models                     as OpenAI's\n"
    "  POST /v1/rerank, /rerank                                as Cohere's, Jina's and text-embeddings-inference's\n"
    "  POST /embed /embed_all /embed_sparse /predict /similarity /tokenize, GET /info\n"
    "                                                          as text-embeddings-inference's\n"
    "  POST /classify                                          as infinity's\n"
    "  GET /health /metrics /openapi.json, / (a page to try the model)\n"
    "\n"
    "examples:\n"
    "  mra-server -m minilm.gguf\n"
    "  mra-server -m e5.gguf -m bge-reranker.gguf --host 0.0.0.0 --port 80 --api-key-file keys.txt\n"
    "  curl localhost:8080/v1/embeddings -d '{\"input\": \"a text\"}'\n"
    "\n"
    "exit status:\n"
    "  0    stopped by SIGTERM, SIGINT or SIGHUP: what was accepted is finished first; a second signal ends it at "
    "once\n"
    "  1    failed: model, key file or address\n"
    "  2    wrong usage";

static int shared_options(struct arg_opt to[MAX_SHARED]) {
    int n = 0;
    for (int i = 0; i < n_common_options && n < MAX_SHARED; i++) {
        bool here = true;
        for (size_t j = 0; j < sizeof(not_here) / sizeof(not_here[0]); j++)
            here = here && strcmp(common_options[i].name, not_here[j]) != 0;
        if (here) to[n++] = common_options[i];
    }
    return n;
}

static void * grown(const struct args * a, void * list, int n, size_t size) {
    list = realloc(list, (size_t) (n + 1) * size);
    if (!list) fatal(a->program, "out of memory");
    return list;
}

static void add_key(struct settings * s, const struct args * a, const char * text, size_t n) {
    if (n == 0) usage_error(a->program, "%s: an empty key", a->name);
    s->keys.list = grown(a, s->keys.list, s->keys.n, sizeof(*s->keys.list));
    if (!(s->keys.list[s->keys.n] = strndup(text, n))) fatal(a->program, "out of memory");
    s->keys.n++;
}

static void read_keys(struct settings * s, const struct args * a) {
    FILE * f = fopen(a->value, "r");
    if (!f) fatal(a->program, "%s: %s", a->value, strerror(errno));
    char line[1024];
    const int before = s->keys.n;
    while (fgets(line, sizeof(line), f)) {
        const size_t n = strcspn(line, "\r\n");
        if (n == sizeof(line) - 1) fatal(a->program, "%s: a line is too long for a key", a->value);
        if (n > 0) add_key(s, a, line, n);
    }
    if (ferror(f)) fatal(a->program, "%s: cannot be read", a->value);
    fclose(f);
    if (s->keys.n == before) fatal(a->program, "%s: no key in it", a->value);
}

static void take(struct settings * s, const struct args * a, int id) {
    switch (id) {
        case 'm':
            s->models = grown(a, s->models, s->n_models, sizeof(*s->models));
            s->models[s->n_models++] = (struct model_name) { .path = a->value };
            break;
        case OPT_ALIAS:
            if (!s->n_models) usage_error(a->program, "--alias %s: no -m before it", a->value);
            s->models[s->n_models - 1].alias = a->value;
            break;
        case OPT_HOST: s->host = a->value; break;
        case OPT_PORT: s->port = (int) args_int(a, 0, 65535); break;
        case OPT_KEY: add_key(s, a, a->value, strlen(a->value)); break;
        case OPT_KEY_FILE: read_keys(s, a); break;
        case OPT_IDS: s->accept_token_ids = true; break;
        case OPT_SPARSE: s->sparse = true; break;
        case OPT_MAX_INPUTS: s->max_inputs = (int) args_int(a, 1, 1 << 20); break;
        case OPT_MAX_BODY: s->max_body = (size_t) (args_real(a, 0.001, 4096) * 1e6); break;
        case OPT_MAX_QUEUE: s->max_queue_ms = args_real(a, 0.001, 1e6) * 1e3; break;
        case OPT_TIMEOUT: s->timeout_ms = args_real(a, 0.01, 1e6) * 1e3; break;
        case OPT_BATCH_MS: s->batch_ms = args_real(a, 0.01, 1e6); break;
        case OPT_CONNECTIONS: s->max_connections = (int) args_int(a, 1, 1 << 20); break;
        case OPT_HTTP_THREADS: s->http_threads = (int) args_int(a, 1, 64); break;
        default: options_take(&s->o, a, id);
    }
}

struct settings settings_read(int argc, char ** argv) {
    struct arg_opt shared[MAX_SHARED];
    struct args a = {
        .program = "mra-server",
        .usage = "-m MODEL [-m MODEL...] [options]",
        .about = "Embeddings, reranking and classification over HTTP.",
        .opts = own,
        .n_opt = N_OWN,
        .common = shared,
        .n_common = shared_options(shared),
        .notes = notes,
    };
    struct settings s = {
        .o = options_default(),
        .host = "127.0.0.1",
        .port = 8080,
        .max_inputs = 2048,
        .max_body = 16 * 1000 * 1000,
        .max_queue_ms = 30e3,
        .timeout_ms = 60e3,
        .batch_ms = 50,
        .max_connections = 1000,
        .http_threads = 2,
    };
    for (int id; (id = args_next(&a, argc, argv)) != -1;) take(&s, &a, id);
    args_end(&a, argc, argv);
    if (!s.n_models) usage_error(a.program, "no model: -m FILE (see --help)");
    if (s.o.truncate == TRUNCATE_CHUNK) usage_error(a.program, "--truncate chunk is for mra-embed; use error or right");
    if (s.o.prefix && s.o.prompt) usage_error(a.program, "--prefix and --prompt exclude each other");
    return s;
}

void settings_free(struct settings * s) {
    for (int i = 0; i < s->keys.n; i++) free(s->keys.list[i]);
    free(s->keys.list);
    free(s->models);
    options_free(&s->o);
}

bool keys_have(const struct keys * k, const char * text, size_t n) {
    unsigned found = 0;
    for (int i = 0; i < k->n; i++) {
        const size_t n_key = strlen(k->list[i]);
        volatile unsigned differ = n != n_key;
        for (size_t j = 0; j < n; j++) differ |= (unsigned char) (text[j] ^ k->list[i][j % n_key]);
        found |= !differ;
    }
    return found != 0;
}
