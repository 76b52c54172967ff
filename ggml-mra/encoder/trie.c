// Building the trie: a node is the range of sorted keys that share its path.
#include "trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct range {
    uint32_t lo;
    uint32_t hi;
};

struct builder {
    struct mra_trie * t;
    const struct mra_trie_key * keys;
    struct range * ranges; // [n_nodes]
};

static int compare_keys(const void * pa, const void * pb) {
    const struct mra_trie_key * a = pa;
    const struct mra_trie_key * b = pb;
    const uint32_t n = a->len < b->len ? a->len : b->len;
    const int c = memcmp(a->data, b->data, n);

    return c ? c : (a->len > b->len) - (a->len < b->len);
}

// Appends the children of a node whose path has `depth` bytes; false: two keys are equal.
static bool expand(struct builder * b, uint32_t node, uint32_t depth) {
    struct mra_trie * t = b->t;
    const struct mra_trie_key * keys = b->keys;
    uint32_t i = b->ranges[node].lo;
    const uint32_t hi = b->ranges[node].hi;

    t->value[node] = -1;
    if (i < hi && keys[i].len == depth) {
        t->value[node] = keys[i++].value;
        if (i < hi && keys[i].len == depth) { return false; }
    }
    t->child[node] = t->n_nodes;
    while (i < hi) {
        const uint8_t c = (uint8_t) keys[i].data[depth];
        const uint32_t k = t->n_nodes++;
        t->label[k] = c;
        b->ranges[k].lo = i;
        while (i < hi && (uint8_t) keys[i].data[depth] == c) { i++; }
        b->ranges[k].hi = i;
    }
    return true;
}

// one node per distinct prefix of the sorted keys, and the root
static size_t count_nodes(const struct mra_trie_key * keys, size_t n_keys) {
    size_t n = 1;

    for (size_t i = 0; i < n_keys; i++) {
        uint32_t common = 0;
        if (i > 0) {
            const uint32_t m = keys[i].len < keys[i - 1].len ? keys[i].len : keys[i - 1].len;
            while (common < m && keys[i].data[common] == keys[i - 1].data[common]) { common++; }
        }
        n += keys[i].len - common;
    }
    return n;
}

enum mra_status mra_trie_build(struct mra_trie * t, struct mra_trie_key * keys, size_t n_keys, struct mra_error * err) {
    memset(t, 0, sizeof(*t));
    if (n_keys) { qsort(keys, n_keys, sizeof(*keys), compare_keys); }
    const size_t n = count_nodes(keys, n_keys);
    if (n >= UINT32_MAX) { return mra_fail(err, MRA_ERR_FORMAT, "vocabulary is too large"); }
    struct builder b = { .t = t, .keys = keys, .ranges = malloc(n * sizeof(*b.ranges)) };
    t->child = malloc((n + 1) * sizeof(*t->child));
    t->value = malloc(n * sizeof(*t->value));
    t->label = malloc(n);
    if (!b.ranges || !t->child || !t->value || !t->label) {
        free(b.ranges);
        mra_trie_free(t);
        return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    }
    b.ranges[0] = (struct range) { 0, (uint32_t) n_keys };
    t->label[0] = 0;
    t->n_nodes = 1;

    uint32_t level_end = 1;
    uint32_t depth = 0;
    for (uint32_t node = 0; node < t->n_nodes; node++) {
        if (node == level_end) {
            level_end = t->n_nodes;
            depth++;
        }
        if (!expand(&b, node, depth)) {
            const int32_t v = t->value[node];
            free(b.ranges);
            mra_trie_free(t);
            return mra_fail(err, MRA_ERR_FORMAT, "token %d occurs twice in the vocabulary", (int) v);
        }
    }
    t->child[t->n_nodes] = t->n_nodes;
    for (uint32_t k = t->child[0]; k < t->child[1]; k++) { t->root[t->label[k]] = k; }
    free(b.ranges);
    return MRA_OK;
}

void mra_trie_free(struct mra_trie * t) {
    free(t->child);
    free(t->value);
    free(t->label);
    memset(t, 0, sizeof(*t));
}

int32_t mra_trie_find(const struct mra_trie * t, const char * s, size_t n) {
    uint32_t node = 0;

    for (size_t i = 0; i < n; i++) {
        node = mra_trie_step(t, node, (uint8_t) s[i]);
        if (!node) { return -1; }
    }
    return n ? t->value[node] : -1;
}
