// Who serves what.
#pragma once

#include "call.h"

enum error_shape {
    SHAPE_OPENAI, // {"error": {"message", "type", "param", "code"}}
    SHAPE_TEI,    // {"error": "...", "error_type": "..."}
};

struct route {
    const char *method, *path;
    // Reads the request: replies (c->status), or makes c->job.
    void (*prepare)(struct call * c);
    // Replies when c->job is done. NULL: prepare replies.
    void (*finish)(struct call * c);
    enum error_shape shape;
    bool open; // needs no key
};

// Sets c->route, or fails the call: no such path, another method.
void routes_find(struct call * c, const char * method, const char * path);
bool route_label(int i, char * text, size_t size); // for metrics_print
int route_index(const struct route * r);

// ---- by file ----

void openai_embeddings(struct call *c), openai_embeddings_reply(struct call *c), openai_models(struct call *c);
void tei_embed(struct call *c), tei_embed_reply(struct call *c);
void tei_embed_all(struct call *c), tei_embed_all_reply(struct call *c);
void tei_embed_sparse(struct call *c), tei_embed_sparse_reply(struct call *c);
void tei_similarity(struct call *c), tei_similarity_reply(struct call *c);
void tei_tokenize(struct call *c), tei_info(struct call *c);
void tei_predict(struct call *c), tei_predict_reply(struct call *c);
void tei_root(struct call *c), tei_root_reply(struct call *c);
void rerank(struct call *c), rerank_reply(struct call *c);
void classify(struct call *c), classify_reply(struct call *c);
void health(struct call *c), metrics(struct call *c), page(struct call *c), openapi(struct call *c);
