// A call: an HTTP request, what it asks for, and its reply. http.c receives and sends it; routes.c knows who serves it.
#pragma once

#include "server.h"

#include "common/json.h"

struct text {
    char * s; // owned
    size_t n;
};
struct text_list {
    struct text * data; // [n], owned
    int n;
};

// What the reply needs to know of the request.
struct ask {
    struct text_list texts; // rerank, similarity: documents
    bool single;            // one text, not a list of one
    bool base64, raw_scores, return_text, tei, cosine;
    int top_n; // 0: all
};

struct call {
    struct server * server;
    const struct route * route; // NULL: there is none
    char * body;                // owned
    size_t n_body, cap_body;
    struct ask ask;
    struct job * job; // NULL: nothing to compute
    double t_start, tokenize_ms;
    // the reply
    int status; // 0: not known yet
    const char * type;
    char allow[16]; // 405: the methods there are
    struct sink out;
    int retry_s; // 0: do not say
};

// A reply in JSON begins: write to c->out, then return.
void call_reply(struct call * c, int status);
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
// An error in the shape of the route: param is the field it is about, or NULL. Returns false, so that
// `return call_fail(...)` reads well.
bool call_fail(struct call * c, int status, const char * param, const char * fmt, ...);
void call_free(struct call * c);

void text_list_free(struct text_list * l);
