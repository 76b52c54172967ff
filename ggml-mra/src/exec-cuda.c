// The companion's executor for CUDA: a stream of its own, ordered against ggml's by events of ggml's device, whose
// context is a cudaEvent_t. ggml may hold another copy of the CUDA runtime: both share the device's primary context,
// and streams and events are the driver's.
#include "backend.h"
#include "cuda/cuda.h"
#include "node.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIN_CAPABILITY = 75 }; // tensor cores with mma.sync

struct cuda {
    int device;
    cudaStream_t stream;
};

static enum mra_status check(cudaError_t e, const char * what, struct mra_error * err) {
    if (e == cudaSuccess) return MRA_OK;
    return mra_fail(err, e == cudaErrorMemoryAllocation ? MRA_ERR_MEMORY : MRA_ERR_BACKEND, "CUDA: %s: %s", what,
        cudaGetErrorString(e));
}

// ggml's number may not be CUDA's: the bus id is the same for both
static int device_of(ggml_backend_t peer) {
    struct ggml_backend_dev_props props;
    int device = -1;
    ggml_backend_dev_get_props(ggml_backend_get_device(peer), &props);
    if (props.device_id && cudaDeviceGetByPCIBusId(&device, props.device_id) == cudaSuccess) return device;
    return sscanf(props.name, "CUDA%d", &device) == 1 ? device : -1;
}

static void * exec_init(ggml_backend_t peer, struct mra_error * err) {
    const int device = device_of(peer);
    if (device < 0) {
        mra_fail(err, MRA_ERR_BACKEND, "CUDA: no device for %s", ggml_backend_name(peer));
        return NULL;
    }
    int major = 0, minor = 0;
    if (check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "attributes", err))
        return NULL;
    if (check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "attributes", err))
        return NULL;
    if (major * 10 + minor < MIN_CAPABILITY) {
        mra_fail(err, MRA_ERR_UNSUPPORTED, "CUDA: compute capability %d.%d is below %d.%d", major, minor,
            MIN_CAPABILITY / 10, MIN_CAPABILITY % 10);
        return NULL;
    }
    struct cuda * c = calloc(1, sizeof(*c));
    if (!c) {
        mra_fail(err, MRA_ERR_MEMORY, "out of memory");
        return NULL;
    }
    c->device = device;
    if (check(cudaSetDevice(device), "device", err) ||
        check(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), "stream", err)) {
        free(c);
        return NULL;
    }
    return c;
}

static void exec_free(void * x) {
    struct cuda * c = x;
    cudaSetDevice(c->device);
    cudaStreamDestroy(c->stream);
    free(c);
}

static int sources(const struct ggml_tensor * t, struct mra_tensor * src) {
    int n = 0;
    for (; n < GGML_MAX_SRC && t->src[n]; n++) src[n] = mra_tensor_of(t->src[n]);
    return n;
}

static bool exec_supports(void * x, const struct ggml_tensor * t) {
    struct cuda * c = x;
    struct mra_tensor src[GGML_MAX_SRC], dst = mra_tensor_of(t);
    const struct mra_node p = mra_node_get(t);
    return cudaSetDevice(c->device) == cudaSuccess && mra_cuda_supports(&p, &dst, src, sources(t, src));
}

static enum mra_status exec_fork(void * x, void * event, struct mra_error * err) {
    struct cuda * c = x;
    if (check(cudaSetDevice(c->device), "device", err)) return err->code;
    return event ? check(cudaStreamWaitEvent(c->stream, event, 0), "fork", err) : MRA_OK;
}

static enum mra_status exec_run(void * x, const struct ggml_tensor * t, struct mra_error * err) {
    struct cuda * c = x;
    struct mra_tensor src[GGML_MAX_SRC];
    const struct mra_node p = mra_node_get(t);
    const int code = mra_cuda_run(&p, mra_tensor_of(t), src, sources(t, src), c->stream);
    if (code == MRA_CUDA_OK) return MRA_OK;
    return mra_fail(err, code == (int) cudaErrorMemoryAllocation ? MRA_ERR_MEMORY : MRA_ERR_BACKEND, "CUDA: %s: %s",
        ggml_mra_op_name(t), mra_cuda_message(code));
}

static enum mra_status exec_join(void * x, void * event, struct mra_error * err) {
    struct cuda * c = x;
    struct mra_error own; // err may hold why a node failed
    const enum mra_status st = event ? check(cudaEventRecord(event, c->stream), "join", &own)
                                     : check(cudaStreamSynchronize(c->stream), "join", &own);
    if (st != MRA_OK && err->code == MRA_OK) *err = own;
    return st;
}

const struct mra_exec mra_exec_cuda = {
    .reg = "CUDA",
    .init = exec_init,
    .free = exec_free,
    .supports = exec_supports,
    .fork = exec_fork,
    .run = exec_run,
    .join = exec_join,
};
