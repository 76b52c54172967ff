// What the command line says.
#pragma once

#include "common/options.h"

struct model_name {
    const char *path, *alias; // alias NULL: none
};

struct keys {
    char ** list; // [n], owned
    int n;
};

struct settings {
    struct options o;           // shared with the other programs; of every model
    struct model_name * models; // [n_models], owned
    int n_models;
    const char * host;
    int port; // 0: any free one
    struct keys keys;
    bool accept_token_ids, sparse;
    int max_inputs, max_connections, http_threads;
    size_t max_body; // bytes
    double timeout_ms, max_queue_ms, batch_ms;
};

// Ends the program where the command line is wrong.
struct settings settings_read(int argc, char ** argv);
void settings_free(struct settings * s);

// Whether text[0 .. n) is one of the keys. Takes the same time wherever they differ.
bool keys_have(const struct keys * k, const char * text, size_t n);
