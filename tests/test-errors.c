// Wrong shapes and parameters: every builder returns NULL with a reason that names the culprit; nothing aborts. And
// what comes from data - lengths, starts - is cut to what the tensors hold.
#include "harness.h"

#include "../ggml-mra/src/node.h"

#include <sys/mman.h>
#include <unistd.h>

static struct graph g;
static struct ggml_tensor * t4(enum ggml_type type, int64_t a, int64_t b, int64_t c, int64_t d) {
    return ggml_new_tensor_4d(g.ctx, type, a, b, c, d);
}
static struct ggml_tensor * f4(int64_t a, int64_t b, int64_t c, int64_t d) { return t4(GGML_TYPE_F32, a, b, c, d); }

// builds must fail, and say `word`
#define REJECT(word, build) \
    do { \
        struct mra_error err = { 0 }; \
        struct ggml_tensor * r_ = (build); \
        CHECK(!r_ && err.code != MRA_OK && strstr(err.msg, word), "%s: gave %s '%s'", #build, r_ ? "a node" : "NULL,", \
            err.msg); \
    } while (0)

static void test_attn_shapes(void) {
    const struct mra_attn_params p = mra_attn_params_default();
    struct ggml_tensor *q = f4(64, 100, 4, 1), *k = f4(64, 90, 2, 1), *v = f4(64, 90, 2, 1);
    REJECT("q is NULL", ggml_mra_attn(g.ctx, NULL, k, v, NULL, &p, &err));
    REJECT("v is NULL", ggml_mra_attn(g.ctx, q, k, NULL, NULL, &p, &err));
    REJECT("q is f16", ggml_mra_attn(g.ctx, t4(GGML_TYPE_F16, 64, 100, 4, 1), k, v, NULL, &p, &err));
    REJECT("k is q8_0", ggml_mra_attn(g.ctx, q, t4(GGML_TYPE_Q8_0, 64, 90, 2, 1), v, NULL, &p, &err));
    REJECT("k is f32 but v is f16", ggml_mra_attn(g.ctx, q, k, t4(GGML_TYPE_F16, 64, 90, 2, 1), NULL, &p, &err));
    REJECT("head size 20", ggml_mra_attn(g.ctx, f4(20, 100, 4, 1), f4(20, 90, 2, 1), v, NULL, &p, &err));
    REJECT("head size 264", ggml_mra_attn(g.ctx, f4(264, 100, 4, 1), f4(264, 90, 2, 1), v, NULL, &p, &err));
    REJECT("head size of q is 64, of k 32", ggml_mra_attn(g.ctx, q, f4(32, 90, 2, 1), v, NULL, &p, &err));
    REJECT("k has 90 tokens, v 80", ggml_mra_attn(g.ctx, q, k, f4(64, 80, 2, 1), NULL, &p, &err));
    REJECT("k has 2 heads, v 1", ggml_mra_attn(g.ctx, q, k, f4(64, 90, 1, 1), NULL, &p, &err));
    REJECT("no multiple of 3", ggml_mra_attn(g.ctx, q, f4(64, 90, 3, 1), f4(64, 90, 3, 1), NULL, &p, &err));
    REJECT("batch", ggml_mra_attn(g.ctx, q, f4(64, 90, 2, 2), f4(64, 90, 2, 2), NULL, &p, &err));
    REJECT("lengths are f32", ggml_mra_attn(g.ctx, q, k, v, f4(1, 1, 1, 1), &p, &err));
    REJECT("lengths have shape [3", ggml_mra_attn(g.ctx, q, k, v, t4(GGML_TYPE_I32, 3, 1, 1, 1), &p, &err));
    REJECT("not contiguous",
        ggml_mra_attn(g.ctx, ggml_permute(g.ctx, f4(100, 64, 4, 1), 1, 0, 2, 3), k, v, NULL, &p, &err));
}

static void test_dense(void) {
    struct ggml_tensor *x = f4(64, 10, 1, 1), *w = f4(64, 20, 1, 1), *b = f4(20, 1, 1, 1);
    const struct mra_dense fine = { w, b }, four[4] = { fine, fine, fine, fine };
#define LINEAR(x, w, b, res) ggml_mra_linear(g.ctx, x, &(struct mra_dense) { w, b }, 1, false, res, 1, &err)
    struct mra_error err = { 0 };
    CHECK(ggml_mra_linear(g.ctx, x, &fine, 1, true, f4(20, 10, 1, 1), 1, &err), "a layer in order: %s", err.msg);
    REJECT("x is NULL", LINEAR(NULL, w, b, NULL));
    REJECT("weights are NULL", LINEAR(x, NULL, b, NULL));
    REJECT("x is f16", LINEAR(t4(GGML_TYPE_F16, 64, 10, 1, 1), w, b, NULL));
    REJECT("x: rows are not", LINEAR(ggml_transpose(g.ctx, f4(10, 64, 1, 1)), w, b, NULL));
    REJECT("x has rows of 64", LINEAR(x, f4(32, 20, 1, 1), b, NULL));
    REJECT("weights are i32", LINEAR(x, t4(GGML_TYPE_I32, 64, 20, 1, 1), b, NULL));
    REJECT("bias must be f32 [20]", LINEAR(x, w, f4(21, 1, 1, 1), NULL));
    REJECT("bias must be f32 [20]", LINEAR(x, w, t4(GGML_TYPE_F16, 20, 1, 1, 1), NULL));
    REJECT("multiple of 32", LINEAR(f4(40, 10, 1, 1), f4(40, 20, 1, 1), b, NULL));
    REJECT("residual", LINEAR(x, w, b, f4(19, 10, 1, 1)));
    REJECT("residual", LINEAR(x, w, b, f4(20, 11, 1, 1)));
    REJECT("0 weights", ggml_mra_linear(g.ctx, x, &fine, 0, false, NULL, 1, &err));
    REJECT("4 weights", ggml_mra_linear(g.ctx, x, four, 4, false, NULL, 1, &err));
    REJECT("NULL", ggml_mra_norm(g.ctx, x, NULL, b, 1e-5f, &err));
    REJECT("w must be f32 [64]", ggml_mra_norm(g.ctx, x, b, b, 1e-5f, &err));
    REJECT("x is f16",
        ggml_mra_norm(g.ctx, t4(GGML_TYPE_F16, 64, 10, 1, 1), f4(64, 1, 1, 1), f4(64, 1, 1, 1), 1e-5f, &err));
}

// gated activations, and rows of bytes: only another linear reads them
static void test_ffn(void) {
    struct ggml_tensor *x = f4(64, 10, 1, 1), *q = t4(GGML_TYPE_Q8_0, 64, 96, 1, 1), *f = f4(64, 96, 1, 1);
    const struct mra_dense w = { q, NULL }, down = { t4(GGML_TYPE_Q8_0, 96, 64, 1, 1), NULL };
    const struct mra_dense mixed[3] = { { f, NULL }, w, w },
                           sizes[2] = { w, { t4(GGML_TYPE_Q8_0, 64, 95, 1, 1), NULL } };
    const struct mra_ffn fine = { .up = { w }, .n_up = 1, .act = MRA_GLU_GELU, .down = down };
    const struct mra_kernels * in_use = mra_kernels_get();
    struct mra_error err = { 0 };
    struct mra_ffn p;
#define GLU(w, n_w, act) ggml_mra_linear_glu(g.ctx, x, w, n_w, act, 1, &err)
#define FFN(of, is)      (p = fine, p.of = is, ggml_mra_ffn(g.ctx, x, &p, NULL, 1, &err))
    CHECK(GLU(&w, 1, MRA_GLU_SILU), "a gate in order: %s", err.msg);
    REJECT("activation 4", GLU(&w, 1, 4));
    REJECT("a gate of f32 for weights of q8_0", GLU(mixed, 2, MRA_GLU_SILU));
    REJECT("3 weights of a gated activation", GLU(mixed, 3, MRA_GLU_SILU));
    REJECT("no two halves", GLU(sizes, 2, MRA_GLU_SILU));
    REJECT("no two halves", GLU(sizes + 1, 1, MRA_GLU_SILU));
    REJECT("x is NULL", ggml_mra_linear_glu(g.ctx, NULL, &w, 1, MRA_GLU_SILU, 1, &err));
    REJECT("weights are NULL", ggml_mra_ffn(g.ctx, x, NULL, NULL, 1, &err));
    REJECT("weights are NULL", FFN(down.w, NULL));
    REJECT("2 weights of a feed-forward", FFN(n_up, 2));
    REJECT("without a gate", FFN(act, MRA_GLU_RELU));
    REJECT("activation 7", FFN(act, 7));
    REJECT("up has 48 columns, down 96 rows", FFN(gated, true));
    REJECT("x is NULL", ggml_mra_ffn(g.ctx, NULL, &fine, NULL, 1, &err));
    struct mra_kernels bytes = mra_kernels_ref;
    bytes.dense.bytes = true;
    mra_kernels_set(&bytes);
    struct ggml_tensor *y = FFN(n_up, 1), *rows = y ? y->src[0] : NULL;
    mra_kernels_set(in_use);
    CHECK(rows && rows->type == GGML_TYPE_I8, "rows of bytes: %s", err.msg);
    const struct mra_dense floats = { f4(96, 64, 1, 1), NULL }, other = { t4(GGML_TYPE_Q8_0, 120, 64, 1, 1), NULL };
    CHECK(ggml_mra_linear(g.ctx, rows, &down, 1, false, NULL, 1, &err), "rows of bytes again: %s", err.msg);
    REJECT("x are rows of bytes, weights are floats", ggml_mra_linear(g.ctx, rows, &floats, 1, false, NULL, 1, &err));
    REJECT("x has rows of 96", ggml_mra_linear(g.ctx, rows, &other, 1, false, NULL, 1, &err));
    struct ggml_tensor * view = ggml_view_2d(g.ctx, rows, rows->ne[0], 5, rows->nb[1], 0);
    REJECT("x is i8, not f32", ggml_mra_linear(g.ctx, view, &down, 1, false, NULL, 1, &err));
    REJECT("x is i8, not f32", ggml_mra_glu(g.ctx, rows, MRA_GLU_SILU, &err));
    REJECT("x is i8, not f32", ggml_mra_norm(g.ctx, rows, f4(120, 1, 1, 1), NULL, 1e-5f, &err));
}

static void test_layers(void) {
    struct ggml_tensor *x = f4(64, 10, 1, 1), *pos = t4(GGML_TYPE_I32, 10, 1, 1, 1), *table = f4(16, 10, 1, 1);
    struct mra_error err = { 0 };
    CHECK(ggml_mra_rope(g.ctx, x, table, 16, 4, false, &err), "four heads in order: %s", err.msg);
    REJECT("activation 4", ggml_mra_glu(g.ctx, x, 4, &err));
    REJECT("no halves", ggml_mra_glu(g.ctx, f4(63, 10, 1, 1), MRA_GLU_SILU, &err));
    REJECT("x is NULL", ggml_mra_glu(g.ctx, NULL, MRA_GLU_SILU, &err));
    REJECT("context is NULL", ggml_mra_glu(NULL, x, MRA_GLU_SILU, &err));
    REJECT("NULL", ggml_mra_rms_norm(g.ctx, x, NULL, 1e-5f, &err));
    REJECT("positions are NULL", ggml_mra_rope_table(g.ctx, NULL, 16, 1e4f, 1, &err));
    REJECT("positions must be", ggml_mra_rope_table(g.ctx, x, 16, 1e4f, 1, &err));
    REJECT("15 channels", ggml_mra_rope_table(g.ctx, pos, 15, 1e4f, 1, &err));
    REJECT("base", ggml_mra_rope_table(g.ctx, pos, 16, 0, 1, &err));
    REJECT("base", ggml_mra_rope_table(g.ctx, pos, 16, 1e4f, NAN, &err));
    REJECT("NULL", ggml_mra_rope(g.ctx, x, NULL, 16, 4, false, &err));
    REJECT("5 heads of 16", ggml_mra_rope(g.ctx, x, table, 16, 5, false, &err));
    REJECT("turns 16 of 8", ggml_mra_rope(g.ctx, x, table, 8, 4, false, &err));
    REJECT("table has shape", ggml_mra_rope(g.ctx, x, f4(16, 9, 1, 1), 16, 4, false, &err));
    REJECT("context is NULL", ggml_mra_rope(NULL, x, table, 16, 4, false, &err));
    struct ggml_tensor *h = f4(64, 90, 2, 1), *starts = t4(GGML_TYPE_I32, 3, 1, 1, 1);
    struct mra_window_params p = { .window = 8 };
    CHECK(ggml_mra_window_attn(g.ctx, h, h, h, starts, 50, &p, &err), "a window in order: %s", err.msg);
    REJECT("settings are NULL", ggml_mra_window_attn(g.ctx, h, h, h, starts, 50, NULL, &err));
    REJECT("q is NULL", ggml_mra_window_attn(g.ctx, NULL, h, h, starts, 50, &p, &err));
    REJECT("starts", ggml_mra_window_attn(g.ctx, h, h, h, NULL, 50, &p, &err));
    REJECT("max_len", ggml_mra_window_attn(g.ctx, h, h, h, starts, 91, &p, &err));
    p.window = -2;
    REJECT("window -2", ggml_mra_window_attn(g.ctx, h, h, h, starts, 50, &p, &err));
    p = (struct mra_window_params) { .max_bias = -1 };
    REJECT("max_bias", ggml_mra_window_attn(g.ctx, h, h, h, starts, 50, &p, &err));
    p = (struct mra_window_params) { .scale = INFINITY };
    REJECT("scale", ggml_mra_window_attn(g.ctx, h, h, h, starts, 50, &p, &err));
}

static void test_attn_params(void) {
    struct ggml_tensor *q = f4(64, 90, 2, 1), *k = f4(64, 90, 2, 1), *v = f4(64, 90, 2, 1);
    struct mra_attn_params p;
#define WITH(base, change, word) \
    do { \
        p = base; \
        change; \
        REJECT(word, ggml_mra_attn(g.ctx, q, k, v, NULL, &p, &err)); \
        CHECK(mra_attn_work(&p, 90, 90) < 0, "work of bad settings: " #change); \
    } while (0)
    WITH(mra_attn_params_default(), p.budget = 0, "budget");
    WITH(mra_attn_params_default(), p.budget = 1.5f, "budget");
    WITH(mra_attn_params_default(), p.budget = NAN, "budget");
    WITH(mra_attn_params_default(), p.scale = -1, "scale");
    WITH(mra_attn_params_default(), p.scale = INFINITY, "scale");
    WITH(mra_attn_params_default(), p.block = 8, "block 8");
    WITH(mra_attn_params_default(), p.counts[0] = 4, "two counts");
    WITH(mra_attn_params_default(), p.first_n = -1, "first_n");
    WITH(mra_attn_params_default(), p.diag_n = 70000, "diag_n");
    WITH(mra_attn_params_default(), p.n_threads = -2, "n_threads");
    WITH(mra_attn_params_default(), p.frame = 9, "frame 9");
    WITH(mra_attn_params_default(), p.rule = 7, "rule 7");
    WITH(mra_attn_params_default(), p.type = 7, "type 7");
    WITH(mra_attn_params_mra2(.1f), p.type = MRA_ATTN_INT8, "int8: frames are exact and columns");
    WITH(mra_attn_params_mra2(.1f), p.sizes[1] = 0, "the last one 1");
    WITH(mra_attn_params_mra2(.1f), p.sizes[0] = 256, "256");
    WITH(mra_attn_params_mra2(.1f), (p.sizes[0] = 16, p.sizes[1] = 5, p.sizes[2] = 1), "divisor");
    WITH(mra_attn_params_mra2(.1f), (p.sizes[0] = 16, p.sizes[1] = 4, p.sizes[2] = 1, p.counts[0] = 3),
        "count for level 1");
    static const char * const bad[] = { "", "colums", "16,4", "16,,1", "4,16,1", "16,4,1,", "999,1", "-4,1",
        "64,32,16,8,4,1", "1" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct mra_error err = { 0 };
        p = mra_attn_params_default();
        CHECK(mra_attn_params_parse(&p, bad[i], &err) != MRA_OK && err.msg[0], "frame '%s' was taken", bad[i]);
        CHECK(p.frame == MRA_FRAME_COLUMNS, "frame '%s' changed the settings", bad[i]);
    }
}

static void test_ops(void) {
    const struct mra_level l = { 90, 90, 32, 32, 0, 0 }, child = { 90, 90, 8, 8, 32, 32 };
    struct ggml_tensor *q = f4(64, 3, 2, 1), *s = f4(3, 3, 2, 1), *list = t4(GGML_TYPE_I32, 3 + 1 + 5, 2, 1, 1),
                       *v = f4(64, 3, 2, 1);
    REJECT("x is NULL", ggml_mra_pool(g.ctx, NULL, NULL, 32, MRA_POOL_MEAN, true, &err));
    REJECT("block 0", ggml_mra_pool(g.ctx, q, NULL, 0, MRA_POOL_MEAN, true, &err));
    REJECT("block 999", ggml_mra_pool(g.ctx, q, NULL, 999, MRA_POOL_MEAN, true, &err));
    REJECT("pooling 5", ggml_mra_pool(g.ctx, q, NULL, 32, 5, true, &err));
    REJECT("x is i32", ggml_mra_pool(g.ctx, list, NULL, 32, MRA_POOL_MEAN, true, &err));
    struct ggml_tensor * spans = t4(GGML_TYPE_I32, 2, 3, 1, 1);
    REJECT("x or the spans are NULL", ggml_mra_span_pool(g.ctx, NULL, spans, MRA_SPAN_MEAN, &err));
    REJECT("x or the spans are NULL", ggml_mra_span_pool(g.ctx, f4(64, 3, 1, 1), NULL, MRA_SPAN_MEAN, &err));
    REJECT("pooling 7", ggml_mra_span_pool(g.ctx, f4(64, 3, 1, 1), spans, (enum mra_span_pool) 7, &err));
    REJECT("x must be f32 [d, n]", ggml_mra_span_pool(g.ctx, q, spans, MRA_SPAN_MEAN, &err));
    REJECT("x is i32", ggml_mra_span_pool(g.ctx, list, spans, MRA_SPAN_MEAN, &err));
    REJECT("spans must be", ggml_mra_span_pool(g.ctx, f4(64, 3, 1, 1), f4(2, 3, 1, 1), MRA_SPAN_MEAN, &err));
    REJECT("spans must be", ggml_mra_span_pool(g.ctx, f4(64, 3, 1, 1), list, MRA_SPAN_MEAN, &err));
    REJECT("context is NULL", ggml_mra_span_pool(NULL, f4(64, 3, 1, 1), spans, MRA_SPAN_MEAN, &err));
    REJECT("q has shape", ggml_mra_block_score(g.ctx, f4(64, 4, 2, 1), q, NULL, NULL, NULL, l, 1, &err));
    REJECT("k has shape", ggml_mra_block_score(g.ctx, q, f4(32, 3, 2, 1), NULL, NULL, NULL, l, 1, &err));
    REJECT("scale", ggml_mra_block_score(g.ctx, q, q, NULL, NULL, NULL, l, NAN, &err));
    REJECT("k_max differ", ggml_mra_block_score(g.ctx, q, q, f4(64, 3, 1, 1), NULL, NULL, l, 1, &err));
    REJECT("parents", ggml_mra_block_score(g.ctx, q, q, NULL, list, NULL, l, 1, &err));
    REJECT("cell list",
        ggml_mra_block_score(
            g.ctx, f4(64, 12, 2, 1), f4(64, 12, 2, 1), NULL, t4(GGML_TYPE_I32, 3, 2, 1, 1), NULL, child, 1, &err));
    REJECT("do not tile",
        ggml_mra_block_score(g.ctx, q, q, NULL, NULL, NULL, ((struct mra_level) { 90, 90, 32, 32, 33, 64 }), 1, &err));
    REJECT("scores has shape", ggml_mra_topk_blocks(g.ctx, f4(4, 3, 2, 1), NULL, NULL, l, MRA_RULE_MU, 2, 0, 0, &err));
    REJECT("negative", ggml_mra_topk_blocks(g.ctx, s, NULL, NULL, l, MRA_RULE_MU, -2, 0, 0, &err));
    REJECT("rule 3", ggml_mra_topk_blocks(g.ctx, s, NULL, NULL, l, 3, 2, 0, 0, &err));
    REJECT("priors", ggml_mra_topk_blocks(g.ctx, s, NULL, NULL, l, MRA_RULE_MU, 2, -1, 0, &err));
    REJECT("not in 1..",
        ggml_mra_topk_blocks(
            g.ctx, s, NULL, NULL, ((struct mra_level) { 90, 90, 0, 32, 0, 0 }), MRA_RULE_MU, 2, 0, 0, &err));
    REJECT("refined", ggml_mra_coarse_state(g.ctx, s, NULL, NULL, v, NULL, NULL, l, &err));
    REJECT("v has shape", ggml_mra_coarse_state(g.ctx, s, NULL, list, f4(64, 9, 2, 1), NULL, NULL, l, &err));
    REJECT("inherits", ggml_mra_coarse_state(g.ctx, s, NULL, list, v, f4(66, 3, 2, 1), NULL, l, &err));
    REJECT("v is NULL", ggml_mra_query_order(g.ctx, q, q, NULL, NULL, 0, 0, &err));
    REJECT("head size of q", ggml_mra_query_order(g.ctx, q, f4(32, 3, 2, 1), v, NULL, 0, 0, &err));
    REJECT("lengths", ggml_mra_query_order(g.ctx, q, q, v, list, 0, 0, &err));
    REJECT("scale", ggml_mra_query_order(g.ctx, q, q, v, NULL, NAN, 0, &err));
    REJECT("n_threads", ggml_mra_query_order(g.ctx, q, q, v, NULL, 0, -1, &err));
    REJECT("cells is NULL",
        ggml_mra_block_sparse_attn(
            g.ctx, f4(64, 90, 2, 1), f4(64, 90, 2, 1), f4(64, 90, 2, 1), NULL, NULL, NULL, 32, 32, 0, 0, &err));
    REJECT("state has shape",
        ggml_mra_block_sparse_attn(g.ctx, f4(64, 90, 2, 1), f4(64, 90, 2, 1), f4(64, 90, 2, 1), list, f4(64, 3, 2, 1),
            NULL, 32, 32, 0, 0, &err));
    REJECT("not in 1..",
        ggml_mra_block_sparse_attn(
            g.ctx, f4(64, 90, 2, 1), f4(64, 90, 2, 1), f4(64, 90, 2, 1), list, NULL, NULL, 0, 32, 0, 0, &err));
    CHECK(!ggml_mra_is_node(q) && !ggml_mra_op_name(q), "an input is no node of ours");
}

static void test_packed(void) {
    struct mra_attn_params p = mra_attn_params_default();
    struct ggml_tensor *x = f4(64, 90, 2, 1), *st = t4(GGML_TYPE_I32, 4, 1, 1, 1);
    REJECT("starts", ggml_mra_attn_packed(g.ctx, x, x, x, NULL, 50, &p, &err));
    REJECT("starts", ggml_mra_attn_packed(g.ctx, x, x, x, t4(GGML_TYPE_I32, 1, 1, 1, 1), 50, &p, &err));
    REJECT("max_len", ggml_mra_attn_packed(g.ctx, x, x, x, st, 0, &p, &err));
    REJECT("max_len", ggml_mra_attn_packed(g.ctx, x, x, x, st, 91, &p, &err));
    REJECT(
        "batch", ggml_mra_attn_packed(g.ctx, f4(64, 90, 2, 2), f4(64, 90, 2, 2), f4(64, 90, 2, 2), st, 50, &p, &err));
    p = mra_attn_params_mra2(.1f);
    REJECT("exact, columns and sorted", ggml_mra_attn_packed(g.ctx, x, x, x, st, 50, &p, &err));
}

// lengths and starts that no tensor can have: no crash, no NaN
static void test_wild_data(void) {
    static const int32_t wild[4][3] = { { -5, 1000000, 7 }, { INT32_MIN, INT32_MAX, 0 }, { 3, 2, 1 }, { 40, 40, -1 } };
    static const char * const frames[] = { "exact", "columns", "sorted", "mra2", "16,4,1" };
    float * data = data_new(DATA_NORMAL, 3 * 70, 32, 5);
    for (int f = 0; f < 5; f++)
        for (int w = 0; w < 4; w++) {
            struct graph r = graph_new();
            struct mra_attn_params p = mra_attn_params_default();
            struct mra_error err = { 0 };
            mra_attn_params_parse(&p, frames[f], &err);
            if (p.frame == MRA_FRAME_SORTED) p.counts[0] = p.counts[1] = 2; // by the budget it would be exact
            struct ggml_tensor * x = graph_heads(&r, GGML_TYPE_F32, 32, 70, 1, 3, data, 0);
            float * a = graph_run(
                &r, ggml_mra_attn(r.ctx, x, x, x, graph_input(&r, GGML_TYPE_I32, 3, 1, 1, 1, wild[w]), &p, &err), 2);
            CHECK(a && max_error(a, a, 3 * 70 * 32) == 0, "%s with lengths %d %d %d", frames[f], wild[w][0], wild[w][1],
                wild[w][2]);
            free(a);
            if (f < 3) {
                struct ggml_tensor * y = graph_heads(&r, GGML_TYPE_F32, 32, 70, 1, 1, data, 0);
                struct ggml_tensor * o = ggml_mra_attn_packed(
                    r.ctx, y, y, y, graph_input(&r, GGML_TYPE_I32, 3, 1, 1, 1, wild[w]), 30, &p, &err);
                a = graph_run(&r, o, 2); // rows of no sequence are left as they were: only that it ends matters
                CHECK(a, "packed %s", frames[f]);
                free(a);
            }
            graph_free(&r);
        }
    free(data);
}

// pointers that must not be NULL
static void test_null(void) {
    struct mra_attn_params p = mra_attn_params_default();
    const struct mra_level l = { 90, 90, 32, 32, 0, 0 };
    struct ggml_tensor *x = f4(64, 90, 2, 1), *means = f4(64, 3, 2, 1), *s = f4(3, 3, 2, 1), *w = f4(64, 1, 1, 1),
                       *list = t4(GGML_TYPE_I32, 3 + 1 + 5, 2, 1, 1), *starts = t4(GGML_TYPE_I32, 2, 1, 1, 1);
    const struct mra_dense dense = { f4(64, 20, 1, 1), NULL };
    struct mra_error err = { 0 };
    REJECT("settings are NULL", ggml_mra_attn(g.ctx, x, x, x, NULL, NULL, &err));
    REJECT("settings are NULL", ggml_mra_attn_packed(g.ctx, x, x, x, starts, 50, NULL, &err));
    REJECT("context is NULL", ggml_mra_attn(NULL, x, x, x, NULL, &p, &err));
    REJECT("context is NULL", ggml_mra_attn_packed(NULL, x, x, x, starts, 50, &p, &err));
    p = mra_attn_params_mra2(.2f);
    REJECT("context is NULL", ggml_mra_attn(NULL, x, x, x, NULL, &p, &err));
    REJECT("context is NULL", ggml_mra_pool(NULL, x, NULL, 32, MRA_POOL_MEAN, true, &err));
    REJECT("context is NULL", ggml_mra_block_score(NULL, means, means, NULL, NULL, NULL, l, 1, &err));
    REJECT("context is NULL", ggml_mra_topk_blocks(NULL, s, NULL, NULL, l, MRA_RULE_MU, 2, 0, 0, &err));
    REJECT("context is NULL", ggml_mra_coarse_state(NULL, s, NULL, list, means, NULL, NULL, l, &err));
    REJECT("context is NULL", ggml_mra_block_sparse_attn(NULL, x, x, x, list, NULL, NULL, 32, 32, 0, 0, &err));
    REJECT("context is NULL", ggml_mra_query_order(NULL, x, x, x, NULL, 0, 0, &err));
    REJECT("context is NULL", ggml_mra_linear(NULL, x, &dense, 1, false, NULL, 1, &err));
    REJECT("weights are NULL", ggml_mra_linear(g.ctx, x, NULL, 1, false, NULL, 1, &err));
    REJECT("context is NULL", ggml_mra_norm(NULL, x, w, w, 1e-5f, &err));
    CHECK(!ggml_mra_pool(g.ctx, NULL, NULL, 32, MRA_POOL_MEAN, true, NULL), "x NULL and err NULL");
    p = mra_attn_params_default();
    CHECK(mra_attn_params_parse(&p, NULL, &err) == MRA_ERR_ARG, "frame NULL");
    CHECK(mra_attn_params_parse(NULL, "exact", &err) == MRA_ERR_ARG, "settings NULL");
    CHECK(mra_attn_work(NULL, 90, 90) < 0, "work of NULL");
    CHECK(!ggml_mra_is_node(NULL) && !ggml_mra_op_name(NULL), "NULL is no node of ours");
}

// A kind that this library does not know: no node is made, and one whose parameters were overwritten gives NaN.
static void test_unknown_kind(void) {
    static const uint8_t kinds[] = { MRA_KIND_NONE, MRA_KIND_COUNT, 255 };
    float * data = data_new(DATA_NORMAL, 40, 32, 5);
    for (size_t i = 0; i < sizeof(kinds); i++) {
        struct ggml_tensor * x = f4(32, 40, 1, 1);
        const struct mra_sources src = { .fixed = { x } };
        REJECT("unknown kind",
            mra_node_new(g.ctx, GGML_TYPE_F32, x->ne, &src, (struct mra_node) { .kind = kinds[i] }, &err));
        struct graph r = graph_new();
        struct mra_error err = { 0 };
        struct ggml_tensor * o = ggml_mra_pool(
            r.ctx, graph_heads(&r, GGML_TYPE_F32, 32, 40, 1, 1, data, 0), NULL, 4, MRA_POOL_MEAN, true, &err);
        struct mra_node p = mra_node_get(o);
        p.kind = kinds[i];
        mra_node_set(o, p);
        float * a = graph_run(&r, o, 2);
        bool all = a != NULL;
        for (int j = 0; all && j < 10 * 32; j++) all = isnan(a[j]);
        CHECK(all, "kind %d: a result that looks like one", kinds[i]);
        free(a);
        graph_free(&r);
    }
    free(data);
}

// counts as large as the tensors may be: sizes are computed without overflow
static void test_huge_counts(void) {
    enum { N = (1 << 30) - 16 }; // 4*(N + 16) is 2^32
    struct mra_attn_params p = mra_attn_params_default();
    struct mra_error err = { 0 };
    p.block = 16;
    p.counts[0] = p.counts[1] = INT32_MAX;
    struct ggml_tensor *q = f4(8, 64, 1, 1), *k = f4(8, N, 1, 1);
    struct ggml_tensor * o = ggml_mra_attn(g.ctx, q, k, k, NULL, &p, &err);
    CHECK(o, "huge counts: %s", err.msg);
    // 4 bytes for each logit of the smallest group, and for K and V what their statistics take
    CHECK(o && o->src[3]->ne[0] >= (int64_t) 8 * 4 * N, "huge counts: %lld bytes",
        o ? (long long) o->src[3]->ne[0] : 0LL);
    CHECK(mra_attn_work(&p, N, N) == 1, "work of huge counts");
}

// Cell lists are data: whatever they hold, nothing outside the tensors is read or written.
enum { LIST_N = 70, LIST_ROWS = 5, LIST_CAP = 9, LIST_WORDS = LIST_ROWS + 1 + LIST_CAP };
static const int32_t hostile[][LIST_WORDS] = {
    { 0, 1000000000, 1000000000, 3, 4, 5, 0, 1, 2, 3, 4, 0, 1, 2, 3 }, // offsets far behind the end
    { INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX, -1, 9, 0, 1, 2, 3, 4, 0, 1, 2, 3 },
    { 9, 0, 9, 0, 9, 0, 0, 1, 2, 3, 4, 0, 1, 2, 3 }, // every other row has all, or less than none
    { 0, 9, 9, 9, 9, 9, 0, 1, 1, 0, 4, 4, 2, 1, 0 }, // columns that do not ascend
    { 0, 2, 4, 6, 8, 9, 0, 100000000, -100000000, 1, INT32_MAX, INT32_MIN, -1, 5, 4 },
    { 0, 9, 0, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, // more cells than a row can have
};

static void test_hostile_lists(void) {
    const struct mra_level l = { LIST_N, LIST_N, 16, 16, 0, 0 }, child = { LIST_N, LIST_N, 4, 4, 16, 16 };
    float * data = data_new(DATA_NORMAL, LIST_N, 32, 5);
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++)
        for (int rule = 0; rule < 3; rule++) {
            struct graph r = graph_new();
            struct mra_error err = { 0 };
            struct ggml_tensor *x = graph_heads(&r, GGML_TYPE_F32, 32, LIST_N, 1, 1, data, 0),
                               *list = graph_input(&r, GGML_TYPE_I32, LIST_WORDS, 1, 1, 1, hostile[i]);
            float * a = graph_run(
                &r, ggml_mra_block_sparse_attn(r.ctx, x, x, x, list, NULL, NULL, 16, 16, 0, 2, &err), 2);
            CHECK(a && max_error(a, a, LIST_N * 32) == 0, "block_sparse_attn over list %zu: %s", i, err.msg);
            free(a);
            struct ggml_tensor *mean = ggml_mra_pool(r.ctx, x, NULL, 16, MRA_POOL_MEAN, true, &err),
                               *fine = ggml_mra_pool(r.ctx, x, NULL, 4, MRA_POOL_MEAN, true, &err);
            struct ggml_tensor * s = ggml_mra_block_score(r.ctx, mean, mean, NULL, NULL, NULL, l, 1, &err);
            a = graph_run(&r, ggml_mra_coarse_state(r.ctx, s, NULL, list, mean, NULL, NULL, l, &err), 2);
            CHECK(a, "coarse_state over list %zu: %s", i, err.msg);
            free(a);
            s = ggml_mra_block_score(r.ctx, fine, fine, NULL, list, NULL, child, 1, &err);
            struct ggml_tensor * t = ggml_mra_topk_blocks(r.ctx, s, list, NULL, child, rule, 7, 0, 0, &err);
            int32_t * ids = graph_run(&r, t, 2);
            CHECK(ids, "topk_blocks over list %zu: %s", i, err.msg);
            for (int row = 0; ids && row < 18; row++)
                CHECK(ids[row] >= 0 && ids[row] <= ids[row + 1] && ids[row + 1] <= t->ne[0] - 19,
                    "topk_blocks over list %zu: row %d is [%d, %d)", i, row, ids[row], ids[row + 1]);
            free(ids);
            graph_free(&r);
        }
    free(data);
}

// memory for t that ends where no memory is; returns what to unmap, *n bytes of it
static void * guarded(struct ggml_tensor * t, size_t * n) {
    const size_t page = (size_t) sysconf(_SC_PAGESIZE), bytes = MRA_ROUND_UP(ggml_nbytes(t), page);
    char * mem = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED || mprotect(mem + bytes, page, PROT_NONE)) exit(2);
    t->data = mem + bytes - ggml_nbytes(t);
    *n = bytes + page;
    return mem;
}

// A row of the parents names cell 0 again and again: more sort keys than a row of cells can have.
static void test_full_keys(void) {
    enum { CAP = 300 };
    const struct mra_level child = { LIST_N, LIST_N, 4, 4, 16, 16 };
    for (int rule = 0; rule < 3; rule++) {
        struct mra_error err = { 0 };
        struct ggml_tensor *s = f4(16, CAP, 1, 1), *list = t4(GGML_TYPE_I32, LIST_ROWS + 1 + CAP, 1, 1, 1);
        struct ggml_tensor * t = ggml_mra_topk_blocks(g.ctx, s, list, NULL, child, rule, 7, 0, 0, &err);
        CHECK(t, "topk_blocks: %s", err.msg);
        if (!t) return;
        struct ggml_tensor * all[] = { s, list, t->view_src };
        void * mem[3];
        size_t n[3];
        for (int i = 0; i < 3; i++) mem[i] = guarded(all[i], &n[i]);
        for (int x = 0; x < LIST_ROWS; x++) ((int32_t *) list->data)[x + 1] = x % 2 ? 0 : CAP;
        mra_compute(t->view_src, 0, 1, NULL);
        const int32_t * offsets = t->view_src->data;
        CHECK(offsets[18] > 0 && offsets[18] <= t->ne[0] - 19, "topk_blocks by rule %d: %d cells", rule, offsets[18]);
        for (int i = 0; i < 3; i++) {
            munmap(mem[i], n[i]);
            all[i]->data = NULL;
        }
    }
}

// what stands before the first wrong column of a row counts
static void test_list_prefix(void) {
    static const int32_t lists[2][LIST_WORDS] = {
        { 0, 3, 6, 7, 8, 9, 1, 3, 1000, 0, 4, 2, 4, 0, -1 },
        { 0, 2, 4, 5, 6, 6, 1, 3, 0, 4, 4, 0 },
    };
    float *data = data_new(DATA_NORMAL, LIST_N, 32, 5), *a[2];
    for (int i = 0; i < 2; i++) {
        struct graph r = graph_new();
        struct ggml_tensor *x = graph_heads(&r, GGML_TYPE_F32, 32, LIST_N, 1, 1, data, 0),
                           *list = graph_input(&r, GGML_TYPE_I32, LIST_WORDS, 1, 1, 1, lists[i]);
        a[i] = graph_run(&r, ggml_mra_block_sparse_attn(r.ctx, x, x, x, list, NULL, NULL, 16, 16, 0, 2, NULL), 2);
        graph_free(&r);
    }
    CHECK(a[0] && a[1] && memcmp(a[0], a[1], LIST_N * 32 * sizeof(float)) == 0, "a list's wrong columns count");
    free(a[0]);
    free(a[1]);
    free(data);
}

// a context without room is an error too
static void test_full_context(void) {
    struct ggml_context * small = ggml_init(
        (struct ggml_init_params) { .mem_size = ggml_tensor_overhead() * 4, .no_alloc = true });
    struct ggml_tensor * x = ggml_new_tensor_3d(small, GGML_TYPE_F32, 64, 90, 2);
    const struct mra_attn_params p = mra_attn_params_mra2(.1f);
    REJECT("full", ggml_mra_attn(small, x, x, x, NULL, &p, &err));
    ggml_free(small);
}

// names from a file in a message: one line, and nothing that a terminal obeys
static void test_message(void) {
    struct mra_error err;
    mra_fail(&err, MRA_ERR_FORMAT, "key '%s'", "a\n\x1b[2J\x7f\xc2\x9b\xc3\xa9\xc2\xa0");
    CHECK(strcmp(err.msg, "key 'a??[2J???\xc3\xa9\xc2\xa0'") == 0, "message '%s'", err.msg);
}

int main(void) {
    g = graph_new();
    ggml_free(g.ctx);
    g.ctx = ggml_init((struct ggml_init_params) { .mem_size = ggml_tensor_overhead() * 4096, .no_alloc = true });
    test_attn_shapes();
    test_dense();
    test_ffn();
    test_layers();
    test_attn_params();
    test_ops();
    test_packed();
    test_wild_data();
    test_null();
    test_unknown_kind();
    test_huge_counts();
    test_hostile_lists();
    test_full_keys();
    test_list_prefix();
    test_full_context();
    test_message();
    graph_free(&g);
    return summary("test-errors");
}
