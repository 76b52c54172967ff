#include "fake-device.h"
#include "fake-queue.h"

#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"

#include <stdlib.h>
#include <string.h>

enum { N_DEVICES = 2 };

struct fake_options fake;
struct fake_counts fake_counts;

static int n_graphs;

static struct fake {
    char name[8];
    struct ggml_backend_device dev;
    struct ggml_backend_buffer_type buft, split;
} fakes[N_DEVICES];
static struct ggml_backend_reg reg;

// ---- counts ----

static void count_to(size_t n) {
    fake_counts.to += n;
    fake_counts.n_to++;
    if (fake_counts.graphs + fake_counts.exec_graphs > 0) fake_counts.to_late += n;
}
static void count_from(size_t n) {
    fake_counts.from += n;
    fake_counts.n_from++;
    fake_counts.pending += n;
}
void fake_count_work(const struct ggml_tensor * t) {
    fake_counts.from_soon += fake_counts.pending;
    fake_counts.pending = 0;
    const char * bytes = (const char *) t->op_params; // of ours, behind what ggml_custom has there
    const size_t skip = t->op == GGML_OP_CUSTOM ? 24 : 0;
    for (size_t i = skip; i < sizeof(t->op_params); i++)
        fake_counts.params = (fake_counts.params ^ (uint8_t) bytes[i]) * 1099511628211u;
}

// ---- memory: ordinary, but ggml does not know ----

static size_t n_allocated;

static size_t memory_left(void) {
    const size_t taken = n_allocated + fake.taken;
    return !fake.memory ? (size_t) 1 << 30 : taken < fake.memory ? fake.memory - taken : 0;
}
static void buffer_free(ggml_backend_buffer_t b) {
    n_allocated -= b->size;
    free(b->context);
}
static void * buffer_base(ggml_backend_buffer_t b) { return b->context; }
static void buffer_fill(ggml_backend_buffer_t b, struct ggml_tensor * t, uint8_t v, size_t at, size_t n) {
    (void) b;
    memset((char *) t->data + at, v, n);
}
static void buffer_set(ggml_backend_buffer_t b, struct ggml_tensor * t, const void * p, size_t at, size_t n) {
    (void) b;
    count_to(n);
    memcpy((char *) t->data + at, p, n);
}
static void buffer_get(ggml_backend_buffer_t b, const struct ggml_tensor * t, void * p, size_t at, size_t n) {
    (void) b;
    count_from(n);
    memcpy(p, (const char *) t->data + at, n);
}
static void buffer_clear(ggml_backend_buffer_t b, uint8_t v) { memset(b->context, v, b->size); }

static const char * buft_name(ggml_backend_buffer_type_t t) { return t->context; }
static size_t buft_align(ggml_backend_buffer_type_t t) {
    (void) t;
    return 64;
}

static ggml_backend_buffer_t buft_alloc(ggml_backend_buffer_type_t t, size_t n) {
    static const struct ggml_backend_buffer_i iface = {
        .free_buffer = buffer_free,
        .get_base = buffer_base,
        .memset_tensor = buffer_fill,
        .set_tensor = buffer_set,
        .get_tensor = buffer_get,
        .clear = buffer_clear,
    };
    void * p = fake.memory && n > memory_left() ? NULL : aligned_alloc(64, (n + 127) / 64 * 64);
    if (p) memset(p, 0xff, n);
    if (p) n_allocated += n;
    return p ? ggml_backend_buffer_init(t, iface, p, n) : NULL;
}

// ---- backend ----

struct stream {
    struct fake_queue * q;
    ggml_backend_t cpu;
};

// A graph may be gone when its turn comes, so it is copied, tensors and all.
struct graph_job {
    ggml_backend_t cpu;
    struct ggml_context * ctx;
    struct ggml_cgraph * g;
};

static void run_graph(void * job) {
    struct graph_job * j = job;
    ggml_backend_graph_compute(j->cpu, j->g);
    ggml_free(j->ctx);
    free(j);
}

static struct ggml_tensor * copy_tensor(struct ggml_context * ctx, const struct ggml_tensor * t) {
    struct ggml_tensor * c = ggml_new_tensor_1d(ctx, GGML_TYPE_I8, 1);
    *c = *t;
    return c;
}

static struct graph_job * copy_graph(ggml_backend_t cpu, struct ggml_cgraph * g) {
    const int n = ggml_graph_n_nodes(g);
    const size_t size = (size_t) n * (GGML_MAX_SRC + 1);
    struct graph_job * j = malloc(sizeof(*j));
    j->cpu = cpu;
    j->ctx = ggml_init((struct ggml_init_params) {
        .mem_size = size * ggml_tensor_overhead() + ggml_graph_overhead_custom(size, false), .no_alloc = true });
    j->g = ggml_new_graph_custom(j->ctx, size, false);
    for (int i = 0; i < n; i++) {
        struct ggml_tensor * t = copy_tensor(j->ctx, ggml_graph_node(g, i));
        for (int s = 0; s < GGML_MAX_SRC; s++)
            if (t->src[s]) t->src[s] = copy_tensor(j->ctx, t->src[s]);
        ggml_graph_add_node(j->g, t);
    }
    return j;
}

struct copy_job {
    char *to, *from;
    size_t n;
    bool own;
};

static void run_copy(void * job) {
    struct copy_job * c = job;
    memcpy(c->to, c->from, c->n);
    if (c->own) free(c->from);
    free(c);
}

#define QUEUE(b) (((struct stream *) (b)->context)->q)

static const char * backend_name(ggml_backend_t b) { return ggml_backend_dev_name(b->device); }
static void backend_free(ggml_backend_t b) {
    struct stream * s = b->context;
    fake_queue_free(s->q);
    ggml_backend_free(s->cpu);
    free(s);
    free(b);
}
static enum ggml_status backend_compute(ggml_backend_t b, struct ggml_cgraph * g) {
    n_graphs++;
    fake_counts.graphs++;
    for (int i = 0; i < ggml_graph_n_nodes(g); i++) {
        const struct ggml_tensor * t = ggml_graph_node(g, i);
        if (t->op == GGML_OP_NONE || t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE ||
            t->op == GGML_OP_TRANSPOSE || ggml_is_empty(t))
            continue;
        fake_counts.ops[t->op]++;
        fake_count_work(t);
    }
    fake_queue_push(QUEUE(b), run_graph, copy_graph(((struct stream *) b->context)->cpu, g));
    return GGML_STATUS_SUCCESS;
}
static void backend_set(ggml_backend_t b, struct ggml_tensor * t, const void * p, size_t at, size_t n) {
    struct copy_job * c = malloc(sizeof(*c));
    count_to(n);
    *c = (struct copy_job) { (char *) t->data + at, memcpy(malloc(n + 1), p, n), n, true };
    fake_queue_push(QUEUE(b), run_copy, c);
}
static void backend_get(ggml_backend_t b, const struct ggml_tensor * t, void * p, size_t at, size_t n) {
    struct copy_job * c = malloc(sizeof(*c));
    count_from(n);
    *c = (struct copy_job) { p, (char *) t->data + at, n, false };
    fake_queue_push(QUEUE(b), run_copy, c);
}
static void backend_synchronize(ggml_backend_t b) { fake_queue_sync(QUEUE(b)); }
static void backend_record(ggml_backend_t b, ggml_backend_event_t e) {
    *(struct fake_event *) e->context = fake_queue_record(QUEUE(b));
}
static void backend_wait(ggml_backend_t b, ggml_backend_event_t e) {
    fake_queue_wait(QUEUE(b), *(struct fake_event *) e->context);
}

// ---- device ----

static const char * dev_name(ggml_backend_dev_t d) { return ((struct fake *) d->context)->name; }
static void dev_memory(ggml_backend_dev_t d, size_t * free_n, size_t * all) {
    (void) d;
    *free_n = memory_left();
    *all = fake.memory ? fake.memory : (size_t) 1 << 30;
}
static enum ggml_backend_dev_type dev_type(ggml_backend_dev_t d) {
    (void) d;
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}
static ggml_backend_buffer_type_t dev_buft(ggml_backend_dev_t d) { return &((struct fake *) d->context)->buft; }
static bool dev_has_buft(ggml_backend_dev_t d, ggml_backend_buffer_type_t t) { return t->device == d; }
static bool dev_has_op(ggml_backend_dev_t d, const struct ggml_tensor * t) {
    (void) d;
    if (t->op == GGML_OP_GET_ROWS && fake.rows_of && (int) t->src[0]->type == fake.rows_of) return false;
    return t->op != GGML_OP_CUSTOM && t->op != GGML_OP_MAP_CUSTOM1;
}
static void dev_props(ggml_backend_dev_t d, struct ggml_backend_dev_props * p) {
    memset(p, 0, sizeof(*p));
    p->name = p->description = dev_name(d);
    p->type = dev_type(d);
    p->caps.async = true;
    p->caps.events = !fake.no_events;
    dev_memory(d, &p->memory_free, &p->memory_total);
}
static ggml_backend_event_t dev_event_new(ggml_backend_dev_t d) {
    if (fake.no_events) return NULL;
    ggml_backend_event_t e = malloc(sizeof(*e));
    *e = (struct ggml_backend_event) { d, calloc(1, sizeof(struct fake_event)) };
    return e;
}
static void dev_event_free(ggml_backend_dev_t d, ggml_backend_event_t e) {
    (void) d;
    free(e->context);
    free(e);
}
static void dev_event_sync(ggml_backend_dev_t d, ggml_backend_event_t e) {
    (void) d;
    fake_event_sync(*(struct fake_event *) e->context);
}
static ggml_backend_t dev_init(ggml_backend_dev_t d, const char * params) {
    (void) params;
    static ggml_guid guid = { 0xfa, 0x4e };
    struct stream * s = malloc(sizeof(*s));
    *s = (struct stream) { fake_queue_new(fake.eager), ggml_backend_cpu_init() };
    ggml_backend_cpu_set_n_threads(s->cpu, 1);
    ggml_backend_t b = calloc(1, sizeof(*b));
    b->guid = &guid;
    b->device = d;
    b->context = s;
    b->iface = (struct ggml_backend_i) {
        .get_name = backend_name,
        .free = backend_free,
        .set_tensor_async = backend_set,
        .get_tensor_async = backend_get,
        .synchronize = backend_synchronize,
        .graph_compute = backend_compute,
        .event_record = fake.no_events ? NULL : backend_record,
        .event_wait = fake.no_events ? NULL : backend_wait,
    };
    return b;
}

static const char * reg_name(ggml_backend_reg_t r) {
    (void) r;
    return "FAKE";
}
static size_t reg_count(ggml_backend_reg_t r) {
    (void) r;
    return N_DEVICES;
}
static ggml_backend_dev_t reg_get(ggml_backend_reg_t r, size_t i) {
    (void) r;
    return &fakes[i].dev;
}

void fake_device_register(void) {
    reg.api_version = fake.api_version ? fake.api_version : GGML_BACKEND_API_VERSION;
    if (reg.iface.get_name) return; // only the version changes
    reg.iface =
        (struct ggml_backend_reg_i) { .get_name = reg_name, .get_device_count = reg_count, .get_device = reg_get };
    for (int i = 0; i < N_DEVICES; i++) {
        struct fake * f = &fakes[i];
        memcpy(f->name, "FAKE0", 6);
        f->name[4] = (char) ('0' + i);
        const struct ggml_backend_buffer_type_i buft = {
            .get_name = buft_name, .alloc_buffer = buft_alloc, .get_alignment = buft_align
        };
        f->buft = (struct ggml_backend_buffer_type) { buft, &f->dev, f->name };
        f->split = (struct ggml_backend_buffer_type) { buft, &f->dev, "FAKE_Split" };
        f->dev.reg = &reg;
        f->dev.context = f;
        f->dev.iface = (struct ggml_backend_device_i) {
            .get_name = dev_name,
            .get_description = dev_name,
            .get_memory = dev_memory,
            .get_type = dev_type,
            .get_props = dev_props,
            .init_backend = dev_init,
            .get_buffer_type = dev_buft,
            .supports_op = dev_has_op,
            .supports_buft = dev_has_buft,
            .event_new = dev_event_new,
            .event_free = dev_event_free,
            .event_synchronize = dev_event_sync,
        };
    }
    ggml_backend_register(&reg);
}

size_t fake_device_allocated(void) { return n_allocated; }
int fake_device_graphs(void) { return n_graphs; }
ggml_backend_buffer_type_t fake_device_split_buft(int i) { return &fakes[i].split; }
