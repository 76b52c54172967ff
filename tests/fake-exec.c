// The companion's executor for the fake devices: nodes run on a queue of its own, ordered against the device's by
// events alone.
#include "fake-device.h"
#include "fake-queue.h"

#include "../ggml-mra/src/backend.h"
#include "../ggml-mra/src/op-pack.h"

#include <stdlib.h>

static int n_nodes;

static void * exec_init(ggml_backend_t peer, struct mra_error * err) {
    (void) peer;
    (void) err;
    return fake_queue_new(fake.exec_eager);
}
static void exec_free(void * x) { fake_queue_free(x); }
static bool exec_supports(void * x, const struct ggml_tensor * t) {
    (void) x;
    return (!fake.refuse || mra_node_get(t).kind != fake.refuse) && (!fake.supports || fake.supports(t));
}

struct node_job {
    struct ggml_tensor t, src[GGML_MAX_SRC];
};

static void run_node(void * job) {
    struct node_job * j = job;
    if (fake.run) {
        if (fake.run(&j->t) != 0) abort();
    } else {
        mra_compute(&j->t, 0, 1, NULL);
    }
    free(j);
}

static enum mra_status exec_run(void * x, const struct ggml_tensor * t, struct mra_error * err) {
    if (mra_pack_is_foreign(t)) return mra_fail(err, MRA_ERR_BACKEND, "a pack that another device has made");
    n_nodes++;
    fake_counts.kinds[mra_node_get(t).kind]++;
    fake_count_work(t);
    struct node_job * j = malloc(sizeof(*j));
    j->t = *t;
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (t->src[i]) {
            j->src[i] = *t->src[i];
            j->t.src[i] = &j->src[i];
        }
    fake_queue_push(x, run_node, j);
    return MRA_OK;
}

static enum mra_status exec_fork(void * x, void * event, struct mra_error * err) {
    (void) err;
    fake_counts.exec_graphs++;
    if (event) fake_queue_wait(x, *(struct fake_event *) event);
    return MRA_OK;
}

static enum mra_status exec_join(void * x, void * event, struct mra_error * err) {
    (void) err;
    if (event) *(struct fake_event *) event = fake_queue_record(x);
    else fake_queue_sync(x);
    return MRA_OK;
}

static const struct mra_exec exec = {
    .reg = "FAKE",
    .init = exec_init,
    .free = exec_free,
    .supports = exec_supports,
    .fork = exec_fork,
    .run = exec_run,
    .join = exec_join,
};

void fake_exec_register(void) { mra_exec_register(&exec); }
int fake_exec_nodes(void) { return n_nodes; }

ggml_backend_t fake_backend_new(const char * name) {
    ggml_backend_t b = ggml_backend_init_by_name(name, NULL);
    if (!b) {
        printf("no %s\n", name);
        exit(1);
    }
    return b;
}
ggml_backend_t fake_companion_new(ggml_backend_t peer) {
    struct mra_error err = { 0 };
    ggml_backend_t b = ggml_backend_mra_init(peer, &err);
    if (!b) {
        printf("no companion: %s\n", err.msg);
        exit(1);
    }
    return b;
}
