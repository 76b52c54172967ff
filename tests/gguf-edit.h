// A GGUF file in memory, changed and written again, for tests.
#pragma once

#include "ggml.h"
#include "gguf.h"

#include <stdbool.h>

enum { EDIT_MAX = 256 };

struct gguf_edit {
    struct gguf_context * kv;  // keys; change them with gguf_set_* and gguf_remove_key
    struct ggml_context * ctx; // where new tensors are made
    struct ggml_tensor * t[EDIT_MAX];
    int n;
};

struct gguf_edit gguf_edit_open(const char * path);                           // exits on failure
struct ggml_tensor * gguf_edit_find(struct gguf_edit * e, const char * name); // exits if it is not there
void gguf_edit_drop(struct gguf_edit * e, const char * name);                 // the tensor
struct ggml_tensor * gguf_edit_add(
    struct gguf_edit * e, const char * name, enum ggml_type type, int64_t ne0, int64_t ne1); // zeros
void gguf_edit_drop_keys(struct gguf_edit * e, const char * prefix);
void gguf_edit_write(struct gguf_edit * e, const char * path); // exits on failure
void gguf_edit_free(struct gguf_edit * e);
// of a model of architecture bert with F32 positions: n positions, the rows it has repeated
void gguf_edit_positions(struct gguf_edit * e, int n);
