// The operators on a CUDA device: calls without ggml's and without CUDA's types.
//
// Pointers in struct mra_tensor are device memory of the current device; what a call starts is ordered by `stream`
// (a cudaStream_t, NULL: the default one) and has not ended when it returns. src: the node's sources in their order,
// optional ones left out, so that n_src counts what there is.
#pragma once

#include "../node-params.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MRA_CUDA_OK = 0, MRA_CUDA_UNSUPPORTED = -1 }; // other values: a cudaError_t

// Can this node run here? Looks at parameters, types, shapes and strides, never at data, which may still be NULL.
bool mra_cuda_supports(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src);

// Starts the node. MRA_CUDA_OK or an error code.
int mra_cuda_run(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream);

const char * mra_cuda_message(int code);

// One pair per kind, behind the two calls above.
#define MRA_CUDA_KIND(kind) \
    bool mra_cuda_supports_##kind( \
        const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src); \
    int mra_cuda_##kind( \
        const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream)
MRA_CUDA_KIND(pool);
MRA_CUDA_KIND(block_score);
MRA_CUDA_KIND(topk_blocks);
MRA_CUDA_KIND(coarse_state);
MRA_CUDA_KIND(pack);
MRA_CUDA_KIND(block_sparse_attn);
MRA_CUDA_KIND(attn);
MRA_CUDA_KIND(query_order);
MRA_CUDA_KIND(span_pool);
MRA_CUDA_KIND(norm);
MRA_CUDA_KIND(glu);
MRA_CUDA_KIND(rope_table);
MRA_CUDA_KIND(rope);
MRA_CUDA_KIND(window_attn);
#undef MRA_CUDA_KIND

#ifdef __cplusplus
}
#endif
