// Settings of the whole attention: presets, names, checks, and what a budget means in cells.
#include "checks.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

_Static_assert(MRA_PLAN_LEVELS == MRA_MAX_LEVELS && MRA_PLAN_ROW == (int) MRA_RULE_ROW &&
        MRA_PLAN_MU == (int) MRA_RULE_MU && MRA_PLAN_ROWMAX == (int) MRA_RULE_ROWMAX &&
        MRA_PLAN_EXACT == (int) MRA_FRAME_EXACT && MRA_PLAN_COLUMNS == (int) MRA_FRAME_COLUMNS &&
        MRA_PLAN_SQUARE == (int) MRA_FRAME_SQUARE,
    "plan.h says the same as ggml-mra.h");

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
    p.sizes[0] = 32;
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
    p.counts[0] = max_pos / 32 * block_per_row;
    p.first_n = first_n;
    p.diag_n = diag_n;
    p.finest_only = finest_only;
    return p;
}

enum mra_status mra_attn_params_parse(struct mra_attn_params * p, const char * name, struct mra_error * err) {
    if (!p) return mra_fail(err, MRA_ERR_ARG, "settings are NULL");
    if (!name) return mra_fail(err, MRA_ERR_ARG, "the frame's name is NULL");
    const float budget = p->budget;
    struct mra_attn_params r;
    if (strcmp(name, "exact") == 0) r = mra_attn_params_exact();
    else if (strcmp(name, "columns") == 0) r = preset(MRA_FRAME_COLUMNS, budget);
    else if (strcmp(name, "mra2") == 0) r = mra_attn_params_mra2(budget);
    else if (strcmp(name, "mra2s") == 0) r = mra_attn_params_mra2s(budget);
    else {
        r = preset(MRA_FRAME_SQUARE, budget);
        int n = 0;
        for (const char * s = name;; s++) {
            char * end;
            const long v = strtol(s, &end, 10);
            if (end == s || v < 1 || v > MRA_MAX_SIZE || n == MRA_MAX_LEVELS || (*end && *end != ',')) {
                return mra_fail(
                    err, MRA_ERR_ARG, "frame '%.40s' is not exact, columns, mra2, mra2s or sizes such as 16,4,1", name);
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
    if (p->first_n < 0 || p->first_n > 65535)
        return mra_fail(err, MRA_ERR_ARG, "first_n = %d is not in 0..65535", p->first_n);
    if (p->diag_n < 0 || p->diag_n > 65535)
        return mra_fail(err, MRA_ERR_ARG, "diag_n = %d is not in 0..65535", p->diag_n);
    if (p->n_threads < 0) return mra_fail(err, MRA_ERR_ARG, "n_threads = %d is negative", p->n_threads);
    if ((unsigned) p->type > MRA_ATTN_INT8) return mra_fail(err, MRA_ERR_ARG, "unknown type %d", (int) p->type);
    if (p->type == MRA_ATTN_INT8 && p->frame == MRA_FRAME_SQUARE)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "attention in int8: frames are exact and columns, not square ones");
    if ((unsigned) p->rule > MRA_RULE_ROWMAX) return mra_fail(err, MRA_ERR_ARG, "unknown rule %d", (int) p->rule);
    if (p->frame == MRA_FRAME_EXACT) return MRA_OK;
    if (p->counts[0] < 0 && (!(p->budget > 0) || p->budget > 1))
        return mra_fail(err, MRA_ERR_ARG, "budget %g is not in (0, 1]", (double) p->budget);
    switch (p->frame) {
        case MRA_FRAME_COLUMNS:
            if (p->block != 0 && p->block != 16 && p->block != 32)
                return mra_fail(err, MRA_ERR_ARG, "block %d is not 16 or 32", p->block);
            if (p->counts[0] >= 0 && p->counts[1] < 0)
                return mra_fail(err, MRA_ERR_ARG, "columns need two counts: key blocks, keys");
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

int mra_slots(int n_threads) {
    long n = n_threads > 0 ? n_threads : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 512 ? 512 : (int) n;
}

double mra_attn_work(const struct mra_attn_params * p, int64_t n_q, int64_t n_k) {
    if (mra_check_params(p, NULL) != MRA_OK || n_q < 1 || n_k < 1 || n_q > INT32_MAX || n_k > INT32_MAX) return -1;
    if (p->frame == MRA_FRAME_EXACT) return 1;
    if (p->frame == MRA_FRAME_COLUMNS) {
        const struct mra_columns_plan c = mra_plan_columns(p->budget, p->counts[0], p->counts[1], p->block, (int) n_k);
        if (c.exact) return 1;
        const double rows = (double) (mra_blocks(n_q, MRA_QUERY_BLOCK)), n_b = (double) (mra_blocks(n_k, c.g));
        const double scored = c.m1 < n_b ? rows * n_b * (c.bound ? 2 : 1) : 0,
                     expanded = fmin((double) c.m1 * c.g, (double) n_k);
        return scored / ((double) n_q * n_k) + rows * expanded / ((double) n_q * n_k) + (double) c.m2 / n_k;
    }
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
