// One layer: how each head's attention is tiled, how much of exact attention's weight lies on the pairs that are
// computed exactly, and ||out - exact|| / ||exact||. Weights are those of every step-th query.
#include "inspect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 96, MIN_SIDE = 16, PICTURE_BYTES = 800000, ROWS_PER_PIXEL = 4 };

bool inspect_begin(struct inspect * x, const struct mra_model_info * info, int n, int n_threads) {
    const int n_heads = info->n_layer * info->n_head, side = (int) sqrt((double) PICTURE_BYTES / n_heads);
    *x = (struct inspect) { .n = n, .n_layer = info->n_layer, .n_head = info->n_head, .n_threads = n_threads };
    x->side = side > MAX_SIDE ? MAX_SIDE : side < MIN_SIDE ? MIN_SIDE : side;
    if (x->side > n) x->side = n;
    const int rows = ROWS_PER_PIXEL * x->side;
    x->step = n > rows ? (n + rows - 1) / rows : 1;
    x->n_sampled = (n + x->step - 1) / x->step;
    x->heads = calloc((size_t) n_heads, sizeof(*x->heads));
    x->received = calloc((size_t) n, sizeof(*x->received));
    return x->heads && x->received;
}

void inspect_free(struct inspect * x) {
    for (int i = 0; x->heads && i < x->n_layer * x->n_head; i++) free(x->heads[i].pixels);
    free(x->heads);
    free(x->received);
}

// 0..63 from the mean weight of a pixel, on a scale of logarithms: 1/256 of the average weight and less .. 256 times it
static int shade_of(double weight, int n) {
    const double s = (log2(weight * n + 1e-30) + 8) / 16;
    return s <= 0 ? 0 : s >= 1 ? 63 : (int) lrint(63 * s);
}

struct pixel {
    double weight;
    int n_pairs, n_exact;
};

static void draw(const struct inspect * x, const struct pixel * from, struct inspect_head * to) {
    for (int i = 0; i < x->side * x->side; i++) {
        const struct pixel * p = &from[i];
        if (!p->n_pairs) continue;
        const int share = p->n_exact == 0 ? 0 : p->n_exact == p->n_pairs ? 3 : 2 * p->n_exact < p->n_pairs ? 1 : 2;
        to->pixels[i] = (uint8_t) (shade_of(p->weight / p->n_pairs, x->n) + 64 * share);
    }
}

// levels [n_sampled][n] of the head; p [n], pixels [side][side]: memory
static void look(struct inspect * x, const struct qkv * in, int h, const int8_t * levels, struct pixel * pixels,
    double * p, struct inspect_head * to) {
    int64_t n_exact = 0;
    memset(pixels, 0, (size_t) (x->side * x->side) * sizeof(*pixels));
    for (int r = 0; r < x->n_sampled; r++, levels += x->n) {
        const int64_t i = (int64_t) r * x->step;
        struct pixel * row = pixels + i * x->side / x->n * x->side;
        to->entropy += qkv_weights(in, h, (int) i, p) / x->n_sampled;
        for (int64_t j = 0; j < x->n; j++) {
            struct pixel * at = row + j * x->side / x->n;
            const bool exact = levels[j] == MRA_LEVEL_EXACT;
            at->weight += p[j];
            at->n_pairs++;
            at->n_exact += exact;
            n_exact += exact;
            if (exact) to->kept += p[j] / x->n_sampled;
            x->received[j] += p[j];
        }
    }
    x->n_received += x->n_sampled;
    to->exact = (double) n_exact / ((double) x->n_sampled * x->n);
    draw(x, pixels, to);
}

static double error_of(const struct qkv * in, const float * out, const float * exact, int h) {
    double e2 = 0, r2 = 0;
    for (int64_t i = 0; i < in->n; i++)
        for (int c = 0; c < in->d; c++) {
            const int64_t at = (i * in->n_head + h) * in->d + c;
            e2 += ((double) out[at] - exact[at]) * ((double) out[at] - exact[at]);
            r2 += (double) exact[at] * exact[at];
        }
    return r2 > 0 ? sqrt(e2 / r2) : 0;
}

void inspect_layer(void * user, const struct mra_attention_input * input) {
    struct inspect * x = user;
    struct qkv in = { 0 };
    struct attn_result got = { 0 }, exact = { 0 };
    const struct mra_attn_params floats = mra_attn_params_exact();
    if (x->err.code || input->near) return;
    double * p = malloc((size_t) x->n * sizeof(*p));
    struct pixel * pixels = malloc((size_t) (x->side * x->side) * sizeof(*pixels));
    if (!p || !pixels || !qkv_copy(&in, input)) mra_fail(&x->err, MRA_ERR_MEMORY, "out of memory");
    if (!x->err.code) attn_compute(&in, &input->attn, x->n_threads, x->step, 1, &got, &x->err);
    if (!x->err.code) attn_compute(&in, &floats, x->n_threads, 0, 1, &exact, &x->err);
    for (int h = 0; h < x->n_head && !x->err.code; h++) {
        struct inspect_head * to = &x->heads[input->layer * x->n_head + h];
        to->pixels = calloc((size_t) x->side, (size_t) x->side);
        if (!to->pixels) {
            mra_fail(&x->err, MRA_ERR_MEMORY, "out of memory");
            break;
        }
        look(x, &in, h, got.levels + (int64_t) h * x->n_sampled * x->n, pixels, p, to);
        to->error = error_of(&in, got.out, exact.out, h);
    }
    attn_result_free(&got);
    attn_result_free(&exact);
    qkv_free(&in);
    free(pixels);
    free(p);
}
