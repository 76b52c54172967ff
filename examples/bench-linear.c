// mra-bench linear: options, the loop over shapes and types, and its rows.
#include "bench-linear.h"
#include "bench-rows.h"

#include "common/args.h"
#include "common/output.h"

#include "mra-encoder.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char program[] = "mra-bench linear";

enum { MAX_LIST = 16, MAX_SIZE = 1 << 20 };
enum { OPT_SHAPE = 256, OPT_TYPE, OPT_FUSED, OPT_FFN, OPT_OUTLIERS, OPT_REPS, OPT_SEED, OPT_JSON };

static const struct arg_opt opts[] = {
    { OPT_SHAPE, "shape", "M,K,N",
        "M rows of K channels times N x K weights; may be given several times;\ndefault 512,768,3072 and "
        "4096,768,3072" },
    { OPT_TYPE, "type", "NAME",
        "of the weights: f32, f16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k;\nmay be given several times; "
        "default q8_0" },
    { OPT_FUSED, "fused", NULL, "with bias and GELU" },
    { OPT_FFN, "ffn", NULL,
        "two layers as one row: N x K weights with bias and GELU, then K x N weights, as\na feed-forward part has "
        "them" },
    { OPT_OUTLIERS, "outliers", NULL, "one channel in 64 of x is 16 times as large" },
    { 't', "threads", "N", "threads, default the number of CPUs" },
    { OPT_REPS, "reps", "N", "runs of every contender; default 5 and .2 s, or 1 s" },
    { OPT_SEED, "seed", "N", "seed of the inputs, default 1" },
    { OPT_JSON, "json", NULL, "JSON lines" },
};

static const char notes[] =
    "Every contender is validated first, against a product in double precision with the weights as they dequantize, on "
    "a sample of rows; a\n"
    "failure ends the run with exit code 1. Then all take turns on the same inputs. Columns, and fields of the JSON "
    "lines:\n"
    "  ms           our operator, median, the quantization of x included; GOP/s: 2 M N K in that time, --ffn: 4 M N K\n"
    "  peak         their share of the int8 peak of this machine (float types: the FMA peak; kernels v4-amx: the bf16 "
    "peak),\n"
    "               measured at the start\n"
    "  plain        ggml's mul_mat, GOP/s; repacked: with the weights in the buffer type ggml's CPU device has for "
    "them\n"
    "  speedup      of ours over the better of these two\n"
    "  error        ||y - exact||/||exact|| of ours; plain err, repacked err: ggml's. Quantized types round x to 8 "
    "bits\n"
    "Where ggml has no such buffer type for the weights on this machine, repacked is -.\n"
    "\n"
    "examples:\n"
    "  mra-bench linear -t 2\n"
    "  mra-bench linear --shape 4096,768,3072 --shape 4096,3072,768 --type q8_0 --type q4_k --outliers --json > "
    "linear.jsonl";

struct options {
    int64_t shapes[MAX_LIST][3];
    const char * types[MAX_LIST];
    int n_shapes, n_types, threads, reps;
    struct linear_form form;
    bool json;
    uint64_t seed;
};

struct row {
    const char * type;
    struct timing time[N_LINEAR]; // ms NAN: not repacked
    double gops[N_LINEAR], error[N_LINEAR], peak, speedup;
};

static const char * const names[N_LINEAR] = { "ggml-mra's linear", "ggml's mul_mat",
    "ggml's mul_mat on repacked weights" };

// ---- options ---------------------------------------------------------------------------------------------------

static void take_shape(struct options * o, const struct args * a) {
    if (o->n_shapes == MAX_LIST) usage_error(program, "more than %d shapes", MAX_LIST);
    if (args_ints(a, 1, MAX_SIZE, o->shapes[o->n_shapes++], 3) != 3)
        usage_error(program, "--shape: '%s' is not M,K,N", a->value);
}

static void parse_options(struct options * o, int argc, char ** argv) {
    struct args a = { .program = program,
        .usage = "[options]",
        .opts = opts,
        .n_opt = sizeof(opts) / sizeof(opts[0]),
        .notes = notes,
        .about = "Validates, then times a dense layer: ggml-mra's operator and ggml's mul_mat." };
    *o = (struct options) { .threads = cpu_count(), .seed = 1 };
    for (int id; (id = args_next(&a, argc, argv)) != -1;) {
        switch (id) {
            case OPT_SHAPE: take_shape(o, &a); break;
            case OPT_TYPE:
                if (o->n_types == MAX_LIST) usage_error(program, "more than %d types", MAX_LIST);
                if (mra_quantize_type(a.value) == GGML_TYPE_COUNT)
                    usage_error(program, "--type: unknown type '%s' (see --help)", a.value);
                o->types[o->n_types++] = a.value;
                break;
            case OPT_FUSED: o->form.fused = true; break;
            case OPT_FFN: o->form.ffn = true; break;
            case OPT_OUTLIERS: o->form.outliers = true; break;
            case 't': o->threads = (int) args_int(&a, 1, 512); break;
            case OPT_REPS: o->reps = (int) args_int(&a, 1, 1000); break;
            case OPT_SEED: o->seed = (uint64_t) args_int(&a, 0, INT64_MAX); break;
            case OPT_JSON: o->json = true; break;
        }
    }
    args_end(&a, argc, argv);
    static const int64_t usual[2][3] = { { 512, 768, 3072 }, { 4096, 768, 3072 } };
    if (o->n_shapes == 0) {
        memcpy(o->shapes, usual, sizeof(usual));
        o->n_shapes = 2;
    }
    if (o->n_types == 0) o->types[o->n_types++] = "q8_0";
    for (int t = 0; t < o->n_types; t++)
        for (int s = 0; s < o->n_shapes; s++) {
            const int64_t block = ggml_blck_size(mra_quantize_type(o->types[t])), k = o->shapes[s][1],
                          n = o->form.ffn ? o->shapes[s][2] : 0;
            if (k % block != 0 || n % block != 0)
                usage_error(program, "--shape: %lld channels are no multiple of %s's block of %lld",
                    (long long) (k % block ? k : n), o->types[t], (long long) block);
        }
}

// ---- rows ------------------------------------------------------------------------------------------------------

static const struct table_col cols[] = {
    { "m", 6, false },
    { "k", 5, false },
    { "n", 5, false },
    { "type", 5, true },
    { "ms", 7, false },
    { "GOP/s", 6, false },
    { "peak", 4, false },
    { "plain", 6, false },
    { "repacked", 8, false },
    { "speedup", 7, false },
    { "error", 7, false },
    { "plain err", 9, false },
    { "repacked err", 12, false },
};
enum { N_COLS = sizeof(cols) / sizeof(cols[0]) };

static void print_table(const struct linear_data * d, const struct row * r) {
    char c[N_COLS][32];
    snprintf(c[0], 32, "%lld", (long long) d->m);
    snprintf(c[1], 32, "%lld", (long long) d->k);
    snprintf(c[2], 32, "%lld", (long long) d->n);
    snprintf(c[3], 32, "%s", r->type);
    fmt_real(c[4], r->time[LINEAR_OURS].ms, 4);
    fmt_real(c[5], r->gops[LINEAR_OURS], 4);
    fmt_share(c[6], r->gops[LINEAR_OURS] / r->peak);
    fmt_real(c[7], r->gops[LINEAR_PLAIN], 4);
    fmt_real(c[8], r->gops[LINEAR_REPACKED], 4);
    fmt_real(c[9], r->speedup, 3);
    for (int i = 0; i < N_LINEAR; i++)
        if (isfinite(r->error[i])) snprintf(c[10 + i], 32, "%.2g", r->error[i]);
        else c[10 + i][0] = 0;
    table_row(cols, N_COLS, c);
}

static void print_json(const struct options * opt, const struct linear_data * d, const struct row * r) {
    static const char * const prefix[N_LINEAR] = { "", "plain_", "repacked_" };
    cJSON * o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "bench", "linear");
    cJSON_AddNumberToObject(o, "m", (double) d->m);
    cJSON_AddNumberToObject(o, "k", (double) d->k);
    cJSON_AddNumberToObject(o, "n", (double) d->n);
    cJSON_AddStringToObject(o, "type", r->type);
    cJSON_AddBoolToObject(o, "fused", opt->form.fused);
    cJSON_AddBoolToObject(o, "ffn", opt->form.ffn);
    cJSON_AddBoolToObject(o, "outliers", opt->form.outliers);
    for (int i = 0; i < N_LINEAR; i++) {
        char key[32];
        snprintf(key, sizeof(key), "%sms", prefix[i]);
        json_real(o, key, r->time[i].ms, 6);
        snprintf(key, sizeof(key), "%sms_min", prefix[i]);
        json_real(o, key, r->time[i].min_ms, 6);
        snprintf(key, sizeof(key), "%sgops", prefix[i]);
        json_real(o, key, r->gops[i], 5);
        snprintf(key, sizeof(key), "%serror", prefix[i]);
        json_real(o, key, r->error[i], 4);
    }
    json_real(o, "speedup", r->speedup, 4);
    json_real(o, "peak_gops", r->peak, 5);
    json_real(o, "peak_share", r->gops[LINEAR_OURS] / r->peak, 4);
    json_machine(o, mra_isa(), opt->threads);
    json_line(o);
}

// ---- measuring -------------------------------------------------------------------------------------------------

static enum mra_status run_graphs(const struct options * o, const struct engine * e, const struct linear_data * d,
    struct linear_graph * g, struct row * r, struct mra_error * err) {
    struct bench_graph * use[N_LINEAR] = { 0 };
    enum mra_status st = MRA_OK;
    for (int i = 0; i < N_LINEAR && st == MRA_OK; i++) {
        bool has;
        st = linear_graph_new(&g[i], e, d, (enum linear_contender) i, &has, err);
        if (st == MRA_OK && has) st = linear_check(&g[i], e, d, names[i], &r->error[i], err);
        if (st == MRA_OK && has) use[i] = &g[i].g;
    }
    return st == MRA_OK ? measure(use, N_LINEAR, e, o->reps, r->time, err) : st;
}

static bool one_row(
    const struct options * o, const struct engine * e, const int64_t * shape, const char * type, const double peak[2]) {
    struct linear_graph g[N_LINEAR];
    struct linear_data d;
    struct mra_error err;
    struct row r = { .type = type };
    const enum ggml_type t = mra_quantize_type(type);
    memset(g, 0, sizeof(g));
    for (int i = 0; i < N_LINEAR; i++) r.error[i] = NAN;
    progress("%lld x %lld x %lld, %s", (long long) shape[0], (long long) shape[1], (long long) shape[2], type);
    enum mra_status st = linear_data_new(&d, shape[0], shape[1], shape[2], t, &o->form, o->seed, &err);
    if (st == MRA_OK) st = run_graphs(o, e, &d, g, &r, &err);
    if (st == MRA_OK) {
        for (int i = 0; i < N_LINEAR; i++)
            r.gops[i] = (d.ffn ? 4e-6 : 2e-6) * (double) d.m * (double) d.k * (double) d.n / r.time[i].ms;
        r.speedup = r.gops[LINEAR_OURS] / fmax(r.gops[LINEAR_PLAIN], r.gops[LINEAR_REPACKED]);
        r.peak = peak[ggml_is_quantized(t)];
        if (o->json) print_json(o, &d, &r);
        else print_table(&d, &r);
    } else {
        row_failed(program, st, &err, "%lld x %lld x %lld, %s", (long long) shape[0], (long long) shape[1],
            (long long) shape[2], type);
    }
    for (int i = 0; i < N_LINEAR; i++) linear_graph_free(&g[i]);
    linear_data_free(&d);
    return st == MRA_OK && output_flush();
}

static void only_problems(
    enum ggml_log_level level, const char * text, void * user) { // ggml tells of each tensor it repacks
    (void) user;
    if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int bench_linear(int argc, char ** argv) {
    struct options o;
    parse_options(&o, argc, argv);
    ggml_log_set(only_problems, NULL);
    struct engine e;
    struct mra_error err;
    double peak[2] = { 0, 0 }; // FMA, int8: of the fastest level
    const struct peak_isa *isa, *ours = peak_isa_of(mra_isa());
    const bool tiles = ours && ours->bf16;
    for (int i = 0; (isa = peak_isa_at(i)); i++) {
        progress("peak of %s", isa->name);
        const double rate[2] = { peak_fma(isa, o.threads, PEAK_RUNS), peak_int8(isa, o.threads, PEAK_RUNS) };
        if (rate[0] < 0 || rate[1] < 0) {
            progress_clear();
            fatal(program, "the peak of %s could not be measured", isa->name);
        }
        for (int k = 0; k < 2; k++) peak[k] = fmax(peak[k], rate[k]); // no int8 instruction: NAN
    }
    if (tiles) peak[1] = peak_bf16(ours, o.threads, PEAK_RUNS);
    if (peak[1] < 0) {
        progress_clear();
        fatal(program, "the bf16 peak could not be measured");
    }
    if (engine_new(&e, o.threads, &err) != MRA_OK) {
        progress_clear();
        fatal(program, "%s", err.msg);
    }
    progress_clear();
    if (!o.json) {
        print_machine(o.threads);
        printf("; peaks: %.0f GFLOP/s, %.0f GOP/s %s\n", peak[0], peak[1], tiles ? "bf16" : "int8");
        table_head(cols, N_COLS);
    }
    bool ok = output_flush();
    for (int s = 0; s < o.n_shapes; s++)
        for (int t = 0; t < o.n_types && ok; t++) ok = one_row(&o, &e, o.shapes[s], o.types[t], peak);
    engine_free(&e);
    return output_close(program, ok ? 0 : 1);
}
