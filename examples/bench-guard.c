// --perf-guard: rows of an earlier run, compared by speedup, which depends on the machine's state much less than times
// do.
#include "bench-attn.h"

#include <cjson/cJSON.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mra_status guard_read(struct guard * g, const char * path, struct mra_error * err) {
    *g = (struct guard) { .rows = cJSON_CreateArray(), .path = path };
    FILE * f = fopen(path, "r");
    if (!f) return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    char * line = NULL;
    size_t size = 0;
    enum mra_status st = MRA_OK;
    for (int i = 1; st == MRA_OK && getline(&line, &size, f) >= 0; i++) {
        if (!line[strspn(line, " \t\r\n")]) continue;
        cJSON * o = cJSON_Parse(line);
        if (cJSON_IsObject(o)) cJSON_AddItemToArray(g->rows, o);
        else {
            cJSON_Delete(o);
            st = mra_fail(err, MRA_ERR_FORMAT, "%s: line %d is not a JSON object", path, i);
        }
    }
    if (st == MRA_OK && ferror(f)) st = mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    free(line);
    fclose(f);
    return st;
}

static bool same_number(const cJSON * o, const char * name, double x) {
    const cJSON * v = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(v) && fabs(v->valuedouble - x) <= 1e-5 * fabs(x);
}
static bool same_text(const cJSON * o, const char * name, const char * x) {
    const cJSON * v = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsString(v) && strcmp(v->valuestring, x) == 0;
}

// lines from before there were types are floats
static bool same_type(const cJSON * o, enum mra_attn_type type) {
    return cJSON_GetObjectItemCaseSensitive(o, "attn_type") ? same_text(o, "attn_type", mra_attn_type_name(type))
                                                            : type == MRA_ATTN_FLOAT;
}

void guard_check(struct guard * g, const struct attn_row * r, const char * program) {
    const cJSON * o;
    cJSON_ArrayForEach(o, g->rows) {
        if (!same_number(o, "n", (double) r->n) || !same_number(o, "heads", (double) r->heads) ||
            !same_number(o, "kv_heads", (double) r->kv_heads) || !same_number(o, "dim", (double) r->dim) ||
            !same_number(o, "budget", r->budget) || !same_number(o, "threads", r->threads) ||
            !same_text(o, "frame", r->frame) || !same_text(o, "kv", r->kv) || !same_text(o, "isa", r->isa) ||
            !same_type(o, r->type))
            continue;
        const cJSON * was = cJSON_GetObjectItemCaseSensitive(o, "speedup");
        if (!cJSON_IsNumber(was) || !isfinite(r->speedup)) continue;
        g->n_compared++;
        if (r->speedup >= .9 * was->valuedouble) return;
        g->n_slower++;
        fprintf(stderr, "%s: slower: n %lld, %s, budget %g, %s: speedup %.3g, was %.3g (%+.0f %%)\n", program,
            (long long) r->n, r->frame, r->budget, r->isa, r->speedup, was->valuedouble,
            100 * (r->speedup / was->valuedouble - 1));
        return;
    }
}

bool guard_end(struct guard * g, const char * program) {
    const bool ok = g->n_compared > 0 && g->n_slower == 0;
    if (g->n_compared == 0)
        fprintf(stderr, "%s: --perf-guard: nothing in %s has the settings of this run\n", program, g->path);
    else
        fprintf(stderr, "%s: --perf-guard: %d of %d rows slower than in %s by more than 10 %%\n", program, g->n_slower,
            g->n_compared, g->path);
    cJSON_Delete(g->rows);
    g->rows = NULL;
    return ok;
}
