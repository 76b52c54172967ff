// Attention in small integers: what kernels and their scalar reference agree on. For one head, with whole numbers Q, K,
// V, W and float factors around them:
//   q_ic * f_c / s_i = Q_ic         s_i  = max_c |q_ic f_c| / q_max
//   (k_jc - mean_c) / f_c / r_j = K_jc    r_j  = max_c |...| / k_max      softmax does not see the mean
//   v_jc / g_c / u_j = V_jc         u_j  = max_c |v_jc / g_c| / v_max
//   t_ij = scale log2(e) s_i r_j (Q_i . K_j) + log2(u_j)
//   W_ij = round(w_max 2^(t_ij - b))      b: the largest t_ij of a block of MRA_INT8_KEYS keys
//   out_ic = g_c sum_blocks 2^b (W_i . V_c) / sum_blocks 2^b sum_j w_max 2^(t_ij - b) / u_j
// f and g are powers of two, 1 but for channels that stand out. All steps up to W are single float operations in a
// fixed order, so that every implementation of a form finds the same integers.
//
// A third form, of CPUs with tiles of bfloat16; bf(x) is the nearest of these. They are floats and need no scales:
//   Q_ic = bf(256 scale log2(e) q_ic f_c)    K_jc = bf((k_jc - mean_c)/f_c)    V_jc = bf(v_jc/g)
//   z_ij = round(Q_i . K_j + 256 (127 - m_i) - MRA_BF16_OFFSET), cut to [0, 65535]
//   W_ij = the bfloat16 with bits (z_ij + MRA_BF16_EXP2[z_ij/4 mod 64])/2, about 2^(t_ij - m_i); error .2 %
//   out_ic = g sum_j W_ij V_jc / sum_j W_ij
// m_i is an integer such that no t_ij - m_i is above MRA_BF16_ABOVE, so there is no maximum to look for.
//
// The sparse frames' products of mean queries q~_x and of their coarse weights p_xj with blocks of keys, bytes:
//   q~_xc f_c / s_x = Q_xc    q~_x . k_j = s_x r_j (Q_x . K_j) + q~_x . mean
//   p_xj u_j / w_x = W_xj     w_x = max_j p_xj u_j / w_max, j in one block      sum_j p_xj v_jc = g_c w_x (W_x . V_c)
// bfloat16: Q_xc = bf(q~_xc f_c), W_xj = bf(g p_xj), no scales.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MRA_INT8_KEYS = 64,   // keys per block
    MRA_INT8_ROWS = 32,   // queries of a call, at most
    MRA_INT8_GATHER = 16, // queries of a call with a list of keys, at most
    MRA_INT8_SAMPLE = 32, // rows that mean and factors are taken from, evenly spaced
    MRA_INT8_MAX_DIM = 256,
    MRA_MAX_WINDOW = 512,         // a wider window is a matter for floats
    MRA_INT8_PAD = 32,            // rows of k and v have room for a multiple of this
    MRA_INT8_SCRATCH = 172 << 10, // bytes of one thread for attn, 64-byte aligned
};

// Rows whose logits are predicted to deviate by more (in nats, standard deviation) belong to the float kernel. Measured
// rows of encoders stay below .141; at .16 the 99th percentile of a row's error reaches 10 %.
#define MRA_INT8_LIMIT 0.16f

#define MRA_INT8_LEAST 1e-30f // coarse weights of a block that are all less, times u, count as 0

#define MRA_BF16_ROUNDING 2.3e-3f // relative deviation of a product of two bfloat16
#define MRA_BF16_ABOVE    64.0f
#define MRA_BF16_LEAST    0x1p-80f // rows with a smaller sum of weights belong to the float kernel
#define MRA_BF16_OFFSET   22
#define MRA_BF16_LEAST_V  0x1p-80f // smaller values: coarse ones by floats, as W g would be a denormal
// least squares of the relative error of W
#define MRA_BF16_EXP2 \
    { \
        16, 15, 14, 13, 12, 11, 10, 9, 8, 8, 7, 6, 6, 5, 4, 4, 4, 3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, \
            1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 21, 22, 22, 20, 19, 18, 17 \
    }

// a channel of q and k gets a factor from 2 on, one of v from 4 on (log2 of it)
#define MRA_INT8_STANDS_OUT_QK 1.0f
#define MRA_INT8_STANDS_OUT_V  2.0f

// The largest integers, 0: bfloat16. exp2: coefficients of 2^x on [-.5, .5], highest first; n_exp2 of them.
struct mra_int8_form {
    int q_max, k_max, v_max, w_max;
    float log2_w_max;
    int n_exp2;
    float exp2[5];
};
// relative error of 2^x: 1.7e-3 is enough for 8 bits
#define MRA_INT8_BYTES \
    { \
        127, 127, 127, 255, 7.99435344f, 3, { 0.24261112f, 0.69326099f, 0.99992807f } \
    }
// 256*4095*2047 < 2^31; 4e-6
#define MRA_INT8_WORDS \
    { \
        4095, 2047, 4095, 4095, 11.99964774f, 5, { 9.618437e-3f, 5.550332e-2f, 2.402265e-1f, 6.931472e-1f, 1.0f } \
    }

#define MRA_INT8_BF16 \
    { \
        0, 0, 0, 0, 0, 0, { 0 } \
    }

// log2 of the mantissa m in [1, 2) as a polynomial of m - 1.5, highest first; error 2e-6
#define MRA_INT8_LOG2 \
    { \
        -0.0251232032860787f, 0.04392862784790066f, -0.07058967567452497f, 0.14171815887698508f, -0.3206323327042669f, \
            0.961821228304186f, 0.5849627653299236f \
    }

struct mra_int8_key {
    float k_scale, v_log2, v_inv; // r_j, log2(u_j), 1/u_j
    float unused;
};
// What the guard needs of a block's keys; NaN where a key or a value is not finite.
struct mra_int8_range {
    float k_norm2, k_step; // largest |K_j r_j|^2, largest r_j
};

// K and V of one head of one sequence. dk, dv: head sizes rounded up to MRA_INT8_PAD; n: keys rounded up to
// MRA_INT8_KEYS. The order of k and v inside is that of the kernels that filled them; where they use less than dk or dv
// of a row, the rest is at the end.
struct mra_int8_pack {
    void *k, *v;                   // [n][dk], [n][dv] integers of `bytes` bytes
    struct mra_int8_key * key;     // [n]
    struct mra_int8_range * range; // [n/MRA_INT8_KEYS]
    float *mean, *q_factor;        // [dk]: mean key, f
    float * v_factor;              // [dv]: g
    bool gather;                   // k and v are laid out for lists of keys, else for all of them in order
};

struct mra_attn_head;

struct mra_int8_kernels {
    struct mra_int8_form form;
    int bytes; // of an integer of k and v

    // Fills p for keys [j0, j1) from a->q, a->k, a->v; j0 is a multiple of MRA_INT8_KEYS, and so is j1 but for the last
    // key. Whoever packs key 0 also writes mean and factors. NULL: this CPU does not gain by integers.
    void (*pack)(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, int j1);

    // Query rows [i0, i1), at most MRA_INT8_ROWS, over all keys; or (p->gather) at most MRA_INT8_GATHER over the n_idx
    // > 0 keys idx. state: o[dv], max, sum that every row starts from, or NULL. In the sorted frame (a->sorted.order)
    // the rows are those of one query block, and the state's scores get (q - q~).k_mean as in columns. Returns which
    // rows are left to the float kernel, bit i - i0, because their logits would be too far off; what is written there
    // has no meaning.
    uint32_t (*attn)(const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1,
        const int32_t * idx, int n_idx, const float * state, void * scratch);

    // The same over the keys j with |i - j| <= window, p holding all keys in order; b is the largest t_ij of those in a
    // block. A row is judged by the blocks of keys that it, or another of the same MRA_INT8_ROWS (bfloat16: 16) from a
    // multiple of that on, can see; i0 is such a multiple. NULL: these kernels have none, a window is a matter for
    // floats.
    uint32_t (*window_attn)(
        const struct mra_attn_head * a, const struct mra_int8_pack * p, int i0, int i1, int window, void * scratch);

    // Of the sparse frames, with p->gather: products of n <= MRA_GROUP_MAX query blocks with one block of a->g keys
    // from j0 on. All three are NULL where floats are as fast. Each query block's results are its own: the others do
    // not change them.
    //   means   takes the mean queries q[n][dk], dk rounded up to MRA_PAD, into scratch. Returns, bit i, those whose
    //           scores would be too far off; what scores gives for them has no meaning.
    //   scores  to[i][0..g) = q_m . k_j with m = which[i]; behind the last key any number
    //   values  to[i][0..dv) += sum_j weight[i][j] v_j, weights in [0, 1e6], 0 behind the last key; dv rounded up to
    //           MRA_PAD. Not where the guard refuses all rows: a key or value is not finite.
    uint64_t (*means)(
        const struct mra_attn_head * a, const struct mra_int8_pack * p, const float * q, int n, void * scratch);
    void (*scores)(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, float * const * to,
        const uint8_t * which, int n, void * scratch);
    void (*values)(const struct mra_attn_head * a, const struct mra_int8_pack * p, int j0, float * const * to,
        const float * const * weight, int n, void * scratch);
};

// Leaves in a and p, copies of a head's, only the blocks of keys that queries [i, i + n) can see; returns the first of
// these keys. k_row, v_row: bytes of a key and of a value.
int mra_int8_near(
    struct mra_attn_head * a, struct mra_int8_pack * p, int i, int n, int window, size_t k_row, size_t v_row);

// the specification, scalar
extern const struct mra_int8_kernels mra_int8_ref_bytes, mra_int8_ref_words, mra_int8_ref_bf16;
const struct mra_int8_kernels * mra_int8_reference(const struct mra_int8_kernels * k); // of k's form
extern const struct mra_int8_kernels mra_int8_v3_vnni, mra_int8_v4_vnni, mra_int8_v4_amx, mra_int8_neon_dot,
    mra_int8_neon_i8mm;

// Bytes of a pack of n_k keys, and its pointers into 64-byte aligned memory.
size_t mra_int8_pack_size(int d, int dv, int n_k, int bytes);
struct mra_int8_pack mra_int8_pack_at(void * mem, int d, int dv, int n_k, int bytes, bool gather);

struct mra_kernels;
// Rows [i0, i1) of the exact frame, at most MRA_EXACT_ROWS: in integers, and those that these are not good enough for
// by k's float kernel, which needs a->pack. scratch: the larger of MRA_INT8_SCRATCH and mra_block_sparse_attn_scratch.
// Returns how many rows were left to it.
int mra_int8_attn_rows(const struct mra_kernels * k, const struct mra_attn_head * a, const struct mra_int8_pack * p,
    int i0, int i1, void * scratch);
// the same for the keys within a window
int mra_int8_window_rows(const struct mra_kernels * k, const struct mra_attn_head * a, const struct mra_int8_pack * p,
    int i0, int i1, int window, void * scratch);
