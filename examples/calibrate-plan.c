// Shares s_h of all heads h that make sum_h D_h(s_h) smallest while their mean is 1, where
//     D_h(s) = D_h * E_h(s)/E_h(1),   D_h : 1 - cosine of the results where head h alone is approximate (share 1),
//                                     E_h(s) : squared error of the head's attention at share s (mra_context_errors).
// Errors of single heads are small and nearly independent, so their damages add up.
#include "calibrate-plan.h"
#include "common/args.h"
#include "common/output.h"
#include "common/signals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// shares at which errors are measured; between them log E is a straight line
static const float levels[] = { 0, .125f, .25f, .5f, 1, 1.5f, 2, 3, 4, 6 };
enum {
    N_LEVELS = sizeof(levels) / sizeof(levels[0]),
    LEVEL_ONE = 4, // the share 1
    STEPS = 192,   // shares that a head may get, from 0 to the last level
    ERROR_ROWS = 256,
    ROUNDS = 7, // of the search for a budget
};
#define ALL_KEYS 1e6f
#define LEAST    .5 // smallest share, of the mean

struct search {
    struct stream * s;
    const struct plan_texts * texts;
    int n_head;    // of all layers
    float * exact; // [n_rows][n_cols] of exact attention
    int64_t n_rows, n_cols;
    double * damage; // [n_head]
    double * errors; // [n_head][N_LEVELS]
    float * shares;  // [n_head]
};

struct closeness {
    double cosine, least; // mean, smallest
    double error;         // of attention
};

static void * memory(const struct search * f, size_t n) {
    void * p = calloc(n, 1);
    if (!p) fatal(f->s->program, "out of memory");
    return p;
}

// the texts with this attention; rows belong to *ctx
static struct mra_result run(const struct search * f, const struct mra_context_params * p, struct mra_context ** ctx) {
    struct mra_error err;
    struct mra_result r;
    if (!(*ctx = mra_context_new(f->s->engine.model, p, &err)) ||
        mra_encode(*ctx, f->texts->seqs, f->texts->n, &f->s->want, &r, &err) != MRA_OK)
        fatal(f->s->program, "%s", err.msg);
    return r;
}

static struct mra_context_params sorted(const struct search * f, float budget, const struct mra_plan * plan) {
    struct mra_context_params p = f->s->engine.params;
    p.attention = MRA_ATTENTION_MRA;
    p.attn.frame = MRA_FRAME_SORTED;
    p.attn.budget = budget;
    p.plan = plan;
    return p;
}

static struct mra_plan * shares_plan(const struct search * f) {
    struct mra_error err;
    struct mra_plan * plan = mra_plan_of_shares(f->s->engine.model, f->shares, &err);
    if (!plan) fatal(f->s->program, "%s", err.msg);
    return plan;
}

// 1 - cosine of rows, mean; *most: the largest. As half the squared distance of directions: the difference of nearly
// equal numbers would be rounded away.
static double distance(const struct search * f, const float * rows, double * most) {
    double sum = 0;
    *most = 0;
    for (int64_t i = 0; i < f->n_rows; i++) {
        const float *x = rows + i * f->n_cols, *y = f->exact + i * f->n_cols;
        double xx = 0, yy = 0, d = 0;
        for (int64_t c = 0; c < f->n_cols; c++) {
            xx += (double) x[c] * x[c];
            yy += (double) y[c] * y[c];
        }
        for (int64_t c = 0; c < f->n_cols && xx > 0 && yy > 0; c++) {
            const double z = x[c] / sqrt(xx) - y[c] / sqrt(yy);
            d += z * z / 2;
        }
        sum += d;
        *most = fmax(*most, d);
    }
    return sum / (double) f->n_rows;
}

// f->errors: every head at every level, all heads at once: each is compared with exact attention on its own input
static void measure_errors(struct search * f, float budget) {
    const size_t n = (size_t) f->n_head;
    for (int l = 0; l < N_LEVELS && !interrupted(); l++) {
        for (size_t h = 0; h < n; h++) f->shares[h] = fmaxf(levels[l], 1e-9f);
        struct mra_plan * plan = shares_plan(f);
        struct mra_context_params p = sorted(f, budget, plan);
        p.n_error_rows = ERROR_ROWS;
        struct mra_context * ctx;
        run(f, &p, &ctx);
        for (int i = 0; i < f->texts->n; i++) {
            const double * sums = mra_context_errors(ctx, i);
            for (size_t h = 0; h < n; h++)
                f->errors[h * N_LEVELS + l] += sums[h * MRA_ATTN_ERROR_SUMS + MRA_ATTN_ERROR_E];
        }
        mra_context_free(ctx);
        mra_plan_free(plan);
    }
}

// f->damage: one head after the other, all others exact
static void measure_damage(struct search * f, float budget) {
    for (int h = 0; h < f->n_head && !interrupted(); h++) {
        double most;
        for (int i = 0; i < f->n_head; i++) f->shares[i] = i == h ? 1 : ALL_KEYS;
        struct mra_plan * plan = shares_plan(f);
        const struct mra_context_params p = sorted(f, budget, plan);
        struct mra_context * ctx;
        f->damage[h] = distance(f, run(f, &p, &ctx).data, &most);
        mra_context_free(ctx);
        mra_plan_free(plan);
    }
}

// D_h at share i/STEPS of the last level
static void curve_of(const struct search * f, int h, double * curve) {
    const double * e = f->errors + (size_t) h * N_LEVELS;
    const double least = 1e-6 * e[LEVEL_ONE], unit = e[LEVEL_ONE] > 0 ? f->damage[h] / e[LEVEL_ONE] : 0;
    for (int i = 0, l = 0; i <= STEPS; i++) {
        const double s = (double) levels[N_LEVELS - 1] * i / STEPS;
        while (l + 2 < N_LEVELS && s > levels[l + 1]) l++;
        const double t = (s - levels[l]) / (levels[l + 1] - levels[l]), a = log(fmax(e[l], least) + 1e-300),
                     b = log(fmax(e[l + 1], least) + 1e-300);
        curve[i] = unit * exp(a + t * (b - a));
        if (i > 0 && curve[i] > curve[i - 1]) curve[i] = curve[i - 1]; // more keys are never worse
    }
}

// f->shares: each head the share that makes D_h + price*share smallest, from least to most. Returns their mean.
static double share_out(const struct search * f, const double * curves, double price, double least, double most) {
    const double step = (double) levels[N_LEVELS - 1] / STEPS;
    const int first = (int) ceil(least / step), last = (int) fmin(STEPS, most / step);
    double sum = 0;
    for (int h = 0; h < f->n_head; h++) {
        const double * c = curves + (size_t) h * (STEPS + 1);
        int best = first;
        for (int i = first + 1; i <= last; i++)
            if (c[i] + price * i < c[best] + price * best) best = i;
        f->shares[h] = (float) (best * step);
        sum += best * step;
    }
    return sum / f->n_head;
}

// The plan whose shares have this mean, of the budget at which the curves were measured. No head gets less than LEAST
// of it: a head that needs nothing on the sample may need something on another text.
static struct mra_plan * plan_of(struct search * f, const double * curves, double mean, double most) {
    double low = 1e-18, high = 1; // price of a key: the lower, the more keys
    for (int i = 0; i < 100; i++) {
        const double price = sqrt(low * high);
        if (share_out(f, curves, price, LEAST * mean, most) > mean) low = price;
        else high = price;
    }
    share_out(f, curves, high, LEAST * mean, most);
    struct mra_error err;
    struct mra_plan * plan = mra_plan_new(f->s->engine.model, f->shares, &err);
    if (!plan) fatal(f->s->program, "%s", err.msg);
    return plan;
}

// plan NULL: all heads alike
static struct closeness closeness_of(const struct search * f, float budget, const struct mra_plan * plan) {
    struct mra_context_params p = sorted(f, budget, plan);
    p.no_plan = !plan;
    p.n_error_rows = ERROR_ROWS;
    struct mra_context * ctx;
    struct closeness c = { 0 };
    const struct mra_result r = run(f, &p, &ctx);
    c.cosine = 1 - distance(f, r.data, &c.least);
    c.least = 1 - c.least;
    const struct mra_model_info * info = &f->s->engine.info;
    for (int i = 0; i < f->texts->n; i++)
        c.error += mra_error_summary_of(mra_context_errors(ctx, i), info->n_layer, info->n_head).all.error /
            f->texts->n;
    mra_context_free(ctx);
    return c;
}

// kept keys of a long text, as a part of all
static double kept(double budget) { return budget > 1.0 / 8 ? budget - 1.0 / 16 : budget / 2; }

// The plan of a budget other than that of the curves: of so many keys in the mean, but for the scale the same.
static struct mra_plan * plan_at(struct search * f, const double * curves, float measured, float budget) {
    return plan_of(f, curves, kept(budget) / kept(measured), 1 / kept(measured));
}

static bool meets(const struct closeness * c, const struct plan_target * t) {
    return t->cosine > 0 ? c->cosine >= t->cosine : c->error <= t->error;
}

// the smallest budget whose plan meets the target
static float find_budget(struct search * f, const double * curves, const struct plan_target * t) {
    float low = 1.0f / 16, high = 1;
    for (int i = 0; i < ROUNDS && !interrupted(); i++) {
        const float w = (low + high) / 2;
        struct mra_plan * plan = plan_at(f, curves, t->budget, w);
        const struct closeness c = closeness_of(f, w, plan);
        if (meets(&c, t)) high = w;
        else low = w;
        mra_plan_free(plan);
    }
    return high;
}

static void say(const struct search * f, const struct plan_target * t, float budget, const struct mra_plan * plan) {
    const struct closeness with = closeness_of(f, budget, plan), without = closeness_of(f, budget, NULL);
    int longest = 0;
    for (int i = 0; i < f->texts->n; i++)
        if (f->texts->seqs[i].n > longest) longest = f->texts->seqs[i].n;
    fprintf(stderr,
        "%s: plan of %d heads on %d texts of up to %d tokens; budget %.4g: cosine to exact attention %.5f (smallest "
        "%.5f), error of attention %.3g; all heads alike: %.5f (%.5f), %.3g\n",
        t->out, f->n_head, f->texts->n, longest, (double) budget, with.cosine, with.least, with.error, without.cosine,
        without.least, without.error);
}

static void save(const struct search * f, const struct plan_target * t, const struct mra_plan * plan) {
    struct mra_error err;
    const size_t n = strlen(t->out);
    const bool whole = n > 5 && strcmp(t->out + n - 5, ".gguf") == 0;
    if (mra_plan_save(plan, whole ? f->s->o->model : NULL, t->out, &err) != MRA_OK) fatal(f->s->program, "%s", err.msg);
}

void plan_find(struct stream * s, const struct plan_texts * texts, const struct plan_target * t) {
    struct search f = { .s = s, .texts = texts, .n_head = s->engine.info.n_layer * s->engine.info.n_head };
    const size_t n = (size_t) f.n_head;
    struct mra_context_params exact = s->engine.params;
    struct mra_context * ctx;
    exact.attention = MRA_ATTENTION_EXACT;
    exact.attention_type = MRA_ATTENTION_TYPE_FLOAT;
    const struct mra_result r = run(&f, &exact, &ctx);
    f.n_rows = r.n_rows;
    f.n_cols = r.n_cols;
    f.exact = memory(&f, (size_t) (r.n_rows * r.n_cols) * sizeof(float));
    memcpy(f.exact, r.data, (size_t) (r.n_rows * r.n_cols) * sizeof(float));
    mra_context_free(ctx);
    f.damage = memory(&f, n * sizeof(double));
    f.errors = memory(&f, n * N_LEVELS * sizeof(double));
    f.shares = memory(&f, n * sizeof(float));
    double * curves = memory(&f, n * (STEPS + 1) * sizeof(double));
    measure_errors(&f, t->budget);
    measure_damage(&f, t->budget);
    for (int h = 0; h < f.n_head; h++) curve_of(&f, h, curves + (size_t) h * (STEPS + 1));
    const float budget = t->cosine > 0 || t->error > 0 ? find_budget(&f, curves, t) : t->budget;
    struct mra_plan * plan = plan_at(&f, curves, t->budget, budget);
    if (!interrupted()) {
        save(&f, t, plan);
        say(&f, t, budget, plan);
    }
    mra_plan_free(plan);
    free(curves);
    free(f.shares);
    free(f.errors);
    free(f.damage);
    free(f.exact);
}

// ---- texts ----

void plan_add(struct stream * s, struct plan_texts * t, const struct item * it) {
    for (int i = 0; i < it->n_seq; i++) {
        const struct mra_seq * from = &it->seqs[i];
        if (t->n == t->cap) {
            t->cap = t->cap ? 2 * t->cap : 16;
            t->seqs = realloc(t->seqs, (size_t) t->cap * sizeof(*t->seqs));
        }
        struct mra_token * tokens = malloc((size_t) from->n * sizeof(*tokens));
        if (!t->seqs || !tokens) fatal(s->program, "out of memory");
        memcpy(tokens, from->tokens, (size_t) from->n * sizeof(*tokens));
        t->seqs[t->n++] = (struct mra_seq) { .n = from->n, .tokens = tokens };
    }
}

void plan_texts_free(struct plan_texts * t) {
    for (int i = 0; i < t->n; i++) free((void *) t->seqs[i].tokens);
    free(t->seqs);
}
