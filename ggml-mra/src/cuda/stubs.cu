// Kinds that have no CUDA kernel yet.
#include "cuda.h"

#define NONE(kind) \
    bool mra_cuda_supports_##kind(const struct mra_node *, const struct mra_tensor *, const struct mra_tensor *, int) { return false; } \
    int  mra_cuda_##kind(const struct mra_node *, struct mra_tensor, const struct mra_tensor *, int, void *) { return MRA_CUDA_UNSUPPORTED; }
NONE(pack)
NONE(sparse)
NONE(attn)
