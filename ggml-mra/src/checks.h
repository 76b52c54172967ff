// Checks that several builders share. Each returns MRA_OK or fills err. Private to the library.
#pragma once

#include "node.h"

#define LL(x) ((long long) (x))

static inline int64_t mra_blocks(int64_t n, int64_t block) { return (n + block - 1) / block; }

// lengths: NULL, I32 [n_batch] or I32 [2, n_batch]
enum mra_status mra_check_lengths(const struct ggml_tensor * lengths, int64_t n_batch, struct mra_error * err);
// F32, contiguous rows; t NULL fails
enum mra_status mra_check_f32(const char * name, const struct ggml_tensor * t, struct mra_error * err);
enum mra_status mra_check_shape(const char * name, const struct ggml_tensor * t, int64_t ne0, int64_t ne1, int64_t ne2,
    int64_t ne3, struct mra_error * err);
// n_q heads share n_kv heads of `name`
enum mra_status mra_check_heads(int64_t n_q, const char * name, int64_t n_kv, struct mra_error * err);
// q, k, v of attention
enum mra_status mra_check_qkv(
    const struct ggml_tensor * q, const struct ggml_tensor * k, const struct ggml_tensor * v, struct mra_error * err);
enum mra_status mra_check_level(const struct mra_level * l, struct mra_error * err);
// a cell list of ceil(n_q/h) rows; *cap: how many cells it has room for
enum mra_status mra_check_list(const char * name, const struct ggml_tensor * t, int64_t n_q, int h, int64_t n_head,
    int64_t n_batch, int64_t * cap, struct mra_error * err);
// parents and level must say the same: a list where there is a level above (*cap as above), none at the top (*cap: 0)
enum mra_status mra_check_parents(const struct ggml_tensor * parents, const struct mra_level * l, int64_t n_head,
    int64_t n_batch, int64_t * cap, struct mra_error * err);
// cap: of the parents
enum mra_status mra_check_scores(
    const struct ggml_tensor * s, const struct mra_level * l, int64_t cap, struct mra_error * err);
// F32 rows, all the same number of bytes apart, over all dimensions
enum mra_status mra_check_even_rows(const char * name, const struct ggml_tensor * t, struct mra_error * err);
// F32 [n], contiguous
enum mra_status mra_check_vector(const char * name, const struct ggml_tensor * t, int64_t n, struct mra_error * err);
// q and k hold the tokens of packed sequences: starts I32 [n_seq + 1], none longer than max_len
enum mra_status mra_check_starts(const struct ggml_tensor * q, const struct ggml_tensor * k,
    const struct ggml_tensor * starts, int64_t max_len, struct mra_error * err);
// settings of the whole attention (params.c)
enum mra_status mra_check_params(const struct mra_attn_params * p, struct mra_error * err);

// a checked level as nodes carry it
struct mra_cell_level mra_cell_level_of(const struct mra_level * l);
