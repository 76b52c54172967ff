// What the files that load a model share: each fills a part of struct mra_model from m->file.
#pragma once

#include "model.h"

#include <stdio.h>

#define TRY(x) \
    do { \
        const enum mra_status st_ = (x); \
        if (st_ != MRA_OK) return st_; \
    } while (0)

// a key of the model's architecture, such as "bert.block_count"
struct mra_key {
    char name[80];
};
static inline struct mra_key mra_key(const struct mra_model * m, const char * name) {
    struct mra_key k;
    snprintf(k.name, sizeof(k.name), "%s.%s", m->arch.name, name);
    return k;
}

// The activation that a key names; absent: *act stays.
enum mra_status mra_load_act(const struct mra_gguf * f, const char * key, enum mra_act * act, struct mra_error * err);

// in this order
enum mra_status mra_load_arch(struct mra_model * m, struct mra_error * err);    // arch.c: m->arch
enum mra_status mra_load_keys(struct mra_model * m, struct mra_error * err);    // model-keys.c: sizes and settings
enum mra_status mra_load_weights(struct mra_model * m, struct mra_error * err); // model-weights.c: tensors and heads
