// What budgets and lengths mean in cells and rows: plain arithmetic on numbers. Also computed on devices, where lengths
// are data: one source for C and CUDA, so that all give the same numbers.
#pragma once

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#    define MRA_INLINE static __host__ __device__ inline
#else
#    define MRA_INLINE static inline
#endif

#define MRA_LOG2E 1.44269504f // log2(e): kernels compute 2^x

// The columns frame: a query block has 16 queries; a key block has 16 keys, or 32 in long sequences.
enum {
    MRA_QUERY_BLOCK = 16,
    MRA_KEY_BLOCK = 16,
    MRA_KEY_BLOCK_WIDE = 32,
    MRA_WIDE_KEYS = 2048, // key blocks are wide from this many keys on ...
};
// ... and below this budget, where they are also chosen by the score of their means, not by the bound
#define MRA_WIDE_BUDGET (1.0f / 32)
// of the work that the scores of the coarsest level leave, what each further level but the last may take
#define MRA_LEVEL_SHARE .3

// The sorted frame: columns over query blocks that are alike.
enum {
    MRA_SORTED_EXACT = 256,  // up to so many keys it is exact: sorting would cost more than it saves
    MRA_SORTED_ALL = 128,    // one of so many query blocks uses all keys,
    MRA_SORTED_WHOLE = 1024, // and from so many keys on a budget of 1/8 is enough to expand all of them; else 1/4
    MRA_SORTED_KEYS = 128,   // the order looks at about so many keys,
    MRA_SORTED_ROWS = 24,    // and at about so many queries of a node
    MRA_SORTED_DIM = 64,     // head size that the order's work is counted for
};
#define MRA_SORTED_ALL_BUDGET (1.0f / 16) // below, no query block uses all keys

// as ggml-mra.h has them
enum {
    MRA_PLAN_LEVELS = 5,
    MRA_PLAN_ROW = 0,
    MRA_PLAN_MU,
    MRA_PLAN_ROWMAX,
    MRA_PLAN_EXACT = 0,
    MRA_PLAN_COLUMNS,
    MRA_PLAN_SQUARE,
    MRA_PLAN_SORTED
};

MRA_INLINE int mra_div_up(int a, int b) { return (a + b - 1) / b; }
MRA_INLINE int mra_min(int a, int b) { return a < b ? a : b; }

// never fused with an addition, so that every compiler rounds alike
MRA_INLINE double mra_mul(double a, double b) {
#if defined(__CUDA_ARCH__)
    return __dmul_rn(a, b);
#else
    return a * b;
#endif
}

// Valid queries and keys of sequence b: from I32 [n_batch], or {queries, keys} pairs, at `lengths` (NULL: all); cut to
// n_q, n_k.
struct mra_len {
    int n_q, n_k;
};
MRA_INLINE struct mra_len mra_len_at(
    const char * lengths, bool pairs, size_t nb0, size_t nb1, int64_t b, int n_q, int n_k) {
    int32_t lq = n_q, lk = n_k;
    if (lengths && pairs) {
        lq = *(const int32_t *) (lengths + b * nb1);
        lk = *(const int32_t *) (lengths + b * nb1 + nb0);
    } else if (lengths) {
        lk = *(const int32_t *) (lengths + b * nb0);
        lq = n_q == n_k ? lk : n_q;
    }
    struct mra_len r;
    r.n_q = lq < 0 ? 0 : mra_min(lq, n_q);
    r.n_k = lk < 0 ? 0 : mra_min(lk, n_k);
    return r;
}

// One float that sorts first by `named`, the number of priors that name a cell (0 to 3), then by the cell's score. The
// score keeps 20 bits of its fraction; adding a large number per prior instead would leave it fewer.
MRA_INLINE float mra_named_key(float key, int named) {
    if (!(key >= -FLT_MAX)) return key; // -inf and NaN stay: they are never chosen
    uint32_t u;
    key += 0.0f; // -0 becomes 0
    memcpy(&u, &key, sizeof(u));
    u = u >> 31 ? ~u : u | 1u << 31; // unsigned numbers in the order of the floats
    u = (u >> 3) + ((uint32_t) (named + 2) << 29);
    u = u >> 31 ? u ^ 1u << 31 : ~u;
    memcpy(&key, &u, sizeof(u));
    return key;
}

// how many priors of the columns frame name key block y (of g keys) for query block x
MRA_INLINE int mra_columns_priors(int first_n, int diag_n, int g, int x, int y) {
    const int off = y - x * MRA_QUERY_BLOCK / g;
    return (y < first_n) + (diag_n > 0 && (off < 0 ? -off : off) <= diag_n / 2);
}

// how many priors of a square frame name cell (x, y)
MRA_INLINE int mra_square_priors(int first_n, int diag_n, int x, int y) {
    return (x < first_n) + (y < first_n) + (diag_n > 0 && (x > y ? x - y : y - x) <= diag_n / 2);
}

// keys per block of the columns frame where the user sets none
MRA_INLINE int mra_key_block(int n_k) { return n_k >= MRA_WIDE_KEYS ? MRA_KEY_BLOCK_WIDE : MRA_KEY_BLOCK; }

// The columns frame for one sequence.
struct mra_columns_plan {
    bool exact; // the budget covers everything
    bool bound; // key blocks are chosen by the min/max bound, else by the score of their means
    int g;      // keys per block
    int m1, m2; // blocks expanded, keys kept
};
MRA_INLINE struct mra_columns_plan mra_plan_columns(float budget, int m1, int m2, int block, int n_k) {
    const bool from_budget = m1 < 0, pooled = from_budget && budget < MRA_WIDE_BUDGET;
    struct mra_columns_plan p;
    p.bound = !pooled;
    p.g = block ? block : pooled ? MRA_KEY_BLOCK_WIDE : mra_key_block(n_k);
    const int n_b = mra_div_up(n_k, p.g);
    if (from_budget) {
        // work = (bound ? 2 : 1)/(hG) + m1 G/(h n) + m2/n; MRA_LEVEL_SHARE of what the scores leave goes to m1
        const double b = budget - (pooled ? 1.0 : 2.0) / (MRA_QUERY_BLOCK * p.g),
                     e = fmax(1.0, rint(MRA_LEVEL_SHARE * b * MRA_QUERY_BLOCK * n_k / p.g));
        m1 = e < n_b ? (int) e : n_b;
        const double left = mra_mul(b, n_k), spent = (double) m1 * p.g / MRA_QUERY_BLOCK;
        m2 = (int) fmax(0.0, fmin((double) n_k, rint(left - spent)));
    }
    p.m1 = mra_min(m1, n_b);
    p.m2 = mra_min(mra_min(m2, p.m1 * p.g), n_k);
    p.exact = (p.m1 == n_b && p.m2 == n_k) || (from_budget && budget >= 1);
    return p;
}

// Work of the sorted frame before any attention, of exact attention's: the keys' covariance; at every level of the tree
// the projections of all queries; at every node of it its direction; the statistics of query blocks, the keys' biases.
MRA_INLINE double mra_sorted_order_work(int n_q, int n_k) {
    int n_level = 0;
    while (((int64_t) MRA_QUERY_BLOCK << n_level) < n_q) n_level++;
    const int node = 4 * MRA_SORTED_ROWS + MRA_SORTED_DIM, per_query = n_level + 3 + node / MRA_QUERY_BLOCK;
    const int64_t n = (int64_t) mra_min(n_k, MRA_SORTED_KEYS) * MRA_SORTED_DIM + (int64_t) n_q * per_query +
        (int64_t) n_k * 4;
    return (double) n / (2.0 * n_q * n_k);
}

// query blocks of n_q queries that use all keys
MRA_INLINE int mra_sorted_all_keys(float budget, int n_q) {
    return budget < MRA_SORTED_ALL_BUDGET ? 0 : mra_div_up(n_q, MRA_QUERY_BLOCK) / MRA_SORTED_ALL;
}

// The sorted frame for one sequence of as many queries as keys. work = order + a + (1 - a) (m1 G/(h n) + m2/n + (m1 <
// n/G ? 2/(hG) : 0)), a: the share of the query blocks that use all keys.
MRA_INLINE struct mra_columns_plan mra_plan_sorted(float budget, int m1, int m2, int block, int n_k) {
    const bool from_budget = m1 < 0;
    struct mra_columns_plan p;
    p.bound = true;
    p.g = block ? block : mra_key_block(n_k);
    const int n_b = mra_div_up(n_k, p.g);
    if (from_budget) {
        const double a = (double) mra_sorted_all_keys(budget, n_k) * MRA_QUERY_BLOCK / n_k;
        double b = (budget - mra_sorted_order_work(n_k, n_k) - a) / (1 - a);
        if (budget >= 1.0f / 4 || (budget >= 1.0f / 8 && n_k >= MRA_SORTED_WHOLE)) m1 = n_b;
        else { // half of the key blocks, or half of what the scores leave
            b -= 2.0 / (MRA_QUERY_BLOCK * p.g);
            const double e = fmax(1.0, rint(.5 * b * MRA_QUERY_BLOCK * n_k / p.g));
            m1 = .6 * b >= .5 / MRA_QUERY_BLOCK || e > n_b / 2 ? mra_div_up(n_b, 2) : (int) e;
        }
        const double left = mra_mul(b, n_k), spent = (double) m1 * p.g / MRA_QUERY_BLOCK;
        m2 = (int) fmax(0.0, fmin((double) n_k, rint(left - spent)));
    }
    p.m1 = mra_min(m1, n_b);
    p.m2 = mra_min(mra_min(m2, p.m1 * p.g), n_k);
    p.exact = (p.m1 == n_b && p.m2 == n_k) || (from_budget && (budget >= 1 || n_k <= MRA_SORTED_EXACT));
    return p;
}

// What `share` leaves of plan p for one head, the others having other shares: share times its kept keys. Where that and
// the columns are no less work than all keys, it uses all of them. A share that is no number >= 0 counts as 1.
MRA_INLINE struct mra_columns_plan mra_plan_share(struct mra_columns_plan p, float share, int n_k) {
    const double m = rint(mra_mul(share >= 0 ? share : 1, p.m2)), columns = (double) p.m1 * p.g / MRA_QUERY_BLOCK;
    if (p.exact) return p;
    p.exact = p.m1 * p.g >= n_k && m + columns >= n_k;
    p.m2 = p.exact || m > mra_min(p.m1 * p.g, n_k) ? mra_min(p.m1 * p.g, n_k) : (int) m;
    return p;
}

// Of all sequences up to max_len, one of these two lengths (i = 0, 1) needs the most memory: a shorter sequence needs
// no more than a longer one, except where the longer one's key blocks are wide. (Sorted: and up to 17 kept keys more,
// where the longer one has one query block more that uses all keys.)
MRA_INLINE int mra_columns_worst_length(int max_len, int i) {
    return i == 0 || max_len < MRA_WIDE_KEYS ? max_len : MRA_WIDE_KEYS - 1;
}

// Cells refined at each level of a square frame (sizes ends with 1, then 0), per row of cells or per head.
MRA_INLINE void mra_plan_square(const int * sizes, const int * explicit_counts, float budget, int rule, int64_t n_q,
    int64_t n_k, int64_t * counts) {
    const double pairs = (double) n_q * n_k;
    double left = budget - 1.0 / ((double) sizes[0] * sizes[0]);
    int64_t cells = ((n_q + sizes[0] - 1) / sizes[0]) * ((n_k + sizes[0] - 1) / sizes[0]); // candidates of the level
    for (int i = 0; i + 1 < MRA_PLAN_LEVELS && sizes[i + 1] > 0; i++) {
        const bool last = sizes[i + 1] == 1;
        const int64_t rows = (n_q + sizes[i] - 1) / sizes[i],
                      r2 = (int64_t) (sizes[i] / sizes[i + 1]) * (sizes[i] / sizes[i + 1]);
        const double share = last ? left : MRA_LEVEL_SHARE * left;
        int64_t m = budget >= 1 ? cells : (int64_t) fmax(1.0, fmin((double) cells, rint(share * pairs / r2)));
        if (explicit_counts && explicit_counts[0] >= 0)
            m = rule == MRA_PLAN_ROW ? explicit_counts[i] * rows : explicit_counts[i];
        if (m > cells) m = cells;
        if (rule == MRA_PLAN_ROW) {
            counts[i] = explicit_counts && explicit_counts[0] >= 0 ? explicit_counts[i]
                : rows                                             ? (int64_t) fmax(1.0, rint((double) m / rows))
                                                                   : 0;
            if (rows) m = counts[i] * rows < cells ? counts[i] * rows : cells;
        } else {
            counts[i] = m;
        }
        left -= (double) m * r2 / pairs;
        cells = m * r2;
    }
}
