// The companion backend with fake devices: which devices, nodes and memory it takes, and what it says of the others.
#include "fake-device.h"
#include "harness.h"

#include "ggml-mra-backend.h"

enum { N = 150, E = 64, N_OUT = N * E };

static ggml_backend_t cpu;

// K in memory that the device takes and the companion must not
static void test_split(void) {
    ggml_backend_t dev = fake_backend_new("FAKE0"), mra = fake_companion_new(dev), list[] = { dev, mra, cpu };
    ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(dev), split = fake_device_split_buft(0);
    CHECK(ggml_backend_supports_buft(dev, split), "the test is not one: the device takes no split buffer");
    CHECK(ggml_backend_supports_buft(mra, buft) && !ggml_backend_supports_buft(mra, split),
        "the companion takes a split buffer");
    CHECK(!ggml_backend_supports_buft(mra, ggml_backend_get_default_buffer_type(cpu)) &&
            !ggml_backend_supports_buft(mra, ggml_backend_dev_buffer_type(ggml_backend_dev_by_name("FAKE1"))),
        "the companion takes another device's memory");
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) {
        .mem_size = 64 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true });
    struct ggml_context * wctx = ggml_init(
        (struct ggml_init_params) { .mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true });
    struct ggml_tensor *k = ggml_new_tensor_2d(wctx, GGML_TYPE_F32, E, N),
                       *q = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, E, N);
    ggml_backend_buffer_t kb = ggml_backend_alloc_ctx_tensors_from_buft(wctx, split);
    ggml_backend_buffer_set_usage(kb, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_set_input(q);
    float *kd = data_new(DATA_WALK, N, E, 5), *qd = data_new(DATA_WALK, N, E, 6), got[N_OUT];
    struct mra_attn_params a = mra_attn_params_exact();
    struct ggml_tensor * o = ggml_scale(ctx, ggml_mra_attn(ctx, ggml_scale(ctx, q, 2), k, k, NULL, &a, NULL), 1);
    ggml_set_output(o);
    struct ggml_cgraph * g = ggml_new_graph(ctx);
    ggml_build_forward_expand(g, o);
    ggml_backend_sched_t sched = ggml_backend_sched_new(list, NULL, 3, 64, false, true);
    ggml_backend_mra_pin(sched, g, mra);
    CHECK(ggml_backend_sched_alloc_graph(sched, g), "no memory");
    ggml_backend_tensor_set(k, kd, 0, ggml_nbytes(k));
    ggml_backend_tensor_set(q, qd, 0, ggml_nbytes(q));
    CHECK(ggml_backend_sched_graph_compute(sched, g) == GGML_STATUS_SUCCESS, "fails");
    ggml_backend_tensor_get(o, got, 0, sizeof(got));

    struct graph cg = graph_new();
    struct ggml_tensor *k2 = graph_input(&cg, GGML_TYPE_F32, E, N, 1, 1, kd),
                       *q2 = ggml_scale(cg.ctx, graph_input(&cg, GGML_TYPE_F32, E, N, 1, 1, qd), 2);
    float * by = graph_run(&cg, ggml_scale(cg.ctx, ggml_mra_attn(cg.ctx, q2, k2, k2, NULL, &a, NULL), 1), 1);
    CHECK(memcmp(got, by, sizeof(got)) == 0, "K in a split buffer: error %.1e", max_error(got, by, N_OUT));
    graph_free(&cg);
    free(by);
    free(kd);
    free(qd);
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(kb);
    ggml_free(ctx);
    ggml_free(wctx);
    ggml_backend_free(mra);
    ggml_backend_free(dev);
}

// A node behind one that has to run on the CPU (its weights are there) is left to the CPU, unless it is pinned.
static void test_pin(bool pin) {
    ggml_backend_t dev = fake_backend_new("FAKE0"), mra = fake_companion_new(dev), list[] = { dev, mra, cpu };
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) {
        .mem_size = 64 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true });
    struct ggml_context * wctx = ggml_init(
        (struct ggml_init_params) { .mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true });
    struct ggml_tensor *w = ggml_new_tensor_2d(wctx, GGML_TYPE_F32, E, E),
                       *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, E, N);
    ggml_backend_buffer_t wb = ggml_backend_alloc_ctx_tensors(wctx, cpu);
    ggml_backend_buffer_set_usage(wb, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_set_input(x);
    struct ggml_tensor * o = ggml_mra_pool(ctx, ggml_mul_mat(ctx, w, x), NULL, 16, MRA_POOL_MEAN, false, NULL);
    struct ggml_cgraph * g = ggml_new_graph(ctx);
    ggml_build_forward_expand(g, o);
    ggml_backend_sched_t sched = ggml_backend_sched_new(list, NULL, 3, 64, false, true);
    const int n = pin ? ggml_backend_mra_pin(sched, g, mra) : 0;
    CHECK(ggml_backend_sched_alloc_graph(sched, g), "no memory");
    CHECK(n == (int) pin && ggml_backend_sched_get_tensor_backend(sched, o) == (pin ? mra : cpu), "%s node runs on %s",
        pin ? "pinned" : "free", ggml_backend_name(ggml_backend_sched_get_tensor_backend(sched, o)));
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(wb);
    ggml_free(ctx);
    ggml_free(wctx);
    ggml_backend_free(mra);
    ggml_backend_free(dev);
}

static void refused(ggml_backend_t peer, enum mra_status code, const char * word) {
    struct mra_error err = { 0 };
    ggml_backend_t mra = ggml_backend_mra_init(peer, &err);
    CHECK(!mra && err.code == code && strstr(err.msg, word), "%s: code %d, '%s', not '%s'", mra ? "taken" : "refused",
        (int) err.code, err.msg, word);
    CHECK(!ggml_backend_mra_init(peer, NULL), "without a place for the reason");
}
static void test_init(void) {
    ggml_backend_t dev = fake_backend_new("FAKE0");
    refused(NULL, MRA_ERR_ARG, "needs a device");
    refused(cpu, MRA_ERR_UNSUPPORTED, "no kernels for CPU devices");
    refused(dev, MRA_ERR_UNSUPPORTED, "no kernels for FAKE devices");
    fake_exec_register();
    fake.api_version = 99;
    fake_device_register();
    refused(dev, MRA_ERR_UNSUPPORTED, "version 99");
    fake.api_version = 0;
    fake_device_register();
    ggml_backend_t mra = fake_companion_new(dev);
    CHECK(ggml_backend_is_mra(mra) && !ggml_backend_is_mra(dev) && !ggml_backend_is_mra(cpu) &&
            !ggml_backend_is_mra(NULL),
        "is_mra");
    CHECK(strcmp(ggml_backend_name(mra), "MRA-FAKE0") == 0, "name %s", ggml_backend_name(mra));
    CHECK(strcmp(ggml_backend_mra_error(mra), "") == 0 && strcmp(ggml_backend_mra_error(cpu), "") == 0,
        "an error before the first graph");
    refused(mra, MRA_ERR_UNSUPPORTED, "no kernels for MRA devices");

    // what is no node of ours fails with a reason, and nothing aborts
    struct graph g = graph_new();
    struct ggml_tensor *x = ggml_new_tensor_2d(g.ctx, GGML_TYPE_F32, 32, 32), *y = ggml_scale(g.ctx, x, 2);
    struct ggml_cgraph * cg = ggml_new_graph_custom(g.ctx, 16, false);
    ggml_build_forward_expand(cg, y);
    CHECK(!ggml_backend_supports_op(mra, y), "the companion takes ggml's nodes");
    CHECK(ggml_backend_graph_compute(mra, cg) == GGML_STATUS_FAILED && strstr(ggml_backend_mra_error(mra), "SCALE"),
        "'%s'", ggml_backend_mra_error(mra));
    graph_free(&g);
    ggml_backend_free(mra);
    ggml_backend_free(dev);
}

int main(void) {
    fake_device_register();
    cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, 1);
    test_init();
    test_split();
    test_pin(false);
    test_pin(true);
    ggml_backend_free(cpu);
    return summary("test-backend-choice");
}
