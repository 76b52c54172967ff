#include "device-target.h"

#include "ggml-mra-backend.h"

static ggml_backend_t list[3]; // device, companion, CPU
static bool is_fake;
long device_target_nodes[2];
double device_target_worst;
void (*device_target_vary)(int n_threads);

static int select_by_ref(int32_t * idx, float * x, int n, int m) {
    return mra_kernels_ref.topk_blocks(idx, x, n, m);
} // the kernel alone is not the device's

// nodes for integers are built as where the CPU has them
const struct mra_kernels mra_kernels_cuda = { .name = "the device",
    .topk_blocks = select_by_ref,
    .int8 = { .form = MRA_INT8_BYTES,
        .bytes = 2,
        .pack = int8_pack_nowhere,
        .attn = int8_attn_nowhere,
        .window_attn = int8_window_nowhere } };

void device_target_close(void) {
    for (int i = 2; i >= 0; i--)
        if (list[i]) ggml_backend_free(list[i]);
    memset(list, 0, sizeof(list));
}

bool device_target_open(const char * name, bool fake, struct mra_error * err) {
    device_target_close();
    is_fake = fake;
    list[0] = ggml_backend_init_by_name(name, NULL);
    if (!list[0]) {
        mra_fail(err, MRA_ERR_UNSUPPORTED, "no device %s", name);
        return false;
    }
    list[1] = ggml_backend_mra_init(list[0], err);
    list[2] = ggml_backend_cpu_init();
    return list[1] && list[2];
}

ggml_backend_t device_target_backend(void) { return list[0]; }
ggml_backend_t device_target_companion(void) { return list[1]; }
ggml_backend_sched_t device_target_sched(void) { return ggml_backend_sched_new(list, NULL, 3, 1024, false, false); }

bool device_target_takes(struct ggml_cgraph * cg) {
    for (int i = 0; i < ggml_graph_n_nodes(cg); i++)
        if (ggml_mra_is_node(ggml_graph_node(cg, i))) return true;
    return false;
}

// The scheduler puts its copies in the place of a node's sources. Tests compute a node again, so they are put back.
static struct ggml_tensor ** sources_save(struct ggml_cgraph * cg) {
    const int n = ggml_graph_n_nodes(cg);
    struct ggml_tensor ** src = malloc((size_t) n * sizeof(((struct ggml_tensor *) 0)->src) + 1);
    for (int i = 0; i < n; i++)
        memcpy(src + i * GGML_MAX_SRC, ggml_graph_node(cg, i)->src, GGML_MAX_SRC * sizeof(*src));
    return src;
}
static void sources_restore(struct ggml_cgraph * cg, struct ggml_tensor ** src) {
    for (int i = 0; i < ggml_graph_n_nodes(cg); i++)
        memcpy(ggml_graph_node(cg, i)->src, src + i * GGML_MAX_SRC, GGML_MAX_SRC * sizeof(*src));
    free(src);
}

// The CPU's kernels, but nodes for integers compute in floats, as on a device
static const struct mra_kernels * kernels_without_int8(void) {
    static struct mra_kernels k;
    mra_kernels_set(NULL);
    k = *mra_kernels_get();
    k.int8 = (struct mra_int8_kernels) { 0 };
    return &k;
}

void * device_target_run(struct graph * g, struct ggml_tensor * out, struct ggml_cgraph * cg, int n_threads) {
    if (device_target_vary) device_target_vary(n_threads);
    mra_kernels_set(kernels_without_int8()); // of nodes that are left to the CPU, and of the fake device's
    ggml_backend_cpu_set_n_threads(list[2], n_threads);
    ggml_backend_sched_t sched = device_target_sched();
    ggml_backend_mra_pin(sched, cg, list[1]);
    for (int i = 0; i < ggml_graph_n_nodes(cg) && !is_fake; i++) {
        struct ggml_tensor * t = ggml_graph_node(cg, i);
        if (!t->view_src && !ggml_mra_is_node(t) && !ggml_backend_sched_get_tensor_backend(sched, t))
            ggml_backend_sched_set_tensor_backend(sched, t, list[2]);
    }
    struct ggml_tensor ** src = sources_save(cg);
    void * data = NULL;
    if (ggml_backend_sched_alloc_graph(sched, cg)) {
        for (int i = 0; i < ggml_graph_n_nodes(cg); i++) {
            struct ggml_tensor * t = ggml_graph_node(cg, i);
            if (!ggml_mra_is_node(t)) continue;
            const bool here = ggml_backend_sched_get_tensor_backend(sched, t) == list[1];
            device_target_nodes[here]++;
            CHECK(here || !is_fake, "%s is left to the CPU", ggml_mra_op_name(t));
        }
        for (int i = 0; i < g->n_in; i++)
            if (g->in[i].t->buffer) ggml_backend_tensor_set(g->in[i].t, g->in[i].data, 0, ggml_nbytes(g->in[i].t));
        const enum ggml_status st = ggml_backend_sched_graph_compute(sched, cg);
        CHECK(st == GGML_STATUS_SUCCESS, "%s: %s", ggml_status_to_string(st), ggml_backend_mra_error(list[1]));
        if (st == GGML_STATUS_SUCCESS) {
            data = malloc(ggml_nbytes(out));
            ggml_backend_tensor_get(out, data, 0, ggml_nbytes(out));
        }
    }
    ggml_backend_sched_free(sched);
    sources_restore(cg, src);
    mra_kernels_set(&mra_kernels_cuda);
    return data;
}

void cuda_target_summary(void) {
    printf("%s: %ld of %ld nodes on the device, largest error %.1e\n", list[1] ? ggml_backend_name(list[1]) : "",
        device_target_nodes[1], device_target_nodes[0] + device_target_nodes[1], device_target_worst);
}
