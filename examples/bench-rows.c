#include "bench-rows.h"

#include "bench.h"
#include "common/args.h"
#include "common/output.h"

#include "ggml.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum mra_frame check_frame(const char * program, const char * name, const double * budgets, int n_budgets) {
    struct mra_attn_params p = mra_attn_params_default();
    for (int i = 0; i < n_budgets; i++) {
        struct mra_error err;
        p = mra_attn_params_default();
        p.budget = (float) budgets[i];
        if (mra_attn_params_parse(&p, name, &err) != MRA_OK) usage_error(program, "--frame: %s", err.msg);
    }
    return p.frame;
}

void print_machine(int n_threads) {
    printf("%s, %d thread%s, isa %s, ggml %s", cpu_model(), n_threads, n_threads == 1 ? "" : "s", mra_isa(),
        ggml_version());
}

void json_machine(cJSON * o, const char * isa, int n_threads) {
    cJSON_AddStringToObject(o, "isa", isa);
    cJSON_AddNumberToObject(o, "threads", n_threads);
    cJSON_AddStringToObject(o, "cpu", cpu_model());
    cJSON_AddStringToObject(o, "ggml", ggml_version());
}

const char * fmt_share(char cell[32], double share) {
    if (isfinite(share)) snprintf(cell, 32, "%.0f%%", 100 * share);
    else snprintf(cell, 32, "-");
    return cell;
}

void row_failed(const char * program, enum mra_status st, const struct mra_error * err, const char * which, ...) {
    va_list ap;
    va_start(ap, which);
    progress_clear();
    fprintf(stderr, "%s: %s", program, st == MRA_ERR_BACKEND ? "validation failed: " : "");
    vfprintf(stderr, which, ap);
    fprintf(stderr, ": %s\n", err->msg);
    va_end(ap);
}
