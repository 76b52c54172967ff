#include "routes.h"

#include <stdio.h>
#include <string.h>

static const struct route routes[] = {
    { "GET", "/", page, NULL, SHAPE_TEI, true },
    { "GET", "/health", health, NULL, SHAPE_TEI, true },
    { "GET", "/openapi.json", openapi, NULL, SHAPE_TEI, true },
    { "GET", "/metrics", metrics, NULL, SHAPE_TEI, false },
    { "GET", "/info", tei_info, NULL, SHAPE_TEI, false },
    { "GET", "/v1/models", openai_models, NULL, SHAPE_OPENAI, false },
    { "POST", "/v1/embeddings", openai_embeddings, openai_embeddings_reply, SHAPE_OPENAI, false },
    { "POST", "/v1/rerank", rerank, rerank_reply, SHAPE_OPENAI, false },
    { "POST", "/v2/rerank", rerank, rerank_reply, SHAPE_OPENAI, false }, // Cohere's newer client
    { "POST", "/rerank", rerank, rerank_reply, SHAPE_TEI, false },
    { "POST", "/embed", tei_embed, tei_embed_reply, SHAPE_TEI, false },
    { "POST", "/embed_all", tei_embed_all, tei_embed_all_reply, SHAPE_TEI, false },
    { "POST", "/embed_sparse", tei_embed_sparse, tei_embed_sparse_reply, SHAPE_TEI, false },
    { "POST", "/predict", tei_predict, tei_predict_reply, SHAPE_TEI, false },
    { "POST", "/similarity", tei_similarity, tei_similarity_reply, SHAPE_TEI, false },
    { "POST", "/tokenize", tei_tokenize, NULL, SHAPE_TEI, false },
    { "POST", "/classify", classify, classify_reply, SHAPE_TEI, false },
    { "POST", "/", tei_root, tei_root_reply, SHAPE_TEI, false },
};
enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };
_Static_assert(sizeof(routes) / sizeof(routes[0]) <= (size_t) METRICS_ROUTES, "METRICS_ROUTES is too small");

bool route_label(int i, char * text, size_t size) {
    if (i >= N_ROUTES) return false;
    snprintf(text, size, "method=\"%s\",route=\"%s\"", routes[i].method, routes[i].path);
    return true;
}
int route_index(const struct route * r) { return r ? (int) (r - routes) : -1; }

void routes_find(struct call * c, const char * method, const char * path) {
    size_t n = 0;
    if (strcmp(method, "HEAD") == 0) method = "GET";
    for (int i = 0; i < N_ROUTES && !c->route; i++) {
        if (strcmp(routes[i].path, path) != 0) continue;
        if (strcmp(routes[i].method, method) == 0) c->route = &routes[i];
        else n += (size_t) snprintf(c->allow + n, sizeof(c->allow) - n, "%s%s", n ? ", " : "", routes[i].method);
    }
    if (c->route) c->allow[0] = 0;
    else if (n == 0) call_fail(c, 404, NULL, "no such path; see /openapi.json");
    else call_fail(c, 405, NULL, "%s takes %s", path, c->allow);
}
