// Inputs of the attention benchmark: generated, or read from a file.
#include "bench-attn.h"

#include "common/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum mra_status data_new(
    struct attn_data * d, int64_t n, int64_t heads, int64_t kv_heads, int64_t dim, struct mra_error * err) {
    *d = (struct attn_data) { .n = n, .heads = heads, .kv_heads = kv_heads, .dim = dim };
    const double bytes = 4.0 * (double) n * (double) dim * (double) (heads + 3 * kv_heads);
    if (bytes > .7 * memory_available())
        return mra_fail(err, MRA_ERR_MEMORY, "n = %lld: inputs of %.1f GB do not fit", (long long) n, bytes / 1e9);
    d->ctx = ggml_init((struct ggml_init_params) { .mem_size = 8 * ggml_tensor_overhead(), .no_alloc = true });
    if (!d->ctx) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    d->q = ggml_new_tensor_3d(d->ctx, GGML_TYPE_F32, dim, heads, n);
    d->k = ggml_new_tensor_3d(d->ctx, GGML_TYPE_F32, dim, kv_heads, n);
    d->v = ggml_new_tensor_3d(d->ctx, GGML_TYPE_F32, dim, kv_heads, n);
    d->k16 = ggml_new_tensor_3d(d->ctx, GGML_TYPE_F16, dim, kv_heads, n);
    d->v16 = ggml_new_tensor_3d(d->ctx, GGML_TYPE_F16, dim, kv_heads, n);
    d->buf = ggml_backend_alloc_ctx_tensors_from_buft(d->ctx, ggml_backend_cpu_buffer_type());
    if (!d->buf) {
        data_free(d);
        return mra_fail(err, MRA_ERR_MEMORY, "n = %lld: no memory for the inputs", (long long) n);
    }
    return MRA_OK;
}

void data_free(struct attn_data * d) {
    ggml_backend_buffer_free(d->buf);
    if (d->ctx) ggml_free(d->ctx);
    memset(d, 0, sizeof(*d));
}

static float * row(struct ggml_tensor * t, int64_t h, int64_t i) {
    return (float *) t->data + (i * t->ne[1] + h) * t->ne[0];
}

static void make_f16(struct attn_data * d) {
    ggml_fp32_to_fp16_row(d->k->data, d->k16->data, ggml_nelements(d->k));
    ggml_fp32_to_fp16_row(d->v->data, d->v16->data, ggml_nelements(d->v));
}

void data_from_npy(struct attn_data * d, const struct npy * a) {
    struct ggml_tensor * t[3] = { d->q, d->k, d->v };
    const int64_t n_file = a->shape[2];
    for (int x = 0; x < 3; x++)
        for (int64_t h = 0; h < d->heads; h++)
            for (int64_t i = 0; i < d->n; i++) {
                memcpy(row(t[x], h, i), a->data + ((x * d->heads + h) * n_file + i) * d->dim,
                    (size_t) d->dim * sizeof(float));
            }
    make_f16(d);
}

enum mra_status data_small(struct attn_data * d, const struct attn_data * from, int64_t n, struct mra_error * err) {
    const enum mra_status st = data_new(d, n, from->heads / from->kv_heads, 1, from->dim, err);
    if (st != MRA_OK) return st;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t h = 0; h < d->heads; h++)
            memcpy(row(d->q, h, i), row(from->q, h, i), (size_t) d->dim * sizeof(float));
        memcpy(row(d->k, 0, i), row(from->k, 0, i), (size_t) d->dim * sizeof(float));
        memcpy(row(d->v, 0, i), row(from->v, 0, i), (size_t) d->dim * sizeof(float));
    }
    for (int x = 0; x < 2; x++) {
        struct ggml_tensor * t = x ? d->k : d->q;
        float * p = t->data;
        double sum = 0;
        for (int64_t i = 0; i < ggml_nelements(t); i++) sum += (double) p[i] * p[i];
        const float step = exp2f(
            rintf(log2f((float) sqrt(sum / (double) ggml_nelements(t)) + 1e-30f)) - 2); // a power of two near rms/4
        for (int64_t i = 0; i < ggml_nelements(t); i++) p[i] = step * fmaxf(-32, fminf(32, rintf(p[i] / step)));
    }
    make_f16(d);
    return MRA_OK;
}

// ---- generated text-like data ----------------------------------------------------------------------------------
// A text is a chain of segments of 32 to 256 tokens, each on one of n/128 + 4 topics, so topics return. A token is a
// word of a vocabulary of 1024 (Zipf), with a topic, a slow drift (AR(1), a memory of 20 tokens) and a position. One
// token in 64 is salient: every query likes it, as separators and first tokens are liked in trained encoders. A key
// shows its word, topic, drift and position. A query looks for the word that goes with its own, for the three theme
// words of its topic wherever they occur, for its topic, its drift and its surroundings: in proportions that differ
// from head to head, as does the temperature. Values carry word, topic and drift. The proportions were chosen so that
// errors come out about as on Q, K, V of a trained encoder: 12 heads of 64 at budget 1/8, n = 512, 1024, 4096: columns
// .17 .15 .14, MRA-2 .28 .35 .42, {16, 4, 1} .22 .22 .22.

static uint64_t rng_next(uint64_t * s) { // splitmix64
    uint64_t z = (*s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static float uniform(uint64_t * s) { return (float) (rng_next(s) >> 40) / 16777216.0f; }
static float normal(uint64_t * s) {
    const float u = 1 - uniform(s), v = uniform(s);
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}
static float * normals(int64_t n, uint64_t * s) {
    float * x = malloc((size_t) n * sizeof(float));
    for (int64_t i = 0; x && i < n; i++) x[i] = normal(s);
    return x;
}

enum { N_WORDS = 1024, N_THEME = 3 };

struct text {
    int32_t *word, *topic;
    bool * salient;
    int64_t n_topics;
}; // [n] each

static bool text_new(struct text * t, int64_t n, uint64_t * s) {
    *t = (struct text) { malloc((size_t) n * 4), malloc((size_t) n * 4), malloc((size_t) n), n / 128 + 4 };
    if (!t->word || !t->topic || !t->salient) return false;
    int64_t left = 0;
    int32_t topic = 0;
    for (int64_t i = 0; i < n; i++, left--) {
        if (left == 0) {
            left = 32 + (int64_t) (rng_next(s) % 225);
            topic = (int32_t) (rng_next(s) % (uint64_t) t->n_topics);
        }
        t->topic[i] = topic;
        t->word[i] = (int32_t) exp2f(10 * uniform(s)) % N_WORDS; // density 1/rank
        t->salient[i] = i == 0 || rng_next(s) % 64 == 0;
    }
    return true;
}
static void text_free(struct text * t) {
    free(t->word);
    free(t->topic);
    free(t->salient);
}

// what a head looks for: by how much a match raises the score, in nats
struct taste {
    float word, theme, topic, drift, near, salient;
};

static struct taste taste_of(int64_t h, uint64_t * s) {
    static const struct taste kinds[3] = {
        { 5.2f, 4.6f, 2.8f, 1.2f, 0.5f, 2.0f }, // content
        { 2.1f, 1.9f, 0.8f, 2.6f, 3.0f, 1.0f }, // surroundings
        { 4.1f, 3.6f, 2.2f, 2.0f, 2.0f, 2.0f }, // both
    };
    const struct taste t = kinds[h % 3];
    const float heat = 0.7f + 0.6f * uniform(s);
    return (struct taste) { heat * t.word, heat * t.theme, heat * t.topic, heat * t.drift, heat * t.near,
        heat * t.salient };
}

// What keys and queries of one kv head are made of; rows of dim values with mean square 1
struct features {
    float *word, *topic, *word_v, *topic_v, *salient, *freq, *drift;
};

static bool features_new(struct features * f, const struct text * t, int64_t dim, uint64_t * s) {
    f->word = normals(N_WORDS * dim, s);
    f->word_v = normals(N_WORDS * dim, s);
    f->topic = normals(t->n_topics * dim, s);
    f->topic_v = normals(t->n_topics * dim, s);
    f->salient = normals(dim, s);
    f->freq = normals(dim, s);
    f->drift = normals(dim, s);
    for (int64_t c = 0; f->freq && c < dim; c++)
        f->freq[c] = powf(10, -3 * uniform(s)); // wave lengths of 6 to 6000 tokens
    return f->word && f->word_v && f->topic && f->topic_v && f->salient && f->freq && f->drift;
}
static void features_free(struct features * f) {
    free(f->word);
    free(f->word_v);
    free(f->topic);
    free(f->topic_v);
    free(f->salient);
    free(f->freq);
    free(f->drift);
}

static void fill_token(struct attn_data * d, const struct text * t, struct features * f, const struct taste * taste,
    int64_t g, int64_t i, uint64_t * s) {
    const int64_t dim = d->dim, group = d->heads / d->kv_heads;
    const float *word = f->word + t->word[i] * dim, *goal = f->word + (t->word[i] ^ 1) * dim,
                *topic = f->topic + t->topic[i] * dim;
    const float *word_v = f->word_v + t->word[i] * dim, *topic_v = f->topic_v + t->topic[i] * dim;
    const float * theme[N_THEME];
    for (int x = 0; x < N_THEME; x++) theme[x] = f->word + (8 + (t->topic[i] * N_THEME + x) * 29 % 56) * dim;
    float *k = row(d->k, g, i), *v = row(d->v, g, i);
    const float unit = 1 / sqrtf((float) dim); // scale * q.k of a match is then the taste for it
    for (int64_t c = 0; c < dim; c++) {
        f->drift[c] = .95f * f->drift[c] + .3122f * normal(s);
        const float place = 1.414f * sinf(f->freq[c] * (float) i + (c & 1 ? 1.5708f : 0)),
                    extra = t->salient[i] ? f->salient[c] : 0;
        k[c] = word[c] + topic[c] + f->drift[c] + place + extra;
        v[c] = word_v[c] + topic_v[c] + .5f * f->drift[c];
        float themes = 0;
        for (int x = 0; x < N_THEME; x++) themes += theme[x][c];
        for (int64_t h = g * group; h < (g + 1) * group; h++) {
            const struct taste * l = &taste[h];
            row(d->q, h, i)[c] = unit *
                (l->word * goal[c] + l->theme * themes + l->topic * topic[c] + l->drift * f->drift[c] +
                    l->near * place + l->salient * f->salient[c]);
        }
    }
}

void data_generate(struct attn_data * d, uint64_t seed) {
    uint64_t s = seed;
    struct text t;
    struct taste * taste = malloc((size_t) d->heads * sizeof(*taste));
    const bool ok = text_new(&t, d->n, &s) && taste;
    for (int64_t h = 0; ok && h < d->heads; h++) taste[h] = taste_of(h, &s);
    for (int64_t g = 0; ok && g < d->kv_heads; g++) {
        struct features f;
        if (features_new(&f, &t, d->dim, &s))
            for (int64_t i = 0; i < d->n; i++) fill_token(d, &t, &f, taste, g, i, &s);
        features_free(&f);
    }
    free(taste);
    text_free(&t);
    make_f16(d);
}
