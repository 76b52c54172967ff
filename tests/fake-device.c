#include "fake-device.h"

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"

#include <stdlib.h>
#include <string.h>

static int n_graphs;

// ---- memory: ordinary, but ggml does not know ----

static void   buffer_free  (ggml_backend_buffer_t b)                                                                  { free(b->context); }
static void * buffer_base  (ggml_backend_buffer_t b)                                                                  { return b->context; }
static void   buffer_fill  (ggml_backend_buffer_t b, struct ggml_tensor * t, uint8_t v, size_t at, size_t n)          { (void) b; memset((char *) t->data + at, v, n); }
static void   buffer_set   (ggml_backend_buffer_t b, struct ggml_tensor * t, const void * p, size_t at, size_t n)     { (void) b; memcpy((char *) t->data + at, p, n); }
static void   buffer_get   (ggml_backend_buffer_t b, const struct ggml_tensor * t, void * p, size_t at, size_t n)     { (void) b; memcpy(p, (const char *) t->data + at, n); }
static void   buffer_clear (ggml_backend_buffer_t b, uint8_t v)                                                       { memset(b->context, v, b->size); }

static const char * buft_name(ggml_backend_buffer_type_t t)  { (void) t; return "FAKE0"; }
static size_t       buft_align(ggml_backend_buffer_type_t t) { (void) t; return 64; }

static ggml_backend_buffer_t buft_alloc(ggml_backend_buffer_type_t t, size_t n) {
    static const struct ggml_backend_buffer_i iface = {
        .free_buffer = buffer_free, .get_base = buffer_base, .memset_tensor = buffer_fill, .set_tensor = buffer_set, .get_tensor = buffer_get, .clear = buffer_clear,
    };
    void * p = aligned_alloc(64, (n + 127)/64*64);
    if (p) memset(p, 0xff, n);
    return p ? ggml_backend_buffer_init(t, iface, p, n) : NULL;
}

// ---- backend ----

static const char *     backend_name(ggml_backend_t b) { (void) b; return "FAKE0"; }
static void             backend_free(ggml_backend_t b) { ggml_backend_free(b->context); free(b); }
static enum ggml_status backend_compute(ggml_backend_t b, struct ggml_cgraph * g) {
    n_graphs++;
    return ggml_backend_graph_compute(b->context, g);
}

// ---- device ----

static struct ggml_backend_device      device;
static struct ggml_backend_buffer_type buft;
static struct ggml_backend_reg         reg;

static const char *               dev_name(ggml_backend_dev_t d)                                  { (void) d; return "FAKE0"; }
static void                       dev_memory(ggml_backend_dev_t d, size_t * free_n, size_t * all) { (void) d; *free_n = *all = (size_t) 1 << 30; }
static enum ggml_backend_dev_type dev_type(ggml_backend_dev_t d)                                  { (void) d; return GGML_BACKEND_DEVICE_TYPE_GPU; }
static ggml_backend_buffer_type_t dev_buft(ggml_backend_dev_t d)                                  { (void) d; return &buft; }
static bool                       dev_has_buft(ggml_backend_dev_t d, ggml_backend_buffer_type_t t) { (void) d; return t == &buft; }
static bool                       dev_has_op(ggml_backend_dev_t d, const struct ggml_tensor * t) {
    (void) d;
    return t->op != GGML_OP_CUSTOM && t->op != GGML_OP_MAP_CUSTOM1;
}
static void dev_props(ggml_backend_dev_t d, struct ggml_backend_dev_props * p) {
    memset(p, 0, sizeof(*p));
    p->name = p->description = "FAKE0";
    p->type = dev_type(d);
    dev_memory(d, &p->memory_free, &p->memory_total);
}
static ggml_backend_t dev_init(ggml_backend_dev_t d, const char * params) {
    (void) params;
    static ggml_guid guid = { 0xfa, 0x4e };
    ggml_backend_t b = calloc(1, sizeof(*b));
    b->guid    = &guid;
    b->device  = d;
    b->context = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(b->context, 1);
    b->iface.get_name      = backend_name;
    b->iface.free          = backend_free;
    b->iface.graph_compute = backend_compute;
    return b;
}

static const char *       reg_name(ggml_backend_reg_t r)          { (void) r; return "FAKE"; }
static size_t             reg_count(ggml_backend_reg_t r)         { (void) r; return 1; }
static ggml_backend_dev_t reg_get(ggml_backend_reg_t r, size_t i) { (void) r; (void) i; return &device; }

void fake_device_register(void) {
    reg.api_version            = GGML_BACKEND_API_VERSION;
    reg.iface.get_name         = reg_name;
    reg.iface.get_device_count = reg_count;
    reg.iface.get_device       = reg_get;
    buft.device                = &device;
    buft.iface.get_name        = buft_name;
    buft.iface.alloc_buffer    = buft_alloc;
    buft.iface.get_alignment   = buft_align;
    device.reg                   = &reg;
    device.iface.get_name        = dev_name;
    device.iface.get_description = dev_name;
    device.iface.get_memory      = dev_memory;
    device.iface.get_type        = dev_type;
    device.iface.get_props       = dev_props;
    device.iface.init_backend    = dev_init;
    device.iface.get_buffer_type = dev_buft;
    device.iface.supports_op     = dev_has_op;
    device.iface.supports_buft   = dev_has_buft;
    ggml_backend_register(&reg);
}

int fake_device_graphs(void) { return n_graphs; }
