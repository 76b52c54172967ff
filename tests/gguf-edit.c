#include "gguf-edit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void give_up(const char * what) {
    fprintf(stderr, "gguf-edit: %s\n", what);
    exit(1);
}

struct gguf_edit gguf_edit_open(const char * path) {
    struct gguf_edit e = { 0 };
    struct ggml_context * data = NULL;
    struct gguf_context * in = gguf_init_from_file(path, (struct gguf_init_params) { .no_alloc = false, .ctx = &data });
    if (!in) give_up(path);
    e.kv = gguf_init_empty();
    e.ctx = ggml_init((struct ggml_init_params) { .mem_size = 32u << 20 });
    gguf_set_kv(e.kv, in);
    for (int64_t i = 0; i < gguf_get_n_tensors(in); i++) {
        const struct ggml_tensor * src = ggml_get_tensor(data, gguf_get_tensor_name(in, i));
        struct ggml_tensor * t = ggml_dup_tensor(e.ctx, src);
        memcpy(t->data, src->data, ggml_nbytes(src));
        ggml_set_name(t, ggml_get_name(src));
        if (e.n == EDIT_MAX) give_up("too many tensors");
        e.t[e.n++] = t;
    }
    gguf_free(in);
    ggml_free(data);
    return e;
}

static int index_of(struct gguf_edit * e, const char * name) {
    for (int i = 0; i < e->n; i++)
        if (strcmp(ggml_get_name(e->t[i]), name) == 0) return i;
    give_up(name);
    return -1;
}

struct ggml_tensor * gguf_edit_find(struct gguf_edit * e, const char * name) {
    return e->t[index_of(e, name)];
}

void gguf_edit_drop(struct gguf_edit * e, const char * name) {
    const int i = index_of(e, name);
    memmove(e->t + i, e->t + i + 1, (size_t) (--e->n - i) * sizeof(e->t[0]));
}

struct ggml_tensor * gguf_edit_add(
    struct gguf_edit * e, const char * name, enum ggml_type type, int64_t ne0, int64_t ne1) {
    struct ggml_tensor * t = ne1 ? ggml_new_tensor_2d(e->ctx, type, ne0, ne1) : ggml_new_tensor_1d(e->ctx, type, ne0);
    memset(t->data, 0, ggml_nbytes(t));
    ggml_set_name(t, name);
    e->t[e->n++] = t;
    return t;
}

void gguf_edit_drop_keys(struct gguf_edit * e, const char * prefix) {
    for (int64_t i = gguf_get_n_kv(e->kv) - 1; i >= 0; i--) {
        if (strncmp(gguf_get_key(e->kv, i), prefix, strlen(prefix)) == 0)
            gguf_remove_key(e->kv, gguf_get_key(e->kv, i));
    }
}

void gguf_edit_write(struct gguf_edit * e, const char * path) {
    struct gguf_context * out = gguf_init_empty();
    gguf_set_kv(out, e->kv);
    for (int i = 0; i < e->n; i++) gguf_add_tensor(out, e->t[i]);
    if (!gguf_write_to_file(out, path, false)) give_up(path);
    gguf_free(out);
}

void gguf_edit_free(struct gguf_edit * e) {
    gguf_free(e->kv);
    ggml_free(e->ctx);
}

void gguf_edit_positions(struct gguf_edit * e, int n) {
    struct ggml_tensor * old = gguf_edit_find(e, "position_embd.weight");
    gguf_edit_drop(e, "position_embd.weight");
    struct ggml_tensor * pos = gguf_edit_add(e, "position_embd.weight", GGML_TYPE_F32, old->ne[0], n);
    for (int64_t i = 0; i < n; i++)
        memcpy((char *) pos->data + i * pos->nb[1], (char *) old->data + (i % old->ne[1]) * old->nb[1], old->nb[1]);
    gguf_set_val_u32(e->kv, "bert.context_length", (uint32_t) n);
}
