// What all threads of a server share.
#pragma once

#include "metrics.h"
#include "settings.h"

struct server {
    struct settings settings;
    struct models models;
    struct queue * queue;
    struct metrics metrics;
    atomic_bool stopping;
    atomic_int n_calls;      // being served
    atomic_llong body_bytes; // of all calls
};
