// The companion backend with fake devices: everything an encoder layer has, ordered by events or by waiting, under
// ggml's scheduler and without it. The executor runs the CPU kernels, so every result must be the CPU's to the bit.
#include "fake-device.h"
#include "harness.h"

#include "ggml-mra-backend.h"
#include "../ggml-mra/src/node-params.h"

enum { N = 150, E = 64, N_HEAD = 2, N_LAYER = 3, N_RUNS = 7, N_OUT = N * E };

static ggml_backend_t cpu;
static const char * const frames[] = { "exact", "columns", "mra2", "16,4,1", "exact int8", "columns int8", "sorted" };
enum { N_FRAMES = sizeof(frames) / sizeof(frames[0]), SORTED = N_FRAMES - 1 };

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
    if (a.frame == MRA_FRAME_SORTED) { // by the budget it would be exact
        a.counts[0] = 5;
        a.counts[1] = 20;
        a.counts[2] = 1;
    }
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

// ---- without a scheduler: graphs given to the two backends in turn, nobody waits in between ----

static void test_order(int frame) {
    ggml_backend_t dev = fake_backend_new("FAKE0"), mra = fake_companion_new(dev);
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
        list[n] = fake_backend_new(i ? "FAKE1" : "FAKE0");
        list[n + 1] = fake_companion_new(list[n]);
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
    ggml_backend_t dev = fake_backend_new("FAKE0"), mra = fake_companion_new(dev), other = fake_backend_new("FAKE0");
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
    ggml_backend_t dev = fake_backend_new("FAKE0"), mra = fake_companion_new(dev), list[] = { dev, mra, cpu };
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
            : strcmp(name, "query-order") == 0       ? MRA_KIND_QUERY_ORDER
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

// Rows that are changed in place are made where that happens; where they must be elsewhere, the graph fails.
static void test_in_place(bool elsewhere) {
    ggml_backend_t dev = fake_backend_new("FAKE0"), mra = fake_companion_new(dev), list[] = { dev, mra, cpu };
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) {
        .mem_size = 16 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true });
    struct mra_error err = { 0 };
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 2, 1),
                       *at = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 1);
    ggml_set_input(x);
    ggml_set_input(at);
    struct ggml_tensor *y = ggml_scale(ctx, x, 2), *table = ggml_mra_rope_table(ctx, at, 2, 1e4f, 1, &err),
                       *out = ggml_mra_rope(ctx, y, table, 2, 1, false, &err);
    struct ggml_cgraph * g = ggml_new_graph(ctx);
    ggml_set_output(out);
    ggml_build_forward_expand(g, out);
    ggml_backend_sched_t sched = ggml_backend_sched_new(list, NULL, 3, 64, false, false);
    if (elsewhere) ggml_backend_sched_set_tensor_backend(sched, y, cpu);
    CHECK(ggml_backend_mra_pin(sched, g, mra) == 2, "table and rope are pinned");
    const float rows[2] = { 1, 0 };
    const int32_t position = 1;
    float got[2] = { 0 };
    enum ggml_status st = GGML_STATUS_ALLOC_FAILED;
    if (ggml_backend_sched_alloc_graph(sched, g)) {
        ggml_backend_tensor_set(x, rows, 0, sizeof(rows));
        ggml_backend_tensor_set(at, &position, 0, sizeof(position));
        st = ggml_backend_sched_graph_compute(sched, g);
        ggml_backend_tensor_get(out, got, 0, sizeof(got));
    }
    CHECK((st == GGML_STATUS_SUCCESS) != elsewhere, "in place%s: status %d", elsewhere ? ", elsewhere" : "", (int) st);
    if (elsewhere) CHECK(strstr(ggml_backend_mra_error(mra), "works in place"), "%s", ggml_backend_mra_error(mra));
    else
        CHECK(fabs(got[0] - 2 * cos(1)) < 1e-6 && fabs(got[1] - 2 * sin(1)) < 1e-6, "in place: %g %g", (double) got[0],
            (double) got[1]);
    ggml_backend_sched_free(sched);
    ggml_free(ctx);
    ggml_backend_free(mra);
    ggml_backend_free(dev);
}

int main(void) {
    fake_device_register();
    cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, 1);
    fake_exec_register();
    for (int i = 0; i < 8; i++) {
        fake.no_events = i & 1;
        fake.eager = i & 2;
        fake.exec_eager = i & 4;
        for (int f = 0; f < N_FRAMES; f++) test_order(f);
        if (!fake.no_events) test_events();
        test_in_place(false);
        test_in_place(true);
        for (int k = 0; k < 8; k++) test_sched(i < 2 ? k % 4 : 1 + i % 2, 1, k & 1, k & 2, k & 4);
        for (int k = 0; k < N_FRAMES; k++) test_sched(k, 2, k & 1, k & 2, false);
    }
    fake = (struct fake_options) { 0 };
    for (int f = 0; f < N_FRAMES; f++) {
        test_elsewhere(f, 1u << MRA_KIND_PACK, 0);
        test_elsewhere(f, 1u << MRA_KIND_ATTN | 1u << MRA_KIND_BLOCK_SPARSE_ATTN, 0);
        test_elsewhere(f, 0, MRA_KIND_PACK);
        test_elsewhere(f, 0, f < 2 || f > 3 ? MRA_KIND_ATTN : MRA_KIND_BLOCK_SPARSE_ATTN);
    }
    test_elsewhere(SORTED, 1u << MRA_KIND_QUERY_ORDER, 0);
    test_elsewhere(SORTED, 0, MRA_KIND_QUERY_ORDER);
    ggml_backend_free(cpu);
    return summary("test-backend");
}
