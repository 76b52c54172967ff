// Settings of the whole attention: presets, names, checks, and what a budget means in cells.
#include "checks.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

_Static_assert(MRA_PLAN_LEVELS == MRA_MAX_LEVELS && MRA_PLAN_ROW == (int) MRA_RULE_ROW &&
        MRA_PLAN_MU == (int) MRA_RULE_MU && MRA_PLAN_ROWMAX == (int) MRA_RULE_ROWMAX &&
        MRA_PLAN_EXACT == (int) MRA_FRAME_EXACT && MRA_PLAN_COLUMNS == (int) MRA_FRAME_COLUMNS &&
        MRA_PLAN_SQUARE == (int) MRA_FRAME_SQUARE && MRA_PLAN_SORTED == (int) MRA_FRAME_SORTED,
    "plan.h says the same as ggml-mra.h");

enum {
    MRA2_BLOCK = 32, // the paper's cells of MRA-2
    MAX_PRIOR = UINT16_MAX,
    MAX_SLOTS = 512,
};

static struct mra_attn_params preset(enum mra_frame frame, float budget) {
    struct mra_attn_params p = { .frame = frame, .budget = budget, .rule = MRA_RULE_ROWMAX };
    for (int i = 0; i < MRA_MAX_LEVELS; i++) p.counts[i] = -1;
    return p;
}

struct mra_attn_params mra_attn_params_default(void) {
    return preset(MRA_FRAME_COLUMNS, 0.125f);
}
struct mra_attn_params mra_attn_params_exact(void) {
    return preset(MRA_FRAME_EXACT, 1.0f);
}

struct mra_attn_params mra_attn_params_mra2(float budget) {
    struct mra_attn_params p = preset(MRA_FRAME_SQUARE, budget);
    p.sizes[0] = MRA2_BLOCK;
    p.sizes[1] = 1;
    return p;
}

struct mra_attn_params mra_attn_params_mra2s(float budget) {
    struct mra_attn_params p = mra_attn_params_mra2(budget);
    p.finest_only = true;
    return p;
}

struct mra_attn_params mra_attn_params_checkpoint(
    int max_pos, int block_per_row, int first_n, int diag_n, bool finest_only) {
    struct mra_attn_params p = mra_attn_params_mra2(1.0f);
    p.counts[0] = max_pos / MRA2_BLOCK * block_per_row;
    p.first_n = first_n;
    p.diag_n = diag_n;
    p.finest_only = finest_only;
    return p;
}

enum mra_status mra_attn_params_parse(struct mra_attn_params * p, const char * name, struct mra_error * err) {
    if (!p) return mra_fail(err, MRA_ERR_ARG, "settings are NULL");
    if (!name) return mra_fail(err, MRA_ERR_ARG, "the frame's name is NULL");
    const float budget = p->budget == 0 ? mra_attn_params_default().budget : p->budget; // 0: nobody chose it
    struct mra_attn_params r;
    if (strcmp(name, "exact") == 0) r = mra_attn_params_exact();
    else if (strcmp(name, "columns") == 0) r = preset(MRA_FRAME_COLUMNS, budget);
    else if (strcmp(name, "sorted") == 0) r = preset(MRA_FRAME_SORTED, budget);
    else if (strcmp(name, "mra2") == 0) r = mra_attn_params_mra2(budget);
    else if (strcmp(name, "mra2s") == 0) r = mra_attn_params_mra2s(budget);
    else {
        r = preset(MRA_FRAME_SQUARE, budget);
        int n = 0;
        for (const char * s = name;; s++) {
            char * end;
            const long v = strtol(s, &end, 10);
            if (end == s || v < 1 || v > MRA_MAX_SIZE || n == MRA_MAX_LEVELS || (*end && *end != ',')) {
                return mra_fail(err, MRA_ERR_ARG,
                    "frame '%.40s' is not exact, columns, sorted, mra2, mra2s or sizes such as 16,4,1", name);
            }
            r.sizes[n++] = (int) v;
            if (!*end) break;
            s = end;
        }
    }
    r.n_threads = p->n_threads;
    r.type = p->type;
    const enum mra_status st = mra_check_params(&r, err);
    if (st == MRA_OK) *p = r;
    return st;
}

static enum mra_status check_sizes(const int * s, struct mra_error * err) {
    int n = 0;
    while (n < MRA_MAX_LEVELS && s[n] > 0) n++;
    if (n < 2 || s[n - 1] != 1)
        return mra_fail(err, MRA_ERR_ARG, "a square frame needs two to %d sizes, the last one 1", MRA_MAX_LEVELS);
    for (int i = 0; i < n; i++) {
        if (s[i] > MRA_MAX_SIZE) return mra_fail(err, MRA_ERR_ARG, "size %d is larger than %d", s[i], MRA_MAX_SIZE);
        if (i > 0 && (s[i] >= s[i - 1] || s[i - 1] % s[i]))
            return mra_fail(err, MRA_ERR_ARG, "size %d is no proper divisor of %d", s[i], s[i - 1]);
    }
    return MRA_OK;
}

enum mra_status mra_check_params(const struct mra_attn_params * p, struct mra_error * err) {
    if (!p) return mra_fail(err, MRA_ERR_ARG, "settings are NULL");
    if (!(p->scale >= 0) || !isfinite(p->scale))
        return mra_fail(err, MRA_ERR_ARG, "scale %g is not a positive number", (double) p->scale);
    if (p->first_n < 0 || p->first_n > MAX_PRIOR)
        return mra_fail(err, MRA_ERR_ARG, "first_n = %d is not in 0..%d", p->first_n, MAX_PRIOR);
    if (p->diag_n < 0 || p->diag_n > MAX_PRIOR)
        return mra_fail(err, MRA_ERR_ARG, "diag_n = %d is not in 0..%d", p->diag_n, MAX_PRIOR);
    if (p->n_threads < 0) return mra_fail(err, MRA_ERR_ARG, "n_threads = %d is negative", p->n_threads);
    if ((unsigned) p->type > MRA_ATTN_INT8) return mra_fail(err, MRA_ERR_ARG, "unknown type %d", (int) p->type);
    if (p->type == MRA_ATTN_INT8 && p->frame == MRA_FRAME_SQUARE)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "attention in int8: frames are exact and columns, not square ones");
    if ((unsigned) p->rule > MRA_RULE_ROWMAX) return mra_fail(err, MRA_ERR_ARG, "unknown rule %d", (int) p->rule);
    if (p->frame == MRA_FRAME_EXACT) return MRA_OK;
    if (p->counts[0] < 0 && (!(p->budget > 0) || p->budget > 1))
        return mra_fail(err, MRA_ERR_ARG, "budget %g is not in (0, 1]", (double) p->budget);
    switch (p->frame) {
        case MRA_FRAME_SORTED:
            if (p->first_n || p->diag_n)
                return mra_fail(err, MRA_ERR_UNSUPPORTED,
                    "the sorted frame has no priors (first_n, diag_n): its query blocks have no place in the text");
            // fallthrough
        case MRA_FRAME_COLUMNS:
            if (p->block != 0 && p->block != MRA_KEY_BLOCK && p->block != MRA_KEY_BLOCK_WIDE)
                return mra_fail(
                    err, MRA_ERR_ARG, "block %d is not %d or %d", p->block, MRA_KEY_BLOCK, MRA_KEY_BLOCK_WIDE);
            if (p->counts[0] >= 0 && p->counts[1] < 0)
                return mra_fail(err, MRA_ERR_ARG, "%s need two counts: key blocks, keys",
                    p->frame == MRA_FRAME_SORTED ? "sorted columns" : "columns");
            return MRA_OK;
        case MRA_FRAME_SQUARE: {
            const enum mra_status st = check_sizes(p->sizes, err);
            if (st != MRA_OK) return st;
            for (int i = 0; p->counts[0] >= 0 && i + 1 < MRA_MAX_LEVELS && p->sizes[i + 1]; i++) {
                if (p->counts[i] < 0) return mra_fail(err, MRA_ERR_ARG, "no count for level %d", i);
            }
            return MRA_OK;
        }
        default: return mra_fail(err, MRA_ERR_ARG, "unknown frame %d", (int) p->frame);
    }
}

enum mra_attn_type mra_attn_type_runs(enum mra_attn_type type) {
    return type == MRA_ATTN_INT8 && mra_kernels_get()->int8.attn ? MRA_ATTN_INT8 : MRA_ATTN_FLOAT;
}

const char * mra_attn_type_name(enum mra_attn_type type) {
    return type == MRA_ATTN_FLOAT ? "float" : type == MRA_ATTN_INT8 ? "int8" : NULL;
}

const char * mra_attn_numbers(enum mra_attn_type type) {
    const struct mra_int8_kernels * k = &mra_kernels_get()->int8;
    if (mra_attn_type_runs(type) == MRA_ATTN_FLOAT) return "float";
    return k->form.w_max == 0 ? "bf16" : k->form.w_max < 256 ? "int8" : "int16";
}

int mra_slots(int n_threads) {
    long n = n_threads > 0 ? n_threads : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_SLOTS ? MAX_SLOTS : (int) n;
}

// share: of the head, NULL: none is given
static double columns_work(const struct mra_attn_params * p, int n_q, int n_k, const float * share) {
    const bool sorted = p->frame == MRA_FRAME_SORTED;
    const int * m = p->counts;
    struct mra_columns_plan c = sorted ? mra_plan_sorted(p->budget, m[0], m[1], p->block, n_k)
                                       : mra_plan_columns(p->budget, m[0], m[1], p->block, n_k);
    if (share) c = mra_plan_share(c, *share, n_k);
    if (c.exact) return 1;
    const double pairs = (double) n_q * n_k, n_b = (double) (mra_blocks(n_k, c.g));
    double rows = (double) (mra_blocks(n_q, MRA_QUERY_BLOCK)), order = 0, all = 0;
    if (sorted) {
        const struct mra_attn_node a = { .m1 = m[0], .budget = p->budget, .n_all = m[0] < 0 ? -1 : m[2] };
        order = mra_sorted_order_work(n_q, n_k);
        all = mra_attn_all_keys(&a, n_q);
    }
    const double scored = c.m1 < n_b ? (rows - all) * n_b * (c.bound ? 2 : 1) : 0,
                 expanded = (rows - all) * fmin((double) c.m1 * c.g, (double) n_k), exact = fmin(1, all / rows);
    return order + exact + (scored + expanded) / pairs + (1 - exact) * c.m2 / n_k;
}

double mra_attn_work(const struct mra_attn_params * p, int64_t n_q, int64_t n_k) {
    if (mra_check_params(p, NULL) != MRA_OK || n_q < 1 || n_k < 1 || n_q > INT32_MAX || n_k > INT32_MAX) return -1;
    if (p->frame == MRA_FRAME_EXACT) return 1;
    if (p->frame == MRA_FRAME_COLUMNS || p->frame == MRA_FRAME_SORTED)
        return columns_work(p, (int) n_q, (int) n_k, NULL);
    int64_t counts[MRA_MAX_LEVELS];
    mra_plan_square(p->sizes, p->counts, p->budget, p->rule, n_q, n_k, counts);
    double cells = (double) ((n_q + p->sizes[0] - 1) / p->sizes[0]) * ((n_k + p->sizes[0] - 1) / p->sizes[0]),
           work = cells;
    for (int i = 0; i + 1 < MRA_MAX_LEVELS && p->sizes[i + 1]; i++) {
        const double r = p->sizes[i] / p->sizes[i + 1], rows = (double) ((n_q + p->sizes[i] - 1) / p->sizes[i]);
        cells = fmin(cells, p->rule == MRA_RULE_ROW ? counts[i] * rows : (double) counts[i]) * r * r;
        work += cells;
    }
    return fmin(work / ((double) n_q * n_k), 1 + 1.0 / (p->sizes[0] * p->sizes[0]));
}

double mra_attn_work_shares(
    const struct mra_attn_params * p, int64_t n_q, int64_t n_k, const float * shares, int n_head) {
    double work = mra_attn_work(p, n_q, n_k);
    if (work < 0 || !shares || n_head < 1 || p->frame != MRA_FRAME_SORTED) return work;
    work = 0;
    for (int h = 0; h < n_head; h++) work += columns_work(p, (int) n_q, (int) n_k, &shares[h]);
    return work / n_head;
}
