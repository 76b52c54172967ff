// Plans: keys mra.attention.plan.* of a model's file, or of a file of their own. Of a budget each head gets the share
//     s_h = min(most, scale*need_h),   scale such that the mean of s over all heads is 1,
// most: the share that is all keys.
#include "head-plan.h"
#include "file-writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY_NEED  "mra.attention.plan.need"
#define KEY_MODEL "mra.attention.plan.model"

uint64_t mra_plan_model(const struct mra_model * m) {
    const struct ggml_tensor * t = m->layers[0].ffn_norm.w;
    const unsigned char * x = t ? mra_gguf_data(&m->file, t) : NULL;
    uint64_t h = 0xcbf29ce484222325u; // FNV-1a
    for (size_t i = 0; t && i < ggml_nbytes(t); i++) h = (h ^ x[i]) * 0x100000001b3u;
    return h;
}

static enum mra_status check_needs(const float * need, size_t n, struct mra_error * err) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(need[i] >= 0 && need[i] <= 1e6f))
            return mra_fail(
                err, MRA_ERR_FORMAT, KEY_NEED ": entry %zu, %g, is no need of a head (0 to 1e6)", i, (double) need[i]);
        sum += need[i];
    }
    return sum > 0 ? MRA_OK : mra_fail(err, MRA_ERR_FORMAT, KEY_NEED ": no head needs anything");
}

struct mra_plan * mra_plan_new(const struct mra_model * m, const float * need, struct mra_error * err) {
    if (!m || !need) {
        mra_fail(err, MRA_ERR_ARG, "no %s", m ? "needs" : "model");
        return NULL;
    }
    const size_t n = (size_t) m->info.n_layer * m->info.n_head;
    if (check_needs(need, n, err) != MRA_OK) return NULL;
    struct mra_plan * p = malloc(sizeof(*p) + n * sizeof(float));
    if (!p) {
        mra_fail(err, MRA_ERR_MEMORY, "out of memory");
        return NULL;
    }
    *p = (struct mra_plan) { m->info.n_layer, m->info.n_head, m->plan_model, false };
    memcpy(p->need, need, n * sizeof(float));
    return p;
}

struct mra_plan * mra_plan_of_shares(const struct mra_model * m, const float * shares, struct mra_error * err) {
    struct mra_plan * p = mra_plan_new(m, shares, err);
    if (p) p->as_it_is = true;
    return p;
}

void mra_plan_free(struct mra_plan * p) { free(p); }
const float * mra_plan_need(const struct mra_plan * p) { return p ? p->need : NULL; }
const struct mra_plan * mra_model_plan(const struct mra_model * m) { return m ? m->plan : NULL; }

enum mra_status mra_plan_of_file(
    const struct mra_gguf * f, const struct mra_model * m, struct mra_plan ** plan, struct mra_error * err) {
    const void * need;
    size_t n;
    *plan = NULL;
    const enum mra_status st = mra_gguf_array(f, KEY_NEED, GGUF_TYPE_FLOAT32, &need, &n, err);
    const int64_t id = gguf_find_key(f->gguf, KEY_MODEL);
    if (st != MRA_OK || gguf_find_key(f->gguf, KEY_NEED) < 0) return st;
    if (id < 0 || gguf_get_kv_type(f->gguf, id) != GGUF_TYPE_UINT64)
        return mra_fail(err, MRA_ERR_FORMAT, "a plan without key '" KEY_MODEL "'");
    if (n != (size_t) m->info.n_layer * m->info.n_head)
        return mra_fail(err, MRA_ERR_FORMAT, KEY_NEED " has %zu entries, not %d layers x %d heads", n, m->info.n_layer,
            m->info.n_head);
    if (gguf_get_val_u64(f->gguf, id) != m->plan_model)
        return mra_fail(err, MRA_ERR_FORMAT, "its plan (" KEY_NEED ") is of another model");
    struct mra_error e = { 0 };
    *plan = mra_plan_new(m, need, &e);
    return *plan ? MRA_OK : mra_fail(err, e.code, "%s", e.msg);
}

struct mra_plan * mra_plan_load(const char * path, const struct mra_model * m, struct mra_error * err) {
    struct mra_gguf f = { 0 };
    struct mra_plan * p = NULL;
    struct mra_error e = { 0 };
    enum mra_status st = path && m ? mra_gguf_open(&f, path, true, &e)
                                   : mra_fail(&e, MRA_ERR_ARG, "no %s", m ? "path" : "model");
    if (st == MRA_OK) st = mra_plan_of_file(&f, m, &p, &e);
    if (st == MRA_OK && !p) st = mra_fail(&e, MRA_ERR_FORMAT, "it holds no plan (mra-calibrate --plan makes one)");
    if (st != MRA_OK) mra_fail(err, st, "%.100s: %s", path ? path : "", e.msg);
    mra_gguf_close(&f);
    return p;
}

// model NULL: a file of its own
static enum mra_status write_plan(
    struct mra_writer * w, const struct mra_plan * p, const struct mra_gguf * model, struct mra_error * err) {
    struct gguf_context * g = gguf_init_empty();
    if (model) {
        gguf_set_kv(g, model->gguf);
        gguf_remove_key(g, "general.alignment"); // a context made in memory aligns to 32 whatever the key says
    } else gguf_set_val_str(g, "general.type", "mra-plan");
    gguf_set_arr_data(g, KEY_NEED, GGUF_TYPE_FLOAT32, p->need, (size_t) p->n_layer * p->n_head);
    gguf_set_val_u64(g, KEY_MODEL, p->model);
    struct ggml_tensor * first = model ? ggml_get_first_tensor(model->meta) : NULL;
    for (struct ggml_tensor * t = first; t; t = ggml_get_next_tensor(model->meta, t)) gguf_add_tensor(g, t);
    const size_t n = gguf_get_meta_size(g), align = gguf_get_alignment(g);
    void * meta = malloc(n);
    enum mra_status st = meta ? MRA_OK : mra_fail(err, MRA_ERR_MEMORY, "no memory for %zu bytes", n);
    if (st == MRA_OK) {
        gguf_get_meta_data(g, meta);
        st = mra_write_bytes(w, meta, n, align, err);
    }
    for (struct ggml_tensor * t = first; t && st == MRA_OK; t = ggml_get_next_tensor(model->meta, t))
        st = mra_write_bytes(w, mra_gguf_data(model, t), ggml_nbytes(t), align, err);
    free(meta);
    gguf_free(g);
    return st;
}

enum mra_status mra_plan_save(
    const struct mra_plan * p, const char * model_path, const char * path, struct mra_error * err) {
    if (!p || !path) return mra_fail(err, MRA_ERR_ARG, "no %s", p ? "path" : "plan");
    if (p->as_it_is) return mra_fail(err, MRA_ERR_ARG, "shares of one budget are no plan");
    struct mra_gguf f = { 0 };
    struct mra_error e = { 0 };
    struct mra_writer w = { 0 };
    enum mra_status st = model_path ? mra_gguf_open(&f, model_path, false, &e) : MRA_OK;
    if (st != MRA_OK) return mra_fail(err, st, "%.100s: %s", model_path, e.msg);
    st = mra_writer_open(&w, model_path ? model_path : "", path, err);
    if (st == MRA_OK) st = write_plan(&w, p, model_path ? &f : NULL, err);
    if (st == MRA_OK) st = mra_gguf_recheck(&f, err);
    st = mra_writer_close(&w, st, err);
    mra_gguf_close(&f);
    return st;
}

// Kept keys of a long text that are all of them: the columns take 1/16 of the work. Of shorter ones the order takes
// something, too, so that a head gets no more than all.
struct mra_share_rule mra_share_rule_of(const struct mra_plan * p, const struct mra_model * m, float budget) {
    const double kept = budget > 1.0 / 8 ? budget - 1.0 / 16 : budget / 2;
    struct mra_share_rule r = { 1, 1 / kept };
    if (p->as_it_is) return (struct mra_share_rule) { 1, INFINITY };
    for (int round = 0; round < 64; round++) { // every round some more heads get all keys, or none do and it is done
        double below = 0;
        int n = 0, n_most = 0;
        for (int l = 0; l < p->n_layer; l++)
            for (int h = 0; h < p->n_head && mra_layer_is_global(&m->layers[l]); h++, n++) {
                const double need = p->need[l * p->n_head + h];
                if (round > 0 && r.scale * need >= r.most) n_most++;
                else below += need;
            }
        const double left = n - n_most * r.most, scale = below > 0 ? left / below : r.scale;
        if (!(left > 0) || scale <= r.scale * (1 + 1e-12) * (round > 0)) break;
        r.scale = scale;
    }
    return r;
}
