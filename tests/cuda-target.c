#define _GNU_SOURCE // MAP_ANONYMOUS
#include "cuda-target.h"

#include "../ggml-mra/src/cuda/cuda.h"
#include "../ggml-mra/src/device-pack.h"
#include "../ggml-mra/src/node.h"
#include "cuda-host/host.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static int n_emulated[MRA_KIND_COUNT], n_on_cpu[MRA_KIND_COUNT];

// the checker is told of one more tensor; tensors that share memory are one to it
static void watch(const struct ggml_tensor * t, const char * name) { mra_host_buffer(t->data, ggml_nbytes(t), name); }

static void count_findings(const char * what) {
    const unsigned n = mra_host_findings();
    CHECK(n == 0, "%s: %u findings", what, n);
}

// A copy of an input that ends where no memory is: what a kernel reads behind it kills the test. Begins as far from a
// multiple of 16 as the input, by which kernels choose how to read it.
struct guarded {
    void * mem;
    size_t bytes;
};
static struct guarded guard(const struct ggml_tensor * t, struct mra_tensor * x) {
    const size_t page = (size_t) sysconf(_SC_PAGESIZE), odd = (uintptr_t) t->data % 16, n = ggml_nbytes(t);
    const size_t bytes = (n + 16 + page - 1) / page * page;
    char * mem = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED || mprotect(mem + bytes, page, PROT_NONE)) exit(2);
    x->data = mem + (bytes - n - odd) / 16 * 16 + odd;
    memcpy(x->data, t->data, n);
    return (struct guarded) { mem, bytes + page };
}

static bool compute_node(ggml_backend_t cpu, struct ggml_tensor * t) {
    const struct mra_node p = mra_node_get(t);
    struct mra_tensor src[GGML_MAX_SRC], dst = mra_tensor_of(t);
    static const char * const src_name[GGML_MAX_SRC] = { "src 0", "src 1", "src 2", "src 3", "src 4", "src 5", "src 6",
        "src 7" };
    int n_src = 0;
    for (; n_src < GGML_MAX_SRC && t->src[n_src]; n_src++) src[n_src] = mra_tensor_of(t->src[n_src]);
    if (p.kind != MRA_KIND_NONE && mra_cuda_supports(&p, &dst, src, n_src)) {
        mra_host_buffers_clear();
        const bool in_place = t->src[0]->data == t->data;
        if (!in_place) memset(t->data, 0x7f, ggml_nbytes(t)); // what a kernel leaves out is seen
        watch(t, "dst");
        struct guarded copy[GGML_MAX_SRC] = { 0 };
        for (int i = in_place; i < n_src; i++) {
            const struct ggml_tensor *x = t->src[i], *of = x->view_src ? x->view_src : x;
            if (of->op != GGML_OP_CUSTOM) copy[i] = guard(t->src[i], &src[i]); // a pack knows where it is
            mra_host_buffer(src[i].data, ggml_nbytes(t->src[i]), src_name[i]);
        }
        const int code = mra_cuda_run(&p, dst, src, n_src, NULL);
        for (int i = 0; i < n_src; i++)
            if (copy[i].mem) munmap(copy[i].mem, copy[i].bytes);
        CHECK(code == 0, "%s: %s", ggml_mra_op_name(t), mra_cuda_message(code));
        count_findings(ggml_mra_op_name(t));
        n_emulated[p.kind]++;
        return code == 0;
    }
    n_on_cpu[p.kind]++;
    mra_kernels_set(&mra_kernels_ref);
    const bool ok = node_compute(cpu, t);
    mra_kernels_set(&mra_kernels_cuda);
    return ok;
}

bool cuda_target_compute(ggml_backend_t cpu, struct ggml_cgraph * cg, int n_threads) {
    static const enum mra_host_order order[] = { MRA_HOST_LOWEST, MRA_HOST_HIGHEST, MRA_HOST_RANDOM };
    mra_host_schedule(order[n_threads < 4 ? n_threads - 1 : 2], (uint64_t) n_threads);
    const int n = ggml_graph_n_nodes(cg);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) ok = compute_node(cpu, ggml_graph_node(cg, i));
    return ok;
}

// one row of cells: the selection of topk-blocks alone
static int select_by_topk(int32_t * idx, float * x, int n, int m) {
    int32_t out[8192];
    struct mra_node p = { .magic = MRA_MAGIC, .kind = MRA_KIND_TOPK_BLOCKS, .n_fixed = 1 };
    p.u.topk_blocks = (struct mra_topk_blocks_node) {
        .level = { .n_q = 1, .n_k = n, .h = 1, .g = 1 },
        .rule = n % 2 ? MRA_RULE_MU : MRA_RULE_ROW,
        .take.count = m,
        .cap = m < 1 ? 1 : mra_min(m, n),
        .slots = 1,
    };
    const int64_t bytes = mra_topk_layout_of(&p.u.topk_blocks, 1, n).words * (int64_t) sizeof(int32_t);
    if (bytes > (int64_t) sizeof(out)) return -1;
    const struct mra_tensor dst = { (char *) out, MRA_TENSOR_I32, { bytes / 4, 1, 1, 1 }, { 4, bytes, bytes, bytes } };
    const struct mra_tensor src = { (char *) x, MRA_TENSOR_F32, { n, 1, 1, 1 }, { 4, 4 * n, 4 * n, 4 * n } };
    if (!mra_cuda_supports(&p, &dst, &src, 1)) return mra_kernels_ref.topk_blocks(idx, x, n, m);
    mra_host_buffers_clear();
    mra_host_buffer(out, bytes, "dst");
    mra_host_buffer(x, n * sizeof(float), "scores");
    if (mra_cuda_run(&p, dst, &src, 1, NULL)) return -1;
    count_findings("select");
    memcpy(idx, out + 2, out[1] * sizeof(int32_t));
    return out[1];
}

// a head of rows as a tensor [d, n]
static struct mra_tensor head_tensor(struct mra_rows x, int d, int n) {
    const bool f16 = x.type == MRA_F16;
    return (struct mra_tensor) { (char *) x.data, f16 ? MRA_TENSOR_F16 : MRA_TENSOR_F32, { d, n, 1, 1 },
        { f16 ? 2 : 4, x.stride, x.stride * n, x.stride * n } };
}

// The query_order node of one head. The CPU's threads come here, too: with the order of the device, the rest is theirs.
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static void query_order_of_node(const struct mra_attn_head * a, bool given, void * scratch) {
    struct mra_node p = { .magic = MRA_MAGIC, .kind = MRA_KIND_QUERY_ORDER, .n_fixed = 3 };
    p.flags = given ? MRA_FLAG_GIVEN : 0;
    p.u.attn = (struct mra_attn_node) {
        .frame = MRA_PLAN_SORTED, .scale = a->scale, .max_len = a->n_k, .n_all = (int16_t) a->n_all
    };
    const struct mra_order_layout l = mra_order_layout_of(a->d, a->n_q, a->n_k, 1, 1, 1);
    const int64_t n = mra_device_order_of(&l, &p.u.attn, false, a->dv, a->n_q, a->n_k, 1, 1, 1, 1).words;
    const struct mra_tensor src[3] = { head_tensor(a->q, a->d, a->n_q), head_tensor(a->k, a->d, a->n_k),
        head_tensor(a->v, a->dv, a->n_k) };
    const int64_t rows[3] = { a->n_q, a->n_k, a->n_k };
    struct mra_tensor dst = { NULL, MRA_TENSOR_I32, { n, 1, 1, 1 }, { 4, 4 * n, 4 * n, 4 * n } };
    pthread_mutex_lock(&one_at_a_time);
    const bool supported = mra_cuda_supports(&p, &dst, src, 3);
    pthread_mutex_unlock(&one_at_a_time);
    if (!supported) { // too many channels
        mra_kernels_ref.query_order(a, given, scratch);
        mra_kernels_ref.key_bias(a, scratch);
        return;
    }
    int32_t * w = malloc(n * sizeof(int32_t));
    memset(w, 0x7f, n * sizeof(int32_t));
    if (given) memcpy(w + l.order, a->sorted.order, a->n_q * sizeof(int32_t));
    pthread_mutex_lock(&one_at_a_time);
    mra_host_buffers_clear();
    mra_host_buffer(w, n * sizeof(int32_t), "dst");
    for (int i = 0; i < 3; i++)
        mra_host_buffer(src[i].data, (rows[i] - 1) * src[i].nb[1] + src[i].ne[0] * src[i].nb[0], "src");
    dst.data = (char *) w;
    const int code = mra_cuda_run(&p, dst, src, 3, NULL);
    CHECK(code == 0, "query-order: %s", mra_cuda_message(code));
    count_findings("query-order");
    n_emulated[MRA_KIND_QUERY_ORDER]++;
    pthread_mutex_unlock(&one_at_a_time);
    const struct mra_sorted * s = &a->sorted;
    const int n_b = mra_div_up(a->n_q, MRA_QUERY_BLOCK);
    memcpy(s->order, w + l.order, a->n_q * sizeof(int32_t));
    memcpy(s->q_mean, w + l.q_mean, (size_t) n_b * l.dim * sizeof(float));
    memcpy(s->q_var, w + l.q_var, l.dim * sizeof(float));
    memcpy(s->spread, w + l.spread, n_b * sizeof(float));
    memcpy(s->all_keys, w + l.all_keys, n_b * sizeof(int32_t));
    memcpy(s->k_mean, w + l.k_mean, l.dim * sizeof(float));
    memcpy(s->key_bias, w + l.key_bias, a->n_k * sizeof(float));
    free(w);
}

static void bias_is_there(const struct mra_attn_head * a, void * scratch) { // the node computes it, too
    (void) a;
    (void) scratch;
}

// nodes for integers are built as where the CPU has them
const struct mra_kernels mra_kernels_cuda = { .name = "CUDA on the host",
    .topk_blocks = select_by_topk,
    .query_order = query_order_of_node,
    .key_bias = bias_is_there,
    .int8 = { .form = MRA_INT8_BYTES,
        .bytes = 2,
        .pack = int8_pack_nowhere,
        .attn = int8_attn_nowhere,
        .window_attn = int8_window_nowhere } };

// Shared memory passes that a kernel may spend, against the fewest possible; the first that fits.
static const struct {
    const char * kernel;
    double shared;
} limits[] = {
    { "topk_kernel", 1.5 }, // both by select_bin: 8 neighbouring bins per lane, a small part of the work
    { "columns", 1.5 },
    { "", 1.1 },
};

static void check_traffic(void) {
    struct mra_host_traffic t;
    for (int i = 0; mra_host_traffic_get(i, &t); i++) {
        double limit = 0;
        for (size_t j = 0; j < sizeof(limits) / sizeof(limits[0]) && limit == 0; j++)
            if (strstr(t.kernel, limits[j].kernel)) limit = limits[j].shared;
        printf("  %-32s shared memory: %.2f times the fewest passes (limit %.2f), global memory: %.2f times the fewest "
               "sectors\n",
            t.kernel, t.shared, limit, t.global);
        CHECK(t.shared <= limit, "%s: bank conflicts: %.2f times the fewest passes", t.kernel, t.shared);
        if (t.shared > limit || getenv("MRA_TRAFFIC")) mra_host_traffic_print(i, limit);
    }
}

void cuda_target_summary(void) {
    static const char * const name[MRA_KIND_COUNT] = { "ggml's",
#define ROW(kind, word, name) name,
        MRA_NODE_KINDS(ROW)
#undef ROW
    };
    printf("CUDA on the host, as sm_%d%s:", mra_host_arch() / 10, mra_host_checks() ? ", checked" : "");
    for (int i = 0; i < MRA_KIND_COUNT; i++)
        if (n_emulated[i] + n_on_cpu[i]) printf(" %s %d/%d", name[i], n_emulated[i], n_emulated[i] + n_on_cpu[i]);
    printf(" (nodes emulated/all)\n");
    check_traffic();
}
