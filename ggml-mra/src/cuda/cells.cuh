// What the kernels of the small operators share: lengths, and the cells of a level as one head of one sequence sees
// them.
#pragma once

#include "../plan.h"
#include "common.cuh"

// rows of a tensor, and heads and sequences of it
struct strided {
    const char * data;
    size_t row, head, batch;
};
static inline struct strided strided_of(const struct mra_tensor & t) { return { t.data, t.nb[1], t.nb[2], t.nb[3] }; }
MRA_DEVICE const float * row_of(const struct strided & t, int64_t row, int head, int batch) {
    return (const float *) (t.data + row * t.row + head * t.head + batch * t.batch);
}
// lists are [n, n_head, n_batch]
MRA_DEVICE const int32_t * list_of(const struct strided & t, int head, int batch) {
    return (const int32_t *) (t.data + head * t.row + batch * t.head);
}

struct lengths {
    const char * data;
    size_t nb0, nb1;
    bool pairs;
};
static inline struct lengths lengths_of(const struct mra_tensor * t, int64_t n_batch) {
    if (!t) return { nullptr, 0, 0, false };
    return { t->data, t->nb[0], t->nb[1], t->ne[0] == 2 && t->ne[1] == n_batch };
}
MRA_DEVICE struct mra_len length_at(const struct lengths & l, int b, int n_q, int n_k) {
    return mra_len_at(l.data, l.pairs, l.nb0, l.nb1, b, n_q, n_k);
}

// the next optional source, if this node has the one that flag stands for
static inline const struct mra_tensor * next_source(
    const struct mra_node * p, enum mra_flag flag, const struct mra_tensor * src, int * at) {
    return p->flags & flag ? &src[(*at)++] : nullptr;
}

// rows can be read 16 bytes at a time
static inline bool aligned16(const struct mra_tensor & t) {
    return (((uintptr_t) t.data | t.nb[1] | t.nb[2] | t.nb[3]) & 15) == 0;
}
MRA_DEVICE float4 load4(const float * p, bool aligned) {
    return aligned ? *(const float4 *) p : make_float4(p[0], p[1], p[2], p[3]);
}

// A level's cells: shape, how many, and which of them there are.
struct level {
    int h, g, rh, rg; // cell shape; children per parent cell
    int n_q, n_k;     // tokens
    int n_bq, n_bk;   // rows and columns of cells
    int n_parent_row;
    struct strided scores, parents; // parents.data NULL: all cells
    struct lengths len;
};
static inline struct level level_of(const struct mra_node_shape s, int n_q, int n_k, const struct mra_tensor * scores,
    const struct mra_tensor * parents, const struct mra_tensor * lengths, int64_t n_batch) {
    struct level l = {};
    l.h = s.h;
    l.g = s.g;
    l.n_q = n_q;
    l.n_k = n_k;
    l.n_bq = mra_div_up(n_q, s.h);
    l.n_bk = mra_div_up(n_k, s.g);
    l.rh = 1;
    l.rg = l.n_bk;
    if (parents) {
        l.rh = s.ph / s.h;
        l.rg = s.pg / s.g;
        l.n_parent_row = mra_div_up(n_q, s.ph);
        l.parents = strided_of(*parents);
    }
    if (scores) l.scores = strided_of(*scores);
    l.len = lengths_of(lengths, n_batch);
    return l;
}

// One row of cells: candidates t = 0..n-1 in ascending column order; those behind the last valid column are none.
struct cell_row {
    const float * s;    // scores, from the row's first
    const int32_t * id; // parents, NULL: all cells
    int n, rg, step, cols;
};
MRA_DEVICE struct cell_row cells_of(const struct level & l, int x, int head, int batch, struct mra_len len) {
    struct cell_row r;
    r.cols = mra_div_up(len.n_k, l.g);
    r.rg = l.rg;
    r.step = l.rh * l.rg;
    r.n = 0;
    r.id = nullptr;
    r.s = nullptr;
    if (x >= mra_div_up(len.n_q, l.h)) return r;
    if (!l.parents.data) {
        r.n = r.cols;
        r.s = row_of(l.scores, x, head, batch);
    } else {
        const int32_t * off = list_of(l.parents, head, batch) + x / l.rh;
        r.id = list_of(l.parents, head, batch) + l.n_parent_row + 1 + off[0];
        r.n = (off[1] - off[0]) * l.rg;
        r.s = row_of(l.scores, 0, head, batch) + (int64_t) off[0] * r.step + x % l.rh * l.rg;
    }
    return r;
}
// column of candidate t, and its score; false: there is no such cell
MRA_DEVICE bool candidate(const struct cell_row & r, int t, int * col, float * score) {
    if (t >= r.n) return false;
    const int e = r.id ? t / r.rg : 0, i = t - e * r.rg;
    *col = r.id ? r.id[e] * r.rg + i : t;
    if (*col >= r.cols) return false;
    *score = r.s[(int64_t) e * r.step + i];
    return true;
}
