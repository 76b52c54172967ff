// What a device has to bring along to be driven by the companion backend. Private to the library.
#pragma once

#include "ggml-mra-backend.h"

#include "ggml.h"

// Work goes into a queue of the executor's own, next to the peer's. A call that fails fills err.
struct mra_exec {
    const char * reg; // name of ggml's backend registry whose devices it serves, such as "CUDA"

    void * (*init)(ggml_backend_t peer, struct mra_error * err); // NULL with a reason
    void (*free)(void * x);
    bool (*supports)(void * x, const struct ggml_tensor * t); // t has no memory yet
    // What is run from now on starts after `event` of the peer's device (struct ggml_backend_event's context: a
    // cudaEvent_t). NULL: the peer is idle.
    enum mra_status (*fork)(void * x, void * event, struct mra_error * err);
    enum mra_status (*run)(
        void * x, const struct ggml_tensor * t, struct mra_error * err); // t and its sources may be gone afterwards
    // `event` happens when all that was run has ended. NULL: wait for that.
    enum mra_status (*join)(void * x, void * event, struct mra_error * err);
};

void mra_exec_register(const struct mra_exec * exec); // tests

extern const struct mra_exec mra_exec_cuda; // exec-cuda.c
