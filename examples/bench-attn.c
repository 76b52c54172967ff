// mra-bench attn: the loop over problems.
#include "bench-attn.h"
#include "bench-rows.h"

#include "common/args.h"
#include "common/npy.h"
#include "common/output.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char bench_attn_name[] = "mra-bench attn";

enum { MAX_PEAKS = 8 };
#define MAX_SHARE 1.05 // of the peak: what lies above is an error of measurement

// What the rows of a run share
struct bench {
    const struct attn_options * o;
    struct engine engine;
    struct guard guard;
    struct npy npy;
    double peak[MAX_PEAKS]; // by level of the kernels tried: the best measured so far
    const char * peak_isa[MAX_PEAKS];
    enum mra_attn_type peak_type[MAX_PEAKS]; // FMA, int8
};

// ---- one row ---------------------------------------------------------------------------------------------------

// The peak of the kernels `isa`, of FMA or of what they have for type int8, the best of what was measured so far and of
// n_runs more
static double peak_of(struct bench * b, const char * isa, enum mra_attn_type type, int n_runs) {
    const struct peak_isa * level = peak_isa_of(isa);
    int i = 0;
    while (level && i < MAX_PEAKS - 1 && b->peak_isa[i] &&
        (strcmp(b->peak_isa[i], level->name) != 0 || b->peak_type[i] != type))
        i++;
    const bool tiles = type == MRA_ATTN_INT8 && level && level->bf16;
    const double rate = !level  ? -1
        : tiles                 ? peak_bf16(level, b->o->threads, n_runs)
        : type == MRA_ATTN_INT8 ? peak_int8(level, b->o->threads, n_runs)
                                : peak_fma(level, b->o->threads, n_runs);
    if (!(rate >= 0)) {
        progress_clear();
        fatal(bench_attn_name, "the %s peak of %s could not be measured", type == MRA_ATTN_INT8 ? "int8" : "FMA", isa);
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
    const struct attn_options * o = b->o;
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
    const struct attn_options * o = b->o;
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
        .numbers = mra_attn_numbers(type),
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
        row_failed(bench_attn_name, st, err, "n %lld, %s, budget %g", (long long) d->n, frame, r.budget);
        return st;
    }
    attn_row_print(&r, o->json);
    if (o->guard_path) guard_check(&b->guard, &r, bench_attn_name);
    return MRA_OK;
}

// ---- all of them -----------------------------------------------------------------------------------------------

// The rows of a frame and a budget in floats or integers: one, or with --isa one for each level. Levels with byte
// products have floats of their own in no other way than the level below.
static bool rows_of_type(
    struct bench * b, const struct attn_data * d, const char * frame, double budget, enum mra_attn_type type) {
    static const char * const levels[] = { "base", "neon", "neon-dot", "neon-i8mm", "v3", "v3-vnni", "v4", "v4-vnni",
        "v4-amx" };
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
            fprintf(stderr, "%s: kernels %s have no %s: no row\n", bench_attn_name, k->name, mra_attn_type_name(type));
        }
    }
    mra_kernels_set(best);
    return ok;
}

// false: stop, the validation or the output failed
static bool rows_of_length(struct bench * b, const struct attn_data * d) {
    const struct attn_options * o = b->o;
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
    struct attn_options o;
    attn_options_parse(&o, argc, argv);
    struct bench b = { .o = &o };
    struct mra_error err;
    if (o.qkv) attn_options_qkv(&o, &b.npy);
    if (o.guard_path && guard_read(&b.guard, o.guard_path, &err) != MRA_OK) fatal(bench_attn_name, "%s", err.msg);
    if (engine_new(&b.engine, o.threads, &err) != MRA_OK) fatal(bench_attn_name, "%s", err.msg);
    if (!o.json) attn_header_print(&o, argc, argv);
    bool ok = output_flush();
    for (int i = 0; i < o.n_n && ok; i++) {
        struct attn_data d;
        progress("n %lld: inputs", (long long) o.n[i]);
        if (data_new(&d, o.n[i], o.heads, o.kv_heads, o.dim, &err) != MRA_OK) {
            progress_clear();
            fatal(bench_attn_name, "%s", err.msg);
        }
        if (o.qkv) data_from_npy(&d, &b.npy);
        else data_generate(&d, o.seed);
        ok = rows_of_length(&b, &d);
        data_free(&d);
    }
    engine_free(&b.engine);
    npy_free(&b.npy);
    progress_clear();
    if (o.guard_path && !guard_end(&b.guard, bench_attn_name)) ok = false;
    return output_close(bench_attn_name, ok ? 0 : 1);
}
