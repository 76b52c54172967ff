// Devices that are not the CPU, for tests without a GPU: memory of their own that the CPU backend refuses, poisoned
// with NaN; ggml's usual operators, but no custom ones; a queue (fake-queue.h) that graph_compute returns from before
// anything has run. Registered as "FAKE0", "FAKE1". Also an executor for the companion backend, with a queue of its own
// on the same device.
#pragma once

#include "ggml-backend.h"

struct fake_options {
    bool no_events;  // neither the devices nor their backends have events
    bool eager;      // the device runs its work at once, else not before somebody waits for it
    bool exec_eager; // the same of the companion's executor
    int refuse;      // kind of node that the executor does not support
    int api_version; // of the backend interface, that the registry reports; 0: the right one
    // how the executor runs a node; NULL: the CPU kernels, one thread. != 0: failed
    int (*run)(const struct ggml_tensor * t);
    bool (*supports)(const struct ggml_tensor * t); // NULL: all
};
extern struct fake_options fake; // read when a backend is made

void fake_device_register(void);
int fake_device_graphs(void);                             // graphs that were given to the devices so far
int fake_exec_nodes(void);                                // nodes that were given to the executor so far
ggml_backend_buffer_type_t fake_device_split_buft(int i); // memory of device i that its companion must not touch

void fake_exec_register(void); // now the devices can have a companion

// exit on failure
ggml_backend_t fake_backend_new(const char * name); // of a device
ggml_backend_t fake_companion_new(ggml_backend_t peer);
