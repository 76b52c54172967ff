#include "harness.h"

#ifdef MRA_TEST_CUDA
#    include "cuda-target.h"
#endif
#ifdef MRA_TEST_DEVICE
#    include "device-target.h"
#endif
#ifdef MRA_TEST_THREADS
#    include "threads-target.h"
#endif
#ifdef MRA_TEST_WIDE
extern const struct mra_kernels mra_kernels_wide;                                    // isa-wide.c
extern const struct mra_dense_kernels mra_dense_wide_bytes, mra_dense_v3_bytes;      // isa-bytes.c, isa-bytes-v3.c
extern const struct mra_dense_kernels mra_dense_plain_tiles, mra_dense_plain_matrix; // isa-amx.c, isa-matrix.c
extern const struct mra_int8_kernels mra_int8_wide_bytes, mra_int8_v3_bytes, mra_int8_plain_tiles,
    mra_int8_plain_matrix;
#endif

int n_checks, n_failed;

uint64_t rng_next(uint64_t * s) { // splitmix64
    uint64_t z = (*s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
float rng_uniform(uint64_t * s) { return (float) (rng_next(s) >> 40) / 16777216.0f; }
int rng_int(uint64_t * s, int lo, int hi) { return lo + (int) (rng_next(s) % (uint64_t) (hi - lo + 1)); }
float rng_normal(uint64_t * s) {
    const float u = 1 - rng_uniform(s), v = rng_uniform(s);
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}

float * data_new(enum data_kind kind, int64_t n_row, int64_t d, uint64_t seed) {
    float * x = malloc((size_t) (n_row * d + 1) * sizeof(float));
    uint64_t s = seed;
    for (int64_t i = 0; i < n_row * d; i++) {
        switch (kind) {
            case DATA_NORMAL: x[i] = rng_normal(&s); break;
            case DATA_GRID: x[i] = rintf(8 * rng_normal(&s)) / 8; break;
            case DATA_TIES: x[i] = (float) rng_int(&s, -1, 1); break;
            case DATA_CONST: x[i] = 1; break;
            case DATA_WALK: x[i] = (i >= d ? .9f * x[i - d] : 0) + .5f * rng_normal(&s); break;
            case DATA_HUGE: x[i] = 35 * rng_normal(&s); break;
        }
#ifdef MRA_TEST_CUDA
        x[i] = ggml_fp16_to_fp32(ggml_fp32_to_fp16(x[i])); // so that the reference works on what tensor cores get
#endif
    }
    return x;
}

struct graph graph_new(void) {
    struct graph g = { 0 };
    g.ctx = ggml_init((struct ggml_init_params) {
        .mem_size = ggml_tensor_overhead() * 512 + ggml_graph_overhead(), .no_alloc = true });
    return g;
}
void graph_free(struct graph * g) {
    for (int i = 0; i < g->n_in; i++) free(g->in[i].data);
    ggml_free(g->ctx);
    memset(g, 0, sizeof(*g));
}

struct ggml_tensor * graph_input(
    struct graph * g, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, const void * data) {
    struct ggml_tensor * t = ggml_new_tensor_4d(g->ctx, type, ne0, ne1, ne2, ne3);
    ggml_set_input(t);
    g->in[g->n_in].t = t;
    g->in[g->n_in].data = malloc(ggml_nbytes(t));
    memcpy(g->in[g->n_in++].data, data, ggml_nbytes(t));
    return t;
}

struct ggml_tensor * graph_weights(struct graph * g, enum ggml_type type, int k, int n, const float * w) {
    void * q = malloc(ggml_row_size(type, k) * n);
    if (type == GGML_TYPE_F32) memcpy(q, w, sizeof(float) * k * n);
    else if (type == GGML_TYPE_F16) ggml_fp32_to_fp16_row(w, q, (int64_t) k * n);
    else ggml_quantize_chunk(type, w, q, 0, n, k, NULL);
    struct ggml_tensor * t = graph_input(g, type, k, n, 1, 1, q);
    free(q);
    return t;
}

// data behind 4 elements of something else, as a view
static struct ggml_tensor * behind_others(
    struct graph * g, enum ggml_type type, int64_t d, int64_t n, int64_t n_head, int64_t n_batch, const char * data) {
    const size_t es = ggml_type_size(type), bytes = (size_t) (d * n * n_head * n_batch) * es;
    char * all = calloc(1, bytes + 4 * es);
    memcpy(all + 4 * es, data, bytes);
    struct ggml_tensor * t = graph_input(g, type, d * n * n_head * n_batch + 4, 1, 1, 1, all);
    free(all);
    return ggml_view_4d(g->ctx, t, d, n, n_head, n_batch, es * d, es * d * n, es * d * n * n_head, 4 * es);
}

struct ggml_tensor * graph_heads(struct graph * g, enum ggml_type type, int64_t d, int64_t n, int64_t n_head,
    int64_t n_batch, const float * x, int layout) {
    const int64_t wide = layout == 2 ? 3 : 1; // heads per token in the tensor behind the view
    const size_t es = ggml_type_size(type);
    char * buf = calloc((size_t) (d * n * n_head * wide * n_batch), es);
    for (int64_t b = 0; b < n_batch; b++)
        for (int64_t h = 0; h < n_head; h++)
            for (int64_t t = 0; t < n; t++) {
                const float * row = x + ((b * n_head + h) * n + t) * d;
                char * dst = buf +
                    es * d *
                        (layout % 3 ? (b * n + t) * n_head * wide + (wide == 3 ? n_head : 0) + h
                                    : (b * n_head + h) * n + t);
                if (type == GGML_TYPE_F16) ggml_fp32_to_fp16_row(row, (ggml_fp16_t *) dst, d);
                else memcpy(dst, row, d * es);
            }
    struct ggml_tensor * t;
    if (layout == 0) t = graph_input(g, type, d, n, n_head, n_batch, buf);
    else if (layout == 3) t = behind_others(g, type, d, n, n_head, n_batch, buf);
    else {
        t = graph_input(g, type, d, n_head * wide, n, n_batch, buf);
        if (wide == 3)
            t = ggml_view_4d(g->ctx, t, d, n_head, n, n_batch, t->nb[1], t->nb[2], t->nb[3], n_head * t->nb[1]);
        t = ggml_permute(g->ctx, t, 0, 2, 1, 3);
    }
    free(buf);
    return t;
}

// FNV-1a over every F32 result, printed by summary: two builds that print the same gave the same bits
static uint64_t results_hash = 0xcbf29ce484222325u;

static void hash_results(const struct ggml_tensor * t, const void * data) {
    const uint8_t * bytes = data;
    if (t->type != GGML_TYPE_F32 || !data) return; // cell lists have unused entries
    for (size_t i = 0; i < ggml_nbytes(t); i++) results_hash = (results_hash ^ bytes[i]) * 0x100000001b3u;
}

bool node_compute(ggml_backend_t cpu, struct ggml_tensor * t) {
    struct ggml_context * ctx = ggml_init(
        (struct ggml_init_params) { .mem_size = ggml_graph_overhead_custom(1, false), .no_alloc = true });
    struct ggml_cgraph * one = ggml_new_graph_custom(ctx, 1, false);
    ggml_graph_add_node(one, t);
    const bool ok = ggml_backend_graph_compute(cpu, one) == GGML_STATUS_SUCCESS;
    ggml_free(ctx);
    return ok;
}

static void * graph_compute(struct graph * g, struct ggml_tensor * flat, struct ggml_cgraph * cg, int n_threads) {
#ifdef MRA_TEST_DEVICE
    if (mra_kernels_get() == &mra_kernels_cuda && device_target_takes(cg))
        return device_target_run(g, flat, cg, n_threads);
#endif
    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, n_threads);
    ggml_gallocr_t alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(cpu));
    void * data = NULL;
    if (ggml_gallocr_alloc_graph(alloc, cg)) {
        for (int i = 0; i < g->n_in; i++)
            if (g->in[i].t->data) ggml_backend_tensor_set(g->in[i].t, g->in[i].data, 0, ggml_nbytes(g->in[i].t));
#if defined(MRA_TEST_CUDA) && !defined(MRA_TEST_DEVICE)
        const bool ok = mra_kernels_get() == &mra_kernels_cuda
            ? cuda_target_compute(cpu, cg, n_threads)
            : ggml_backend_graph_compute(cpu, cg) == GGML_STATUS_SUCCESS;
#elif defined(MRA_TEST_THREADS)
        const bool ok = threads_target_compute(cpu, cg, n_threads);
#else
        const bool ok = ggml_backend_graph_compute(cpu, cg) == GGML_STATUS_SUCCESS;
#endif
        if (ok) {
            data = malloc(ggml_nbytes(flat));
            ggml_backend_tensor_get(flat, data, 0, ggml_nbytes(flat));
        }
    }
    ggml_gallocr_free(alloc);
    ggml_backend_free(cpu);
    return data;
}

void * graph_run(struct graph * g, struct ggml_tensor * out, int n_threads) {
    if (!out) return NULL;
    struct ggml_tensor * flat = ggml_is_contiguous(out) ? out : ggml_cont(g->ctx, out);
    ggml_set_output(flat);
    struct ggml_cgraph * cg = ggml_new_graph_custom(g->ctx, 256, false);
    ggml_build_forward_expand(cg, flat);
    void * data = graph_compute(g, flat, cg, n_threads);
    hash_results(flat, data);
    for (struct ggml_tensor * t = ggml_get_first_tensor(g->ctx); t; t = ggml_get_next_tensor(g->ctx, t)) {
        t->data = NULL;
        t->buffer = NULL;
    } // may run again
    return data;
}

static const struct mra_kernels *of_order, *of_rest;
static void order_of_other(const struct mra_attn_head * a, bool given, void * scratch) {
    of_order->query_order(a, given, scratch);
    of_rest->query_order(a, true, scratch);
}
const struct mra_kernels * kernels_with_order(const struct mra_kernels * k, const struct mra_kernels * order) {
    static struct mra_kernels mixed;
    of_order = order->query_order ? order : k; // CUDA on the host leaves it to k
#ifdef MRA_TEST_DEVICE
    if (!order->query_order) { // a device, to what this CPU has
        mra_kernels_set(NULL);
        of_order = mra_kernels_get();
    }
#endif
    of_rest = k;
    mixed = *k;
    mixed.query_order = order_of_other;
    return &mixed;
}

const struct mra_kernels * kernels_with_means(const struct mra_kernels * k, const struct mra_kernels * order) {
    static struct mra_kernels mixed;
    if (!order->query_order || !order->key_bias) return kernels_with_order(k, order); // a device: it has no integers
    mixed = *k;
    mixed.query_order = order->query_order;
    mixed.key_bias = order->key_bias;
    return &mixed;
}

double max_error(const float * a, const float * b, int64_t n) {
    double e = 0, m = 1;
    for (int64_t i = 0; i < n; i++) m = fmax(m, fabs(b[i]));
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(a[i])) return INFINITY;
        e = fmax(e, fabs((double) a[i] - b[i]));
    }
#ifdef MRA_TEST_DEVICE
    if (mra_kernels_get() == &mra_kernels_cuda) device_target_worst = fmax(device_target_worst, e / m);
#endif
    return e / m;
}

double max_difference(const float * a, const float * b, int64_t n) {
    double e = 0, m = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(a[i]) != isnan(b[i])) return INFINITY;
        if (isnan(a[i])) continue;
        m = fmax(m, fabs(b[i]));
        e = fmax(e, fabs((double) a[i] - b[i]));
    }
    return e / m;
}

void check_failed(void) {
    if (getenv("MRA_FAIL_FAST")) exit(1);
}

int summary(const char * name) {
#ifdef MRA_TEST_CUDA
    cuda_target_summary();
#endif
    printf("%s: %d checks, %d failed, results %016llx\n", name, n_checks, n_failed, (unsigned long long) results_hash);
    return n_failed || !n_checks ? 1 : 0;
}

#ifdef MRA_TEST_CUDA
void int8_pack_nowhere(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, int j1) {
    (void) a;
    (void) p;
    CHECK(false, "keys %d to %d are packed on the CPU", j0, j1);
}
uint32_t int8_attn_nowhere(const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1,
    const int32_t * idx, int n_idx, const float * state, void * scratch) {
    (void) a;
    (void) p;
    (void) idx;
    (void) n_idx;
    (void) state;
    (void) scratch;
    CHECK(false, "rows %d to %d are computed on the CPU", i0, i1);
    return 0;
}
uint32_t int8_window_nowhere(
    const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1, int window, void * scratch) {
    (void) window;
    return int8_attn_nowhere(a, p, i0, i1, NULL, 0, NULL, scratch);
}
int kernel_tables(const struct mra_kernels ** out, int max) {
    if (max > 0) out[0] = &mra_kernels_ref;
    if (max > 1) out[1] = &mra_kernels_cuda;
    return max < 2 ? max : 2;
}
int dense_tables(const struct mra_kernels ** out, int max) { return kernel_tables(out, max); }
void kernels_best(void) { mra_kernels_set(&mra_kernels_cuda); }
bool target_is_cpu(void) { return false; }
double attn_tolerance(const struct mra_kernels * k, double tol) {
    return k == &mra_kernels_cuda ? fmax(tol, 2e-3) : tol;
}
int int8_tables(const struct mra_kernels ** out, const struct mra_kernels ** ref, int max) {
    if (max < 1) return 0;
    out[0] = &mra_kernels_cuda;
    ref[0] = &mra_kernels_ref;
    return 1;
}
double int8_tolerance(const struct mra_kernels * k, double bytes) {
    (void) k;
    return bytes;
}
#else
static bool said;

// adds the tables of these names as far as this CPU runs them
static int tables_by_name(const char * const * names, int n_names, const struct mra_kernels ** out, int max) {
    int n = 0;
    for (int i = 0; i < n_names && n < max; i++) {
        const struct mra_kernels * k = mra_kernels_by_name(names[i]);
        if (k) out[n++] = k;
        else if (!said) printf("skipped: kernels %s, which this CPU does not run\n", names[i]);
    }
    return n;
}

int kernel_tables(const struct mra_kernels ** out, int max) {
#    if defined(__x86_64__)
    static const char * const names[] = { "ref", "base", "v3", "v4" };
#    elif defined(__aarch64__)
    static const char * const names[] = { "ref", "base", "neon" };
#    else
    static const char * const names[] = { "ref", "base" };
#    endif
    int n = tables_by_name(names, sizeof(names) / sizeof(names[0]), out, max);
#    ifdef MRA_TEST_WIDE
    if (!mra_kernels_by_name("v4") && mra_kernels_by_name("v3") && n < max) out[n++] = &mra_kernels_wide;
#    endif
    said = true;
    return n;
}

#    ifdef MRA_TEST_WIDE
static const struct mra_kernels * with_bytes(struct mra_kernels * k, const struct mra_dense_kernels * dense,
    const struct mra_int8_kernels * int8, const char * name) {
    *k = *mra_kernels_by_name("v3");
    k->name = name;
    k->dense = *dense;
    k->int8 = *int8;
    return k;
}
#    endif

const struct mra_kernels * plain_tiles(void) {
#    ifdef MRA_TEST_WIDE
    static struct mra_kernels k;
    if (mra_kernels_by_name("v3"))
        return with_bytes(&k, &mra_dense_plain_tiles, &mra_int8_plain_tiles, "v4-amx in plain C");
#    endif
    return NULL;
}

const struct mra_kernels * matrix_kernels(const struct mra_kernels ** dots) {
#    ifdef MRA_TEST_WIDE
    static struct mra_kernels k[2];
    if (mra_kernels_by_name("v3")) {
        *dots = with_bytes(&k[0], &mra_dense_v3_bytes, &mra_int8_v3_bytes, "v3-vnni without its instruction");
        return with_bytes(&k[1], &mra_dense_plain_matrix, &mra_int8_plain_matrix, "neon-i8mm in plain C");
    }
#    endif
    *dots = mra_kernels_by_name("neon-dot");
    return mra_kernels_by_name("neon-i8mm");
}

int dense_tables(const struct mra_kernels ** out, int max) {
    static const char * const names[] = { "v3-vnni", "v4-vnni", "v4-amx", "neon-dot", "neon-i8mm" };
    int n = kernel_tables(out, max);
    n += tables_by_name(names, sizeof(names) / sizeof(names[0]), out + n, max - n);
#    ifdef MRA_TEST_WIDE
    static struct mra_kernels bytes[2];
    if (mra_kernels_by_name("v3")) {
        if (!mra_kernels_by_name("v4-vnni") && n < max)
            out[n++] = with_bytes(&bytes[0], &mra_dense_wide_bytes, &mra_int8_wide_bytes, "v4-vnni in halves");
        if (!mra_kernels_by_name("v3-vnni") && n < max)
            out[n++] = with_bytes(
                &bytes[1], &mra_dense_v3_bytes, &mra_int8_v3_bytes, "v3-vnni without its instruction");
        if (!mra_kernels_by_name("v4-amx") && n < max) out[n++] = plain_tiles();
        const struct mra_kernels * dots;
        if (n < max) out[n++] = matrix_kernels(&dots);
    }
#    endif
    return n;
}

int int8_tables(const struct mra_kernels ** out, const struct mra_kernels ** ref, int max) {
    static const struct {
        const char * name;
        const struct mra_int8_kernels * int8;
    } forms[] = { { "ref in bytes", &mra_int8_ref_bytes }, { "ref in 12 bits", &mra_int8_ref_words },
        { "ref in bfloat16", &mra_int8_ref_bf16 } };
    static struct mra_kernels with[3];
    const struct mra_kernels * all[16];
    const int n_all = dense_tables(all, 16);
    int n = 0;
    for (int i = 0; i < n_all && n < max; i++) {
        if (!all[i]->int8.attn) continue;
        out[n] = all[i];
        for (int f = 0; f < 3; f++)
            if (forms[f].int8 == mra_int8_reference(&all[i]->int8)) {
                with[f] = mra_kernels_ref;
                with[f].name = forms[f].name;
                with[f].int8 = *forms[f].int8;
                ref[n] = &with[f];
            }
        n++;
    }
    return n;
}
double int8_tolerance(const struct mra_kernels * k, double bytes) {
    const struct mra_int8_kernels * ref = mra_int8_reference(&k->int8);
    if (ref == &mra_int8_ref_bf16) return fmax(bytes / 2.5, 1e-5);
    return ref == &mra_int8_ref_bytes ? bytes : fmax(bytes / 10, 1e-5);
}
void kernels_best(void) { mra_kernels_set(NULL); }
bool target_is_cpu(void) { return true; }
double attn_tolerance(const struct mra_kernels * k, double tol) {
    (void) k;
    return tol;
}
#endif
