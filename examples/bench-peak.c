// mra-bench peak: FMA, int8, bf16 and memory rates, the ceiling of everything else this program measures.
#include "bench.h"

#include "common/args.h"
#include "common/output.h"

#include "ggml.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char program[] = "mra-bench peak";

enum { OPT_JSON = 256, MAX_LIST = 16 };

static const struct arg_opt opts[] = {
    { 't', "threads", "LIST", "numbers of threads, default 1 and the number of CPUs" },
    { OPT_JSON, "json", NULL, "JSON lines" },
};

static const char notes[] = "One row per number of threads and instruction set level the CPU has. fma counts a product "
                            "and a sum as two, int8 and bf16 (by tiles) likewise.\n"
                            "read: memory bandwidth of a sum over a buffer of at least four times the last cache. All "
                            "are the best of a dozen runs.\n"
                            "Results of the loops are checked: a loop that did not do its work is an error.\n"
                            "\n"
                            "examples:\n"
                            "  mra-bench peak\n"
                            "  mra-bench peak -t 1,2,4 --json > peak.jsonl";

static const struct table_col cols[] = {
    { "threads", 7, false },
    { "isa", 8, true },
    { "fma GFLOP/s", 11, false },
    { "int8 GOP/s", 10, false },
    { "bf16 GFLOP/s", 12, false },
    { "read GB/s", 9, false },
    { "int8 by", 16, true },
};
enum { N_COLS = sizeof(cols) / sizeof(cols[0]) };

static void print_row(
    const struct peak_isa * isa, int n_threads, double fma, double int8, double bf16, double gbs, bool json) {
    if (json) {
        cJSON * o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "bench", "peak");
        cJSON_AddStringToObject(o, "cpu", cpu_model());
        cJSON_AddNumberToObject(o, "threads", n_threads);
        cJSON_AddStringToObject(o, "isa", isa->name);
        json_real(o, "fma_gflops", fma, 5);
        json_real(o, "int8_gops", int8, 5);
        json_real(o, "bf16_gflops", bf16, 5);
        json_real(o, "read_gbs", gbs, 4);
        if (isa->int8_name) cJSON_AddStringToObject(o, "int8_by", isa->int8_name);
        else cJSON_AddNullToObject(o, "int8_by");
        json_line(o);
        return;
    }
    char cells[N_COLS][32];
    snprintf(cells[0], 32, "%d", n_threads);
    snprintf(cells[1], 32, "%s", isa->name);
    fmt_real(cells[2], fma, 4);
    fmt_real(cells[3], int8, 4);
    fmt_real(cells[4], bf16, 4);
    fmt_real(cells[5], gbs, 3);
    snprintf(cells[6], 32, "%s", isa->int8_name ? isa->int8_name : "");
    table_row(cols, N_COLS, cells);
}

int bench_peak(int argc, char ** argv) {
    struct args a = {
        .program = program,
        .usage = "[-t LIST] [--json]",
        .opts = opts,
        .n_opt = sizeof(opts) / sizeof(opts[0]),
        .notes = notes,
        .about = "Measures the FMA peak, the peaks of int8 and bf16 products and the memory bandwidth of this machine."
    };
    int64_t threads[MAX_LIST] = { 1, cpu_count() };
    int n_list = threads[1] > 1 ? 2 : 1;
    bool json = false;
    for (int id; (id = args_next(&a, argc, argv)) != -1;) {
        switch (id) {
            case 't': n_list = args_ints(&a, 1, 512, threads, MAX_LIST); break;
            case OPT_JSON: json = true; break;
        }
    }
    args_end(&a, argc, argv);
    if (!json) {
        printf("%s, ggml %s\n", cpu_model(), ggml_version());
        table_head(cols, N_COLS);
    }
    for (int t = 0; t < n_list; t++) {
        const struct peak_isa * isa;
        for (int i = 0; (isa = peak_isa_at(i)); i++) {
            progress("%d threads, %s", (int) threads[t], isa->name);
            const int n = (int) threads[t];
            const double fma = peak_fma(isa, n, PEAK_RUNS), int8 = peak_int8(isa, n, PEAK_RUNS),
                         bf16 = peak_bf16(isa, n, PEAK_RUNS), gbs = peak_read(isa, n);
            if (fma < 0 || int8 < 0 || bf16 < 0 || gbs < 0) {
                progress_clear();
                fatal(program, "%s: a loop did not do its work", isa->name);
            }
            print_row(isa, n, fma, int8, bf16, gbs, json);
            if (!output_flush()) return output_close(program, 1);
        }
    }
    return output_close(program, 0);
}
