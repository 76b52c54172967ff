// Attention nodes on a device: a companion to ggml's backend of that device (its peer).
//
//     ggml_backend_t cuda = ggml_backend_init_by_name("CUDA0", NULL);
//     ggml_backend_t mra  = ggml_backend_mra_init(cuda, &err);  // NULL: err.msg says why; the nodes run on the CPU
//     ggml_backend_t list[] = { cuda, mra, cpu };
//     ggml_backend_sched_t sched = ggml_backend_sched_new(list, NULL, 3, 2048, false, true);
//     ggml_backend_mra_pin(sched, graph, mra);                  // before ggml_backend_sched_alloc_graph
//     ...
//     ggml_backend_free(mra);                                   // before its peer
//
// The companion takes the nodes of this library and nothing else. It works in the peer's own buffers, so nothing is
// copied, and in order with what the peer does: by events, or where the peer has none by waiting for it. Several
// devices: one companion each. Pipeline parallelism (ggml_backend_sched_new's `parallel`) works; with ggml 0.15 wait
// for a result before a fifth graph is started.
#pragma once

#include "ggml-backend.h"
#include "mra-error.h"

#ifdef __cplusplus
extern "C" {
#endif

// Borrows peer. NULL with a reason: no kernels for such a device in this build, a driver that does not answer, a ggml
// whose backend interface is another version than the one this library was built with.
ggml_backend_t ggml_backend_mra_init(ggml_backend_t peer, struct mra_error * err);

bool ggml_backend_is_mra(ggml_backend_t backend);

// What went wrong in the last graph that failed, or "". Belongs to the backend.
const char * ggml_backend_mra_error(ggml_backend_t mra);

// Gives the graph's nodes that mra supports to it, except those that were given to a backend before. Returns how many.
// Optional: by itself the scheduler leaves a node to the CPU where one before it has to run there.
int ggml_backend_mra_pin(ggml_backend_sched_t sched, struct ggml_cgraph * graph, ggml_backend_t mra);

#ifdef __cplusplus
}
#endif
