// What warps of the attention kernels execute, counted by an interpreter of their PTX: per query and head, by kind, and
// what a GPU needs at least for that. Counts, no measurement: no GPU takes part.
#include "cuda-counts.h"
#include "cuda-target.h"

#include "count.h"

enum { D = 64, N_HEAD = 12 };

static const char usage[] =
    "usage: cuda-count [-v] [--all] PTX...\n"
    "Runs exact, columns, sorted and MRA-2 attention, and attention within a window, of one head of 64 through the\n"
    "PTX of the kernels, and prints what a warp executes per query and head, with the least time that would take.\n"
    "PTX: what nvcc -ptx -arch=compute_80 made of ggml-mra/src/cuda/*.cu. -v: each kernel, too. --all: also\n"
    "n = 16384 and w = 1/32.\n";

// What a device does at most. L2: RTX 3090 as often measured, A100 as its white paper says.
static const struct device {
    const char * name;
    double tensor; // products and sums in F16 with F32 sums, per second
    double issue;  // warp instructions per second: multiprocessors x 4 x clock
    double l2;     // bytes per second
} devices[] = {
    { "RTX 3090", 71e12, 82 * 4 * 1.695e9, 2.0e12 },
    { "A100", 312e12, 108 * 4 * 1.41e9, 5120 * 1.41e9 },
};

static const struct count_case {
    const char * frame;
    float budget;
    int n;
    int every;                        // of the blocks of the attention kernel, one in so many runs
    const struct cuda_counts * most;  // more is a failure; NULL: any number is right
    const struct cuda_counts * order; // the same of the order of queries
    int window;                       // of the frame "window": the largest distance
} cases[] = {
    { "exact", 1, 4096, 16, &exact_counts, NULL, 0 },
    { "columns", 1.0f / 8, 4096, 4, &columns_counts, NULL, 0 },
    { "sorted", 1.0f / 8, 4096, 4, &sorted_counts, &order_counts, 0 },
    { "mra2", 1.0f / 8, 4096, 1, &mra2_counts, NULL, 0 },
    { "window", 1, 4096, 16, &window_counts, NULL, 64 },
    { "window", 1, 16384, 64, &window_counts, NULL, 64 },
    // with --all
    { "columns", 1.0f / 32, 4096, 4, NULL, NULL, 0 },
    { "sorted", 1.0f / 32, 4096, 4, NULL, NULL, 0 },
    { "mra2", 1.0f / 32, 4096, 1, NULL, NULL, 0 },
    { "exact", 1, 16384, 64, NULL, NULL, 0 },
    { "columns", 1.0f / 8, 16384, 16, NULL, NULL, 0 },
    { "sorted", 1.0f / 8, 16384, 16, NULL, NULL, 0 },
    { "mra2", 1.0f / 8, 16384, 1, NULL, NULL, 0 },
    { "columns", 1.0f / 32, 16384, 16, NULL, NULL, 0 },
    { "sorted", 1.0f / 32, 16384, 16, NULL, NULL, 0 },
    { "mra2", 1.0f / 32, 16384, 1, NULL, NULL, 0 },
};
enum { N_ALWAYS = 6 };

static struct ggml_tensor * attention(
    struct graph * g, const struct count_case * c, const float * q, const float * k, const float * v) {
    const int32_t starts[2] = { 0, c->n };
    const struct mra_window_params near = { .window = c->window };
    struct mra_attn_params p = mra_attn_params_default();
    struct mra_error err = { 0 };
    struct ggml_tensor *qt = graph_heads(g, GGML_TYPE_F32, D, c->n, 1, 1, q, 0),
                       *kt = graph_heads(g, GGML_TYPE_F16, D, c->n, 1, 1, k, 0),
                       *vt = graph_heads(g, GGML_TYPE_F16, D, c->n, 1, 1, v, 0), *o;
    p.budget = c->budget;
    if (c->window > 0)
        o = ggml_mra_window_attn(
            g->ctx, qt, kt, vt, graph_input(g, GGML_TYPE_I32, 2, 1, 1, 1, starts), c->n, &near, &err);
    else o = mra_attn_params_parse(&p, c->frame, &err) ? NULL : ggml_mra_attn(g->ctx, qt, kt, vt, NULL, &p, &err);
    CHECK(o, "%s: %s", c->frame, err.msg);
    return o;
}

// the interpreter's result is the reference's
static void check_result(const char * frame, float budget, int window) {
    const struct count_case c = { frame, budget, 517, 1, NULL, NULL, window };
    float *x[3], *out[2];
    for (int i = 0; i < 3; i++) x[i] = data_new(DATA_GRID, c.n, D, i + 1);
    for (int i = 0; i < 2; i++) {
        struct graph g = graph_new();
        mra_kernels_set(i ? &mra_kernels_cuda : kernels_with_order(&mra_kernels_ref, &mra_kernels_cuda));
        out[i] = graph_run(&g, attention(&g, &c, x[0], x[1], x[2]), 1);
        graph_free(&g);
    }
    const double e = max_error(out[1], out[0], (int64_t) c.n * D);
    CHECK(e <= 2e-3, "%s %g: the PTX's result differs from the reference by %.2e", frame, (double) budget, e);
    for (int i = 0; i < 3; i++) free(x[i]);
    for (int i = 0; i < 2; i++) free(out[i]);
}

static double all_of(const struct ptx_count * c) {
    return c->mma + c->ldmatrix + c->shared + c->global + c->exchange + c->branch + c->rest + c->move;
}
static void add(struct ptx_count * sum, const struct ptx_count * c) {
    double *to = &sum->mma, *end = &sum->write + 1;
    for (const double * from = &c->mma; to < end; to++, from++) *to += *from;
}
static void print_row(const char * name, const char * w, int n, const struct ptx_count * c, double per) {
    printf("%-26s %5s %6d %7.0f %6.1f %6.1f %6.1f %6.1f %6.1f %6.1f %7.0f %6.0f %6.2f %6.2f", name, w, n,
        all_of(c) * per, c->mma * per, c->ldmatrix * per, c->shared * per, c->global * per, c->exchange * per,
        c->branch * per, c->rest * per, c->move * per, c->read * per / 1024, c->write * per / 1024);
}

// a row of the table
static void report(
    const struct count_case * c, const char * name, const struct ptx_count * sum, const struct cuda_counts * most) {
    char w[16];
    if (c->window > 0) snprintf(w, sizeof(w), "%d", 2 * c->window);
    else snprintf(w, sizeof(w), c->budget < 1 ? "1/%.0f" : "%.0f", (double) (c->budget < 1 ? 1 / c->budget : 1));
    print_row(name, w, c->n, sum, 1.0 / c->n);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
        printf("  %6.3f %6.3f %6.3f", sum->mma * N_HEAD * 4096 / devices[i].tensor * 1e3,
            all_of(sum) * N_HEAD / devices[i].issue * 1e3, (sum->read + sum->write) * N_HEAD / devices[i].l2 * 1e3);
    printf("\n");
    const double n = all_of(sum) / c->n, kbyte = (sum->read + sum->write) / c->n / 1024;
    if (!most) return;
    CHECK(n <= most->instructions, "%s %s, n = %d: %.0f warp instructions, not at most %.0f", name, w, c->n, n,
        most->instructions);
    CHECK(sum->mma / c->n <= most->mma, "%s %s, n = %d: %.0f mma, not at most %.0f", name, w, c->n, sum->mma / c->n,
        most->mma);
    CHECK(kbyte <= most->kbyte, "%s %s, n = %d: %.1f KB, not at most %.1f", name, w, c->n, kbyte, most->kbyte);
}

static void count(const struct count_case * c, bool verbose) {
    struct graph g = graph_new();
    float * x[3];
    for (int i = 0; i < 3; i++) x[i] = data_new(DATA_WALK, c->n, D, i + 1);
    ptx_clear();
    ptx_run_every(c->every);
    mra_kernels_set(&mra_kernels_cuda);
    free(graph_run(&g, attention(&g, c, x[0], x[1], x[2]), 1));
    graph_free(&g);
    for (int i = 0; i < 3; i++) free(x[i]);
    struct ptx_count attn = { 0 }, order = { 0 }, one;
    for (int i = 0; ptx_get(i, &one); i++) {
        add(strncmp(one.kernel, "order_", 6) == 0 ? &order : &attn, &one);
        if (!verbose) continue;
        print_row(one.kernel, "", c->n, &one, 1.0 / c->n);
        printf("  %d launches\n", one.launches);
    }
    report(c, c->frame, &attn, c->most);
    if (all_of(&order) > 0) report(c, "sorted: its order", &order, c->order);
}

int main(int argc, char ** argv) {
    bool verbose = false, all = false;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "-v") == 0) verbose = true;
        else if (strcmp(argv[i], "--all") == 0) all = true;
        else break;
    }
    if (i >= argc || argv[i][0] == '-') {
        fputs(usage, stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (; i < argc; i++) ptx_load(argv[i]);
    check_result("exact", 1, 0);
    check_result("columns", .125f, 0);
    check_result("sorted", .125f, 0);
    check_result("mra2", .25f, 0);
    check_result("window", 1, 64);
    printf(
        "warp instructions and KB of global memory per query and head of %d; then for %d heads the least milliseconds "
        "by tensor cores, issue, L2\n",
        D, N_HEAD);
    printf("%-26s %5s %6s %7s %6s %6s %6s %6s %6s %6s %7s %6s %6s %6s", "", "w", "n", "all", "mma", "ldmat", "shared",
        "global", "shfl", "branch", "rest", "move", "read", "write");
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) printf("  %-20s", devices[d].name);
    printf("\n");
    for (size_t c = 0; c < (all ? sizeof(cases) / sizeof(cases[0]) : N_ALWAYS); c++) count(&cases[c], verbose);
    return n_failed > 0;
}
