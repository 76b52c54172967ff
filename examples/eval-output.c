// mra-eval: its tables and JSON lines.
#include "eval.h"
#include "common/output.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GROUPS = 5 }; // of heads, by entropy

static const struct table_col cols[] = { { "n", 6, false }, { "frame", 10, true }, { "numbers", 7, true },
    { "budget", 6, false }, { "work", 6, false }, { "error", 7, false }, { "worst", 7, false }, { "all", 7, false },
    { "ms", 8, false }, { "MB", 7, false } };
enum { N_COLS = sizeof(cols) / sizeof(cols[0]) };

static double work_of(const struct setting * s, int64_t n) { return fmin(1, mra_attn_work(&s->attn, n, n)); }
static bool has_budget(const struct setting * s) { return s->attn.frame != MRA_FRAME_EXACT; }

static void error_row(const struct eval * e, int l, int s) {
    const struct setting * t = &e->settings[s];
    const struct eval_cell * c = &e->cells[l][s];
    const double mean = c->sum / c->n_heads, all = c->r2 > 0 ? sqrt(c->e2 / c->r2) : 0, ms = c->ms / c->n_runs;
    if (e->json) {
        cJSON * o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "study", "error");
        cJSON_AddNumberToObject(o, "n", (double) e->lengths[l]);
        cJSON_AddStringToObject(o, "frame", t->name);
        cJSON_AddStringToObject(o, "numbers", mra_attn_numbers(t->attn.type));
        if (has_budget(t)) json_real(o, "budget", (double) t->attn.budget, 7);
        json_real(o, "work", work_of(t, e->lengths[l]), 6);
        json_real(o, "error", mean, 4);
        json_real(o, "worst", c->worst, 4);
        json_real(o, "all", all, 4);
        json_real(o, "ms", ms, 5);
        json_real(o, "memory_mb", c->bytes / 1e6, 5);
        cJSON_AddNumberToObject(o, "heads", c->n_heads);
        cJSON_AddNumberToObject(o, "texts", e->done[l]);
        json_line(o);
        return;
    }
    char x[N_COLS][32] = { 0 };
    snprintf(x[0], 32, "%lld", (long long) e->lengths[l]);
    snprintf(x[1], 32, "%s", t->name);
    snprintf(x[2], 32, "%s", mra_attn_numbers(t->attn.type));
    if (has_budget(t)) snprintf(x[3], 32, "%.4g", (double) t->attn.budget);
    snprintf(x[4], 32, "%.4f", work_of(t, e->lengths[l]));
    const double errors[3] = { mean, c->worst, all };
    for (int i = 0; i < 3; i++) snprintf(x[5 + i], 32, "%.4f", errors[i]);
    fmt_real(x[8], ms, 4);
    fmt_real(x[9], c->bytes / 1e6, 3);
    table_row(cols, N_COLS, x);
}

// ---- by entropy ----

static int compare_entropy(const void * a, const void * b) {
    const struct eval_head *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->entropy < y->entropy ? -1 : x->entropy > y->entropy;
}

// the settings of one budget, that nearest to 1/4 -> which; returns how many
static int settings_shown(const struct eval * e, int * which) {
    double best = e->budgets[0];
    for (int i = 1; i < e->n_budgets; i++)
        if (fabs(e->budgets[i] - .25) < fabs(best - .25)) best = e->budgets[i];
    int n = 0;
    for (int s = 0; s < e->n_settings && n < EVAL_FRAMES; s++)
        if (!has_budget(&e->settings[s]) || e->settings[s].attn.budget == (float) best) which[n++] = s;
    return n;
}

static void head_json(const struct eval * e, const struct eval_head * h) {
    cJSON *o = cJSON_CreateObject(), *list = NULL;
    cJSON_AddStringToObject(o, "study", "entropy");
    cJSON_AddNumberToObject(o, "n", (double) e->lengths[h->length]);
    cJSON_AddNumberToObject(o, "text", h->text);
    cJSON_AddNumberToObject(o, "layer", h->layer);
    cJSON_AddNumberToObject(o, "head", h->head);
    json_real(o, "entropy", h->entropy, 5);
    list = cJSON_AddArrayToObject(o, "errors");
    for (int s = 0; s < e->n_settings; s++) {
        cJSON * one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "frame", e->settings[s].name);
        if (has_budget(&e->settings[s])) json_real(one, "budget", (double) e->settings[s].attn.budget, 7);
        json_real(one, "error", (double) h->error[s], 4);
        cJSON_AddItemToArray(list, one);
    }
    json_line(o);
}

// heads [a, b) as one row, their errors averaged
static void entropy_row(const struct eval * e, int a, int b, const int * which, int n) {
    const struct eval_head * h = e->heads;
    printf("%6lld ", (long long) e->lengths[h[a].length]);
    if (e->by_head) printf("%5d %5d %5d  %7.3f", h[a].text + 1, h[a].layer, h[a].head, h[a].entropy);
    else printf("%5d  %5.2f to %5.2f", b - a, h[a].entropy, h[b - 1].entropy);
    for (int s = 0; s < n; s++) {
        double sum = 0;
        for (int i = a; i < b; i++) sum += (double) h[i].error[which[s]];
        printf("  %14.4f", sum / (b - a));
    }
    printf("\n");
}

static void entropy_table(const struct eval * e) {
    int which[EVAL_FRAMES];
    const int n = settings_shown(e, which);
    printf("\nerror by the entropy of the attention (log n is that of equal weights)%s\n%6s ",
        e->by_head ? "" : ": a fifth of the heads per line", "n");
    printf(e->by_head ? " text layer  head  entropy" : "heads         entropy");
    for (int s = 0; s < n; s++) {
        char title[32];
        const struct setting * t = &e->settings[which[s]];
        if (has_budget(t)) snprintf(title, sizeof(title), "%s %.3g", t->name, (double) t->attn.budget);
        else snprintf(title, sizeof(title), "%s %s", t->name, mra_attn_numbers(t->attn.type));
        printf("  %14s", title);
    }
    printf("\n");
    for (int a = 0, b; a < e->n_heads; a = b) {
        for (b = a; b < e->n_heads && e->heads[b].length == e->heads[a].length;) b++;
        const int groups = e->by_head || b - a < GROUPS ? b - a : GROUPS;
        for (int g = 0; g < groups; g++)
            entropy_row(e, a + (int) ((int64_t) (b - a) * g / groups), a + (int) ((int64_t) (b - a) * (g + 1) / groups),
                which, n);
    }
}

void eval_print(struct eval * e, const char * model) {
    if (!e->json) {
        printf("# %s, kernels %s, %d threads; error: mean over heads of ||out - exact|| / ||exact||, worst: of a head, "
               "all: of all heads together;\n# ms, MB: of one layer\n",
            model, mra_isa(), e->n_threads);
        table_head(cols, N_COLS);
    }
    for (int l = 0; l < e->n_lengths; l++)
        for (int s = 0; s < e->n_settings; s++)
            if (e->cells[l][s].n_heads) error_row(e, l, s);
    if (e->n_heads) qsort(e->heads, (size_t) e->n_heads, sizeof(*e->heads), compare_entropy);
    for (int i = 0; i < e->n_heads && e->json; i++) head_json(e, &e->heads[i]);
    if (e->n_heads && !e->json) entropy_table(e);
}
