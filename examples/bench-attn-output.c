// mra-bench attn: its rows, as a table or as JSON lines.
#include "bench-attn.h"
#include "bench-rows.h"

#include "common/output.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

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

void attn_header_print(const struct attn_options * o, int argc, char ** argv) {
    printf("# ");
    print_machine(o->threads);
    printf(", %lld", (long long) o->heads);
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
    snprintf(c[2], 32, "%s", r->numbers);
    snprintf(c[3], 32, "%.4g", r->budget);
    fmt_real(c[4], r->work, 3);
    snprintf(c[5], 32, "%s", r->isa);
    fmt_real(c[6], r->time[OURS].ms, 4);
    fmt_real(c[7], r->gflops, 4);
    fmt_share(c[8], r->peak_share);
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
    cJSON_AddStringToObject(o, "attn_numbers", r->numbers);
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
    cJSON_AddNumberToObject(o, "reps", r->time[OURS].reps);
    json_machine(o, r->isa, r->threads);
    json_line(o);
}

void attn_row_print(const struct attn_row * r, bool json) {
    if (json) print_json(r);
    else print_table(r);
}
