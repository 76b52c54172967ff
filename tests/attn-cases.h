// The cases of test-attn: a frame, its budget, the kind of data, shapes, and what is unusual about each.
#pragma once

#include "harness.h"

struct attn_case {
    const char *name, *frame;
    float budget;
    enum data_kind kind;
    int n_q, n_k, d, dv, n_head, n_head_kv, n_batch;
    int layout;          // of q, k and v: see graph_heads
    enum ggml_type type; // of k and v
    int len[3];          // of keys (and queries where n_q == n_k); all 0: no lengths tensor
    int counts[4];       // instead of the budget, where counts[0] > 0
    int first_n, diag_n;
    enum mra_rule rule;
};

#define F32 GGML_TYPE_F32
#define F16 GGML_TYPE_F16

// the last arguments: the type, then other members by name
#define RULE_CASE(r, n, f, w, data, nq, nk, d_, dv_, heads, heads_kv, batch, lay, ...) \
    { \
        .name = n, .frame = f, .budget = w, .kind = DATA_##data, .n_q = nq, .n_k = nk, .d = d_, .dv = dv_, \
        .n_head = heads, .n_head_kv = heads_kv, .n_batch = batch, .layout = lay, .rule = MRA_RULE_##r, \
        .type = __VA_ARGS__ \
    }
#define CASE(...) RULE_CASE(ROWMAX, __VA_ARGS__)

static const struct attn_case attn_cases[] = {
    //   name, frame, budget, data, n_q, n_k, d, dv, heads of q and of k, batch, layout, type
    CASE("exact 1", "exact", 1, NORMAL, 1, 1, 64, 64, 2, 2, 1, 0, F32),
    CASE("exact 31", "exact", 1, NORMAL, 31, 31, 64, 64, 2, 2, 1, 1, F32),
    CASE("exact 32", "exact", 1, NORMAL, 32, 32, 32, 32, 1, 1, 1, 0, F32),
    CASE("exact 33", "exact", 1, NORMAL, 33, 33, 80, 80, 2, 1, 1, 2, F32),
    CASE("exact 131 d=128", "exact", 1, NORMAL, 131, 131, 128, 128, 2, 1, 2, 1, F32, .len = { 131, 70 }),
    CASE("exact d=8 dv=24", "exact", 1, NORMAL, 67, 67, 8, 24, 3, 3, 1, 0, F32),
    CASE("exact d=256", "exact", 1, NORMAL, 70, 70, 256, 256, 1, 1, 1, 0, F32),
    CASE("exact n_q<n_k", "exact", 1, NORMAL, 5, 200, 40, 16, 4, 2, 2, 1, F32, .len = { 200, 77 }),
    CASE("exact n_q>n_k", "exact", 1, NORMAL, 100, 19, 64, 64, 2, 2, 1, 1, F16),
    CASE("exact huge", "exact", 1, HUGE, 100, 100, 64, 64, 2, 2, 1, 0, F32, .len = { 90 }),
    CASE("exact padded", "exact", 1, NORMAL, 64, 64, 32, 32, 1, 1, 3, 0, F32, .len = { 0, 1, 64 }),
    CASE("columns 16", "columns", 1, GRID, 256, 256, 64, 64, 2, 2, 1, 0, F32, .counts = { 5, 40 }),
    CASE("columns w=1/8", "columns", .125f, GRID, 512, 512, 64, 64, 2, 2, 1, 1, F32),
    CASE("columns w=1/64", "columns", .0156f, GRID, 512, 512, 32, 32, 1, 1, 1, 1, F32),
    CASE("columns G=32", "columns", .0625f, GRID, 2080, 2080, 16, 16, 1, 1, 1, 1, F32),
    CASE("columns ragged", "columns", .25f, NORMAL, 331, 331, 64, 64, 2, 1, 2, 2, F32, .len = { 331, 97 }),
    CASE("columns ragged f16", "columns", .25f, NORMAL, 331, 331, 80, 48, 2, 1, 2, 1, F16, .len = { 331, 33 }),
    CASE("columns ties", "columns", 1, TIES, 256, 256, 32, 32, 2, 2, 1, 0, F32, .counts = { 3, 20 }),
    CASE("columns const", "columns", 1, CONST, 128, 128, 32, 32, 1, 1, 1, 0, F32, .counts = { 3, 20 }),
    CASE("columns huge", "columns", .125f, HUGE, 256, 256, 64, 64, 2, 2, 1, 0, F32, .len = { 256 }),
    CASE("columns priors", "columns", 1, GRID, 512, 512, 64, 64, 2, 2, 1, 0, F32, .counts = { 6, 50 }, .first_n = 2,
        .diag_n = 3),
    CASE("columns many priors", "columns", 1, GRID, 512, 512, 64, 64, 2, 2, 1, 0, F32, .counts = { 3, 30 },
        .first_n = 6, .diag_n = 5),
    CASE("columns one key", "columns", .125f, NORMAL, 40, 1, 64, 64, 1, 1, 1, 0, F32),
    CASE("columns one key f16", "columns", 1, NORMAL, 40, 1, 40, 24, 1, 1, 1, 0, F16, .counts = { 1, 0 }),
    CASE("columns m2=0", "columns", 1, GRID, 128, 128, 64, 64, 1, 1, 1, 0, F32, .counts = { 3, 0 }),
    CASE("columns padded", "columns", .25f, NORMAL, 100, 100, 64, 64, 1, 1, 3, 1, F32, .len = { 0, 1, 100 }),
    CASE("columns n_q!=n_k", "columns", .25f, GRID, 48, 320, 64, 32, 4, 2, 1, 1, F32),
    CASE("columns few", "columns", 1, GRID, 90, 90, 32, 32, 2, 1, 1, 1, F16, .len = { 77 }, .counts = { 2, 12 },
        .first_n = 1),
    CASE("columns odd place", "columns", .25f, GRID, 150, 150, 72, 64, 2, 1, 2, 3, F16, .len = { 150, 77 }),
    CASE("exact odd place", "exact", 1, NORMAL, 67, 67, 64, 40, 2, 1, 1, 3, F16),
    CASE("columns d=128", "columns", 1, GRID, 300, 300, 128, 112, 1, 1, 1, 0, F32, .counts = { 5, 30 }),
    CASE("columns d=96", "columns", .25f, GRID, 150, 150, 96, 72, 2, 1, 1, 2, F16, .first_n = 1),
    CASE("columns d=256", "columns", .25f, GRID, 130, 130, 256, 200, 1, 1, 1, 0, F32),
    CASE("columns many blocks", "columns", 1, NORMAL, 20, 20, 16, 16, 27, 9, 24, 1, F32, .counts = { 1, 4 }),
    CASE("columns many ties", "columns", 1, TIES, 2, 4000, 8, 8, 1, 1, 1, 0, F32, .counts = { 80, 900 }),
    CASE("columns d=256 dv=40", "columns", 1, GRID, 70, 90, 256, 40, 1, 1, 1, 0, F16, .counts = { 4, 20 }),
    CASE("columns n_q>n_k", "columns", 1, GRID, 270, 60, 40, 24, 2, 1, 1, 1, F16, .counts = { 2, 12 }),
    CASE("columns long lists", "columns", 1, GRID, 70, 3000, 32, 32, 2, 1, 1, 1, F32, .counts = { 90, 400 },
        .diag_n = 2),
    CASE("columns far apart", "columns", 1, GRID, 10, 1000, 64, 64, 1, 1, 1, 1, F16, .counts = { 2, 20 }),
    CASE("sorted 1", "sorted", 1, NORMAL, 1, 1, 64, 64, 2, 2, 1, 0, F32, .counts = { 1, 1 }),
    CASE("sorted 15", "sorted", 1, NORMAL, 15, 15, 64, 64, 2, 2, 1, 1, F32, .counts = { 1, 4 }),
    CASE("sorted 16", "sorted", 1, NORMAL, 16, 16, 32, 32, 1, 1, 1, 0, F16, .counts = { 1, 4 }),
    CASE("sorted 17", "sorted", 1, NORMAL, 17, 17, 80, 80, 2, 1, 1, 2, F32, .counts = { 1, 6 }),
    CASE("sorted 31", "sorted", 1, NORMAL, 31, 31, 64, 64, 2, 2, 1, 1, F32, .counts = { 2, 9, 1 }),
    CASE("sorted 33", "sorted", 1, NORMAL, 33, 33, 64, 64, 2, 2, 1, 1, F32, .counts = { 2, 9, 1 }),
    CASE("sorted 131 d=128", "sorted", 1, NORMAL, 131, 131, 128, 128, 2, 1, 2, 1, F32, .len = { 131, 70 },
        .counts = { 4, 30, 2 }),
    CASE("sorted d=8 dv=24", "sorted", 1, NORMAL, 67, 67, 8, 24, 3, 3, 1, 0, F32, .counts = { 3, 20 }),
    CASE("sorted d=256", "sorted", 1, NORMAL, 130, 130, 256, 200, 1, 1, 1, 0, F32, .counts = { 6, 40, 1 }),
    CASE("sorted w=1/4", "sorted", .25f, WALK, 512, 512, 64, 64, 2, 2, 1, 1, F32),
    CASE("sorted w=1/8", "sorted", .125f, WALK, 521, 521, 64, 64, 2, 2, 1, 1, F32),
    CASE("sorted w=1/32", "sorted", .03125f, WALK, 600, 600, 32, 32, 1, 1, 1, 1, F32),
    CASE("sorted G=32", "sorted", .25f, NORMAL, 2080, 2080, 16, 16, 1, 1, 1, 1, F32),
    CASE("sorted ragged", "sorted", .25f, NORMAL, 331, 331, 64, 64, 4, 2, 2, 2, F32, .len = { 331, 97 }),
    CASE("sorted ragged f16", "sorted", .25f, NORMAL, 331, 331, 80, 48, 2, 1, 2, 1, F16, .len = { 331, 300 }),
    CASE("sorted ties", "sorted", 1, TIES, 256, 256, 32, 32, 2, 2, 1, 0, F32, .counts = { 3, 20, 1 }),
    CASE("sorted const", "sorted", 1, CONST, 128, 128, 32, 32, 1, 1, 1, 0, F32, .counts = { 3, 20 }),
    CASE("sorted huge", "sorted", .25f, HUGE, 307, 307, 64, 64, 2, 2, 1, 0, F32, .len = { 300 }),
    CASE("sorted one key", "sorted", 1, NORMAL, 40, 1, 64, 64, 1, 1, 1, 0, F32, .counts = { 1, 0, 1 }),
    CASE("sorted m2=0", "sorted", 1, NORMAL, 128, 128, 64, 64, 1, 1, 1, 0, F32, .counts = { 3, 0 }),
    CASE("sorted padded", "sorted", .25f, NORMAL, 300, 300, 64, 64, 1, 1, 3, 1, F32, .len = { 0, 1, 300 }),
    CASE("sorted n_q<n_k", "sorted", .25f, NORMAL, 48, 320, 64, 32, 4, 2, 1, 1, F32),
    CASE("sorted n_q>n_k", "sorted", .25f, NORMAL, 400, 290, 32, 64, 2, 2, 1, 1, F16),
    CASE("mra2", "mra2", .25f, GRID, 256, 256, 64, 64, 2, 2, 1, 1, F32),
    RULE_CASE(MU, "mra2 mu", "mra2", 1, GRID, 256, 256, 32, 32, 2, 1, 1, 0, F32, .counts = { 20 }),
    RULE_CASE(ROW, "mra2 row", "mra2", 1, GRID, 256, 256, 64, 64, 2, 2, 1, 1, F16, .counts = { 3 }),
    CASE("mra2 ragged", "mra2", .25f, NORMAL, 211, 211, 64, 64, 2, 2, 2, 1, F32, .len = { 211, 33 }),
    CASE(
        "mra2 priors", "mra2", 1, GRID, 256, 256, 64, 64, 2, 2, 1, 0, F32, .counts = { 40 }, .first_n = 1, .diag_n = 2),
    CASE("mra2 n_q!=n_k", "mra2", .4f, GRID, 64, 160, 64, 64, 2, 2, 2, 0, F32, .len = { 160, 50 }),
    CASE("mra2 huge", "mra2", .25f, HUGE, 256, 256, 64, 64, 1, 1, 1, 0, F32),
    CASE("mra2 ties", "mra2", .2f, TIES, 256, 256, 32, 32, 1, 1, 1, 0, F32),
    CASE("mra2s", "mra2s", .25f, GRID, 256, 256, 64, 64, 2, 2, 1, 1, F32),
    CASE("mra2s padded", "mra2s", .25f, NORMAL, 100, 100, 64, 64, 1, 1, 3, 1, F32, .len = { 0, 1, 100 }),
    CASE("16,4,1", "16,4,1", .25f, GRID, 128, 128, 64, 64, 2, 2, 1, 1, F32),
    RULE_CASE(MU, "16,4,1 mu", "16,4,1", 1, GRID, 128, 128, 32, 32, 2, 2, 1, 1, F32, .counts = { 20, 100 }),
    RULE_CASE(
        ROW, "16,4,1 row", "16,4,1", 1, NORMAL, 131, 131, 32, 32, 2, 2, 1, 1, F32, .len = { 120 }, .counts = { 3, 5 }),
    RULE_CASE(MU, "8,2,1 ties", "8,2,1", .25f, TIES, 90, 90, 32, 32, 2, 1, 2, 0, F32, .len = { 90, 61 }),
    CASE("64,16,4,1", "64,16,4,1", .3f, GRID, 256, 256, 64, 64, 1, 1, 1, 1, F32),
    CASE("64,16,4,1 ragged", "64,16,4,1", .3f, NORMAL, 241, 241, 40, 24, 2, 1, 2, 1, F32, .len = { 241, 90 }),
    CASE("16,4,1 wide", "16,4,1", 1, GRID, 18, 550, 32, 32, 2, 1, 1, 1, F32, .counts = { 66, 200 }),
    CASE("64,8,1 wide", "64,8,1", .5f, GRID, 130, 900, 32, 32, 1, 1, 1, 1, F32),
};
enum { N_ATTN_CASES = sizeof(attn_cases) / sizeof(attn_cases[0]), N_EXACT_CASES = 11 /* the first ones */ };

// how far a case may be from the reference
static inline double attn_case_tolerance(const struct attn_case * c) {
    const bool exact = strcmp(c->frame, "exact") == 0;
    if (c->kind == DATA_HUGE) return exact ? 1e-3 : 2e-3;
    return exact || c->n_k == 1 ? 1e-5 : 2e-5;
}
