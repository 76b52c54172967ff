#include "job.h"

#include <stdlib.h>
#include <string.h>

struct job * job_new(struct served * model, const struct mra_output * want) {
    struct job * j = calloc(1, sizeof(*j));
    if (!j) return NULL;
    j->model = model;
    j->want = *want;
    j->fd = -1;
    atomic_init(&j->n_refs, 1);
    atomic_init(&j->state, JOB_WAITING);
    return j;
}

void job_release(struct job * j) {
    if (!j || atomic_fetch_sub(&j->n_refs, 1) != 1) return;
    for (int i = 0; i < j->n_seq; i++) {
        mra_token_list_free(&j->seqs[i].list);
        free(j->seqs[i].weights);
    }
    free(j->seqs);
    free(j->rows);
    free(j);
}

// ---- tokens ----

static struct job_seq * add_seq(struct job * j, struct mra_error * err) {
    if (j->n_seq == j->cap_seq) {
        const int cap = j->cap_seq ? 2 * j->cap_seq : 1;
        struct job_seq * seqs = realloc(j->seqs, (size_t) cap * sizeof(*seqs));
        if (!seqs) {
            mra_fail(err, MRA_ERR_MEMORY, "out of memory");
            return NULL;
        }
        j->seqs = seqs;
        j->cap_seq = cap;
    }
    j->seqs[j->n_seq] = (struct job_seq) { 0 };
    return &j->seqs[j->n_seq++];
}

// the tokens are there: what they cost, and where their rows go
static void count(struct job * j, struct job_seq * s) {
    const int n = (int) s->list.n;
    s->ms = served_gflop(j->model, n) * atomic_load(&j->model->ms_per_gflop);
    s->row = j->want.kind == MRA_OUTPUT_TOKENS ? j->n_rows : j->n_seq - 1;
    j->n_rows += j->want.kind == MRA_OUTPUT_TOKENS ? n : 1;
    j->n_tokens += n;
    j->left_ms += s->ms;
}

// drops tokens at the beginning of a single text, between the special tokens, until `limit` are left
static void cut_left(struct mra_token_list * list, size_t limit) {
    size_t head = 0, tail = 0;
    while (head < list->n && list->data[head].text < 0) head++;
    while (tail < list->n - head && list->data[list->n - 1 - tail].text < 0) tail++;
    const size_t drop = list->n - limit, body = list->n - head - tail;
    if (drop > body) return; // no room for any: the caller sees that it is still too long
    memmove(list->data + head, list->data + head + drop, (list->n - head - drop) * sizeof(*list->data));
    list->n = limit;
}

static enum mra_status fit(struct job * j, struct job_seq * s, const char * a, size_t n_a, const char * b, size_t n_b,
    const struct text_way * way, struct mra_error * err) {
    const struct engine * e = &j->model->engine;
    const struct mra_tokenizer * tok = mra_model_tokenizer(e->model);
    enum mra_status st = mra_tokenize(tok, a, n_a, b, n_b, MRA_TOKENIZE_ADD_SPECIAL, &s->list, err);
    if (st != MRA_OK) return st;
    const size_t limit = (size_t) e->limit;
    s->n_whole = (int) s->list.n;
    if (s->list.n > limit && way->truncate && way->left && b)
        return mra_fail(
            err, MRA_ERR_ARG, "%zu tokens, the limit is %zu, and pairs are cut on the right only", s->list.n, limit);
    if (s->list.n > limit && way->truncate && way->left) cut_left(&s->list, limit);
    else if (s->list.n > limit && way->truncate) {
        st = mra_model_tokenize(e->model, a, n_a, b, n_b, e->limit, &s->list, err);
        if (st != MRA_OK) return st;
    }
    if (s->list.n > limit) return mra_fail(err, MRA_ERR_TOO_LONG, "%zu tokens, the limit is %zu", s->list.n, limit);
    if (s->list.n == 0) return mra_fail(err, MRA_ERR_ARG, "no tokens: the text is empty");
    for (size_t i = 0; i < s->list.n; i++)
        if (s->list.data[i].segment >= e->info.n_types) s->list.data[i].segment = 0;
    count(j, s);
    return MRA_OK;
}

enum mra_status job_add(struct job * j, const char * a, size_t n_a, const char * b, size_t n_b,
    const struct text_way * way, struct mra_error * err) {
    struct job_seq * s = add_seq(j, err);
    if (!s) return MRA_ERR_MEMORY;
    if (!way->prefix || !*way->prefix) return fit(j, s, a, n_a, b, n_b, way, err);
    const size_t n = strlen(way->prefix);
    char * both = malloc(n + n_a + 1);
    if (!both) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    memcpy(both, way->prefix, n);
    memcpy(both + n, a, n_a);
    const enum mra_status st = fit(j, s, both, n + n_a, b, n_b, way, err);
    free(both);
    return st;
}

enum mra_status job_add_ids(struct job * j, const int32_t * ids, int n, bool truncate, struct mra_error * err) {
    const struct engine * e = &j->model->engine;
    struct job_seq * s = add_seq(j, err);
    if (!s) return MRA_ERR_MEMORY;
    s->n_whole = n;
    if (n > e->limit && !truncate) return mra_fail(err, MRA_ERR_TOO_LONG, "%d tokens, the limit is %d", n, e->limit);
    if (n > e->limit) n = e->limit;
    if (n == 0) return mra_fail(err, MRA_ERR_ARG, "no tokens");
    s->list.data = calloc((size_t) n, sizeof(*s->list.data));
    if (!s->list.data) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    s->list.n = s->list.cap = (size_t) n;
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= e->info.n_vocab)
            return mra_fail(err, MRA_ERR_ARG, "token id %d is not in 0..%d", ids[i], e->info.n_vocab - 1);
        s->list.data[i].id = ids[i];
    }
    count(j, s);
    return MRA_OK;
}

// ---- for the reply ----

bool job_is_truncated(const struct job * j, int i) { return j->seqs[i].n_whole > (int) j->seqs[i].list.n; }

struct mra_attention_choice job_attention(const struct job * j) {
    int longest = 0;
    for (int i = 0; i < j->n_seq; i++)
        if ((int) j->seqs[i].list.n > longest) longest = (int) j->seqs[i].list.n;
    return mra_attention_of(j->model->engine.model, &j->model->engine.params, longest);
}
