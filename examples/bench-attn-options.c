// mra-bench attn: its options.
#include "bench-attn.h"
#include "bench-rows.h"

#include "common/args.h"
#include "common/npy.h"

#include <math.h>
#include <string.h>

enum { MAX_TOKENS = 1 << 22 };
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
        "columns (default), sorted, mra2, mra2s, exact, or sizes such as 16,4,1;\nmay be given several times" },
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
    "columns and sorted, on the first rows of the whole; the output for NaN; exact attention against ggml's flash "
    "attention. A "
    "failure ends the run with exit code 1. Then all contenders take turns on the\n"
    "same inputs, threads and views of [dim, heads, n] tensors. Columns, and fields of the JSON lines:\n"
    "  work         multiplications, as a fraction of exact attention's 4 n^2 dim heads flops\n"
    "  ms           our node, median\n"
    "  gflops       of the work done; peak: their share of the FMA peak of the row's instruction set, the best seen "
    "before and\n"
    "               after the rows; a share above 105 % ends the run with exit code 1. Rows of --attn-type int8: of "
    "the int8 peak,\n"
    "               of kernels with tiles (v4-amx) of the bf16 peak\n"
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

static void check_options(struct attn_options * o) {
    for (int f = 0; f < o->n_frames; f++) {
        const enum mra_frame frame = check_frame(bench_attn_name, o->frames[f], o->budgets, o->n_budgets);
        for (int t = 0; t < o->n_types; t++)
            if (o->types[t] == MRA_ATTN_INT8 && frame == MRA_FRAME_SQUARE)
                usage_error(bench_attn_name, "--attn-type int8: frames are exact and columns, not %s", o->frames[f]);
    }
    if (o->dim % 8 != 0) usage_error(bench_attn_name, "--dim: %lld is not a multiple of 8", (long long) o->dim);
    if (o->kv_heads == 0) o->kv_heads = o->heads;
    if (o->heads % o->kv_heads != 0)
        usage_error(bench_attn_name, "--kv-heads: %lld does not divide %lld heads", (long long) o->kv_heads,
            (long long) o->heads);
}

static void parse_types(struct attn_options * o, const char * list) {
    o->n_types = 0;
    for (const char * s = list;; s++) {
        const size_t n = strcspn(s, ",");
        int type = MRA_ATTN_FLOAT;
        while (type <= MRA_ATTN_INT8 &&
            (n != strlen(mra_attn_type_name((enum mra_attn_type) type)) ||
                strncmp(s, mra_attn_type_name((enum mra_attn_type) type), n) != 0))
            type++;
        if (type > MRA_ATTN_INT8 || (o->n_types == 1 && o->types[0] == (enum mra_attn_type) type) || o->n_types == 2)
            usage_error(bench_attn_name, "--attn-type: '%s' is not a list of float and int8", list);
        o->types[o->n_types++] = (enum mra_attn_type) type;
        s += n;
        if (!*s) return;
    }
}

static void fill_defaults(struct attn_options * o) {
    if (o->n_frames == 0) o->frames[o->n_frames++] = "columns";
    if (o->n_budgets == 0) o->budgets[o->n_budgets++] = 0.125;
    if (o->n_types == 0) o->types[o->n_types++] = MRA_ATTN_FLOAT;
    if (o->n_n == 0 && !o->qkv) {
        o->n[0] = 512;
        o->n[1] = 4096;
        o->n_n = 2;
    }
}

void attn_options_parse(struct attn_options * o, int argc, char ** argv) {
    struct args a = { .program = bench_attn_name,
        .usage = "[options]",
        .opts = opts,
        .n_opt = sizeof(opts) / sizeof(opts[0]),
        .notes = notes,
        .about = "Validates, then times one attention node over n tokens: ggml-mra's, ggml's flash attention and "
                 "ggml's matrix products." };
    *o = (struct attn_options) {
        .heads = 12, .dim = 64, .threads = cpu_count(), .matmul = true, .seed = 1, .max_seconds = 20
    };
    bool shape_given = false;
    for (int id; (id = args_next(&a, argc, argv)) != -1;) {
        switch (id) {
            case 'n': o->n_n = args_ints(&a, 1, MAX_TOKENS, o->n, ATTN_LIST); break;
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
                if (o->n_frames == ATTN_LIST) usage_error(bench_attn_name, "more than %d frames", ATTN_LIST);
                o->frames[o->n_frames++] = a.value;
                break;
            case OPT_ATTN_TYPE: parse_types(o, a.value); break;
            case OPT_BUDGET: o->n_budgets = args_reals(&a, 1e-6, 1, o->budgets, ATTN_LIST); break;
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
        usage_error(bench_attn_name, "--qkv gives heads and dim: leave out --heads, --kv-heads and --dim");
    fill_defaults(o);
    check_options(o);
}

// heads, dim and n from the file
void attn_options_qkv(struct attn_options * o, struct npy * a) {
    struct mra_error err;
    if (npy_read(a, o->qkv, &err) != MRA_OK) fatal(bench_attn_name, "%s", err.msg);
    if (a->n_dim != 4 || a->shape[0] != 3 || a->n < 1)
        fatal(bench_attn_name, "%s: the shape is not [3, heads, n, dim]", o->qkv);
    if (a->shape[3] % 8 != 0 || a->shape[3] > MRA_MAX_DIM || a->shape[2] > MAX_TOKENS) {
        fatal(bench_attn_name, "%s: dim %lld is not a multiple of 8 up to %d, or n is too large", o->qkv,
            (long long) a->shape[3], MRA_MAX_DIM);
    }
    for (int64_t i = 0; i < a->n; i++)
        if (!isfinite(a->data[i])) fatal(bench_attn_name, "%s: value %lld is not finite", o->qkv, (long long) i);
    o->heads = o->kv_heads = a->shape[1];
    o->dim = a->shape[3];
    if (o->n_n == 0) o->n[o->n_n++] = a->shape[2];
    for (int i = 0; i < o->n_n; i++) {
        if (o->n[i] > a->shape[2])
            fatal(bench_attn_name, "-n: %lld is more than the %lld tokens of %s", (long long) o->n[i],
                (long long) a->shape[2], o->qkv);
    }
}
