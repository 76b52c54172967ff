// Byte-level BPE: within a word, join the two neighbours whose merge ranks best until none can be joined.
#include "tokenizer-impl.h"

#include <string.h>

struct symbol {
    int32_t id; // -1: joined with the one before
    int32_t prev;
    int32_t next;
    int32_t begin; // its bytes, relative to the word
    int32_t end;
};

struct heap {
    const struct mra_tokenizer * tok;
    struct symbol * symbols;
    uint64_t * heap; // pairs that can be joined: rank << 32 | position of the left symbol, the least first
    size_t n_heap;
};

// GPT-2's printable stand-ins for bytes: those that are printable in Latin-1 stand for themselves, the others follow
// U+0100.
static int32_t byte_to_char(int byte) {
    if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD)) { return byte; }
    return 0x100 + (byte <= 0x20 ? byte : byte <= 0xA0 ? byte - 0x7F + 0x21 : 0x43);
}

static int char_to_byte(int32_t cp) {
    if (cp < 0x100) { return byte_to_char(cp) == cp ? cp : -1; }
    const int32_t k = cp - 0x100;
    return k <= 0x20 ? k : k <= 0x42 ? k - 0x21 + 0x7F : k == 0x43 ? 0xAD : -1;
}

static uint32_t hash_pair(int32_t left, int32_t right) {
    const uint64_t h = ((uint64_t) (uint32_t) left << 32 | (uint32_t) right) * 0x9E3779B97F4A7C15u;
    return (uint32_t) (h >> 32);
}

// The slot of a pair, or the empty one where it would be.
static uint32_t find_slot(const struct mra_tokenizer * tok, int32_t left, int32_t right) {
    uint32_t slot = hash_pair(left, right) & tok->merge_mask;

    while (tok->merges[slot].left >= 0 && (tok->merges[slot].left != left || tok->merges[slot].right != right)) {
        slot = (slot + 1) & tok->merge_mask;
    }
    return slot;
}

static enum mra_status add_merge(struct mra_tokenizer * tok, struct mra_str s, size_t rank, struct mra_error * err) {
    char joined[2 * MRA_MAX_TOKEN_BYTES];
    const char * space = s.data && s.len > 1 ? memchr(s.data + 1, ' ', s.len - 1) : NULL;

    if (!space || s.len > sizeof(joined)) { return mra_fail(err, MRA_ERR_FORMAT, "merge %zu is not two tokens", rank); }
    const size_t n_left = (size_t) (space - s.data);
    const size_t n_right = s.len - n_left - 1;
    memcpy(joined, s.data, n_left);
    memcpy(joined + n_left, space + 1, n_right);
    const int32_t left = mra_trie_find(&tok->trie, s.data, n_left);
    const int32_t right = mra_trie_find(&tok->trie, space + 1, n_right);
    const int32_t id = mra_trie_find(&tok->trie, joined, n_left + n_right);
    if (left < 0 || right < 0 || id < 0) {
        return mra_fail(err, MRA_ERR_FORMAT, "merge %zu names a token that is not in the vocabulary", rank);
    }
    struct mra_merge * m = &tok->merges[find_slot(tok, left, right)];
    if (m->left >= 0) { return mra_fail(err, MRA_ERR_FORMAT, "merges %d and %zu are the same", (int) m->rank, rank); }
    *m = (struct mra_merge) { .left = left, .right = right, .id = id, .rank = (int32_t) rank };
    return MRA_OK;
}

enum mra_status mra_bpe_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err) {
    uint32_t n_slots = 16;

    while (n_slots < 2 * vocab->n_merges) { n_slots *= 2; }
    tok->merge_mask = n_slots - 1;
    tok->merges = malloc(n_slots * sizeof(*tok->merges));
    if (!tok->merges) { return mra_fail(err, MRA_ERR_MEMORY, "out of memory"); }
    for (uint32_t i = 0; i < n_slots; i++) { tok->merges[i].left = -1; }
    for (int byte = 0; byte < 256; byte++) {
        char s[4];
        const int n = mra_utf8_encode(byte_to_char(byte), s);
        tok->byte_id[byte] = mra_trie_find(&tok->trie, s, (size_t) n);
    }
    for (size_t i = 0; i < vocab->n_merges; i++) {
        const enum mra_status st = add_merge(tok, vocab->merges[i], i, err);
        if (st) { return st; }
    }
    return MRA_OK;
}

static void heap_push(struct heap * w, uint64_t c) {
    size_t i = w->n_heap++;

    while (i > 0 && c < w->heap[(i - 1) / 2]) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = c;
}

static uint64_t heap_pop(struct heap * w) {
    const uint64_t top = w->heap[0];
    const uint64_t c = w->heap[--w->n_heap];
    size_t i = 0;

    for (size_t k; (k = 2 * i + 1) < w->n_heap; i = k) {
        k += k + 1 < w->n_heap && w->heap[k + 1] < w->heap[k];
        if (w->heap[k] >= c) { break; }
        w->heap[i] = w->heap[k];
    }
    w->heap[i] = c;
    return top;
}

// The merge of the symbol at pos with the next one, NULL: there is none.
static const struct mra_merge * find_merge(const struct heap * w, int32_t pos) {
    const struct symbol * left = &w->symbols[pos];

    if (left->id < 0 || left->next < 0) { return NULL; }
    const struct mra_merge * m = &w->tok->merges[find_slot(w->tok, left->id, w->symbols[left->next].id)];
    return m->left < 0 ? NULL : m;
}

static void push_pair(struct heap * w, int32_t pos) {
    const struct mra_merge * m = pos < 0 ? NULL : find_merge(w, pos);

    if (m) { heap_push(w, (uint64_t) m->rank << 32 | (uint32_t) pos); }
}

static void merge_symbols(struct heap * w) {
    while (w->n_heap) {
        const uint64_t c = heap_pop(w);
        const int32_t pos = (int32_t) (c & UINT32_MAX);
        const struct mra_merge * m = find_merge(w, pos);
        // symbols change while their pairs wait: what no longer fits is skipped
        if (!m || m->rank != (int32_t) (c >> 32)) { continue; }
        struct symbol * l = &w->symbols[pos];
        struct symbol * r = &w->symbols[l->next];
        l->id = m->id;
        r->id = -1;
        l->next = r->next;
        l->end = r->end;
        if (r->next >= 0) { w->symbols[r->next].prev = pos; }
        push_pair(w, l->prev);
        push_pair(w, pos);
    }
}

// The token of the bytes v[begin..end): its offsets are whole characters, without the spaces at its ends.
static bool emit_symbol(
    struct mra_work * w, const struct mra_view * v, size_t begin, size_t end, size_t limit, int32_t id) {
    const char * s = v->s;

    while (w->tok->trim_offsets && begin < end && s[begin] == ' ') { begin++; }
    while (w->tok->trim_offsets && end > begin && s[end - 1] == ' ') { end--; }
    if (v->spans) {
        const uint32_t start = begin < end ? v->spans[begin].start : v->spans[begin - 1].end;
        return mra_emit(w->list, id, start, begin < end ? v->spans[end - 1].end : start);
    }
    while (begin < end && (s[begin] & 0xC0) == 0x80) { begin--; }
    while (end < limit && (s[end] & 0xC0) == 0x80) { end++; }
    return mra_emit(w->list, id, begin, end);
}

// the token that a word is as a whole, -1: none
static int32_t find_word(const struct mra_tokenizer * tok, const char * s, size_t n) {
    char spelled[512];
    size_t len = 0;

    if (n > sizeof(spelled) / 4) { return -1; } // no token is that long
    for (size_t i = 0; i < n; i++) { len += (size_t) mra_utf8_encode(byte_to_char((uint8_t) s[i]), spelled + len); }
    return mra_trie_find(&tok->trie, spelled, len);
}

bool mra_bpe_word(struct mra_work * w, const struct mra_view * v, size_t begin, size_t end) {
    const size_t n = end - begin;
    const int32_t whole = w->tok->whole_words ? find_word(w->tok, v->s + begin, n) : -1;
    if (whole >= 0) { return emit_symbol(w, v, begin, end, end, whole); }
    struct heap h = { .tok = w->tok };
    int32_t n_symbols = 0;

    if (!mra_reserve(&w->model[0], &w->cap_model[0], n, sizeof(*h.symbols)) ||
        !mra_reserve(&w->model[1], &w->cap_model[1], 3 * n, sizeof(*h.heap))) { // a merge takes one and adds two
        return false;
    }
    h.symbols = w->model[0];
    h.heap = w->model[1];
    for (size_t i = 0; i < n; i++) {
        int32_t id = w->tok->byte_id[(uint8_t) v->s[begin + i]];
        id = id < 0 ? w->tok->unk : id;
        if (id >= 0) {
            const int32_t k = n_symbols++;
            const int32_t b = (int32_t) i;
            h.symbols[k] = (struct symbol) { .id = id, .prev = k - 1, .next = k + 1, .begin = b, .end = b + 1 };
        }
    }
    if (n_symbols == 0) { return true; }
    h.symbols[n_symbols - 1].next = -1;
    for (int32_t k = 0; k + 1 < n_symbols; k++) { push_pair(&h, k); }
    merge_symbols(&h);
    for (int32_t k = 0; k >= 0; k = h.symbols[k].next) {
        const struct symbol * sym = &h.symbols[k];
        if (!emit_symbol(w, v, begin + (size_t) sym->begin, begin + (size_t) sym->end, end, sym->id)) { return false; }
    }
    return true;
}

size_t mra_bpe_text(const char * token, size_t len, char * buf, size_t size) {
    size_t n = 0;

    for (size_t i = 0; i < len;) {
        int32_t cp;
        const int k = mra_utf8_decode(token + i, len - i, &cp);
        const int byte = char_to_byte(cp);
        // what is no stand-in for a byte is shown as it is
        for (int j = 0; j < (byte < 0 ? k : 1); j++, n++) {
            if (n < size) { buf[n] = byte < 0 ? token[i + (size_t) j] : (char) byte; }
        }
        i += (size_t) k;
    }
    return n;
}
