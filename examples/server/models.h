// The models that are served: each with its context, its names and what it is for.
#pragma once

#include "settings.h"

#include "common/engine.h"

#include <stdatomic.h>

enum use { USE_EMBED, USE_RERANK, USE_CLASSIFY, USE_SPARSE };

struct served {
    struct engine engine;
    char * id;                   // the file's name without its folder and .gguf
    const char * alias;          // may be NULL
    const char * prefix;         // before every text that is embedded, NULL: none
    _Atomic double ms_per_gflop; // as measured lately
    double measured_gflop;       // of the first measurement
};

struct models {
    struct served * list; // [n]
    int n;
    bool sparse;
};

// Loads all, starts their contexts and measures their speed; ends the program where that fails. stop(user) ends
// mra_encode.
struct models models_open(const char * program, const struct settings * s, bool (*stop)(void *), void * user);
void models_free(struct models * m);

// The model of a name (NULL: the first) that has this use; NULL where there is none, and err says why: MRA_ERR_ARG: no
// such name, MRA_ERR_UNSUPPORTED: not for this.
struct served * models_find(
    const struct models * m, enum use use, const char * name, size_t n_name, struct mra_error * err);

bool served_is_cross_encoder(const struct served * m); // a classifier with one or two labels: reads pairs
// Work of a sequence, in billions of operations.
double served_gflop(const struct served * m, int n_tokens);
