// ggml_mra_attn and its packed form with any settings, shapes, lengths and values: refused with a line, or computed.
#include "fuzz.h"
#include "ggml-mra.h"

#include "ggml.h"

#include <string.h>

static struct ggml_tensor * rows(
    struct ggml_context * ctx, struct choices * c, int d, int n, int n_head, int n_batch, enum fill kind) {
    struct ggml_tensor * t = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, d, n, n_head, n_batch);
    tensor_alloc(t);
    fill(t->data, (size_t) ggml_nelements(t), kind, take(c));
    if (take(c) % 4 || d == 0) return t;
    struct ggml_tensor * half = ggml_new_tensor_4d(ctx, GGML_TYPE_F16, d, n, n_head, n_batch);
    tensor_alloc(half);
    ggml_fp32_to_fp16_row(t->data, half->data, ggml_nelements(t));
    return half;
}

static struct mra_attn_params take_params(struct choices * c) {
    static const char * const frames[] = { "columns", "sorted", "exact", "mra2", "mra2s", "64,16,4,1", "16,4,1" };
    struct mra_attn_params p = mra_attn_params_default();
    const uint8_t how = take(c);
    mra_attn_params_parse(&p, frames[how % 7], NULL);
    p.budget = how & 128 ? take_float(c) : (float) (1 + take(c) % 64) / 64;
    p.n_threads = 1 + take(c) % 2;
    if (how & 64) p.type = MRA_ATTN_INT8;
    if (take(c) & 1) p.scale = take_float(c);
    for (uint8_t n = take(c) % 8; n > 0; n--) { // one of the others, arbitrary
        const int v = take_int(c);
        switch (take(c) % 10) {
            case 0: p.frame = (enum mra_frame) v; break;
            case 1: p.type = (enum mra_attn_type) v; break;
            case 2: p.counts[take(c) % MRA_MAX_LEVELS] = v; break;
            case 3: p.sizes[take(c) % MRA_MAX_LEVELS] = v; break;
            case 4: p.rule = (enum mra_rule) v; break;
            case 5: p.block = v; break;
            case 6: p.first_n = v; break;
            case 7: p.diag_n = v; break;
            case 8: p.finest_only = v & 1; break;
            default: p.n_threads = v > 64 ? v % 64 : v; break; // scratch memory is sized by it
        }
    }
    return p;
}

// numbers near 0..n, some of them ascending, some arbitrary
static struct ggml_tensor * numbers(struct ggml_context * ctx, struct choices * c, int ne0, int ne1, int n) {
    struct ggml_tensor * t = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, ne0, ne1);
    tensor_alloc(t);
    const bool ascending = take(c) % 4;
    for (int i = 0; i < ne0 * ne1; i++)
        ((int32_t *) t->data)[i] = ascending ? n * i / (ne0 * ne1 - 1 + (ne0 * ne1 == 1)) : take_int(c);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static const int widths[] = { 32, 64, 16, 8, 80, 33, 128, 1 };
    struct choices c = { data, size };
    struct ggml_context * ctx = graph_context();
    const struct mra_attn_params p = take_params(&c);
    const bool packed = take(&c) & 1;
    const int d = widths[take(&c) % 8], dv = take(&c) % 4 ? d : widths[take(&c) % 8];
    const int n_kv = 1 + take_up_to(&c, 1), n_head = n_kv * (1 + take_up_to(&c, 1));
    const int n_batch = packed ? 1 : 1 + take_up_to(&c, 1);
    const int n_k = 1 + take(&c) * (1 + take_up_to(&c, 1)), n_q = take(&c) % 4 ? n_k : 1 + take(&c);
    const enum fill kind = (enum fill)(take(&c) % N_FILL);
    struct ggml_tensor *q = rows(ctx, &c, d, n_q, n_head, n_batch, kind),
                       *k = rows(ctx, &c, take(&c) % 16 ? d : dv, n_k, n_kv, n_batch, kind),
                       *v = rows(ctx, &c, dv, n_k, take(&c) % 16 ? n_kv : n_head, n_batch, kind), *out;
    struct mra_error err = { 0 };
    if (packed) {
        const int max_len = take(&c) % 4 ? n_k : take_int(&c);
        out = ggml_mra_attn_packed(ctx, q, k, v, numbers(ctx, &c, 2 + take_up_to(&c, 3), 1, n_k), max_len, &p, &err);
    } else {
        struct ggml_tensor * lengths = take(&c) & 1 ? numbers(ctx, &c, n_batch, 1, n_k) : NULL;
        if (take(&c) % 8 == 0) lengths = numbers(ctx, &c, 2, n_batch, n_k);
        out = ggml_mra_attn(ctx, q, k, v, lengths, &p, &err);
    }
    require(out || (err.code != MRA_OK && err.msg[0] && !strchr(err.msg, '\n')));
    mra_attn_work(&p, n_q, n_k);
    if (out && ggml_nbytes(out) < 1 << 24) graph_compute(ctx, out, 1);
    graph_context_free(ctx);
    return 0;
}
