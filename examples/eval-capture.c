// mra-eval --capture: Q, K and V of the heads of all layers of one text as an array [3][heads][n][d], as mra-bench attn
// --qkv reads it. Of many heads only every k-th, so that the file stays below a limit.
#include "eval.h"
#include "common/npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 256 << 20 };

void eval_capture_begin(struct eval * e, const struct mra_model_info * info, const char * program) {
    const int n_all = info->n_layer * info->n_head;
    e->captured_n = (int) e->lengths[0];
    e->captured_d = info->n_embd / info->n_head;
    const size_t each = (size_t) 3 * (size_t) e->captured_n * (size_t) e->captured_d * sizeof(float);
    const size_t fit = MAX_BYTES / each ? MAX_BYTES / each : 1;
    e->every = (int) (((size_t) n_all + fit - 1) / fit);
    e->qkv = calloc((size_t) ((n_all + e->every - 1) / e->every), each);
    if (!e->qkv) fatal(program, "out of memory");
}

// until eval_capture_write they lie head by head: [heads][3][n][d]
void eval_capture(void * user, const struct mra_attention_input * in) {
    struct eval * e = user;
    struct qkv x;
    if (e->err.code) return;
    if (in->near) {
        e->n_near++;
        return;
    }
    if (!qkv_copy(&x, in)) {
        mra_fail(&e->err, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    const size_t n = (size_t) x.n, d = (size_t) in->d; // x has zeros behind d channels
    const float * const from[3] = { x.q, x.k, x.v };
    for (int h = 0; h < x.n_head; h++) {
        if ((x.layer * x.n_head + h) % e->every) continue;
        for (size_t c = 0; c < 3; c++)
            for (size_t i = 0; i < n; i++)
                memcpy(e->qkv + (((size_t) e->n_captured * 3 + c) * n + i) * d,
                    from[c] + ((size_t) h * n + i) * (size_t) x.d, d * sizeof(float));
        e->n_captured++;
    }
    qkv_free(&x);
}

void eval_capture_write(const struct eval * e, const char * program) {
    const size_t each = (size_t) e->captured_n * (size_t) e->captured_d;
    const int64_t shape[4] = { 3, e->n_captured, e->captured_n, e->captured_d };
    char head[NPY_HEADER];
    if (!e->n_captured) fatal(program, "no layer attends to all tokens; %s is not written", e->capture);
    npy_header_of(head, "<f4", shape, 4);
    FILE * f = fopen(e->capture, "wb");
    bool good = f && fwrite(head, NPY_HEADER, 1, f) == 1;
    for (size_t c = 0; c < 3; c++)
        for (size_t h = 0; h < (size_t) e->n_captured && good; h++)
            good = fwrite(e->qkv + (h * 3 + c) * each, sizeof(float), each, f) == each;
    if (f && fclose(f) != 0) good = false;
    if (!good) {
        const int error = errno;
        if (f) remove(e->capture);
        fatal(program, "cannot write to %s: %s", e->capture, strerror(error));
    }
    fprintf(stderr, "%s: Q, K, V of %d heads", e->capture, e->n_captured);
    if (e->every > 1) fprintf(stderr, ", every %d. of all", e->every);
    fprintf(stderr, ", %d tokens, head size %d: %.1f MB\n", e->captured_n, e->captured_d,
        (double) (3 * (size_t) e->n_captured * each * sizeof(float)) / 1e6);
}
