// Which launch function runs a node.
#include "common.cuh"
#include "cuda.h"

static const struct {
    bool (*supports)(const struct mra_node *, const struct mra_tensor *, const struct mra_tensor *, int);
    int (*run)(const struct mra_node *, struct mra_tensor, const struct mra_tensor *, int, void *);
} kinds[] = {
    // in the order of enum mra_kind, whose last ones are for the CPU alone
    { nullptr, nullptr }, // MRA_KIND_NONE
    { mra_cuda_supports_pool, mra_cuda_pool },
    { mra_cuda_supports_block_score, mra_cuda_block_score },
    { mra_cuda_supports_topk_blocks, mra_cuda_topk_blocks },
    { mra_cuda_supports_coarse_state, mra_cuda_coarse_state },
    { mra_cuda_supports_pack, mra_cuda_pack },
    { mra_cuda_supports_block_sparse_attn, mra_cuda_block_sparse_attn },
    { mra_cuda_supports_attn, mra_cuda_attn },
    { mra_cuda_supports_query_order, mra_cuda_query_order },
    { mra_cuda_supports_span_pool, mra_cuda_span_pool },
    { mra_cuda_supports_norm, mra_cuda_norm },
    { mra_cuda_supports_glu, mra_cuda_glu },
    { mra_cuda_supports_rope_table, mra_cuda_rope_table },
    { mra_cuda_supports_rope, mra_cuda_rope },
    { mra_cuda_supports_window_attn, mra_cuda_window_attn },
};
static_assert(MRA_KIND_POOL == 1 && MRA_KIND_BLOCK_SCORE == 2 && MRA_KIND_TOPK_BLOCKS == 3 &&
        MRA_KIND_COARSE_STATE == 4 && MRA_KIND_PACK == 5 && MRA_KIND_BLOCK_SPARSE_ATTN == 6 && MRA_KIND_ATTN == 7 &&
        MRA_KIND_QUERY_ORDER == 8 && MRA_KIND_SPAN_POOL == 9 && MRA_KIND_NORM == 10 && MRA_KIND_GLU == 11 &&
        MRA_KIND_ROPE_TABLE == 12 && MRA_KIND_ROPE == 13 && MRA_KIND_WINDOW_ATTN == 14 &&
        sizeof(kinds) / sizeof(kinds[0]) == MRA_KIND_WINDOW_ATTN + 1,
    "kinds[] follows enum mra_kind");

bool mra_cuda_supports(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    return p->magic == MRA_MAGIC && p->kind <= MRA_KIND_WINDOW_ATTN && kinds[p->kind].supports &&
        kinds[p->kind].supports(p, dst, src, n_src);
}

int mra_cuda_run(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    if (!mra_cuda_supports(p, &dst, src, n_src)) return MRA_CUDA_UNSUPPORTED;
    return kinds[p->kind].run(p, dst, src, n_src, stream);
}

const char * mra_cuda_message(int code) {
    if (code == MRA_CUDA_UNSUPPORTED) return "this node does not run on CUDA";
    return code == MRA_CUDA_OK ? "no error" : mra_device_message(code);
}
