// The reference table: the specification of every kernel, and the fallback.
#include "common.h"

static double half_value(uint16_t h) {
    const int e = h >> 10 & 31, m = h & 1023;
    const double mag = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -mag : mag;
}

double mra_ref_value(struct mra_rows x, int64_t row, int c) {
    const char * p = x.data + row * (int64_t) x.stride;
    return x.type == MRA_F16 ? half_value(((const uint16_t *) p)[c]) : ((const float *) p)[c];
}

double mra_ref_dot(struct mra_rows a, int64_t i, struct mra_rows b, int64_t j, int d) {
    double s = 0;
    for (int c = 0; c < d; c++) s += mra_ref_value(a, i, c) * mra_ref_value(b, j, c);
    return s;
}

// the reference reads K and V where they lie
static void no_pack(const struct mra_attn_head * a, int j0, int j1, bool copy, bool columns) {
    (void) a;
    (void) j0;
    (void) j1;
    (void) copy;
    (void) columns;
}

const struct mra_kernels mra_kernels_ref = {
    .name = "ref",
    .pool = mra_ref_pool,
    .block_score = mra_ref_block_score,
    .topk_blocks = mra_ref_topk_blocks,
    .coarse_state = mra_ref_coarse_state,
    .pack = no_pack,
    .block_sparse_attn = mra_ref_block_sparse_attn,
    .query_order = mra_ref_query_order,
    .key_bias = mra_ref_key_bias,
    .columns = mra_ref_columns,
    .dense = { .linear_x = mra_ref_linear_x, .linear = mra_ref_linear },
    .norm = mra_ref_norm,
    .glu = mra_ref_glu,
    .rope = mra_ref_rope,
    .window_attn = mra_ref_window_attn,
};
