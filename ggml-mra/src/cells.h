// The cells of a level as one head of one sequence sees them, and the cell lists that name some of them. One source for
// C and CUDA.
//
// A level without parents has all n_bq x n_bk cells. With parents it has the children of the cells that a list of the
// level above names: (parent_h/h) x (parent_g/g) cells each.
#pragma once

#include "plan.h"

// A level as a node carries it.
struct mra_cell_level {
    int32_t n_q, n_k;           // tokens
    uint8_t h, g;               // a cell is h queries x g keys
    uint8_t parent_h, parent_g; // the same of the level above; 0: there is none
};

MRA_INLINE int mra_level_rows(const struct mra_cell_level * l) { return mra_div_up(l->n_q, l->h); }
MRA_INLINE int mra_level_cols(const struct mra_cell_level * l) { return mra_div_up(l->n_k, l->g); }
MRA_INLINE int mra_parent_rows(const struct mra_cell_level * l) { return mra_div_up(l->n_q, l->parent_h); }
MRA_INLINE int mra_child_rows(const struct mra_cell_level * l) { return l->parent_h / l->h; }
MRA_INLINE int mra_child_cols(const struct mra_cell_level * l) { return l->parent_g / l->g; }

// A cell list of one head: offsets [n_row + 1], then room for cap columns. Row x has entries [offsets[x],
// offsets[x + 1]) of the columns. Lists are data, so the functions here trust nothing that stands in them.
struct mra_cell_list {
    const int32_t * offsets; // NULL: there is no list
    int n_row, cap;
};
struct mra_cell_span {
    int first, end;
};

MRA_INLINE const int32_t * mra_list_columns(const struct mra_cell_list * l) { return l->offsets + l->n_row + 1; }

// entries of row x, cut to what the list holds
MRA_INLINE struct mra_cell_span mra_list_row(const struct mra_cell_list * l, int x) {
    const int first = l->offsets[x], end = l->offsets[x + 1];
    struct mra_cell_span s;
    s.first = first < 0 ? 0 : mra_min(first, l->cap);
    s.end = end < s.first ? s.first : mra_min(end, l->cap);
    return s;
}

// One row of cells: n_run runs of neighbouring cells, in ascending order of columns. With parents each has a run, else
// there is one run of all valid columns.
struct mra_cell_row {
    const float * scores;   // of the first run; NULL where there are none yet
    const int32_t * parent; // column of each run's parent; NULL: no parents
    int64_t step;           // floats from one run's scores to the next run's
    int n_run, width;       // runs; cells of a run
    int n;                  // candidates: n_run * width
    int cols;               // valid columns of the level
};

// Row x of a level. parents.offsets NULL: all cells. scores: of this head, the rows of the scores tensor ld floats
// apart (with parents it has one row per parent).
MRA_INLINE struct mra_cell_row mra_cell_row_of(const struct mra_cell_level * l, const struct mra_cell_list * parents,
    int x, struct mra_len len, const float * scores, int64_t ld) {
    struct mra_cell_row r;
    r.cols = mra_div_up(len.n_k, l->g);
    r.scores = NULL;
    r.parent = NULL;
    r.step = ld;
    r.n_run = r.n = r.width = 0;
    if (x >= mra_div_up(len.n_q, l->h) || r.cols == 0) return r;
    if (!parents->offsets) {
        r.n_run = 1;
        r.width = r.cols;
        if (scores) r.scores = scores + x * ld;
    } else {
        const int child_rows = mra_child_rows(l);
        const struct mra_cell_span s = mra_list_row(parents, x / child_rows);
        r.n_run = s.end - s.first;
        r.width = mra_child_cols(l);
        r.parent = mra_list_columns(parents) + s.first;
        if (scores) r.scores = scores + s.first * ld + x % child_rows * r.width;
    }
    r.n = r.n_run * r.width;
    return r;
}

// Columns [first, first + n), and their scores.
struct mra_cell_run {
    int first, n;
    const float * scores;
};

// run e of a row; false: it has no valid cell
MRA_INLINE bool mra_cell_run_at(const struct mra_cell_row * r, int e, struct mra_cell_run * run) {
    const int64_t first = r->parent ? (int64_t) r->parent[e] * r->width : 0;
    if (first < 0 || first >= r->cols) return false;
    run->first = (int) first;
    run->n = mra_min(r->width, r->cols - run->first);
    run->scores = r->scores ? r->scores + e * r->step : NULL;
    return true;
}

// column of candidate t of a row, -1: there is no such cell. score may be NULL.
MRA_INLINE int mra_cell_at(const struct mra_cell_row * r, int t, float * score) {
    if (t >= r->n) return -1;
    const int e = r->parent ? t / r->width : 0, i = t - e * r->width;
    struct mra_cell_run run;
    if (!mra_cell_run_at(r, e, &run) || i >= run.n) return -1;
    if (score) *score = run.scores[i];
    return run.first + i;
}
