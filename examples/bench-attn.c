// mra-bench attn: options, the loop over problems, and its rows.
#include "bench-attn.h"

#include "common/args.h"
#include "common/npy.h"
#include "common/output.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "mra-bench attn";

enum { MAX_LIST = 32, MAX_TOKENS = 1 << 22, MAX_PEAKS = 16 };
#define MAX_SHARE 1.05 // of the peak: what lies above is an error of measurement
enum {
    OPT_HEADS = 256,
    OPT_KV_HEADS,
    OPT_DIM,
    OPT_FRAME,
    OPT_BUDGET,
    OPT_ATTN_TYPE,
    OPT_REPS,
    OPT_F16,
    OPT_QKV,
    OPT_ISA,
    OPT_JSON,
    OPT_GUARD,
    OPT_NO_MATMUL,
    OPT_SEED,
    OPT_CURVE,
    OPT_MAX_SECONDS
};

static const struct arg_opt opts[] = {
    { 'n', "tokens", "LIST", "lengths, default 512,4096" },
    { OPT_CURVE, "curve", NULL, "the lengths 512, 1024, ... 65536" },
    { OPT_HEADS, "heads", "N", "heads, default 12" },
    { OPT_KV_HEADS, "kv-heads", "N", "heads of K and V, a divisor of --heads; default the same" },
    { OPT_DIM, "dim", "N", "head size, a multiple of 8 up to 256; default 64" },
    { OPT_FRAME, "frame", "NAME",
        "columns (default), mra2, mra2s, exact, or sizes such as 16,4,1;\nmay be given several times" },
    { OPT_BUDGET, "budget", "LIST", "work as a fraction of exact attention's, default 1/8" },
    { OPT_ATTN_TYPE, "attn-type", "LIST", "float (default), int8: what the node computes in; a row for each" },
    { 't', "threads", "N", "threads, default the number of CPUs" },
    { OPT_REPS, "reps", "N", "runs of every contender; default 5 and .2 s, or 1 s" },
    { OPT_F16, "f16", NULL, "our node takes K and V in F16, too" },
    { OPT_QKV, "qkv", "FILE", "inputs: .npy, float32 or float16, [3, heads, n, dim]; -n cuts it" },
    { OPT_SEED, "seed", "N", "seed of the generated inputs, default 1" },
    { OPT_ISA, "isa", NULL, "one row per instruction set level of our kernels" },
    { OPT_NO_MATMUL, "no-matmul", NULL, "leave out mul_mat + soft_max + mul_mat" },
    { OPT_MAX_SECONDS, "max-seconds", "S", "skip a contender (-) whose run would take longer, default 20" },
    { OPT_GUARD, "perf-guard", "FILE",
        "compare with the JSON lines of an earlier run: exit 1 if a speedup\nfell by more than 10 %" },
    { OPT_JSON, "json", NULL, "JSON lines" },
};

static const char notes[] =
    "Every row is validated first: our kernels against the scalar reference on a cut of the problem (up to 512 tokens) "
    "and, for\n"
    "columns, on the first rows of the whole; the output for NaN; exact attention against ggml's flash attention. A "
    "failure ends the run with exit code 1. Then all contenders take turns on the\n"
    "same inputs, threads and views of [dim, heads, n] tensors. Columns, and fields of the JSON lines:\n"
    "  work         multiplications, as a fraction of exact attention's 4 n^2 dim heads flops\n"
    "  ms           our node, median\n"
    "  gflops       of the work done; peak: their share of the FMA peak of the row's instruction set, the best seen "
    "before and\n"
    "               after the rows; a share above 105 % ends the run with exit code 1. Rows of --attn-type int8: of "
    "the "
    "int8 peak\n"
    "  float        the same node in floats, ms, where the row is in integers\n"
    "  flash        ggml_flash_attn_ext with F32 K and V, ms; flash16: with F16 ones; matmul: mul_mat + soft_max_ext + "
    "mul_mat\n"
    "  speedup      flash/ms, of the medians; JSON lines also have the minima ms_min, flash_ms_min, for busy machines\n"
    "  error        ||out - exact||/||exact||, exact attention computed in double, on a sample of the queries\n"
    "  scratch      memory our node takes besides its output, MB\n"
    "Without --qkv, inputs imitate a trained encoder on text: see bench-data.c.\n"
    "\n"
    "examples:\n"
    "  mra-bench attn -n 512,4096 --frame exact --frame columns --budget 1/16,1/8,1/4\n"
    "  mra-bench attn -n 4096 --frame mra2 --frame 16,4,1 --isa\n"
    "  mra-bench attn --curve --json > before.jsonl\n"
    "  mra-bench attn --curve --perf-guard before.jsonl\n"
    "  mra-bench attn --qkv layer3.npy --budget 0.125";

struct options {
    int64_t n[MAX_LIST];
    double budgets[MAX_LIST];
    const char * frames[MAX_LIST];
    enum mra_attn_type types[2];
    int n_n, n_budgets, n_frames, n_types;
    int64_t heads, kv_heads, dim;
    int threads, reps;
    bool f16, isa, json, matmul;
    const char *qkv, *guard_path;
    uint64_t seed;
    double max_seconds;
};

// What the rows of a run share
struct bench {
    const struct options * o;
    struct engine engine;
    struct guard guard;
    struct npy npy;
    double peak[MAX_PEAKS]; // by level of the kernels tried: the best measured so far
    const char * peak_isa[MAX_PEAKS];
    enum mra_attn_type peak_type[MAX_PEAKS]; // FMA, int8
};

// ---- options ---------------------------------------------------------------------------------------------------

static void check_options(struct options * o) {
    for (int f = 0; f < o->n_frames; f++) {
        for (int b = 0; b < o->n_budgets; b++) {
            struct mra_attn_params p = mra_attn_params_default();
            struct mra_error err;
            p.budget = (float) o->budgets[b];
            if (mra_attn_params_parse(&p, o->frames[f], &err) != MRA_OK) usage_error(program, "--frame: %s", err.msg);
            for (int t = 0; t < o->n_types; t++)
                if (o->types[t] == MRA_ATTN_INT8 && p.frame == MRA_FRAME_SQUARE)
                    usage_error(program, "--attn-type int8: frames are exact and columns, not %s", o->frames[f]);
        }
    }
    if (o->dim % 8 != 0) usage_error(program, "--dim: %lld is not a multiple of 8", (long long) o->dim);
    if (o->kv_heads == 0) o->kv_heads = o->heads;
    if (o->heads % o->kv_heads != 0)
        usage_error(
            program, "--kv-heads: %lld does not divide %lld heads", (long long) o->kv_heads, (long long) o->heads);
}

static void parse_types(struct options * o, const char * list) {
    o->n_types = 0;
    for (const char * s = list;; s++) {
        const size_t n = strcspn(s, ",");
        int type = MRA_ATTN_FLOAT;
        while (type <= MRA_ATTN_INT8 &&
            (n != strlen(mra_attn_type_name((enum mra_attn_type) type)) ||
                strncmp(s, mra_attn_type_name((enum mra_attn_type) type), n) != 0))
            type++;
        if (type > MRA_ATTN_INT8 || (o->n_types == 1 && o->types[0] == (enum mra_attn_type) type) || o->n_types == 2)
            usage_error(program, "--attn-type: '%s' is not a list of float and int8", list);
        o->types[o->n_types++] = (enum mra_attn_type) type;
        s += n;
        if (!*s) return;
    }
}

static void parse_options(struct options * o, int argc, char ** argv) {
    struct args a = { .program = program,
        .usage = "[options]",
        .opts = opts,
        .n_opt = sizeof(opts) / sizeof(opts[0]),
        .notes = notes,
        .about = "Validates, then times one attention node over n tokens: ggml-mra's, ggml's flash attention and "
                 "ggml's matrix products." };
    *o = (struct options) {
        .heads = 12, .dim = 64, .threads = cpu_count(), .matmul = true, .seed = 1, .max_seconds = 20
    };
    bool shape_given = false;
    for (int id; (id = args_next(&a, argc, argv)) != -1;) {
        switch (id) {
            case 'n': o->n_n = args_ints(&a, 1, MAX_TOKENS, o->n, MAX_LIST); break;
            case OPT_CURVE:
                for (o->n_n = 0; o->n_n < 8; o->n_n++) o->n[o->n_n] = (int64_t) 512 << o->n_n;
                break;
            case OPT_HEADS:
                o->heads = args_int(&a, 1, 1024);
                shape_given = true;
                break;
            case OPT_KV_HEADS:
                o->kv_heads = args_int(&a, 1, 1024);
                shape_given = true;
                break;
            case OPT_DIM:
                o->dim = args_int(&a, 8, MRA_MAX_DIM);
                shape_given = true;
                break;
            case OPT_FRAME:
                if (o->n_frames == MAX_LIST) usage_error(program, "more than %d frames", MAX_LIST);
                o->frames[o->n_frames++] = a.value;
                break;
            case OPT_ATTN_TYPE: parse_types(o, a.value); break;
            case OPT_BUDGET: o->n_budgets = args_reals(&a, 1e-6, 1, o->budgets, MAX_LIST); break;
            case 't': o->threads = (int) args_int(&a, 1, 512); break;
            case OPT_REPS: o->reps = (int) args_int(&a, 1, 1000); break;
            case OPT_F16: o->f16 = true; break;
            case OPT_QKV: o->qkv = a.value; break;
            case OPT_SEED: o->seed = (uint64_t) args_int(&a, 0, INT64_MAX); break;
            case OPT_ISA: o->isa = true; break;
            case OPT_NO_MATMUL: o->matmul = false; break;
            case OPT_MAX_SECONDS: o->max_seconds = args_real(&a, 0, 1e6); break;
            case OPT_GUARD: o->guard_path = a.value; break;
            case OPT_JSON: o->json = true; break;
        }
    }
    args_end(&a, argc, argv);
    if (o->qkv && shape_given)
        usage_error(program, "--qkv gives heads and dim: leave out --heads, --kv-heads and --dim");
    if (o->n_frames == 0) o->frames[o->n_frames++] = "columns";
    if (o->n_budgets == 0) o->budgets[o->n_budgets++] = 0.125;
    if (o->n_types == 0) o->types[o->n_types++] = MRA_ATTN_FLOAT;
    if (o->n_n == 0 && !o->qkv) {
        o->n[0] = 512;
        o->n[1] = 4096;
        o->n_n = 2;
    }
    check_options(o);
}

// heads, dim and n from the file
static void read_qkv(struct options * o, struct npy * a) {
    struct mra_error err;
    if (npy_read(a, o->qkv, &err) != MRA_OK) fatal(program, "%s", err.msg);
    if (a->n_dim != 4 || a->shape[0] != 3 || a->n < 1)
        fatal(program, "%s: the shape is not [3, heads, n, dim]", o->qkv);
    if (a->shape[3] % 8 != 0 || a->shape[3] > MRA_MAX_DIM || a->shape[2] > MAX_TOKENS) {
        fatal(program, "%s: dim %lld is not a multiple of 8 up to %d, or n is too large", o->qkv,
            (long long) a->shape[3], MRA_MAX_DIM);
    }
    for (int64_t i = 0; i < a->n; i++)
        if (!isfinite(a->data[i])) fatal(program, "%s: value %lld is not finite", o->qkv, (long long) i);
    o->heads = o->kv_heads = a->shape[1];
    o->dim = a->shape[3];
    if (o->n_n == 0) o->n[o->n_n++] = a->shape[2];
    for (int i = 0; i < o->n_n; i++) {
        if (o->n[i] > a->shape[2])
            fatal(program, "-n: %lld is more than the %lld tokens of %s", (long long) o->n[i], (long long) a->shape[2],
                o->qkv);
    }
}

// ---- output ----------------------------------------------------------------------------------------------------

static const struct table_col cols[] = {
    { "n", 6, false },
    { "frame", 7, true },
    { "type", 5, true },
    { "budget", 6, false },
    { "work", 6, false },
    { "isa", 4, true },
    { "ms", 7, false },
    { "gflops", 6, false },
    { "peak", 4, false },
    { "float", 7, false },
    { "flash", 7, false },
    { "flash16", 7, false },
    { "matmul", 7, false },
    { "speedup", 7, false },
    { "error", 7, false },
    { "scratch", 7, false },
};
enum { N_COLS = sizeof(cols) / sizeof(cols[0]) };

static void print_header(const struct options * o, int argc, char ** argv) {
    printf("# %s, %d thread%s, isa %s, ggml %s, %lld", cpu_model(), o->threads, o->threads > 1 ? "s" : "", mra_isa(),
        ggml_version(), (long long) o->heads);
    if (o->kv_heads != o->heads) printf("/%lld", (long long) o->kv_heads);
    printf(" heads x %lld, K and V %s\n# mra-bench", (long long) o->dim, o->f16 ? "F16" : "F32");
    for (int i = 0; i < argc; i++) printf(" %s", argv[i]);
    printf("\n");
    table_head(cols, N_COLS);
}

static void print_table(const struct attn_row * r) {
    char c[N_COLS][32];
    snprintf(c[0], 32, "%lld", (long long) r->n);
    snprintf(c[1], 32, "%s", r->frame);
    snprintf(c[2], 32, "%s", mra_attn_type_name(r->type));
    snprintf(c[3], 32, "%.4g", r->budget);
    fmt_real(c[4], r->work, 3);
    snprintf(c[5], 32, "%s", r->isa);
    fmt_real(c[6], r->time[OURS].ms, 4);
    fmt_real(c[7], r->gflops, 4);
    if (isfinite(r->peak_share)) snprintf(c[8], 32, "%.0f%%", 100 * r->peak_share);
    else strcpy(c[8], "-");
    for (int i = FLOATS; i < N_CONTENDERS; i++) fmt_real(c[8 + i], r->time[i].ms, 4);
    fmt_real(c[13], r->speedup, 3);
    if (isfinite(r->rel_error)) snprintf(c[14], 32, r->rel_error < 1e-3 ? "%.0e" : "%.4f", r->rel_error);
    else strcpy(c[14], "-");
    fmt_real(c[15], r->scratch_mb, 3);
    table_row(cols, N_COLS, c);
}

static void print_json(const struct attn_row * r) {
    cJSON * o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "bench", "attn");
    cJSON_AddNumberToObject(o, "n", (double) r->n);
    cJSON_AddNumberToObject(o, "heads", (double) r->heads);
    cJSON_AddNumberToObject(o, "kv_heads", (double) r->kv_heads);
    cJSON_AddNumberToObject(o, "dim", (double) r->dim);
    cJSON_AddStringToObject(o, "kv", r->kv);
    cJSON_AddStringToObject(o, "frame", r->frame);
    cJSON_AddStringToObject(o, "attn_type", mra_attn_type_name(r->type));
    json_real(o, "budget", r->budget, 7);
    json_real(o, "work", r->work, 6);
    json_real(o, "ms", r->time[OURS].ms, 6);
    json_real(o, "gflops", r->gflops, 5);
    json_real(o, "peak_gflops", r->peak, 5);
    json_real(o, "peak_share", r->peak_share, 4);
    cJSON_AddStringToObject(o, "peak_isa", r->peak_isa);
    json_real(o, "float_ms", r->time[FLOATS].ms, 6);
    json_real(o, "flash_ms", r->time[FLASH].ms, 6);
    json_real(o, "flash_f16_ms", r->time[FLASH_F16].ms, 6);
    json_real(o, "matmul_ms", r->time[MATMUL].ms, 6);
    json_real(o, "ms_min", r->time[OURS].min_ms, 6);
    json_real(o, "float_ms_min", r->time[FLOATS].min_ms, 6);
    json_real(o, "flash_ms_min", r->time[FLASH].min_ms, 6);
    json_real(o, "speedup", r->speedup, 5);
    json_real(o, "rel_error", r->rel_error, 4);
    json_real(o, "scratch_mb", r->scratch_mb, 5);
    cJSON_AddStringToObject(o, "isa", r->isa);
    cJSON_AddNumberToObject(o, "threads", r->threads);
    cJSON_AddNumberToObject(o, "reps", r->time[OURS].reps);
    cJSON_AddStringToObject(o, "cpu", cpu_model());
    cJSON_AddStringToObject(o, "ggml", ggml_version());
    json_line(o);
}

// ---- one row ---------------------------------------------------------------------------------------------------

// The peak of the kernels `isa`, of FMA or of int8, the best of what was measured so far and of n_runs more
static double peak_of(struct bench * b, const char * isa, enum mra_attn_type type, int n_runs) {
    const struct peak_isa * level = peak_isa_of(isa);
    int i = 0;
    while (level && i < MAX_PEAKS - 1 && b->peak_isa[i] &&
        (strcmp(b->peak_isa[i], level->name) != 0 || b->peak_type[i] != type))
        i++;
    const double rate = !level  ? -1
        : type == MRA_ATTN_INT8 ? peak_int8(level, b->o->threads, n_runs)
                                : peak_fma(level, b->o->threads, n_runs);
    if (!(rate >= 0)) {
        progress_clear();
        fatal(program, "the %s peak of %s could not be measured", type == MRA_ATTN_INT8 ? "int8" : "FMA", isa);
    }
    b->peak_isa[i] = level->name;
    b->peak_type[i] = type;
    b->peak[i] = fmax(b->peak[i], rate);
    return b->peak[i];
}

// false: more than the machine can do, so that one of the two rates is wrong. The peak is measured beside the row, for
// clocks change; and again, for seconds, where the row comes out faster: other programs may have been in the way.
static bool fill_rates(struct bench * b, struct attn_row * r, struct mra_error * err) {
    const double flops = 4.0 * (double) r->n * (double) r->n * (double) r->dim * (double) r->heads;
    r->gflops = flops * r->work / (1e6 * r->time[OURS].ms);
    r->peak = peak_of(b, r->isa, r->type, PEAK_RUNS_AGAIN);
    r->peak_isa = peak_isa_of(r->isa)->name;
    for (int i = 0; i < 8 && r->gflops > r->peak; i++) r->peak = peak_of(b, r->isa, r->type, PEAK_RUNS);
    r->peak_share = r->gflops / r->peak;
    r->speedup = r->time[FLASH].ms / r->time[OURS].ms;
    if (!(r->peak_share > MAX_SHARE)) return true;
    mra_fail(err, MRA_ERR_BACKEND, "%.4g GFLOP/s are %.0f %% of the peak that was measured for %s, %.4g", r->gflops,
        100 * r->peak_share, r->isa, r->peak);
    return false;
}

// Validates and measures; the graphs in use are left in g for the caller to free
static enum mra_status run_graphs(struct bench * b, const struct attn_data * d, const struct mra_attn_params * p,
    struct bench_graph * g, struct attn_row * r, struct mra_error * err) {
    const struct options * o = b->o;
    struct bench_graph * use[N_CONTENDERS] = { 0 };
    enum mra_status st = check_reference(&b->engine, d, p, o->f16, err);
    for (int i = 0; i < N_CONTENDERS && st == MRA_OK; i++) {
        if ((i == MATMUL && !o->matmul) || (i == FLOATS && r->type == MRA_ATTN_FLOAT)) continue;
        if (!(estimate(&b->engine, d, i, p, o->f16) <= o->max_seconds)) continue;
        st = graph_new(&g[i], &b->engine, d, i, d->n, p, o->f16, err);
        use[i] = &g[i];
    }
    if (st == MRA_OK && use[OURS]) {
        r->scratch_mb = g[OURS].scratch / 1e6;
        memset(g[OURS].out->data, 0xff, ggml_nbytes(g[OURS].out)); // NaN: rows that are not written are seen
        const enum contender other = o->f16 ? FLASH_F16 : FLASH;
        const bool exact = r->work >= 1 && use[other];
        if (graph_run(use[OURS], &b->engine) < 0 || (exact && graph_run(use[other], &b->engine) < 0))
            st = mra_fail(err, MRA_ERR_BACKEND, "ggml failed to compute a graph");
        if (st == MRA_OK) st = check_output(use[OURS], exact ? use[other] : NULL, d, p, o->f16, &r->rel_error, err);
        if (st == MRA_OK) st = check_first_rows(use[OURS], &b->engine, d, p, o->f16, err);
    }
    return st == MRA_OK ? measure(use, N_CONTENDERS, &b->engine, o->reps, r->time, err) : st;
}

static enum mra_status one_row(struct bench * b, const struct attn_data * d, const char * frame, double budget,
    enum mra_attn_type type, struct mra_error * err) {
    const struct options * o = b->o;
    struct mra_attn_params p = mra_attn_params_default();
    p.budget = (float) budget;
    p.type = type;
    p.n_threads = o->threads;
    enum mra_status st = mra_attn_params_parse(&p, frame, err);
    if (st != MRA_OK) return st;
    struct attn_row r = { .n = d->n,
        .heads = d->heads,
        .kv_heads = d->kv_heads,
        .dim = d->dim,
        .frame = frame,
        .type = type,
        .kv = o->f16 ? "f16" : "f32",
        .isa = mra_isa(),
        .budget = (double) p.budget,
        .threads = o->threads,
        .work = mra_attn_work(&p, d->n, d->n),
        .rel_error = NAN,
        .scratch_mb = NAN };
    progress("n %lld, %s, budget %g, %s, %s", (long long) d->n, frame, r.budget, mra_attn_type_name(type), r.isa);
    struct bench_graph g[N_CONTENDERS] = { 0 };
    peak_of(b, r.isa, type, b->peak_isa[0] ? PEAK_RUNS_AGAIN : PEAK_RUNS);
    st = run_graphs(b, d, &p, g, &r, err);
    for (int i = 0; i < N_CONTENDERS; i++) graph_free(&g[i]);
    if (st == MRA_OK && !fill_rates(b, &r, err)) st = MRA_ERR_BACKEND;
    if (st != MRA_OK) {
        progress_clear();
        fprintf(stderr, "%s: %sn %lld, %s, budget %g: %s\n", program,
            st == MRA_ERR_BACKEND ? "validation failed: " : "", (long long) d->n, frame, r.budget, err->msg);
        return st;
    }
    if (o->json) print_json(&r);
    else print_table(&r);
    if (o->guard_path) guard_check(&b->guard, &r, program);
    return MRA_OK;
}

// ---- all of them -----------------------------------------------------------------------------------------------

// The rows of a frame and a budget in floats or integers: one, or with --isa one for each level. Levels with byte
// products have floats of their own in no other way than the level below.
static bool rows_of_type(
    struct bench * b, const struct attn_data * d, const char * frame, double budget, enum mra_attn_type type) {
    static const char * const levels[] = { "base", "neon", "neon-dot", "v3", "v3-vnni", "v4", "v4-vnni" };
    const struct mra_kernels * best = mra_kernels_get();
    const bool isa = b->o->isa;
    struct mra_error err;
    bool ok = true;
    for (size_t l = 0; l < (isa ? sizeof(levels) / sizeof(levels[0]) : 1) && ok; l++) {
        const struct mra_kernels * k = isa ? mra_kernels_by_name(levels[l]) : best;
        if (!k || (isa && type == MRA_ATTN_FLOAT && strchr(levels[l], '-'))) continue;
        mra_kernels_set(k);
        if (mra_attn_type_runs(type) == type) ok = one_row(b, d, frame, budget, type, &err) == MRA_OK && output_flush();
        else {
            progress_clear();
            fprintf(stderr, "%s: kernels %s have no %s: no row\n", program, k->name, mra_attn_type_name(type));
        }
    }
    mra_kernels_set(best);
    return ok;
}

// false: stop, the validation or the output failed
static bool rows_of_length(struct bench * b, const struct attn_data * d) {
    const struct options * o = b->o;
    bool ok = true;
    for (int f = 0; f < o->n_frames; f++) {
        const bool exact = strcmp(o->frames[f], "exact") == 0; // has no budget
        for (int w = 0; w < (exact ? 1 : o->n_budgets); w++)
            for (int t = 0; t < o->n_types && ok; t++)
                ok = rows_of_type(b, d, o->frames[f], exact ? 1 : o->budgets[w], o->types[t]);
    }
    return ok;
}

int bench_attn(int argc, char ** argv) {
    struct options o;
    parse_options(&o, argc, argv);
    struct bench b = { .o = &o };
    struct mra_error err;
    if (o.qkv) read_qkv(&o, &b.npy);
    if (o.guard_path && guard_read(&b.guard, o.guard_path, &err) != MRA_OK) fatal(program, "%s", err.msg);
    if (engine_new(&b.engine, o.threads, &err) != MRA_OK) fatal(program, "%s", err.msg);
    if (!o.json) print_header(&o, argc, argv);
    bool ok = output_flush();
    for (int i = 0; i < o.n_n && ok; i++) {
        struct attn_data d;
        progress("n %lld: inputs", (long long) o.n[i]);
        if (data_new(&d, o.n[i], o.heads, o.kv_heads, o.dim, &err) != MRA_OK) {
            progress_clear();
            fatal(program, "%s", err.msg);
        }
        if (o.qkv) data_from_npy(&d, &b.npy);
        else data_generate(&d, o.seed);
        ok = rows_of_length(&b, &d);
        data_free(&d);
    }
    engine_free(&b.engine);
    npy_free(&b.npy);
    progress_clear();
    if (o.guard_path && !guard_end(&b.guard, program)) ok = false;
    return output_close(program, ok ? 0 : 1);
}
