// mra_quantize: every weight matrix dequantized to f32 and quantized by ggml, a block of rows per task; the rest
// copied.
#include "file-writer.h"
#include "machine.h"
#include "model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char * name;
    enum ggml_type type;
    int file_type;
} types[] = {
    // file_type: general.file_type, llama.cpp's numbers
    { "f32", GGML_TYPE_F32, 0 },
    { "f16", GGML_TYPE_F16, 1 },
    { "q8_0", GGML_TYPE_Q8_0, 7 },
    { "q4_0", GGML_TYPE_Q4_0, 2 },
    { "q4_1", GGML_TYPE_Q4_1, 3 },
    { "q5_0", GGML_TYPE_Q5_0, 8 },
    { "q5_1", GGML_TYPE_Q5_1, 9 },
    { "q4_k", GGML_TYPE_Q4_K, 14 },
    { "q5_k", GGML_TYPE_Q5_K, 16 },
    { "q6_k", GGML_TYPE_Q6_K, 18 },
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

enum ggml_type mra_quantize_type(const char * name) {
    for (size_t i = 0; i < N_TYPES; i++)
        if (name && strcmp(name, types[i].name) == 0) return types[i].type;
    return GGML_TYPE_COUNT;
}

static int file_type(enum ggml_type type) {
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].type == type) return types[i].file_type;
    return -1;
}

// ---- which tensor becomes what ----

static bool ends_with(const char * s, const char * end) {
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

// biases and norms are vectors; a classifier's output is too small to be worth an error
static bool stays(const struct ggml_tensor * t) {
    const char * name = ggml_get_name(t);
    return ggml_n_dims(t) < 2 || !ends_with(name, ".weight") || ends_with(name, "_norm.weight") ||
        strcmp(name, "position_embd.weight") == 0 || strcmp(name, "token_types.weight") == 0 ||
        strcmp(name, "cls.output.weight") == 0 || strcmp(name, "tag.output.weight") == 0 ||
        strcmp(name, "sparse.weight") == 0;
}

// K types have blocks of 256. Rows that do not fit get the smallest type with blocks of 32 that is about as exact
// (relative error of normal numbers: q4_k .072, q4_1 .079, q5_0 .043; q5_k .036, q5_1 .038; q6_k .018, q8_0 .005), then
// f16. MiniLM in q4_k has a mean cosine to f16 of .991 with q5_0 in 16.8 MB, of .981 with q4_1 in 15.7 MB.
static enum ggml_type type_that_fits(enum ggml_type type, int64_t n) {
    if (n % ggml_blck_size(type) == 0) return type;
    const enum ggml_type next = type == GGML_TYPE_Q4_K ? GGML_TYPE_Q5_0
        : type == GGML_TYPE_Q5_K                       ? GGML_TYPE_Q5_1
                                                       : GGML_TYPE_Q8_0;
    return n % ggml_blck_size(next) == 0 ? next : GGML_TYPE_F16;
}

// Errors of the values go straight into what attention gives, so their matrix gets more bits: for 3 % of q8_0's file
// the smallest cosine of MiniLM's embeddings to f32 goes from .9989 to .9993.
static enum ggml_type type_for(const struct ggml_tensor * t, enum ggml_type type) {
    if (!ggml_is_quantized(type) || !ends_with(ggml_get_name(t), ".attn_v.weight")) return type;
    return type == GGML_TYPE_Q8_0 ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;
}

static bool is_plain(enum ggml_type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

// ---- one tensor ----

struct task {
    const char * src;
    char * dst;
    enum ggml_type from, to;
    int64_t n_row, n_col, step; // rows per task
    size_t nb_src, nb_dst;      // bytes per row
    const float * importance;   // [n_col] or NULL
    atomic_int next, failed;
};

static void * work(void * arg) {
    struct task * k = arg;
    const size_t n_rows = (size_t) (k->step * k->n_col) * sizeof(float);
    float * rows = malloc(n_rows + k->nb_src);
    if (!rows) {
        atomic_store(&k->failed, 1);
        return NULL;
    }
    char * aligned = (char *) rows + n_rows; // a row of the file: general.alignment may be 1
    const struct ggml_type_traits * from = ggml_get_type_traits(k->from);
    for (;;) {
        const int64_t i = (int64_t) atomic_fetch_add(&k->next, 1) * k->step,
                      n = k->n_row - i < k->step ? k->n_row - i : k->step;
        if (i >= k->n_row) break;
        for (int64_t r = 0; r < n; r++) {
            const char * src = k->src + (size_t) (i + r) * k->nb_src;
            if (k->from == GGML_TYPE_F32) {
                memcpy(rows + r * k->n_col, src, (size_t) k->n_col * sizeof(float));
            } else {
                memcpy(aligned, src, k->nb_src);
                from->to_float(aligned, rows + r * k->n_col, k->n_col);
            }
        }
        if (k->to == GGML_TYPE_F32) memcpy(k->dst + (size_t) i * k->nb_dst, rows, (size_t) n * k->nb_dst);
        else if (k->to == GGML_TYPE_F16)
            ggml_fp32_to_fp16_row(rows, (ggml_fp16_t *) (k->dst + (size_t) i * k->nb_dst), n * k->n_col);
        else ggml_quantize_chunk(k->to, rows, k->dst + (size_t) i * k->nb_dst, 0, n, k->n_col, k->importance);
    }
    free(rows);
    return NULL;
}

static enum mra_status convert(struct task * k, int n_threads, struct mra_error * err) {
    pthread_t threads[GGML_MAX_N_THREADS];
    int n = 0;
    k->step = 16384 / k->n_col + 1;
    atomic_init(&k->next, 0);
    atomic_init(&k->failed, 0);
    while (
        n < n_threads - 1 && (int64_t) (n + 1) * k->step < k->n_row && pthread_create(&threads[n], NULL, work, k) == 0)
        n++;
    work(k);
    while (n > 0) pthread_join(threads[--n], NULL);
    return atomic_load(&k->failed) ? mra_fail(err, MRA_ERR_MEMORY, "out of memory") : MRA_OK;
}

// ---- the file ----

struct plan {
    struct ggml_tensor * t;
    enum ggml_type to;
    bool stays, fallback;
    float * importance; // [ne0], owned; NULL: none
};

// the new header: keys of the input, tensors with their new types
static struct gguf_context * new_header(
    const struct mra_gguf * f, const struct plan * plan, int n, enum ggml_type type) {
    struct gguf_context * g = gguf_init_empty();
    gguf_set_kv(g, f->gguf);
    gguf_remove_key(g, "general.alignment"); // a context made in memory aligns to 32 whatever the key says
    gguf_set_val_u32(g, "general.file_type", (uint32_t) file_type(type));
    gguf_set_val_u32(g, "general.quantization_version", GGML_QNT_VERSION);
    for (int i = 0; i < n; i++) {
        gguf_add_tensor(g, plan[i].t);
        gguf_set_tensor_type(g, ggml_get_name(plan[i].t), plan[i].to);
    }
    return g;
}

static enum mra_status make_plan(
    const struct mra_gguf * f, struct plan * plan, enum ggml_type type, struct mra_error * err) {
    int n = 0;
    for (struct ggml_tensor * t = ggml_get_first_tensor(f->meta); t; t = ggml_get_next_tensor(f->meta, t)) {
        struct plan * p = &plan[n++];
        *p = (struct plan) { t, t->type, stays(t), false, NULL };
        if (p->stays) continue;
        if (!is_plain(t->type)) {
            return mra_fail(err, MRA_ERR_UNSUPPORTED, "already quantized ('%s' is %s); start from f32 or f16",
                ggml_get_name(t), ggml_type_name(t->type));
        }
        p->to = type_that_fits(type_for(t, type), t->ne[0]);
        p->fallback = p->to != type_for(t, type);
    }
    return MRA_OK;
}

// A column that nothing was multiplied with would have no weight at all, and ggml divides by their sum: they count a
// little.
static enum mra_status copy_importance(
    struct plan * p, const struct mra_gguf * m, const struct ggml_tensor * t, struct mra_error * err) {
    const int64_t n = p->t->ne[0];
    if (t && (t->type != GGML_TYPE_F32 || t->ne[0] != n || ggml_nelements(t) != n))
        return mra_fail(err, MRA_ERR_FORMAT, "'%s' is not of this model: %lld columns, not %lld", ggml_get_name(t),
            (long long) t->ne[0], (long long) n);
    p->importance = malloc((size_t) n * sizeof(float));
    if (!p->importance) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    double sum = 0;
    for (int64_t c = 0; c < n; c++) p->importance[c] = 1;
    if (t) memcpy(p->importance, mra_gguf_data(m, t), (size_t) n * sizeof(float));
    for (int64_t c = 0; c < n; c++) {
        if (!(p->importance[c] >= 0 && p->importance[c] <= 1e30f))
            return mra_fail(err, MRA_ERR_FORMAT, "'%s' holds numbers that are no mean squares", ggml_get_name(p->t));
        sum += p->importance[c];
    }
    for (int64_t c = 0; c < n; c++)
        p->importance[c] = sum > 0 ? (float) (p->importance[c] / sum * (double) n + 1e-5) : 1;
    return MRA_OK;
}

static enum mra_status read_imatrix(const char * path, struct plan * plan, int n, struct mra_error * err) {
    struct mra_gguf m;
    struct mra_error e = { 0 };
    enum mra_status st = mra_gguf_open(&m, path, false, &e);
    const bool is_one = st == MRA_OK && gguf_find_key(m.gguf, "mra.imatrix.tokens") >= 0;
    if (st == MRA_OK && !is_one) st = mra_fail(&e, MRA_ERR_FORMAT, "not made by mra-calibrate");
    int found = 0;
    for (int i = 0; i < n && st == MRA_OK; i++) {
        if (plan[i].stays || !ggml_is_quantized(plan[i].to)) continue;
        const struct ggml_tensor * t = ggml_get_tensor(m.meta, ggml_get_name(plan[i].t));
        found += t != NULL;
        st = copy_importance(&plan[i], &m, t, &e);
    }
    if (st == MRA_OK && !found) st = mra_fail(&e, MRA_ERR_FORMAT, "it holds none of this model's matrices");
    if (st != MRA_OK) mra_fail(err, st, "%.100s: %s", path, e.msg);
    mra_gguf_close(&m);
    return st;
}

static enum mra_status write_tensor(struct mra_writer * w, const struct mra_gguf * f, const struct plan * p, char * buf,
    size_t align, int n_threads, struct mra_error * err) {
    if (p->to == p->t->type) return mra_write_bytes(w, mra_gguf_data(f, p->t), ggml_nbytes(p->t), align, err);
    struct task k = {
        .src = mra_gguf_data(f, p->t),
        .dst = buf,
        .from = p->t->type,
        .to = p->to,
        .n_row = ggml_nrows(p->t),
        .n_col = p->t->ne[0],
        .nb_src = ggml_row_size(p->t->type, p->t->ne[0]),
        .nb_dst = ggml_row_size(p->to, p->t->ne[0]),
        .importance = p->importance,
    };
    const enum mra_status st = convert(&k, n_threads, err);
    return st == MRA_OK ? mra_write_bytes(w, buf, k.nb_dst * (size_t) k.n_row, align, err) : st;
}

static void count(struct mra_quantize_result * r, const struct plan * p) {
    r->n_quantized += p->to != p->t->type;
    r->n_fallback += p->fallback;
    if (!p->stays) r->n_weights[p->to] += ggml_nelements(p->t);
    if (!p->fallback) return;
    r->n_fallback_weights += ggml_nelements(p->t);
    if (r->fallback_row) return;
    r->fallback_row = p->t->ne[0];
    r->fallback_type = p->to;
}

static enum mra_status write_file(struct mra_writer * w, const struct mra_gguf * f, const struct plan * plan, int n,
    const struct mra_quantize_params * q, struct mra_quantize_result * r, struct mra_error * err) {
    struct gguf_context * g = new_header(f, plan, n, q->type);
    const size_t n_meta = gguf_get_meta_size(g), align = gguf_get_alignment(g);
    size_t largest = 1;
    for (int i = 0; i < n; i++) {
        const size_t b = ggml_row_size(plan[i].to, plan[i].t->ne[0]) * (size_t) ggml_nrows(plan[i].t);
        if (plan[i].to != plan[i].t->type && b > largest) largest = b;
    }
    void * meta = malloc(n_meta);
    char * buf = malloc(largest);
    enum mra_status st = meta && buf ? MRA_OK : mra_fail(err, MRA_ERR_MEMORY, "no memory for %zu bytes", largest);
    if (st == MRA_OK) {
        gguf_get_meta_data(g, meta);
        st = mra_write_bytes(w, meta, n_meta, align, err);
    }
    const int n_threads = q->n_threads > 0 ? q->n_threads : mra_cpu_count("");
    for (int i = 0; i < n && st == MRA_OK; i++) {
        st = write_tensor(w, f, &plan[i], buf, align, n_threads, err);
        count(r, &plan[i]);
        if (st == MRA_OK && q->progress)
            q->progress(q->user, i, n, ggml_get_name(plan[i].t), plan[i].t->type, plan[i].to, plan[i].fallback);
    }
    if (st == MRA_OK) r->n_out = (size_t) ftello(w->file);
    free(buf);
    free(meta);
    gguf_free(g);
    return st;
}

enum mra_status mra_quantize(const char * in_path, const char * out_path, const struct mra_quantize_params * params,
    struct mra_quantize_result * result, struct mra_error * err) {
    if (!in_path || !out_path || !params) return mra_fail(err, MRA_ERR_ARG, "no path or no settings");
    if (file_type(params->type) < 0) return mra_fail(err, MRA_ERR_ARG, "cannot write type %d", (int) params->type);
    if (params->n_threads < 0 || params->n_threads > GGML_MAX_N_THREADS)
        return mra_fail(err, MRA_ERR_ARG, "n_threads = %d", params->n_threads);
    struct mra_gguf f;
    struct mra_error e = { 0 };
    struct mra_quantize_result r = { 0 };
    struct mra_writer w = { 0 };
    struct plan * plan = NULL;
    enum mra_status st = mra_gguf_open(&f, in_path, params->no_mmap, &e);
    const int n = st == MRA_OK ? (int) gguf_get_n_tensors(f.gguf) : 0;
    if (st == MRA_OK && n == 0) st = mra_fail(&e, MRA_ERR_FORMAT, "no tensors");
    if (st == MRA_OK) {
        plan = calloc((size_t) n, sizeof(*plan));
        st = plan ? make_plan(&f, plan, params->type, &e) : mra_fail(&e, MRA_ERR_MEMORY, "out of memory");
    }
    if (st != MRA_OK) { // what is wrong so far is wrong with the input
        mra_fail(err, st, "%.100s: %s", in_path, e.msg);
        goto done;
    }
    r.n_in = f.size;
    if (params->imatrix) st = read_imatrix(params->imatrix, plan, n, err);
    if (st != MRA_OK) goto done;
    st = mra_writer_open(&w, in_path, out_path, err);
    if (st == MRA_OK) st = write_file(&w, &f, plan, n, params, &r, err);
    if (st == MRA_OK) st = mra_gguf_recheck(&f, err);
    st = mra_writer_close(&w, st, err);
    if (st == MRA_OK && result) *result = r;
done:
    for (int i = 0; plan && i < n; i++) free(plan[i].importance);
    free(plan);
    mra_gguf_close(&f);
    return st;
}
