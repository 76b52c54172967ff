// Making and freeing contexts. ggml's CPU functions come from its registry: they may live in a library of their own.
#include "context.h"
#include "attention.h"
#include "head-plan.h"
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { MRA_MAX_ERROR_ROWS = 1 << 24 };
enum { SMALL_PIECES = 1 << 20 }; // what ggml takes here and there

struct mra_context_params mra_context_params_default(void) {
    struct mra_attn_params attn = mra_attn_params_default();
    attn.budget = MRA_AUTO_BUDGET;
    return (struct mra_context_params) { .attn = attn, .n_batch = MRA_DEFAULT_BATCH };
}

static void * cpu_function(ggml_backend_t cpu, const char * name) {
    return ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu)), name);
}

// Threads that stay between graphs. Where this ggml has none to offer, each graph starts its own.
static void start_threads(struct mra_context * ctx, ggml_backend_t cpu) {
    typedef struct ggml_threadpool * (*new_t)(struct ggml_threadpool_params *);
    typedef void (*set_t)(ggml_backend_t, struct ggml_threadpool *);
    ggml_backend_set_n_threads_t set_n = (ggml_backend_set_n_threads_t) cpu_function(cpu, "ggml_backend_set_n_threads");
    new_t new_pool = (new_t) cpu_function(cpu, "ggml_threadpool_new");
    set_t set_pool = (set_t) cpu_function(cpu, "ggml_backend_cpu_set_threadpool");
    if (set_n) set_n(cpu, ctx->params.n_threads);
    if (!new_pool || !set_pool || ctx->params.n_threads == 1) return;
    struct ggml_threadpool_params p = ggml_threadpool_params_default(ctx->params.n_threads);
    p.poll = 1; // idle threads soon sleep: there may be other contexts
    ctx->threads = new_pool(&p);
    if (ctx->threads) set_pool(cpu, ctx->threads);
}

void mra_context_choose_threads(struct mra_context * ctx) {
    typedef void (*set_t)(ggml_backend_t, struct ggml_threadpool *);
    const int n = ctx->shares ? mra_threads_share(ctx->params.n_threads) : ctx->params.n_threads;
    if (n == ctx->n_threads) return;
    ggml_backend_t cpu = ctx->backends[ctx->n_backends - 1];
    ggml_backend_set_n_threads_t set_n = (ggml_backend_set_n_threads_t) cpu_function(cpu, "ggml_backend_set_n_threads");
    set_t set_pool = (set_t) cpu_function(cpu, "ggml_backend_cpu_set_threadpool");
    if (set_n) set_n(cpu, n);
    // one thread needs no pool, and would wake all of it for nothing
    if (ctx->threads && (n == 1) != (ctx->n_threads == 1)) set_pool(cpu, n == 1 ? NULL : ctx->threads);
    ctx->n_threads = n;
}

// ggml's CPU backend asks params.stop behind every node
static void set_stop(struct mra_context * ctx, ggml_backend_t cpu) {
    ggml_backend_set_abort_callback_t set = (ggml_backend_set_abort_callback_t) cpu_function(
        cpu, "ggml_backend_set_abort_callback");
    if (ctx->params.stop && set) set(cpu, ctx->params.stop, ctx->params.stop_user);
}

static void stop_threads(struct mra_context * ctx) {
    typedef void (*free_t)(struct ggml_threadpool *);
    if (!ctx->threads) return;
    free_t free_pool = (free_t) cpu_function(ctx->backends[ctx->n_backends - 1], "ggml_threadpool_free");
    if (free_pool) free_pool(ctx->threads);
}

static enum mra_status check_params(struct mra_context_params * p, struct mra_error * err) {
    if (p->n_threads < 0 || p->n_threads > GGML_MAX_N_THREADS)
        return mra_fail(err, MRA_ERR_ARG, "n_threads = %d is not in 0..%d", p->n_threads, GGML_MAX_N_THREADS);
    if (p->n_batch < 0) return mra_fail(err, MRA_ERR_ARG, "n_batch = %d is negative", p->n_batch);
    if (p->n_ffn_rows < 0) return mra_fail(err, MRA_ERR_ARG, "n_ffn_rows = %d is negative", p->n_ffn_rows);
    if ((unsigned) p->attention > MRA_ATTENTION_MRA)
        return mra_fail(err, MRA_ERR_ARG, "unknown attention %d", (int) p->attention);
    if ((unsigned) p->attention_type > MRA_ATTENTION_TYPE_INT8)
        return mra_fail(err, MRA_ERR_ARG, "unknown type of attention %d", (int) p->attention_type);
    p->attn.type = MRA_ATTN_FLOAT; // attention_type counts
    struct mra_attn_params attn = p->attn;
    if (attn.budget == MRA_AUTO_BUDGET) attn.budget = mra_attn_params_default().budget;
    if (mra_attn_work(&attn, 64, 64) < 0) {
        return mra_fail(err, MRA_ERR_ARG, "attention settings are not valid (frame %d, budget %g)", (int) p->attn.frame,
            (double) p->attn.budget);
    }
    if (p->n_error_rows < -1 || p->n_error_rows > MRA_MAX_ERROR_ROWS)
        return mra_fail(err, MRA_ERR_ARG, "n_error_rows = %d is not in -1..%d", p->n_error_rows, MRA_MAX_ERROR_ROWS);
    if (!(p->max_error >= 0 && p->max_error <= 1))
        return mra_fail(err, MRA_ERR_ARG, "max_error = %g is not in 0..1", (double) p->max_error);
    if (p->n_error_rows < 0 || (p->max_error > 0 && p->n_error_rows == 0)) p->n_error_rows = MRA_DEFAULT_ERROR_ROWS;
    if (p->on_weight && p->profile) return mra_fail(err, MRA_ERR_ARG, "on_weight and profile exclude each other");
    if (p->on_attention && (p->on_weight || p->profile))
        return mra_fail(
            err, MRA_ERR_ARG, "on_attention and %s exclude each other", p->profile ? "profile" : "on_weight");
    if (p->on_weight) p->ggml_dense = true;
    if (p->n_batch == 0) p->n_batch = MRA_DEFAULT_BATCH;
    return MRA_OK;
}

// integers have no square frames
static enum mra_status check_type(
    const struct mra_model * m, const struct mra_context_params * p, struct mra_error * err) {
    if (p->attention_type != MRA_ATTENTION_TYPE_INT8 || p->attention == MRA_ATTENTION_EXACT ||
        mra_attention_approximate(m, p, 1).frame != MRA_FRAME_SQUARE)
        return MRA_OK;
    return mra_fail(err, MRA_ERR_UNSUPPORTED, "attention in int8: frames are exact and columns, not square ones%s",
        p->attention == MRA_ATTENTION_AUTO && m->info.has_mra ? ", with which this model was trained" : "");
}

struct mra_context * mra_context_new(
    const struct mra_model * model, const struct mra_context_params * params, struct mra_error * err) {
    struct mra_context_params p = params ? *params : mra_context_params_default();
    if (!model) {
        mra_fail(err, MRA_ERR_ARG, "no model");
        return NULL;
    }
    if (check_params(&p, err) != MRA_OK || check_type(model, &p, err) != MRA_OK) return NULL;
    if (p.attention == MRA_ATTENTION_MRA && p.attn.frame != MRA_FRAME_EXACT &&
        model->arch.position == MRA_POSITION_ALIBI) {
        mra_fail(err, MRA_ERR_UNSUPPORTED,
            "this model's positions are ALiBi's, a term of each pair's distance that cells do not have: its attention "
            "can only be exact");
        return NULL;
    }
    if (p.plan && p.plan->model != model->plan_model) {
        mra_fail(err, MRA_ERR_ARG, "the plan is of another model");
        return NULL;
    }
    struct mra_context * ctx = calloc(1, sizeof(*ctx));
    if (!ctx) {
        mra_fail(err, MRA_ERR_MEMORY, "out of memory");
        return NULL;
    }
    ctx->model = model;
    ctx->shares = p.n_threads == 0;
    if (ctx->shares) p.n_threads = mra_cpu_count("");
    ctx->n_threads = p.n_threads;
    ctx->params = p;
    if (mra_memory_probe(SMALL_PIECES, err) != MRA_OK) goto fail;
    ggml_backend_dev_t cpu = mra_device_find(NULL, err), devs[2] = { model->dev, cpu };
    if (!cpu) goto fail;
    if ((p.on_weight || p.on_attention) && model->dev != cpu) {
        mra_fail(err, MRA_ERR_ARG, "%s needs the model on the CPU", p.on_weight ? "on_weight" : "on_attention");
        goto fail;
    }
    for (int i = model->dev == cpu ? 1 : 0; i < 2; i++) {
        ggml_backend_t backend = ggml_backend_dev_init(devs[i], NULL);
        if (!backend) {
            mra_fail(err, MRA_ERR_BACKEND, "device %s does not start", ggml_backend_dev_name(devs[i]));
            goto fail;
        }
        ctx->backends[ctx->n_backends++] = backend;
        if (devs[i] == cpu) continue;
        ctx->companion = ggml_backend_mra_init(
            backend, &ctx->no_companion); // without it our nodes run on the CPU, and ggml copies
        if (ctx->companion) ctx->backends[ctx->n_backends++] = ctx->companion;
    }
    if (mra_threads_probe(p.n_threads - 1, err) != MRA_OK) goto fail;
    start_threads(ctx, ctx->backends[ctx->n_backends - 1]);
    set_stop(ctx, ctx->backends[ctx->n_backends - 1]);
    return ctx;
fail:
    mra_context_free(ctx);
    return NULL;
}

void mra_context_free(struct mra_context * ctx) {
    if (!ctx) return;
    mra_threads_forget(&ctx->at_work);
    if (ctx->sched) ggml_backend_sched_free(ctx->sched);
    stop_threads(ctx);
    for (int i = ctx->n_backends - 1; i >= 0; i--) ggml_backend_free(ctx->backends[i]); // a companion before its device
    free(ctx->meta);
    free(ctx->ints);
    free(ctx->rows);
    free(ctx->errors);
    free(ctx->head_shares);
    free(ctx->sought);
    free(ctx->out);
    free(ctx->later);
    free(ctx);
}

enum mra_status mra_context_reserve(void ** p, size_t * cap, size_t n, struct mra_error * err) {
    if (n <= *cap) return MRA_OK;
    free(*p);
    *p = malloc(n);
    *cap = *p ? n : 0;
    return *p ? MRA_OK : mra_fail(err, MRA_ERR_MEMORY, "no memory for %zu bytes", n);
}

// op's entry in stats, a new one where there is none; the last entry takes what is too many
static struct mra_op_time * op_time(struct mra_stats * s, const char * op) {
    int i = 0;
    while (i < s->n_ops && strcmp(s->ops[i].op, op) != 0) i++;
    if (i == MRA_MAX_OP_TIMES) return &s->ops[i - 1];
    if (i == s->n_ops) s->ops[s->n_ops++] = (struct mra_op_time) { .op = i + 1 < MRA_MAX_OP_TIMES ? op : "OTHERS" };
    return &s->ops[i];
}

static bool is_view(enum ggml_op op) {
    return op == GGML_OP_NONE || op == GGML_OP_VIEW || op == GGML_OP_RESHAPE || op == GGML_OP_PERMUTE ||
        op == GGML_OP_TRANSPOSE;
}

// profile: ggml computes node by node; views cost nothing and run with the next one
static bool on_node(struct ggml_tensor * t, bool ask, void * user) {
    struct mra_context * ctx = user;
    const enum mra_part part = mra_graph_part(ctx->graph, t);
    if (ask) return part != MRA_PART_COUNT || !is_view(t->op);
    const double now = mra_now_ms();
    if (!is_view(t->op)) {
        struct mra_op_time * o = op_time(&ctx->stats, ggml_mra_is_node(t) ? ggml_mra_op_name(t) : ggml_op_desc(t));
        o->ms += now - ctx->op_start;
        o->n++;
        ctx->op_start = now;
    }
    if (part == MRA_PART_COUNT) return true;
    ctx->stats.part_ms[part] += now - ctx->part_start;
    ctx->part_start = now;
    return true;
}

// calibration: products with a matrix of the file
static bool on_product(struct ggml_tensor * t, bool ask, void * user) {
    const struct mra_context * ctx = user;
    const struct ggml_tensor *w = t->src[0], *x = t->src[1];
    const bool wanted = t->op == GGML_OP_MUL_MAT && w->op == GGML_OP_NONE && *ggml_get_name(w) &&
        x->type == GGML_TYPE_F32;
    if (!ask && wanted)
        ctx->params.on_weight(ctx->params.on_weight_user, ggml_get_name(w), x->data, ggml_nrows(x), x->ne[0], x->nb[1]);
    return ask ? wanted : true;
}

// q, k and v of a layer
static bool on_qkv(struct ggml_tensor * t, bool ask, void * user) {
    const struct mra_context * ctx = user;
    const bool is = mra_graph_give_qkv(ctx->graph, ctx->model, ctx->shape, ctx->seqs, t, ask ? NULL : &ctx->params);
    return ask ? is : true;
}

static void drop_sched(struct mra_context * ctx) {
    if (ctx->sched) ggml_backend_sched_free(ctx->sched);
    ctx->sched = NULL;
    ctx->sched_size = 0;
}

enum mra_status mra_context_sched(struct mra_context * ctx, size_t n, struct mra_error * err) {
    if (n > ctx->sched_size) {
        drop_sched(ctx);
        // per node a pointer in tables, and for the inputs of splits up to 60 tensors: so ggml's scheduler counts
        const size_t size = n + n / 4;
        const enum mra_status st = mra_memory_probe(
            size * (60 * sizeof(struct ggml_tensor) + 2048) + SMALL_PIECES, err);
        if (st != MRA_OK) return st;
        ctx->sched_size = size;
        ctx->sched = ggml_backend_sched_new(ctx->backends, NULL, ctx->n_backends, ctx->sched_size, false, false);
        if (!ctx->sched) {
            ctx->sched_size = 0;
            return mra_fail(err, MRA_ERR_MEMORY, "no memory for a scheduler of %zu nodes", n);
        }
        if (ctx->params.profile) ggml_backend_sched_set_eval_callback(ctx->sched, on_node, ctx);
        if (ctx->params.on_weight) ggml_backend_sched_set_eval_callback(ctx->sched, on_product, ctx);
        if (ctx->params.on_attention) ggml_backend_sched_set_eval_callback(ctx->sched, on_qkv, ctx);
    }
    ggml_backend_sched_reset(ctx->sched);
    return MRA_OK;
}

static size_t graph_bytes(const struct mra_context * ctx) {
    size_t n = 0;
    for (int i = 0; i < ctx->n_backends; i++) n += ggml_backend_sched_get_buffer_size(ctx->sched, ctx->backends[i]);
    return n;
}

// whether n bytes of activations, of which `have` are there, may be taken
static enum mra_status check_limit(
    const struct mra_context * ctx, size_t n, size_t have, int n_tokens, struct mra_error * err) {
    const size_t others = ctx->out_cap + ctx->later_cap + ctx->ints_cap + ctx->rows_cap;
    const bool given = ctx->params.max_bytes != 0;
    if (!given && n <= have) return MRA_OK;
    const size_t most = given ? ctx->params.max_bytes : mra_memory_free(""), need = given ? n + others : n - have;
    if (need <= most) return MRA_OK;
    return mra_fail(err, MRA_ERR_MEMORY, "%d tokens need %.1f MB of memory, %s %.1f MB", n_tokens, (double) need / 1e6,
        given ? "the limit is" : "free are", (double) most / 1e6);
}

enum mra_status mra_context_reserve_graph(
    struct mra_context * ctx, struct ggml_cgraph * gf, int n_tokens, struct mra_error * err) {
    enum mra_status st = mra_memory_probe(SMALL_PIECES, err);
    if (st != MRA_OK) return st;
    if (ctx->n_backends == 1) { // elsewhere a graph can be planned only once, and its memory is the device's
        size_t need[1];
        const size_t have = graph_bytes(ctx);
        ggml_backend_sched_reserve_size(ctx->sched, gf, need);
        st = check_limit(ctx, need[0], have, n_tokens, err);
        if (st != MRA_OK) return st;
        if (need[0] > 0 && graph_bytes(ctx) >= need[0]) { // what it has is enough; else measuring dropped it
            ggml_backend_sched_reset(ctx->sched);
            return MRA_OK;
        }
    }
    if (ggml_backend_sched_reserve(ctx->sched, gf)) return MRA_OK;
    drop_sched(ctx); // it believes to have what it did not get
    return mra_fail(err, MRA_ERR_MEMORY, "no memory for the activations of %d tokens", n_tokens);
}

// On a device every slice is launches more, so there are none as long as the values within the feed-forward part -
// gate, up, and what follows them - are an eighth of its memory.
int mra_context_ffn_rows(const struct mra_context * ctx) {
    if (ctx->params.n_ffn_rows > 0) return ctx->params.n_ffn_rows;
    if (ctx->n_backends == 1) return MRA_DEFAULT_FFN_ROWS;
    size_t left, all;
    ggml_backend_dev_memory(ctx->model->dev, &left, &all);
    const size_t n = all / 8 / (3 * (size_t) ctx->model->info.n_ff * sizeof(float));
    return n < MRA_DEFAULT_FFN_ROWS ? MRA_DEFAULT_FFN_ROWS : n > INT32_MAX ? INT32_MAX : (int) n;
}

const char * mra_context_note(const struct mra_context * ctx) { return ctx ? ctx->no_companion.msg : ""; }

struct mra_stats mra_context_stats(const struct mra_context * ctx) {
    return ctx ? ctx->stats : (struct mra_stats) { 0 };
}

const char * mra_part_name(enum mra_part part) {
    static const char * const names[] = { "embeddings", "qkv", "attention", "feed-forward", "head" };
    return (unsigned) part < MRA_PART_COUNT ? names[part] : "";
}
