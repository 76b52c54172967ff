// Shared by the scalar reference kernels: every sum in double, every loop as the formula reads.
#pragma once

#include "../kernels.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Scores are F32: one beyond its range is infinite. (NaN stays NaN.)
static inline double mra_ref_score(double s) { return s > FLT_MAX ? INFINITY : s < -FLT_MAX ? -INFINITY : s; }

// a mean query in integers or bfloat16, as means of int8.h leaves it for scores
struct mra_ref_mean {
    float scale, same; // same: q . mean key
    float q[MRA_INT8_MAX_DIM];
};

// x . y in 16 float sums, as kernels have it whatever their vectors are: integers depend on it
static inline float mra_ref_dot_16(const float * x, const float * y, int d) {
    float s[16] = { 0 };
    for (int c = 0; c < d; c++) s[c % 16] = fmaf(x[c], y[c], s[c % 16]);
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++) s[i] += s[i + n];
    return s[0];
}

// the nearest bfloat16, ties to even; denormals count as 0, NaN stays NaN
static inline uint16_t mra_ref_to_bf16(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    if (isnan(x)) return (uint16_t) (u >> 16 | 0x40);
    return (uint16_t) ((u & 0x7f800000 ? u + 0x7fff + (u >> 16 & 1) : u & 0x80000000) >> 16);
}
static inline float mra_ref_from_bf16(uint16_t b) {
    const uint32_t u = (uint32_t) b << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

double mra_ref_value(struct mra_rows x, int64_t row, int c);                           // x[row][c]
double mra_ref_dot(struct mra_rows a, int64_t i, struct mra_rows b, int64_t j, int d); // a_i.b_j

void mra_ref_pool(float * dst, struct mra_rows x, int d, int n_valid, int block, int kind, int b0, int b1);
void mra_ref_block_score(float * dst, size_t ld, const float * q, size_t ldq, int n_q, const float * k,
    const float * k_max, size_t ldk, int n_k, int d, float scale);
int mra_ref_topk_blocks(int32_t * idx, float * x, int n, int m);
void mra_ref_coarse_state(float * o, float * max, float * sum, const float * s, const float * w, const int32_t * y,
    int n, const float * v, size_t ldv, int dv);
void mra_ref_block_sparse_attn(const struct mra_attn_head * a, int i0, int i1, const int32_t * cells, int n_cell, int g,
    const float * state, void * scratch);
void mra_ref_query_order(const struct mra_attn_head * a, bool given, void * scratch);
void mra_ref_key_covariance(double * C, struct mra_rows k, int n_k, int d);
bool mra_ref_split_direction(
    double * z, const double * C, struct mra_rows q, const int32_t * idx, int m, int d, double * y);
void mra_ref_key_bias(const struct mra_attn_head * a, void * scratch);
void mra_ref_int8_sample(const struct mra_attn_head * a, float * mean, float * k_factor, float * v_factor);
void mra_ref_columns(const struct mra_attn_head * a, int x0, void * scratch);
double mra_ref_activate(double x, int act); // act: enum mra_glu_act
void mra_ref_linear_x(const struct mra_linear * a, int i0, int i1, void * scratch);
void mra_ref_linear(
    const struct mra_linear * a, const struct mra_weights * w, int i0, int i1, int n0, int n1, void * scratch);
void mra_ref_norm(float * y, const float * x, const float * w, const float * b, int n, float eps, bool rms);
void mra_ref_glu(float * y, const float * gate, const float * up, int n, int act);
void mra_ref_rope(float * x, const float * table, int n_head, int d, int n_rot, bool interleaved);
void mra_ref_window_attn(const struct mra_attn_head * a, int i0, int i1, int window, float slope, void * scratch);
