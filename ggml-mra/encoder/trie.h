// An immutable byte trie: strings -> non-negative values.
//
// Nodes are numbered breadth-first, so the children of node i are child[i] .. child[i+1]-1, in the order of their
// labels: 9 bytes per node, and building is one pass per depth over the sorted strings.
#pragma once

#include "mra-error.h"

#include <stddef.h>
#include <stdint.h>

struct mra_trie {
    uint32_t * child; // [n_nodes + 1]
    int32_t * value;  // [n_nodes] -1: no string ends here
    uint8_t * label;  // [n_nodes] the byte that leads to it
    uint32_t n_nodes;
    uint32_t root[256]; // children of node 0, 0: none
};

struct mra_trie_key {
    const char * data; // not empty
    uint32_t len;
    int32_t value;
};

// Sorts the keys in place. Two equal keys are an error.
enum mra_status mra_trie_build(struct mra_trie * t, struct mra_trie_key * keys, size_t n_keys, struct mra_error * err);
void mra_trie_free(struct mra_trie * t);

// The child of node by byte c, 0 if there is none. Node 0 is the root.
static inline uint32_t mra_trie_step(const struct mra_trie * t, uint32_t node, uint8_t c) {
    if (node == 0) { return t->root[c]; }
    uint32_t lo = t->child[node];
    uint32_t hi = t->child[node + 1];

    while (hi - lo > 8) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (t->label[mid] <= c) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    for (; lo < hi; lo++) {
        if (t->label[lo] == c) { return lo; }
    }
    return 0;
}

// The value of a whole string, -1 if it is not in the trie.
int32_t mra_trie_find(const struct mra_trie * t, const char * s, size_t n);
