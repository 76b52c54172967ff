// A plan: how many keys each head needs beside the others.
#pragma once

#include "model.h"

struct mra_plan {
    int n_layer, n_head;
    uint64_t model; // mra_plan_model
    bool as_it_is;  // needs are the shares themselves
    float need[];   // [n_layer][n_head]
};

// Names a model whatever type its weights have: a hash of the first layer's norm, which no quantization changes. While
// the file's bytes are there.
uint64_t mra_plan_model(const struct mra_model * m);
// The plan that a file holds for m; *plan NULL: none. Owned by the caller.
enum mra_status mra_plan_of_file(
    const struct mra_gguf * f, const struct mra_model * m, struct mra_plan ** plan, struct mra_error * err);

// Shares of the sorted frame with this budget: min(most, scale*need), 1 in the mean over the layers without a window.
struct mra_share_rule {
    double scale, most;
};
struct mra_share_rule mra_share_rule_of(const struct mra_plan * plan, const struct mra_model * m, float budget);
static inline float mra_share_of(struct mra_share_rule r, float need) {
    return (float) (r.scale * need < r.most ? r.scale * need : r.most);
}
