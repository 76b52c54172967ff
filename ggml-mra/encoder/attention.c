// Exact attention, or the settings of the model or of the context: exact(n) = asked for, or n is short, or the settings
// cover every pair of n tokens. Settings that nobody chose follow the length.
#include "attention.h"
#include "context.h"
#include "head-plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool uses_its_own(const struct mra_model * m, const struct mra_context_params * p) {
    return p->attention == MRA_ATTENTION_AUTO && m->info.has_mra;
}

static bool on_cpu(const struct mra_model * m) { return ggml_backend_dev_type(m->dev) == GGML_BACKEND_DEVICE_TYPE_CPU; }

static bool chooses_itself(const struct mra_model * m, const struct mra_context_params * p) {
    return p->attention == MRA_ATTENTION_AUTO && !m->info.has_mra && on_cpu(m) && p->attn.counts[0] < 0 &&
        p->attn.budget == MRA_AUTO_BUDGET;
}

// The automatic choice for a text of n tokens: the sorted frame with the smallest of the budgets 3/8, 5/16, 1/4 that
// was measured to give embeddings a cosine of about .999 to exact attention's (docs/attention.md).
static void choose_by_length(struct mra_attn_params * attn, int n) {
    attn->frame = MRA_FRAME_SORTED;
    attn->budget = n < 4096 ? 3.0f / 8 : n < 16384 ? 5.0f / 16 : 1.0f / 4;
}

// in what a node of this frame computes; attention with ALiBi has no integers
static enum mra_attn_type type_of(
    const struct mra_model * m, const struct mra_context_params * p, enum mra_frame frame) {
    const bool quantized = ggml_is_quantized(m->layers[0].up.w->type),
               wanted = p->attention_type == MRA_ATTENTION_TYPE_INT8 ||
        (p->attention_type == MRA_ATTENTION_TYPE_AUTO && quantized);
    if (!wanted || frame == MRA_FRAME_SQUARE || m->arch.position == MRA_POSITION_ALIBI || !on_cpu(m))
        return MRA_ATTN_FLOAT;
    return mra_attn_type_runs(MRA_ATTN_INT8);
}

struct mra_attn_params mra_attention_approximate(
    const struct mra_model * m, const struct mra_context_params * p, int n_tokens) {
    struct mra_attn_params attn = uses_its_own(m, p) ? m->info.attn : p->attn;
    if (chooses_itself(m, p)) choose_by_length(&attn, n_tokens);
    else if (attn.budget == MRA_AUTO_BUDGET) attn.budget = mra_attn_params_default().budget;
    if (m->info.has_mra && !(attn.scale > 0)) attn.scale = m->info.attn.scale;
    attn.n_threads = p->n_threads;
    attn.type = type_of(m, p, attn.frame);
    return attn;
}

const struct mra_plan * mra_attention_plan(
    const struct mra_model * m, const struct mra_context_params * p, const struct mra_attn_params * attn) {
    if (p->no_plan || attn->frame != MRA_FRAME_SORTED || attn->counts[0] >= 0 || !on_cpu(m)) return NULL;
    return p->plan ? p->plan : m->plan;
}

// mean over the heads of the layers without a window
static double work_of(
    const struct mra_model * m, const struct mra_attn_params * attn, const struct mra_plan * plan, int n_tokens) {
    if (!plan) return mra_attn_work(attn, n_tokens, n_tokens);
    const struct mra_share_rule rule = mra_share_rule_of(plan, m, attn->budget);
    double work = 0;
    int n = 0;
    for (int l = 0; l < plan->n_layer; l++)
        for (int h = 0; h < plan->n_head && mra_layer_is_global(&m->layers[l]); h++, n++) {
            const float share = mra_share_of(rule, plan->need[l * plan->n_head + h]);
            work += mra_attn_work_shares(attn, n_tokens, n_tokens, &share, 1);
        }
    return n ? work / n : 1;
}

struct mra_attn_params mra_attention_exact(const struct mra_model * m, const struct mra_context_params * p) {
    const struct mra_attn_params own = mra_attention_approximate(m, p, 1);
    struct mra_attn_params exact = mra_attn_params_exact();
    exact.scale = own.scale;
    exact.n_threads = own.n_threads;
    exact.type = type_of(m, p, exact.frame);
    return exact;
}

bool mra_attention_seeks(const struct mra_model * m, const struct mra_context_params * p) {
    return p->max_error > 0 && p->attention != MRA_ATTENTION_EXACT && !uses_its_own(m, p) && p->attn.counts[0] < 0 &&
        p->attn.frame != MRA_FRAME_EXACT;
}

static const float steps[] = { 1.0f / 8, 3.0f / 16, 1.0f / 4, 3.0f / 8, 1.0f / 2, 1, 1 };
enum { N_STEPS = sizeof(steps) / sizeof(steps[0]), STEP_EXACT = N_STEPS - 2 };

struct mra_attn_params mra_attention_step(
    const struct mra_model * m, const struct mra_context_params * p, int n_tokens, int step) {
    struct mra_attn_params attn = step < STEP_EXACT ? mra_attention_approximate(m, p, n_tokens)
                                                    : mra_attention_exact(m, p);
    attn.budget = steps[step];
    if (step == N_STEPS - 1) attn.type = MRA_ATTN_FLOAT;
    return attn;
}

// A step is left out where it would not do even if the error fell with the second power of the budget.
int mra_attention_next_step(const struct mra_context_params * p, int step, struct mra_attn_error e) {
    if (e.high <= p->max_error || step == N_STEPS - 1) return step;
    int next = step + 1;
    while (next < STEP_EXACT && e.low * pow(steps[step] / steps[next], 2) > p->max_error) next++;
    return next;
}

// a square frame whose fixed number of cells reaches all of them
static bool refines_all(const struct mra_attn_params * attn, int n) {
    if (attn->frame != MRA_FRAME_SQUARE || attn->counts[0] < 0 || attn->rule == MRA_RULE_ROW || attn->sizes[1] != 1)
        return false;
    const int64_t n_blocks = (n + attn->sizes[0] - 1) / attn->sizes[0];
    return attn->counts[0] >= n_blocks * n_blocks;
}

// Where settings follow the length, exact attention in integers is the faster way to that cosine for longer.
static int exact_up_to(const struct mra_model * m, const struct mra_context_params * p) {
    const bool integers = chooses_itself(m, p) && type_of(m, p, MRA_FRAME_EXACT) == MRA_ATTN_INT8;
    return integers ? MRA_AUTO_EXACT_INT8 : MRA_AUTO_EXACT;
}

bool mra_attention_is_exact(const struct mra_model * m, const struct mra_context_params * p, int n) {
    const struct mra_attn_params attn = mra_attention_approximate(m, p, n);
    if (m->arch.position == MRA_POSITION_ALIBI) return true; // nothing else takes the distance from the scores
    if (p->attention == MRA_ATTENTION_EXACT || attn.frame == MRA_FRAME_EXACT || refines_all(&attn, n)) return true;
    if (p->attention == MRA_ATTENTION_MRA || m->info.has_mra) return false;
    return n <= exact_up_to(m, p) || mra_attn_work(&attn, n, n) >= 1;
}

// max_error: 0, or what the budget is sought for
static void describe(struct mra_attention_choice * c, float max_error) {
    char frame[32] = "columns";
    size_t at = 0;
    if (c->attn.frame == MRA_FRAME_SORTED) snprintf(frame, sizeof(frame), "sorted");
    for (int i = 0; c->attn.frame == MRA_FRAME_SQUARE && i < MRA_MAX_LEVELS && c->attn.sizes[i] > 0; i++)
        at += (size_t) snprintf(frame + at, sizeof(frame) - at, "%s%d", i ? "," : "", c->attn.sizes[i]);
    if (c->exact) snprintf(c->text, sizeof(c->text), "exact");
    else if (max_error > 0) snprintf(c->text, sizeof(c->text), "%s, error at most %.4g", frame, (double) max_error);
    else if (c->trained) snprintf(c->text, sizeof(c->text), "%s, as trained", frame);
    else if (c->attn.counts[0] >= 0) snprintf(c->text, sizeof(c->text), "%s, fixed counts", frame);
    else snprintf(c->text, sizeof(c->text), "%s, budget %.4g", frame, (double) c->attn.budget);
    size_t end = strlen(c->text);
    if (c->plan) snprintf(c->text + end, sizeof(c->text) - end, ", planned");
    end = strlen(c->text);
    if (c->attn.type == MRA_ATTN_INT8) // what this CPU has for it
        snprintf(c->text + end, sizeof(c->text) - end, ", %s", mra_attn_numbers(c->attn.type));
}

struct mra_attention_choice mra_attention_of(
    const struct mra_model * m, const struct mra_context_params * params, int n_tokens) {
    struct mra_attention_choice c = { 0 };
    if (!m || n_tokens < 1) return c;
    const struct mra_context_params p = params ? *params : mra_context_params_default();
    c.exact = mra_attention_is_exact(m, &p, n_tokens);
    c.trained = !c.exact && uses_its_own(m, &p);
    c.attn = c.exact ? mra_attention_exact(m, &p) : mra_attention_approximate(m, &p, n_tokens);
    c.exact_up_to = exact_up_to(m, &p);
    c.plan = mra_attention_plan(m, &p, &c.attn);
    const double work = c.exact ? 1 : work_of(m, &c.attn, c.plan, n_tokens);
    c.work = work < 1 && !mra_attention_seeks(m, &p) ? work : 1; // what is sought may cost as much
    describe(&c, mra_attention_seeks(m, &p) ? p.max_error : 0);
    return c;
}

struct mra_attention_choice mra_context_attention(const struct mra_context * ctx, int seq) {
    struct mra_attention_choice c = { 0 };
    if (!ctx || seq < 0 || seq >= ctx->n_sought) return c;
    const struct mra_sought * s = &ctx->sought[seq];
    if (s->step < 0) return mra_attention_of(ctx->model, &ctx->params, s->n); // exact without a search
    const struct mra_attn_params attn = mra_attention_step(ctx->model, &ctx->params, s->n, s->step);
    struct mra_context_params p = ctx->params;
    p.max_error = 0;
    p.attention = attn.frame == MRA_FRAME_EXACT ? MRA_ATTENTION_EXACT : MRA_ATTENTION_MRA;
    p.attention_type = attn.type == MRA_ATTN_INT8 ? MRA_ATTENTION_TYPE_INT8 : MRA_ATTENTION_TYPE_FLOAT;
    p.attn = attn;
    return mra_attention_of(ctx->model, &p, s->n);
}
