#include "threads-target.h"

#include "../ggml-mra/src/node.h"

#include <pthread.h>

struct share {
    pthread_t thread;
    struct ggml_tensor * node;
    int ith, nth;
};

static void * compute_share(void * user) {
    const struct share * s = user;
    mra_compute(s->node, s->ith, s->nth, NULL);
    return NULL;
}

// what one node writes is there for the next: they are joined
static bool compute_node(struct ggml_tensor * t, int n_threads) {
    enum { MOST = 16 };
    struct share all[MOST];
    const int n = n_threads < MOST ? n_threads : MOST;
    int started = 0;
    for (; started < n; started++) {
        all[started] = (struct share) { .node = t, .ith = started, .nth = n };
        if (pthread_create(&all[started].thread, NULL, compute_share, &all[started]) != 0) break;
    }
    for (int i = 0; i < started; i++) pthread_join(all[i].thread, NULL);
    return started == n;
}

bool threads_target_compute(ggml_backend_t cpu, struct ggml_cgraph * cg, int n_threads) {
    const int n = ggml_graph_n_nodes(cg);
    ggml_backend_cpu_set_n_threads(cpu, 1);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        struct ggml_tensor * t = ggml_graph_node(cg, i);
        ok = ggml_mra_is_node(t) ? compute_node(t, n_threads) : node_compute(cpu, t);
    }
    return ok;
}
