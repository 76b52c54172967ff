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
    int rows_of;                                    // type of ggml whose rows the devices cannot gather; 0: none
    size_t memory;                                  // of all devices, in bytes; 0: 1 GB, which is not enforced
    size_t taken;                                   // of it, by others
};
extern struct fake_options fake; // read when a backend is made

// What a pass does on the devices, since it was last set to 0.
struct fake_counts {
    int ops[GGML_OP_COUNT];    // nodes of ggml's, by operator; views do nothing and are not counted
    int kinds[256];            // of ours, by kind
    int graphs, exec_graphs;   // splits of the devices, of their companions
    size_t to, from;           // bytes that crossed the bus
    int n_to, n_from;          // in so many transfers
    size_t to_late, from_soon; // of these, to a device that had begun to work, and from one that went on to work
    size_t pending;            // from a device, since it last worked
    uint64_t params;           // of all nodes, hashed: what the host decided
};
extern struct fake_counts fake_counts;
void fake_count_work(const struct ggml_tensor * t); // a node is computed

void fake_device_register(void);
size_t fake_device_allocated(void);                       // bytes of memory of all devices
int fake_device_graphs(void);                             // graphs that were given to the devices so far
int fake_exec_nodes(void);                                // nodes that were given to the executor so far
ggml_backend_buffer_type_t fake_device_split_buft(int i); // memory of device i that its companion must not touch

void fake_exec_register(void); // now the devices can have a companion

// exit on failure
ggml_backend_t fake_backend_new(const char * name); // of a device
ggml_backend_t fake_companion_new(ggml_backend_t peer);
