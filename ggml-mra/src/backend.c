// The companion backend: ggml's backend interface over the peer's memory. Only supports_op and graph_compute are its
// own; the rest is the peer's.
#include "backend.h"
#include "op-pack.h"

#include "ggml-backend-impl.h"

#include <stdio.h>
#include <stdlib.h>

struct companion {
    struct ggml_backend backend;
    struct ggml_backend_device device;
    ggml_backend_t peer;
    ggml_backend_event_t fork, join; // of the peer's device; NULL: it has none, the host waits instead
    const struct mra_exec * exec;
    void * state; // the executor's
    struct mra_error err;
    char name[64];
};

static ggml_backend_dev_t peer_dev(ggml_backend_dev_t d) {
    return ggml_backend_get_device(((struct companion *) d->context)->peer);
}

// ---- registry: ggml asks a device for one ----

static const char * reg_name(ggml_backend_reg_t r) {
    (void) r;
    return "MRA";
}
static size_t reg_count(ggml_backend_reg_t r) {
    (void) r;
    return 0;
}
static ggml_backend_dev_t reg_get(ggml_backend_reg_t r, size_t i) {
    (void) r;
    (void) i;
    return NULL;
}
static struct ggml_backend_reg registry = {
    .api_version = GGML_BACKEND_API_VERSION,
    .iface = { .get_name = reg_name, .get_device_count = reg_count, .get_device = reg_get },
};

// ---- device ----

static const char * dev_name(ggml_backend_dev_t d) { return ((struct companion *) d->context)->name; }
static const char * dev_description(ggml_backend_dev_t d) { return ggml_backend_dev_description(peer_dev(d)); }
static void dev_memory(ggml_backend_dev_t d, size_t * free, size_t * all) {
    ggml_backend_dev_memory(peer_dev(d), free, all);
}
static enum ggml_backend_dev_type dev_type(ggml_backend_dev_t d) {
    (void) d;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}
static ggml_backend_t dev_init(ggml_backend_dev_t d, const char * p) {
    (void) d;
    (void) p;
    return NULL;
}
static ggml_backend_buffer_type_t dev_buft(ggml_backend_dev_t d) { return ggml_backend_dev_buffer_type(peer_dev(d)); }
static ggml_backend_buffer_type_t dev_host_buft(ggml_backend_dev_t d) {
    return ggml_backend_dev_host_buffer_type(peer_dev(d));
}
// ggml frees it through the device it belongs to, the peer's
static ggml_backend_event_t dev_event_new(ggml_backend_dev_t d) { return ggml_backend_event_new(peer_dev(d)); }
// Not all that the peer takes: it may also spread a tensor over several devices (split buffers), which no kernel here
// can read.
static bool dev_supports_buft(ggml_backend_dev_t d, ggml_backend_buffer_type_t t) { return t == dev_buft(d); }
static bool dev_supports_op(ggml_backend_dev_t d, const struct ggml_tensor * t) {
    const struct companion * c = d->context;
    if (!ggml_mra_is_node(t)) return false;
    const struct mra_node p = mra_node_get(t);
    const bool shares = (p.kind == MRA_KIND_ATTN || p.kind == MRA_KIND_QUERY_ORDER) && p.u.attn.shares; // CPU only
    return !shares && c->exec->supports(c->state, t);
}
static void dev_props(ggml_backend_dev_t d, struct ggml_backend_dev_props * p) {
    ggml_backend_dev_get_props(peer_dev(d), p);
    p->name = dev_name(d);
    p->type = dev_type(d);
}

// ---- backend ----

#define PEER(b) (((struct companion *) (b)->context)->peer)

static const char * backend_name(ggml_backend_t b) { return ((struct companion *) b->context)->name; }
static void backend_free(ggml_backend_t b) {
    struct companion * c = b->context;
    ggml_backend_synchronize(c->peer);
    if (c->fork) ggml_backend_event_free(c->fork);
    if (c->join) ggml_backend_event_free(c->join);
    c->exec->free(c->state);
    free(c);
}
static void backend_set(ggml_backend_t b, struct ggml_tensor * t, const void * p, size_t at, size_t n) {
    ggml_backend_tensor_set_async(PEER(b), t, p, at, n);
}
static void backend_get(ggml_backend_t b, const struct ggml_tensor * t, void * p, size_t at, size_t n) {
    ggml_backend_tensor_get_async(PEER(b), t, p, at, n);
}
static void backend_synchronize(ggml_backend_t b) { ggml_backend_synchronize(PEER(b)); } // every graph joins the peer
static void backend_event_record(ggml_backend_t b, ggml_backend_event_t e) { ggml_backend_event_record(e, PEER(b)); }
static void backend_event_wait(ggml_backend_t b, ggml_backend_event_t e) { ggml_backend_event_wait(PEER(b), e); }

static enum mra_status fork_from_peer(struct companion * c) {
    if (c->fork) ggml_backend_event_record(c->fork, c->peer);
    else ggml_backend_synchronize(c->peer);
    return c->exec->fork(c->state, c->fork ? c->fork->context : NULL, &c->err);
}

static enum mra_status join_peer(struct companion * c) {
    const enum mra_status st = c->exec->join(c->state, c->join ? c->join->context : NULL, &c->err);
    if (st == MRA_OK && c->join) ggml_backend_event_wait(c->peer, c->join);
    return st;
}

// Of a node that works in place the scheduler copies the source, but not the memory that the result is a view of.
static bool lies_elsewhere(const struct companion * c, const struct ggml_tensor * t) {
    const ggml_backend_buffer_t b = t->view_src ? t->view_src->buffer : NULL;
    return b && ggml_backend_buffer_get_type(b) != ggml_backend_get_default_buffer_type(c->peer);
}

static enum mra_status run_node(struct companion * c, const struct ggml_tensor * t) {
    if (lies_elsewhere(c, t))
        return mra_fail(&c->err, MRA_ERR_BACKEND, "%s: %s works in place, in memory of another device", c->name,
            ggml_mra_op_name(t));
    if (!mra_pack_is_foreign(t)) return c->exec->run(c->state, t, &c->err);
    struct ggml_tensor pack = mra_pack_again(t), own = *t;
    own.src[3] = &pack;
    const enum mra_status st = c->exec->run(c->state, &pack, &c->err);
    return st == MRA_OK ? c->exec->run(c->state, &own, &c->err) : st;
}

static enum ggml_status backend_compute(ggml_backend_t b, struct ggml_cgraph * g) {
    struct companion * c = b->context;
    c->err = (struct mra_error) { 0 };
    enum mra_status st = fork_from_peer(c);
    for (int i = 0; i < ggml_graph_n_nodes(g) && st == MRA_OK; i++) {
        const struct ggml_tensor * t = ggml_graph_node(g, i);
        const bool view = t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE ||
            t->op == GGML_OP_TRANSPOSE;
        if (view || t->op == GGML_OP_NONE || ggml_is_empty(t) || !(t->flags & GGML_TENSOR_FLAG_COMPUTE)) continue;
        st = ggml_mra_is_node(t)
            ? run_node(c, t)
            : mra_fail(&c->err, MRA_ERR_BACKEND, "%s: %s is no node of ggml-mra", c->name, ggml_op_desc(t));
    }
    const enum mra_status joined = join_peer(c); // also after a failure: the peer must not overtake what was started
    if (st == MRA_OK) st = joined;
    return st == MRA_OK ? GGML_STATUS_SUCCESS : st == MRA_ERR_MEMORY ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
}

static ggml_guid_t guid(void) {
    static ggml_guid id = { 0x6d, 0x72, 0x61, 0x2d, 0x67, 0x67, 0x6d, 0x6c, 0x9e, 0x11, 0x42, 0x7a, 0xb0, 0x5d, 0x20,
        0x22 };
    return &id;
}

// ---- making one ----

static const struct mra_exec * execs[4] = {
#ifdef GGML_MRA_CUDA
    &mra_exec_cuda,
#endif
};

void mra_exec_register(const struct mra_exec * exec) {
    for (int i = 0; i < 4; i++)
        if (!execs[i] || execs[i] == exec) {
            execs[i] = exec;
            return;
        }
}

static const struct mra_exec * find_exec(ggml_backend_t peer, struct mra_error * err) {
    ggml_backend_dev_t dev = peer ? ggml_backend_get_device(peer) : NULL;
    ggml_backend_reg_t reg = dev ? ggml_backend_dev_backend_reg(dev) : NULL;
    if (!reg) {
        mra_fail(err, MRA_ERR_ARG, "a companion backend needs a device");
        return NULL;
    }
    if (reg->api_version != GGML_BACKEND_API_VERSION) { // its first member, whatever the version
        mra_fail(err, MRA_ERR_UNSUPPORTED, "backend interface version %d of ggml, built for version %d",
            reg->api_version, GGML_BACKEND_API_VERSION);
        return NULL;
    }
    const char * name = ggml_backend_reg_name(reg);
    for (int i = 0; i < 4 && execs[i]; i++)
        if (strcmp(execs[i]->reg, name) == 0) return execs[i];
    mra_fail(err, MRA_ERR_UNSUPPORTED, "no kernels for %.60s devices in this build", name);
    return NULL;
}

static void fill(struct companion * c) {
    const struct ggml_backend_i * peer = &c->peer->iface;
    ggml_backend_dev_t dev = ggml_backend_get_device(c->peer);
    snprintf(c->name, sizeof(c->name), "MRA-%s", ggml_backend_name(c->peer));
    if (peer->event_record && peer->event_wait) {
        c->fork = ggml_backend_event_new(dev);
        c->join = ggml_backend_event_new(dev);
    }
    c->device.iface = (struct ggml_backend_device_i) {
        .get_name = dev_name,
        .get_description = dev_description,
        .get_memory = dev_memory,
        .get_type = dev_type,
        .get_props = dev_props,
        .init_backend = dev_init,
        .get_buffer_type = dev_buft,
        .get_host_buffer_type = dev_host_buft,
        .supports_op = dev_supports_op,
        .supports_buft = dev_supports_buft,
        .event_new = dev_event_new,
    };
    c->device.reg = &registry;
    c->device.context = c;
    c->backend.iface = (struct ggml_backend_i) {
        .get_name = backend_name,
        .free = backend_free,
        .synchronize = backend_synchronize,
        .graph_compute = backend_compute,
        .set_tensor_async = backend_set,
        .get_tensor_async = backend_get,
        .event_record = peer->event_record ? backend_event_record : NULL,
        .event_wait = peer->event_wait ? backend_event_wait : NULL,
    };
    c->backend.guid = guid();
    c->backend.device = &c->device;
    c->backend.context = c;
}

ggml_backend_t ggml_backend_mra_init(ggml_backend_t peer, struct mra_error * err) {
    const struct mra_exec * exec = find_exec(peer, err);
    if (!exec) return NULL;
    struct companion * c = calloc(1, sizeof(*c));
    if (!c) {
        mra_fail(err, MRA_ERR_MEMORY, "out of memory");
        return NULL;
    }
    c->peer = peer;
    c->exec = exec;
    c->state = exec->init(peer, err);
    if (!c->state) {
        free(c);
        return NULL;
    }
    fill(c);
    return &c->backend;
}

bool ggml_backend_is_mra(ggml_backend_t b) { return b && memcmp(b->guid, guid(), sizeof(ggml_guid)) == 0; }
const char * ggml_backend_mra_error(ggml_backend_t mra) {
    return ggml_backend_is_mra(mra) ? ((struct companion *) mra->context)->err.msg : "";
}

// What an in-place node works in is made where the node runs.
static void pin_memory(ggml_backend_sched_t sched, const struct ggml_tensor * t, ggml_backend_t mra) {
    struct ggml_tensor * x = t->view_src;
    if (!x || x->buffer || ggml_backend_sched_get_tensor_backend(sched, x)) return;
    if (x->op == GGML_OP_NONE || ggml_backend_supports_op(PEER(mra), x))
        ggml_backend_sched_set_tensor_backend(sched, x, PEER(mra));
}

int ggml_backend_mra_pin(ggml_backend_sched_t sched, struct ggml_cgraph * graph, ggml_backend_t mra) {
    int n = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * t = ggml_graph_node(graph, i);
        if (!ggml_mra_is_node(t) || ggml_backend_sched_get_tensor_backend(sched, t) ||
            !ggml_backend_supports_op(mra, t))
            continue;
        ggml_backend_sched_set_tensor_backend(sched, t, mra);
        pin_memory(sched, t, mra);
        n++;
    }
    return n;
}
