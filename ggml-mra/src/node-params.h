// What a node of ours carries, without ggml's types: the parameters, and tensors as plain strided arrays. Shared by the
// drivers of all devices.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum mra_kind {
    MRA_KIND_NONE,
    MRA_KIND_POOL,
    MRA_KIND_BLOCK_SCORE,
    MRA_KIND_TOPK_BLOCKS,
    MRA_KIND_COARSE_STATE,
    MRA_KIND_PACK,
    MRA_KIND_BLOCK_SPARSE_ATTN,
    MRA_KIND_ATTN,
    MRA_KIND_SCRATCH,
    MRA_KIND_LINEAR,
    MRA_KIND_NORM,
    MRA_KIND_COUNT
};

enum mra_flag {
    MRA_HAS_LENGTHS = 1 << 0, // optional sources, in this order behind the fixed ones
    MRA_HAS_PARENTS = 1 << 1,
    MRA_HAS_K_MAX = 1 << 2,
    MRA_HAS_STATE = 1 << 3,
    MRA_IS_STARTS = 1 << 4, // the lengths tensor holds the starts of packed sequences
    MRA_KEYS = 1 << 5,      // pool: key lengths
    MRA_DROP = 1 << 6,      // attn: MRA-2-s
    MRA_COPY = 1 << 7,      // pack: rows of k and v are copied
};

struct mra_node_shape {
    uint8_t h, g, ph, pg;
}; // of a cell, and of its parent

// Parameters travel in the last 40 bytes of op_params (64): ggml's own {fun, n_tasks, userdata} take the first 24. No
// userdata, so there is no lifetime to manage and graph copies keep working.
struct mra_node {
    uint32_t magic;
    uint8_t kind, flags, rule, level;
    union {
        struct {
            int32_t block, pool;
        } pool;
        struct {
            struct mra_node_shape shape;
            int32_t n_q, n_k;
            float scale;
        } block_score;
        struct {
            struct mra_node_shape shape;
            int32_t n_q, n_k;
            int32_t count;
            uint16_t first_n, diag_n;
            uint8_t sizes[4];
            float budget;
            int32_t slots;
        } topk_blocks; // count < 0: from the budget
        struct {
            struct mra_node_shape shape;
            int32_t n_q, n_k;
        } coarse_state;
        struct {
            uint8_t h, g;
            float scale;
        } block_sparse_attn;
        struct {
            uint8_t frame, block;
            uint16_t first_n, diag_n;
            int32_t m1, m2;
            float scale, budget;
            int32_t slots, max_len;
        } attn; // pack and attn
        struct {
            uint8_t n_w, bias, res, gelu;
        } linear; // weights; bit i: they have a bias; a residual; the activation
        struct {
            float eps;
        } norm;
    } u;
};
#define MRA_MAGIC 0x3141524dU // "MRA1"

enum mra_tensor_type { MRA_TENSOR_F32, MRA_TENSOR_F16, MRA_TENSOR_I32, MRA_TENSOR_I8 };

// element (i0, i1, i2, i3) at data + i0*nb[0] + i1*nb[1] + ...; data NULL: there is no such tensor
struct mra_tensor {
    char * data;
    enum mra_tensor_type type;
    int64_t ne[4];
    size_t nb[4];
};
