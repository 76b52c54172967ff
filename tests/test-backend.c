// The companion backend with fake devices: everything an encoder layer has, ordered by events or by waiting, under
// ggml's scheduler and without it. The executor runs the CPU kernels, so every result must be the CPU's to the bit.
#include "fake-device.h"
#include "harness.h"

#include "ggml-mra-backend.h"
#include "../ggml-mra/src/node-params.h"

enum { N = 150, E = 64, N_HEAD = 2, N_LAYER = 3, N_RUNS = 7, N_OUT = N * E };

static ggml_backend_t cpu;
static const char * const frames[] = { "exact", "columns", "mra2", "16,4,1", "exact int8", "columns int8" };
enum { N_FRAMES = sizeof(frames) / sizeof(frames[0]) };

// ---- a small encoder ----

struct net {
    const char * frame;
    struct ggml_context * ctx;
    struct ggml_tensor * w[N_LAYER][4];
    ggml_backend_buffer_t buffer[N_LAYER];
    struct ggml_context * wctx[N_LAYER];
};

static struct net net_new(const char * frame, ggml_backend_buffer_type_t const * where) { // [N_LAYER] of the weights
    struct net net = { .frame = frame };
    float * wd = data_new(DATA_NORMAL, N_LAYER * 4 * E, E, 2);
    for (int i = 0; i < N_LAYER * 4 * E * E; i++) wd[i] *= .12f;
    for (int l = 0; l < N_LAYER; l++) {
        net.wctx[l] = ggml_init((struct ggml_init_params) { .mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true });
        for (int i = 0; i < 4; i++) net.w[l][i] = ggml_new_tensor_2d(net.wctx[l], GGML_TYPE_F32, E, E);
        net.buffer[l] = ggml_backend_alloc_ctx_tensors_from_buft(net.wctx[l], where[l]);
        ggml_backend_buffer_set_usage(net.buffer[l], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        for (int i = 0; i < 4; i++)
            ggml_backend_tensor_set(net.w[l][i], wd + (l * 4 + i) * E * E, 0, E * E * sizeof(float));
    }
    free(wd);
    return net;
}
static void net_free(struct net * net) {
    for (int l = 0; l < N_LAYER; l++) {
        ggml_backend_buffer_free(net->buffer[l]);
        ggml_free(net->wctx[l]);
    }
}

struct pass {
    struct ggml_context * ctx;
    struct ggml_cgraph * g;
    struct ggml_tensor *x, *len, *out;
    int n_own;
    float * got;
};

// out = wo attn(wq x, wk x, wv x) + x, three times
static struct pass pass_new(const struct net * net) {
    struct pass p = { .ctx = ggml_init((struct ggml_init_params) {
                          .mem_size = 512 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true }) };
    p.x = ggml_new_tensor_2d(p.ctx, GGML_TYPE_F32, E, N);
    p.len = ggml_new_tensor_1d(p.ctx, GGML_TYPE_I32, 1);
    ggml_set_input(p.x);
    ggml_set_input(p.len);
    struct mra_attn_params a = mra_attn_params_default();
    struct mra_error err = { 0 };
    a.budget = .3f;
    a.n_threads = 2;
    char frame[16] = "";
    sscanf(net->frame, "%15s", frame);
    if (strchr(net->frame, ' ')) a.type = MRA_ATTN_INT8;
    CHECK(mra_attn_params_parse(&a, frame, &err) == MRA_OK, "%s", err.msg);
    struct ggml_tensor * x = p.x;
    for (int l = 0; l < N_LAYER; l++) {
        struct ggml_tensor * h[3];
        for (int i = 0; i < 3; i++)
            h[i] = ggml_permute(
                p.ctx, ggml_reshape_3d(p.ctx, ggml_mul_mat(p.ctx, net->w[l][i], x), E / N_HEAD, N_HEAD, N), 0, 2, 1, 3);
        struct ggml_tensor * o = ggml_mra_attn(p.ctx, h[0], h[1], h[2], p.len, &a, &err);
        if (!o) {
            CHECK(false, "%s: %s", net->frame, err.msg);
            exit(1);
        }
        x = ggml_add(p.ctx, ggml_mul_mat(p.ctx, net->w[l][3], ggml_reshape_2d(p.ctx, o, E, N)), x);
    }
    p.out = x;
    ggml_set_output(x);
    p.g = ggml_new_graph(p.ctx);
    ggml_build_forward_expand(p.g, x);
    for (int i = 0; i < ggml_graph_n_nodes(p.g); i++) p.n_own += ggml_mra_is_node(ggml_graph_node(p.g, i));
    p.got = calloc(N_OUT, sizeof(float));
    return p;
}
static void pass_free(struct pass * p) {
    ggml_free(p->ctx);
    free(p->got);
}

// input of run r, different in each: what a run leaves in memory is wrong for the next
static void pass_input(const struct pass * p, int r) {
    float * x = data_new(DATA_WALK, N, E, 100 + (uint64_t) r);
    const int32_t len = N - 20 * r;
    ggml_backend_tensor_set(p->x, x, 0, ggml_nbytes(p->x));
    ggml_backend_tensor_set(p->len, &len, 0, sizeof(len));
    free(x);
}

static ggml_backend_buffer_type_t cpu_buft(void) { return ggml_backend_get_default_buffer_type(cpu); }

static const float * want(int frame, int r) { // the CPU's
    static float * cache[N_FRAMES][N_RUNS];
    if (cache[frame][r]) return cache[frame][r];
    ggml_backend_buffer_type_t where[N_LAYER] = { cpu_buft(), cpu_buft(), cpu_buft() };
    struct net net = net_new(frames[frame], where);
    struct pass p = pass_new(&net);
    ggml_gallocr_t alloc = ggml_gallocr_new(cpu_buft());
    CHECK(ggml_gallocr_alloc_graph(alloc, p.g), "no memory");
    pass_input(&p, r);
    CHECK(ggml_backend_graph_compute(cpu, p.g) == GGML_STATUS_SUCCESS, "the CPU fails");
    ggml_backend_tensor_get(p.out, p.got, 0, ggml_nbytes(p.out));
    cache[frame][r] = p.got;
    p.got = NULL;
    ggml_gallocr_free(alloc);
    pass_free(&p);
    net_free(&net);
    return cache[frame][r];
}

static bool same(const float * a, const float * b) { return memcmp(a, b, N_OUT * sizeof(float)) == 0; }

static const char * policy(void) {
    static char s[64];
    snprintf(s, sizeof(s), "%s, device %s, companion %s", fake.no_events ? "no events" : "events",
        fake.eager ? "eager" : "lazy", fake.exec_eager ? "eager" : "lazy");
    return s;
}

static ggml_backend_t device_new(const char * name) {
    ggml_backend_t b = ggml_backend_init_by_name(name, NULL);
    if (!b) {
        printf("no %s\n", name);
        exit(1);
    }
    return b;
}
static ggml_backend_t companion_new(ggml_backend_t peer) {
    struct mra_error err = { 0 };
    ggml_backend_t b = ggml_backend_mra_init(peer, &err);
    if (!b) {
        printf("no companion: %s\n", err.msg);
        exit(1);
    }
    return b;
}

// ---- without a scheduler: graphs given to the two backends in turn, nobody waits in between ----

static void test_order(int frame) {
    ggml_backend_t dev = device_new("FAKE0"), mra = companion_new(dev);
    ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(mra), where[N_LAYER] = { buft, buft, buft };
    struct net net = net_new(frames[frame], where);
    struct pass p = pass_new(&net);
    ggml_gallocr_t alloc = ggml_gallocr_new(buft);
    CHECK(ggml_gallocr_alloc_graph(alloc, p.g), "no memory");
    struct ggml_context * ctx = ggml_init(
        (struct ggml_init_params) { .mem_size = 64 * ggml_graph_overhead(), .no_alloc = true });
    for (int r = 0; r < 2; r++) {
        pass_input(&p, r);
        for (int i = 0; i < ggml_graph_n_nodes(p.g);) {
            const bool own = ggml_mra_is_node(ggml_graph_node(p.g, i));
            struct ggml_cgraph * part = ggml_new_graph(ctx);
            for (; i < ggml_graph_n_nodes(p.g); i++) {
                struct ggml_tensor * t = ggml_graph_node(p.g, i);
                const bool view = t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE;
                if (!view && ggml_mra_is_node(t) != own) break;
                ggml_graph_add_node(part, t);
            }
            CHECK(ggml_backend_graph_compute_async(own ? mra : dev, part) == GGML_STATUS_SUCCESS, "%s",
                ggml_backend_mra_error(mra));
            ggml_reset(ctx); // the graph is gone, what it started is not
        }
        ggml_backend_tensor_get_async(r ? mra : dev, p.out, p.got, 0, ggml_nbytes(p.out));
        ggml_backend_synchronize(r ? mra : dev);
        CHECK(same(p.got, want(frame, r)), "%s in turn, run %d (%s): error %.1e", frames[frame], r, policy(),
            max_error(p.got, want(frame, r), N_OUT));
    }
    ggml_free(ctx);
    ggml_gallocr_free(alloc);
    pass_free(&p);
    net_free(&net);
    ggml_backend_free(mra);
    ggml_backend_free(dev);
}

// ---- under the scheduler ----

// n_dev devices, layers in turn on each. ahead: several runs are started before the first result is waited for. As many
// as the scheduler has copies of its inputs: ggml 0.15 does not see that a later part of a graph, which has no input of
// its own, still reads an earlier one's.
static void test_sched(int frame, int n_dev, bool parallel, bool ahead, bool pin) {
    ggml_backend_t list[5];
    int n = 0;
    for (int i = 0; i < n_dev; i++) {
        list[n] = device_new(i ? "FAKE1" : "FAKE0");
        list[n + 1] = companion_new(list[n]);
        n += 2;
    }
    list[n++] = cpu;
    ggml_backend_buffer_type_t where[N_LAYER];
    for (int l = 0; l < N_LAYER; l++) where[l] = ggml_backend_get_default_buffer_type(list[l % n_dev * 2]);
    struct net net = net_new(frames[frame], where);
    ggml_backend_sched_t sched = ggml_backend_sched_new(list, NULL, n, 512, parallel, true);
    struct pass p[N_RUNS];
    const int before = fake_exec_nodes();
    int n_own = 0;
    for (int r = 0; r < N_RUNS; r++) {
        p[r] = pass_new(&net);
        n_own += p[r].n_own;
        ggml_backend_sched_reset(sched);
        if (pin) CHECK(ggml_backend_mra_pin(sched, p[r].g, list[1]) == p[r].n_own, "not all nodes were pinned");
        CHECK(ggml_backend_sched_alloc_graph(sched, p[r].g), "no memory");
        pass_input(&p[r], r);
        CHECK(ggml_backend_sched_graph_compute_async(sched, p[r].g) == GGML_STATUS_SUCCESS, "run %d fails", r);
        ggml_backend_tensor_get_async(
            ggml_backend_sched_get_tensor_backend(sched, p[r].out), p[r].out, p[r].got, 0, ggml_nbytes(p[r].out));
        if (!ahead || r % 4 == 3) ggml_backend_sched_synchronize(sched);
    }
    ggml_backend_sched_synchronize(sched);
    for (int r = 0; r < N_RUNS; r++) {
        CHECK(same(p[r].got, want(frame, r)), "%s, run %d, %d devices%s%s%s (%s): error %.1e", frames[frame], r, n_dev,
            parallel ? ", parallel" : "", ahead ? ", ahead" : "", pin ? ", pinned" : "", policy(),
            max_error(p[r].got, want(frame, r), N_OUT));
        pass_free(&p[r]);
    }
    CHECK(fake_exec_nodes() - before == n_own, "%s: %d nodes on the companion, not %d", frames[frame],
        fake_exec_nodes() - before, n_own);
    ggml_backend_sched_free(sched);
    net_free(&net);
    for (int i = n - 2; i >= 0; i--) ggml_backend_free(list[i]); // a companion before its peer
}

// Events of the user's: a second stream of the device makes x, the companion pools it, the second stream goes on with
// that.
static void test_events(void) {
    ggml_backend_t dev = device_new("FAKE0"), mra = companion_new(dev), other = device_new("FAKE0");
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) {
        .mem_size = 64 * ggml_tensor_overhead() + 4 * ggml_graph_overhead(), .no_alloc = true });
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, E, N), *y = ggml_scale(ctx, x, 2);
    struct ggml_tensor *z = ggml_mra_pool(ctx, y, NULL, 1, MRA_POOL_MEAN, false, NULL), *out = ggml_scale(ctx, z, .5f);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, mra);
    struct ggml_tensor * const nodes[3] = { y, z, out };
    float *xd = data_new(DATA_WALK, N, E, 9), got[N_OUT];
    ggml_backend_tensor_set(x, xd, 0, ggml_nbytes(x));
    ggml_backend_event_t e[2] = { ggml_backend_event_new(ggml_backend_get_device(other)),
        ggml_backend_event_new(ggml_backend_get_device(mra)) };
    for (int i = 0; i < 3; i++) {
        ggml_backend_t on = i == 1 ? mra : other;
        struct ggml_cgraph * g = ggml_new_graph(ctx);
        nodes[i]->flags |= GGML_TENSOR_FLAG_COMPUTE;
        ggml_graph_add_node(g, nodes[i]);
        if (i > 0) ggml_backend_event_wait(on, e[i - 1]);
        CHECK(ggml_backend_graph_compute_async(on, g) == GGML_STATUS_SUCCESS, "graph %d fails", i);
        if (i < 2) ggml_backend_event_record(e[i], on);
    }
    ggml_backend_tensor_get_async(other, out, got, 0, ggml_nbytes(out));
    ggml_backend_synchronize(other);
    CHECK(same(got, xd), "events of the user's (%s): error %.1e", policy(), max_error(got, xd, N_OUT));
    for (int i = 0; i < 2; i++) ggml_backend_event_free(e[i]);
    free(xd);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(mra);
    ggml_backend_free(dev);
    ggml_backend_free(other);
}

// kinds: bit mask of the kinds of node that are given to the CPU by hand; refuse: a kind the companion does not take
static void test_elsewhere(int frame, unsigned kinds, int refuse) {
    fake.refuse = refuse;
    ggml_backend_t dev = device_new("FAKE0"), mra = companion_new(dev), list[] = { dev, mra, cpu };
    ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(dev), where[N_LAYER] = { buft, buft, buft };
    struct net net = net_new(frames[frame], where);
    struct pass p = pass_new(&net);
    ggml_backend_sched_t sched = ggml_backend_sched_new(list, NULL, 3, 512, false, true);
    int by_hand = 0;
    for (int i = 0; i < ggml_graph_n_nodes(p.g); i++) {
        struct ggml_tensor * t = ggml_graph_node(p.g, i);
        const char * name = ggml_mra_op_name(t);
        if (!name) continue;
        const int kind = strcmp(name, "pack") == 0   ? MRA_KIND_PACK
            : strcmp(name, "attn") == 0              ? MRA_KIND_ATTN
            : strcmp(name, "block-sparse-attn") == 0 ? MRA_KIND_BLOCK_SPARSE_ATTN
                                                     : MRA_KIND_NONE;
        if (kinds >> kind & 1) {
            ggml_backend_sched_set_tensor_backend(sched, t, cpu);
            by_hand++;
        } else if (kind == refuse && refuse) by_hand++;
    }
    CHECK(by_hand > 0, "no such node");
    const int n_pin = ggml_backend_mra_pin(sched, p.g, mra), before = fake_exec_nodes();
    CHECK(n_pin == p.n_own - by_hand, "%d nodes pinned, not %d", n_pin, p.n_own - by_hand);
    CHECK(ggml_backend_sched_alloc_graph(sched, p.g), "no memory");
    pass_input(&p, 1);
    CHECK(ggml_backend_sched_graph_compute(sched, p.g) == GGML_STATUS_SUCCESS, "fails");
    ggml_backend_tensor_get(p.out, p.got, 0, ggml_nbytes(p.out));
    CHECK(same(p.got, want(frame, 1)), "%s, kinds %x elsewhere, %d refused: error %.1e", frames[frame], kinds, refuse,
        max_error(p.got, want(frame, 1), N_OUT));
    CHECK(fake_exec_nodes() - before >= n_pin, "the companion was not used");
    ggml_backend_sched_free(sched);
    pass_free(&p);
    net_free(&net);
    ggml_backend_free(mra);
    ggml_backend_free(dev);
    fake.refuse = 0;
}

// weights of the second layer in memory that the device takes and the companion must not: K as it lies there, attended
// to
static void test_split(void) {
    ggml_backend_t dev = device_new("FAKE0"), mra = companion_new(dev), list[] = { dev, mra, cpu };
    ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(dev), split = fake_device_split_buft(0);
    CHECK(ggml_backend_supports_buft(dev, split), "the test is not one: the device takes no split buffer");
    CHECK(ggml_backend_supports_buft(mra, buft) && !ggml_backend_supports_buft(mra, split),
        "the companion takes a split buffer");
    CHECK(!ggml_backend_supports_buft(mra, cpu_buft()) &&
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
    CHECK(same(got, by), "K in a split buffer: error %.1e", max_error(got, by, N_OUT));
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
    ggml_backend_t dev = device_new("FAKE0"), mra = companion_new(dev), list[] = { dev, mra, cpu };
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
    ggml_backend_t dev = device_new("FAKE0");
    refused(NULL, MRA_ERR_ARG, "needs a device");
    refused(cpu, MRA_ERR_UNSUPPORTED, "no kernels for CPU devices");
    refused(dev, MRA_ERR_UNSUPPORTED, "no kernels for FAKE devices");
    fake_exec_register();
    fake.api_version = 99;
    fake_device_register();
    refused(dev, MRA_ERR_UNSUPPORTED, "version 99");
    fake.api_version = 0;
    fake_device_register();
    ggml_backend_t mra = companion_new(dev);
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
    for (int i = 0; i < 8; i++) {
        fake.no_events = i & 1;
        fake.eager = i & 2;
        fake.exec_eager = i & 4;
        for (int f = 0; f < N_FRAMES; f++) test_order(f);
        if (!fake.no_events) test_events();
        for (int k = 0; k < 8; k++) test_sched(i < 2 ? k % 4 : 1 + i % 2, 1, k & 1, k & 2, k & 4);
        for (int k = 0; k < 4; k++) test_sched(k, 2, k & 1, k & 2, false);
    }
    fake = (struct fake_options) { 0 };
    test_split();
    test_pin(false);
    test_pin(true);
    for (int f = 0; f < N_FRAMES; f++) {
        test_elsewhere(f, 1u << MRA_KIND_PACK, 0);
        test_elsewhere(f, 1u << MRA_KIND_ATTN | 1u << MRA_KIND_BLOCK_SPARSE_ATTN, 0);
        test_elsewhere(f, 0, MRA_KIND_PACK);
        test_elsewhere(f, 0, strchr(frames[f], 'c') ? MRA_KIND_ATTN : MRA_KIND_BLOCK_SPARSE_ATTN); // exact, columns
    }
    ggml_backend_free(cpu);
    return summary("test-backend");
}
