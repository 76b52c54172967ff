// One layer of one text: ||out - exact|| / ||exact|| of each head with each setting, and the entropy of its attention,
//     1/m sum_i -sum_j p_ij log p_ij    over m queries i taken evenly.
#include "eval.h"

#include <math.h>
#include <stdlib.h>

enum { ENTROPY_ROWS = 128 };

static double entropy_of(const struct qkv * x, int h, double * p) {
    const int m = x->n < ENTROPY_ROWS ? x->n : ENTROPY_ROWS;
    double sum = 0;
    for (int t = 0; t < m; t++) sum += qkv_weights(x, h, (int) ((int64_t) t * x->n / m), p);
    return sum / m;
}

// squares of head h : error, exact attention
static void squares(const struct qkv * x, const float * out, const float * exact, int h, double * e2, double * r2) {
    *e2 = *r2 = 0;
    for (int64_t i = 0; i < x->n; i++)
        for (int c = 0; c < x->d; c++) {
            const int64_t at = (i * x->n_head + h) * x->d + c;
            const double d = (double) out[at] - exact[at];
            *e2 += d * d;
            *r2 += (double) exact[at] * exact[at];
        }
}

// new rows for the heads of a layer; NULL: no memory
static struct eval_head * add_heads(struct eval * e, const struct qkv * x, int length) {
    if (e->n_heads + x->n_head > e->cap_heads) {
        const int cap = 2 * e->cap_heads + x->n_head;
        struct eval_head * heads = realloc(e->heads, (size_t) cap * sizeof(*heads));
        if (!heads) return NULL;
        e->heads = heads;
        e->cap_heads = cap;
    }
    struct eval_head * first = e->heads + e->n_heads;
    for (int h = 0; h < x->n_head; h++)
        first[h] = (struct eval_head) { .length = length, .text = e->done[length], .layer = x->layer, .head = h };
    e->n_heads += x->n_head;
    return first;
}

static void add_setting(
    struct eval * e, const struct qkv * x, int length, int s, const float * exact, struct eval_head * heads) {
    struct attn_result r;
    struct eval_cell * c = &e->cells[length][s];
    if (attn_compute(x, &e->settings[s].attn, e->n_threads, 0, e->reps, &r, &e->err) != MRA_OK) return;
    for (int h = 0; h < x->n_head; h++) {
        double e2, r2;
        squares(x, r.out, exact, h, &e2, &r2);
        const double error = r2 > 0 ? sqrt(e2 / r2) : e2 > 0 ? INFINITY : 0;
        heads[h].error[s] = (float) error;
        c->sum += error;
        if (!(error <= c->worst)) c->worst = error; // NaN stays
        c->e2 += e2;
        c->r2 += r2;
        c->n_heads++;
    }
    c->ms += r.ms;
    c->bytes = fmax(c->bytes, r.bytes);
    c->n_runs++;
    attn_result_free(&r);
}

void eval_study(void * user, const struct mra_attention_input * in) {
    struct eval * e = user;
    int length = 0;
    while (length < e->n_lengths && e->lengths[length] != in->n) length++;
    if (e->err.code || length == e->n_lengths) return;
    if (in->near) {
        e->n_near++;
        return;
    }
    struct qkv x = { 0 };
    struct attn_result exact = { 0 };
    const struct mra_attn_params floats = mra_attn_params_exact();
    double * p = malloc((size_t) in->n * sizeof(*p));
    struct eval_head * heads = p && qkv_copy(&x, in) ? add_heads(e, &x, length) : NULL;
    if (!heads) mra_fail(&e->err, MRA_ERR_MEMORY, "out of memory");
    else if (attn_compute(&x, &floats, e->n_threads, 0, 1, &exact, &e->err) == MRA_OK) {
        for (int h = 0; h < x.n_head; h++) heads[h].entropy = entropy_of(&x, h, p);
        for (int s = 0; s < e->n_settings && !e->err.code; s++) add_setting(e, &x, length, s, exact.out, heads);
    }
    attn_result_free(&exact);
    qkv_free(&x);
    free(p);
}
