// The operators one by one, with any parameters, and lists of cells that are arbitrary numbers: refused with a line, or
// computed.
#include "fuzz.h"
#include "ggml-mra.h"

#include "ggml.h"

#include <string.h>

static struct ggml_context * ctx;
static struct choices c;
static struct mra_error err;

static struct ggml_tensor * tensor(enum ggml_type type, int a, int b, int h, int n_batch) {
    struct ggml_tensor * t = ggml_new_tensor_4d(ctx, type, a, b, h, n_batch);
    tensor_alloc(t);
    if (type == GGML_TYPE_I32)
        for (int64_t i = 0; i < ggml_nelements(t); i++) ((int32_t *) t->data)[i] = c.n ? take_int(&c) : (int) i % 7;
    else fill(t->data, ggml_nbytes(t) / 4, (enum fill)(take(&c) % N_FILL), take(&c));
    return t;
}

static struct ggml_tensor * maybe(enum ggml_type type, int a, int b, int h, int n_batch) {
    return take(&c) & 1 ? tensor(type, a, b, h, n_batch) : NULL;
}

static int size_or_any(int size) { return take(&c) % 8 ? size : take_int(&c); }

// what the levels' operators share
static struct ggml_tensor * of_level(int which) {
    static const int sizes[] = { 32, 16, 4, 64, 1 };
    const int n_head = 1 + take_up_to(&c, 1), dv = 4 * (1 + take_up_to(&c, 15)), s = sizes[take(&c) % 5];
    const int n = 1 + take(&c), n_b = (n + s - 1) / s, up = take(&c) % 3 ? 0 : s * (1 << take_up_to(&c, 2));
    const struct mra_level l = { size_or_any(n), size_or_any(n), size_or_any(s), size_or_any(s), up, up };
    const int n_up = up ? (n + up - 1) / up : 0, cap = take_up_to(&c, 30), n_child = up ? up / s : 1;
    struct ggml_tensor *lengths = maybe(GGML_TYPE_I32, 1, 1, 1, 1),
                       *parents = up ? tensor(GGML_TYPE_I32, n_up + 1 + cap, n_head, 1, 1) : NULL,
                       *scores = up ? tensor(GGML_TYPE_F32, n_child * n_child, cap ? cap : 1, n_head, 1)
                                    : tensor(GGML_TYPE_F32, n_b, n_b, n_head, 1);
    switch (which) {
        case 0:
            return ggml_mra_block_score(ctx, tensor(GGML_TYPE_F32, dv, n_b, n_head, 1),
                tensor(GGML_TYPE_F32, dv, n_b, 1, 1), maybe(GGML_TYPE_F32, dv, n_b, 1, 1), parents, lengths, l,
                take_float(&c), &err);
        case 1: {
            const int count = take_int(&c), first_n = size_or_any(0), diag_n = size_or_any(1);
            return ggml_mra_topk_blocks(ctx, scores, parents, lengths, l, (enum mra_rule) size_or_any(take(&c) % 3),
                count, first_n, diag_n, &err);
        }
        default:
            return ggml_mra_coarse_state(ctx, scores, parents,
                tensor(GGML_TYPE_I32, n_b + 1 + take_up_to(&c, 30), n_head, 1, 1), tensor(GGML_TYPE_F32, dv, n_b, 1, 1),
                up ? maybe(GGML_TYPE_F32, dv + 2, n_up, n_head, 1) : NULL, lengths, l, &err);
    }
}

static struct ggml_tensor * of_attention(int which) {
    static const int sizes[] = { 32, 16, 64, 1 };
    const int d = 8 * (1 + take_up_to(&c, 9)), n_head = 1 + take_up_to(&c, 1), n = 1 + take(&c);
    const int s = sizes[take(&c) % 4], n_b = (n + s - 1) / s, threads = size_or_any(1) % 65;
    struct ggml_tensor *q = tensor(GGML_TYPE_F32, d, n, n_head, 1), *k = tensor(GGML_TYPE_F32, d, n, 1, 1),
                       *v = tensor(GGML_TYPE_F32, d, n, 1, 1), *starts = tensor(GGML_TYPE_I32, 3, 1, 1, 1);
    switch (which) {
        case 0:
            return ggml_mra_block_sparse_attn(ctx, q, k, v,
                tensor(GGML_TYPE_I32, n_b + 1 + take_up_to(&c, 40), n_head, 1, 1),
                maybe(GGML_TYPE_F32, d + 2, n_b, n_head, 1), maybe(GGML_TYPE_I32, 1, 1, 1, 1), size_or_any(s),
                size_or_any(s), take_float(&c), threads, &err);
        case 1: {
            const struct mra_window_params p = {
                .window = take_int(&c), .max_bias = take_float(&c), .scale = take_float(&c), .n_threads = threads
            };
            return ggml_mra_window_attn(ctx, q, k, v, starts, size_or_any(n), &p, &err);
        }
        case 2:
            return ggml_mra_query_order(ctx, q, k, v, maybe(GGML_TYPE_I32, 1, 1, 1, 1), take_float(&c), threads, &err);
        default: {
            struct ggml_tensor * out = tensor(GGML_TYPE_F32, d, n_head, n, 1);
            if (take(&c) & 1)
                return ggml_mra_attn_error_packed(
                    ctx, q, k, v, out, starts, size_or_any(n), size_or_any(16), take_float(&c), threads, &err);
            return ggml_mra_attn_error(ctx, q, k, v, out, NULL, size_or_any(16), take_float(&c), threads, &err);
        }
    }
}

static struct ggml_tensor * of_layers(int which) {
    static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
        GGML_TYPE_Q5_1, GGML_TYPE_BF16 };
    const int k = 32 * (1 + take_up_to(&c, 7)), m = 1 + take_up_to(&c, 40), n = 1 + take(&c);
    switch (which) {
        case 0: {
            struct mra_dense w[3] = { 0 };
            const int n_w = size_or_any(1 + take_up_to(&c, 2)), n_made = n_w > 0 && n_w < 3 ? n_w : 3;
            for (int i = 0; i < n_made; i++)
                w[i] = (struct mra_dense) { tensor(types[take(&c) % 6], k, n, 1, 1), maybe(GGML_TYPE_F32, n, 1, 1, 1) };
            return ggml_mra_linear(ctx, tensor(GGML_TYPE_F32, k, m, 1, 1), w, n_w, take(&c) & 1,
                maybe(GGML_TYPE_F32, n_made * n, m, 1, 1), 1, &err);
        }
        case 1:
            return ggml_mra_norm(ctx, tensor(GGML_TYPE_F32, n, m, 1, 1), tensor(GGML_TYPE_F32, n, 1, 1, 1),
                maybe(GGML_TYPE_F32, n, 1, 1, 1), take_float(&c), &err);
        case 2:
            return ggml_mra_rms_norm(
                ctx, tensor(GGML_TYPE_F32, n, m, 1, 1), tensor(GGML_TYPE_F32, n, 1, 1, 1), take_float(&c), &err);
        case 3: return ggml_mra_glu(ctx, tensor(GGML_TYPE_F32, n, m, 1, 1), (enum mra_glu) size_or_any(2), &err);
        default: {
            const int n_rot = 2 * (1 + take_up_to(&c, 31)), d = take(&c) % 4 ? n_rot : size_or_any(64);
            struct ggml_tensor * table = ggml_mra_rope_table(
                ctx, tensor(GGML_TYPE_I32, m, 1, 1, 1), size_or_any(n_rot), take_float(&c), take_float(&c), &err);
            if (!table) return NULL;
            return ggml_mra_rope(
                ctx, tensor(GGML_TYPE_F32, 256, m, 1, 1), table, d, size_or_any(2), take(&c) & 1, &err);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    c = (struct choices) { data, size };
    err = (struct mra_error) { 0 };
    ctx = graph_context();
    const int which = take(&c) % 14;
    struct ggml_tensor * out;
    if (which == 13) {
        const int d = 1 + take(&c), n = 1 + take(&c), n_span = 1 + take(&c) % 4;
        out = ggml_mra_span_pool(ctx, tensor(GGML_TYPE_F32, d, n, 1, 1), tensor(GGML_TYPE_I32, 2, n_span, 1, 1),
            (enum mra_span_pool) size_or_any(take(&c) % 3), &err);
    } else if (which == 12) {
        const int d = 1 + take(&c), n = 1 + take(&c);
        out = ggml_mra_pool(ctx, tensor(take(&c) & 1 ? GGML_TYPE_F32 : GGML_TYPE_F16, d, n, 1, 1),
            maybe(GGML_TYPE_I32, 1, 1, 1, 1), take_int(&c), (enum mra_pool) size_or_any(take(&c) % 3), take(&c) & 1,
            &err);
    } else out = which < 3 ? of_level(which) : which < 7 ? of_attention(which - 3) : of_layers(which - 7);
    require(out || (err.code != MRA_OK && err.msg[0] && !strchr(err.msg, '\n')));
    if (out && ggml_nbytes(out) < 1 << 24) graph_compute(ctx, out, 1);
    graph_context_free(ctx);
    return 0;
}
