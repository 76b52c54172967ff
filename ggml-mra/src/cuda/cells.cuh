// What the kernels of the small operators share: lengths, and the cells of a level as one head of one sequence sees
// them.
#pragma once

#include "../node-params.h"
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

// rows can be read 16 bytes at a time
static inline bool aligned16(const struct mra_tensor & t) {
    return (((uintptr_t) t.data | t.nb[1] | t.nb[2] | t.nb[3]) & 15) == 0;
}
MRA_DEVICE float4 load4(const float * p, bool aligned) {
    return aligned ? *(const float4 *) p : make_float4(p[0], p[1], p[2], p[3]);
}

// A level's cells in the tensors of a node.
struct level {
    struct mra_cell_level cells;
    int n_bq, n_bk;   // rows and columns of cells
    int n_parent_row; // 0: no parents
    int parent_cap;   // cells a list of parents has room for
    struct strided scores, parents;
    struct lengths len;
};
static inline struct level level_of(const struct mra_cell_level & cells, const struct mra_tensor * scores,
    const struct mra_tensor * parents, const struct mra_tensor * lengths, int64_t n_batch) {
    struct level l = {};
    l.cells = cells;
    l.n_bq = mra_level_rows(&cells);
    l.n_bk = mra_level_cols(&cells);
    if (parents) {
        l.n_parent_row = mra_parent_rows(&cells);
        l.parent_cap = (int) parents->ne[0] - l.n_parent_row - 1;
        l.parents = strided_of(*parents);
    }
    if (scores) l.scores = strided_of(*scores);
    l.len = lengths_of(lengths, n_batch);
    return l;
}
MRA_DEVICE struct mra_len length_at(const struct level & l, int b) {
    return length_at(l.len, b, l.cells.n_q, l.cells.n_k);
}

// the list of parents of a head; offsets NULL: none
MRA_DEVICE struct mra_cell_list parents_of(const struct level & l, int head, int batch) {
    struct mra_cell_list r;
    r.offsets = l.parents.data ? list_of(l.parents, head, batch) : nullptr;
    r.n_row = l.n_parent_row;
    r.cap = l.parent_cap;
    return r;
}

// row x of the cells of a head
MRA_DEVICE struct mra_cell_row cells_of(const struct level & l, int x, int head, int batch, struct mra_len len) {
    const struct mra_cell_list parents = parents_of(l, head, batch);
    return mra_cell_row_of(&l.cells, &parents, x, len, l.scores.data ? row_of(l.scores, 0, head, batch) : nullptr,
        (int64_t) (l.scores.row / sizeof(float)));
}
