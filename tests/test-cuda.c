// For a person with a GPU to run once: the tables of the operator tests on a CUDA device against the CPU, then
// times, then one line for a report.
#include "cuda-counts.h"
#include "device-target.h"

#include "ggml-mra-backend.h"

#include <time.h>
#if defined(GGML_MRA_CUDA)
#    include <cuda_runtime_api.h>
#elif defined(MRA_TEST_EMULATED)
#    include "fake-cuda.h"
#    include "fake-device.h"
#endif

enum { EXIT_SKIPPED = 77, D = 64, N_HEAD = 12, MIN_N = 512 };

static const char usage[] =
    "usage: mra-test-cuda [OPTIONS]\n"
    "Tests the CUDA kernels of ggml-mra on this machine's GPU against the CPU, times them, and ends with one line to "
    "paste into a report.\n"
    "Takes a minute or two.\n"
    "\n"
    "  --device NAME  device by ggml's name (default CUDA0)\n"
    "  --random N     random shapes besides the table of cases (default 40)\n"
    "  --max-n N      times from 512 up to N tokens (default 16384; 0: none)\n"
    "  -h, --help     print this\n"
    "\n"
    "exit status: 0 passed, 1 failed, 2 wrong usage, 77 nothing was tested: built without CUDA, or no device\n";

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e3 + (double) t.tv_nsec * 1e-6;
}

// ---- times ----

enum attention { FLASH, EXACT, COLUMNS, SORTED, MRA2, WINDOW, N_ATTENTION };
static const char * const attention_name[] = { "flash", "exact", "columns 1/8", "sorted 1/8", "MRA-2 1/8",
    "window 128" };

static struct mra_attn_params params_of(enum attention kind) {
    struct mra_attn_params p = kind == EXACT ? mra_attn_params_exact()
        : kind == MRA2                       ? mra_attn_params_mra2(.125f)
                                             : mra_attn_params_default();
    if (kind == SORTED) p.frame = MRA_FRAME_SORTED;
    return p;
}

// milliseconds of one graph, the median of 5 batches of about 100 ms each, or one run of more than 1 s; its result into
// out
static double time_graph(ggml_backend_t backend, struct ggml_cgraph * cg, struct ggml_tensor * o, float * out) {
    double ms[5] = { 0 };
    int reps = 1;
    for (int i = -2; i < 5; i++) { // the first two find the number of repetitions
        const double t0 = now_ms();
        for (int r = 0; r < reps; r++)
            if (ggml_backend_graph_compute_async(backend, cg) != GGML_STATUS_SUCCESS) return -1;
        ggml_backend_synchronize(backend);
        const double t = now_ms() - t0;
        if (i < 0 && t > 1000) {
            ms[2] = t;
            break;
        }
        if (i < 0) reps = t < 100 ? (int) (reps * 100 / (t > .01 ? t : .01)) + 1 : reps;
        else ms[i] = t / reps;
        if (reps > 10000) reps = 10000;
    }
    ggml_backend_tensor_get(o, out, 0, ggml_nbytes(o));
    for (int i = 1; i < 5 && ms[4] > 0; i++)
        for (int j = i; j > 0 && ms[j] < ms[j - 1]; j--) {
            const double t = ms[j];
            ms[j] = ms[j - 1];
            ms[j - 1] = t;
        }
    return ms[2];
}

// q in F32, k and v in F16, 12 heads of 64
static double time_attention(enum attention kind, int n, float * out) {
    struct graph g = graph_new();
    float * x = data_new(DATA_WALK, (int64_t) n * N_HEAD, D, 1);
    struct ggml_tensor *q = graph_heads(&g, GGML_TYPE_F32, D, n, N_HEAD, 1, x, 0),
                       *k = graph_heads(&g, GGML_TYPE_F16, D, n, N_HEAD, 1, x, 0);
    const struct mra_attn_params p = params_of(kind);
    const struct mra_window_params near = { .window = 64 };
    const int32_t starts[2] = { 0, n };
    struct mra_error err = { 0 };
    struct ggml_tensor * o;
    if (kind == FLASH) o = ggml_flash_attn_ext(g.ctx, q, k, k, NULL, .125f, 0, 0);
    else if (kind == WINDOW)
        o = ggml_mra_window_attn(g.ctx, q, k, k, graph_input(&g, GGML_TYPE_I32, 2, 1, 1, 1, starts), n, &near, &err);
    else o = ggml_mra_attn(g.ctx, q, k, k, NULL, &p, &err);
    ggml_backend_t backend = kind == FLASH ? device_target_backend() : device_target_companion();
    double ms = -1;
    CHECK(o, "%s: %s", attention_name[kind], err.msg);
    if (o && ggml_backend_supports_op(backend, o)) {
        struct ggml_cgraph * cg = ggml_new_graph_custom(g.ctx, 64, false);
        ggml_build_forward_expand(cg, o);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(g.ctx, backend);
        CHECK(buffer, "no memory for %d tokens", n);
        for (int i = 0; i < g.n_in && buffer; i++)
            ggml_backend_tensor_set(g.in[i].t, g.in[i].data, 0, ggml_nbytes(g.in[i].t));
        if (buffer) ms = time_graph(backend, cg, o, out);
        CHECK(ms >= 0, "%s, n = %d: %s", attention_name[kind], n, ggml_backend_mra_error(device_target_companion()));
        ggml_backend_buffer_free(buffer);
    }
    free(x);
    graph_free(&g);
    return ms;
}

// ---- bounds ----

// What a device does at most, a clock and multiprocessor. tensor: products of F16 with sums in F32; l2: bytes; 0: not
// known
struct limits {
    double multiprocessors, hertz, tensor, l2;
};
static struct limits limits_of(int multiprocessors, int khz, int major, int minor) {
    static const struct {
        int arch, tensor;
        double l2;
    } known[] = { { 75, 512, 0 }, { 80, 1024, 0 }, { 86, 512, 14.4 }, { 87, 512, 0 }, { 89, 512, 0 }, { 90, 2048, 0 } };
    struct limits l = { multiprocessors, khz * 1e3, 0, 0 };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].arch == major * 10 + minor) {
            l.tensor = known[i].tensor;
            l.l2 = known[i].l2;
        }
    return l;
}

// what a time is of the least that counts allow. Exact attention's counts of a query grow with n, a window's do not;
// the others' are known where they were counted
static void print_share(enum attention kind, struct cuda_counts c, struct limits l, int n, double ms) {
    const double grown = kind == WINDOW ? 1 : n / 4096.0,
                 queries = (double) n * N_HEAD / l.multiprocessors / l.hertz * 1e3 * grown,
                 issue = c.instructions * queries / 4, tensor = l.tensor ? c.mma * 2048 * queries / l.tensor : 0,
                 l2 = l.l2 ? c.kbyte * 1e3 * queries / l.l2 : 0;
    printf("%22s: at least %.3f by instructions", attention_name[kind], issue);
    if (tensor) printf(", %.3f by tensor cores", tensor);
    if (l2) printf(", %.3f by L2", l2);
    printf(": %.0f %% achieved\n", 100 * fmax(fmax(tensor, issue), l2) / ms);
}
static void print_shares(struct limits l, int n, const double * ms) {
    const struct cuda_counts sorted = { sorted_counts.instructions + order_counts.instructions,
        sorted_counts.mma + order_counts.mma, sorted_counts.kbyte + order_counts.kbyte };
    if (l.hertz <= 0) return;
    print_share(EXACT, exact_counts, l, n, ms[EXACT]);
    print_share(WINDOW, window_counts, l, n, ms[WINDOW]);
    if (n != 4096) return;
    print_share(COLUMNS, columns_counts, l, n, ms[COLUMNS]);
    print_share(SORTED, sorted, l, n, ms[SORTED]);
    print_share(MRA2, mra2_counts, l, n, ms[MRA2]);
}
static struct limits device_limits;

// appends to line; exact is checked against flash attention first
static void times(char * line, size_t size, int max_n) {
    float * out[N_ATTENTION];
    for (int i = 0; i < N_ATTENTION; i++) out[i] = calloc((size_t) max_n * N_HEAD * D, sizeof(float));
    printf("\nmilliseconds, %d heads of %d, k and v in F16\n%8s", N_HEAD, D, "n");
    for (int i = 0; i < N_ATTENTION; i++) printf("%14s", attention_name[i]);
    printf("\n");
    for (int n = MIN_N; n <= max_n; n *= 2) {
        double ms[N_ATTENTION];
        const int64_t n_out = (int64_t) n * N_HEAD * D;
        printf("%8d", n);
        for (int i = 0; i < N_ATTENTION; i++) printf("%14.3f", ms[i] = time_attention((enum attention) i, n, out[i]));
        printf("\n");
        print_shares(device_limits, n, ms);
        const double exact = relative_error(out[EXACT], out[FLASH], n_out);
        CHECK(ms[FLASH] < 0 || exact < 5e-3, "n = %d: exact differs from flash attention by %.1e", n, exact);
        for (int i = COLUMNS; i <= MRA2; i++) {
            const double e = relative_error(out[i], out[EXACT], n_out);
            CHECK(e < .7, "n = %d: %s differs from exact by %.2f", n, attention_name[i], e);
        }
        const size_t at = strlen(line);
        snprintf(line + at, size - at, "%s n=%d %.3f/%.3f/%.3f/%.3f/%.3f/%.3f",
            n == MIN_N ? "; ms flash/exact/columns/sorted/MRA-2/window:" : ",", n, ms[FLASH], ms[EXACT], ms[COLUMNS],
            ms[SORTED], ms[MRA2], ms[WINDOW]);
    }
    for (int i = 0; i < N_ATTENTION; i++) free(out[i]);
}

// ---- the device ----

#if defined(GGML_MRA_CUDA)
// NULL, or why there is no such device
static const char * find(const char * name, ggml_backend_dev_t * dev) {
    if (ggml_backend_dev_count() == 0) ggml_backend_load_all();
    if (!ggml_backend_reg_by_name("CUDA")) return "ggml was built without CUDA (-DGGML_CUDA=ON)";
    *dev = ggml_backend_dev_by_name(name);
    return *dev ? NULL : "no such device: no GPU, or no driver";
}

static void describe(char * line, size_t size, ggml_backend_dev_t dev) {
    int device = 0, major = 0, minor = 0, driver = 0, runtime = 0, n_sm = 0, khz = 0;
    char version[128] = "unknown";
    struct ggml_backend_dev_props props;
    ggml_backend_dev_get_props(dev, &props);
    if (!props.device_id || cudaDeviceGetByPCIBusId(&device, props.device_id) != cudaSuccess) device = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device) == cudaSuccess && n_sm > 0 &&
        cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device) == cudaSuccess)
        device_limits = limits_of(n_sm, khz, major, minor);
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    FILE * f = fopen("/proc/driver/nvidia/version", "r");
    if (f) {
        char text[512] = "";
        if (fgets(text, sizeof(text), f))
            for (char * at = text; *at; at++)
                if (sscanf(at, " %127[0-9.]", version) == 1 && strchr(version, '.')) break;
        fclose(f);
    }
    snprintf(line, size, "%s, sm_%d%d, driver %s (CUDA %d.%d), runtime %d.%d, ggml %s",
        ggml_backend_dev_description(dev), major, minor, version, driver / 1000, driver % 1000 / 10, runtime / 1000,
        runtime % 1000 / 10, ggml_version());
}
#else
#    ifdef MRA_TEST_EMULATED // this program itself is tested on a fake device with emulated kernels
static const char * find(const char * name, ggml_backend_dev_t * dev) {
    fake_device_register();
    fake_exec_register();
    fake_cuda_use();
    *dev = ggml_backend_dev_by_name(name);
    return *dev ? NULL : "no such device";
}
#    else
static const char * find(const char * name, ggml_backend_dev_t * dev) {
    (void) name;
    (void) dev;
    return "built without CUDA; configure with -DGGML_MRA_CUDA=ON, and ggml with -DGGML_CUDA=ON";
}
#    endif
static void describe(char * line, size_t size, ggml_backend_dev_t dev) {
    device_limits = limits_of(82, 1695000, 8, 6); // so that shares are printed
    snprintf(line, size, "%s", ggml_backend_dev_description(dev));
}
#endif

int main(int argc, char ** argv) {
    const char *device = "CUDA0", *n_random = "40";
    int max_n = 16384;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
            fputs(usage, stdout);
            return 0;
        } else if (!strcmp(argv[i], "--device") && i + 1 < argc) device = argv[++i];
        else if (!strcmp(argv[i], "--max-n") && i + 1 < argc) max_n = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--random") && i + 1 < argc) n_random = argv[++i];
        else {
            fprintf(stderr, "mra-test-cuda: unknown or incomplete option %s\n%s", argv[i], usage);
            return 2;
        }
    }
    ggml_backend_dev_t dev = NULL;
    const char * why = find(device, &dev);
    if (why) {
        printf("mra-test-cuda: skipped: %s\n", why);
        return EXIT_SKIPPED;
    }
    struct mra_error err = { 0 };
    if (!device_target_open(device, false, &err)) {
        printf("mra-test-cuda: FAILED: %s: %s\n", device, err.msg);
        return 1;
    }

    char line[2048], text[1024] = "";
    describe(line, sizeof(line), dev);
    printf("%s\n", line);
    test_ops_main(1, argv);
    test_attn_main(2, (char *[]) { argv[0], (char *) n_random, NULL });
    test_layers_main();
    test_rope_main();
    test_span_pool_main();
    if (max_n >= MIN_N) times(text, sizeof(text), max_n);
    printf("\nmra-test-cuda: %s: %s; %d checks, %d failed; %ld of %ld nodes on the device; max error %.1e%s\n",
        n_failed ? "FAILED" : "passed", line, n_checks, n_failed, device_target_nodes[1],
        device_target_nodes[0] + device_target_nodes[1], device_target_worst, text);
    device_target_close();
    return n_failed || !device_target_nodes[1] ? 1 : 0;
}
