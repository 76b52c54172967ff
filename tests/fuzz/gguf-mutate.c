// Mutations of a GGUF file's head that leave its structure whole: most others end in the reader, before a model is
// made.
//   one number      of a key's value or a tensor's entry becomes another one
//   all alike       a number that stands in many places (a width, a count) becomes another one in each of them
//   one entry less  a key or a tensor is cut out
// Offsets of tensors are then made right again, most of the time.
#include "gguf-input.h"

#include "ggml.h"

#include <string.h>

enum { MAX_SPOTS = 4096, MAX_ENTRIES = 512 };

struct spot { // a number
    uint32_t at;
    uint8_t width;
};

static struct head {
    uint8_t * p;
    size_t n;
    struct spot spots[MAX_SPOTS];
    uint32_t starts[MAX_ENTRIES + 1]; // of keys, then of tensors
    int n_spots, n_entries, n_keys;
} h;

static unsigned seed;
static unsigned any(unsigned n) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % n;
}

static uint64_t get(size_t at, int width) {
    uint64_t v = 0;
    memcpy(&v, h.p + at, (size_t) width);
    return v;
}

static void put(size_t at, int width, uint64_t v) { memcpy(h.p + at, &v, (size_t) width); }

static void spot(size_t at, int width) {
    if (h.n_spots < MAX_SPOTS && at + (size_t) width <= h.n)
        h.spots[h.n_spots++] = (struct spot) { (uint32_t) at, (uint8_t) width };
}

// behind the string at `at`; 0 where it ends outside
static size_t skip_string(size_t at) {
    if (at == 0 || at + 8 > h.n) return 0;
    const uint64_t n = get(at, 8);
    return n <= h.n - at - 8 ? at + 8 + n : 0;
}

static size_t skip_value(size_t at, uint64_t type) {
    static const uint8_t widths[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    enum { STRING = 8, ARRAY = 9, N_TYPES = sizeof(widths), MAX_OF_ARRAY = 16 };
    if (type >= N_TYPES || at + 12 > h.n) return 0;
    if (type == STRING) return skip_string(at);
    if (type != ARRAY) {
        spot(at, widths[type]);
        return at + widths[type];
    }
    const uint64_t of = get(at, 4), n = get(at + 4, 8);
    if (of >= N_TYPES || of == ARRAY || n > h.n) return 0;
    spot(at + 4, 8);
    at += 12;
    for (uint64_t i = 0; i < n && at; i++) {
        if (of == STRING) at = skip_string(at);
        else {
            if (at + widths[of] > h.n) return 0;
            if (i < MAX_OF_ARRAY) spot(at, widths[of]);
            at += widths[of];
        }
    }
    return at;
}

static size_t skip_tensor(size_t at) {
    at = skip_string(at);
    if (!at || at + 4 > h.n || get(at, 4) > GGML_MAX_DIMS) return 0;
    const size_t n_dims = get(at, 4), end = at + 4 + 8 * n_dims + 12;
    if (end > h.n) return 0;
    for (size_t i = 0; i < n_dims; i++) spot(at + 4 + 8 * i, 8);
    spot(end - 12, 4);
    return end;
}

// false: not whole, as far as this goes
static bool walk(void) {
    h.n_spots = h.n_entries = 0;
    if (h.n < 24 || memcmp(h.p, "GGUF", 4) != 0) return false;
    const uint64_t n_tensors = get(8, 8), n_keys = get(16, 8);
    if (n_keys > MAX_ENTRIES || n_tensors > MAX_ENTRIES - n_keys) return false;
    size_t at = 24;
    h.n_keys = (int) n_keys;
    for (uint64_t i = 0; i <= n_keys + n_tensors; i++) {
        if (!at) return false;
        h.starts[h.n_entries++] = (uint32_t) at;
        if (i == n_keys + n_tensors) break;
        if (i >= n_keys) at = skip_tensor(at);
        else {
            at = skip_string(at);
            if (!at || at + 4 > h.n) return false;
            at = skip_value(at + 4, get(at, 4));
        }
    }
    h.n_entries--;
    return true;
}

static uint64_t number(uint64_t old, int width) {
    static const uint64_t numbers[] = { 0, 1, 2, 3, 7, 8, 14, 24, 30, 31, 32, 33, 127, 128, 255, 4096, 65535, 1u << 20,
        0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff, UINT64_MAX };
    static const float floats[] = { 0, 1, -1, 1e-12f, 1e20f, 3e38f, 1e-40f, 10000, 1e6f };
    uint32_t bits;
    switch (any(6)) {
        case 0: return old + 1;
        case 1: return old - 1;
        case 2: return old * 2;
        case 3: return old / 2;
        case 4:
            if (width != 4) break;
            memcpy(&bits, &floats[any(sizeof(floats) / sizeof(floats[0]))], 4);
            return any(8) ? bits : 0x7fc00001;
        default: break;
    }
    return numbers[any(sizeof(numbers) / sizeof(numbers[0]))];
}

static void all_alike(void) {
    const struct spot s = h.spots[any((unsigned) h.n_spots)];
    const uint64_t old = get(s.at, s.width), new = number(old, s.width);
    if (s.width < 4) return;
    for (int i = 0; i < h.n_spots; i++)
        if (h.spots[i].width >= 4 && get(h.spots[i].at, h.spots[i].width) == old)
            put(h.spots[i].at, h.spots[i].width, new);
}

static void one_entry_less(void) {
    const int i = (int) any((unsigned) h.n_entries);
    const size_t at = h.starts[i], end = h.starts[i + 1], count = i < h.n_keys ? 16 : 8;
    put(count, 8, get(count, 8) - 1);
    memmove(h.p + at, h.p + end, h.n - end);
    h.n -= end - at;
}

static void repair_offsets(void) {
    uint64_t offset = 0;
    for (int i = h.n_keys; i < h.n_entries; i++) {
        const size_t end = h.starts[i + 1], name = skip_string(h.starts[i]), n_dims = get(name, 4);
        const uint64_t type = get(end - 12, 4);
        uint64_t n = 1;
        for (size_t d = 0; d < n_dims; d++) n *= get(name + 4 + 8 * d, 8);
        if (type >= GGML_TYPE_COUNT || ggml_blck_size((enum ggml_type) type) == 0 || n > 1 << 20) return;
        put(end - 8, 8, offset);
        offset += n / (uint64_t) ggml_blck_size((enum ggml_type) type) * ggml_type_size((enum ggml_type) type);
        offset = (offset + 31) / 32 * 32;
    }
}

size_t gguf_mutate(uint8_t * data, size_t size, unsigned with) {
    h.p = data;
    h.n = size;
    seed = with;
    for (unsigned i = any(3) + 1; i > 0; i--) {
        if (!walk() || h.n_spots == 0 || h.n_entries == 0) return h.n;
        const unsigned how = any(8);
        if (how == 0) one_entry_less();
        else if (how < 4) all_alike();
        else {
            const struct spot s = h.spots[any((unsigned) h.n_spots)];
            put(s.at, s.width, number(get(s.at, s.width), s.width));
        }
    }
    if (any(4) && walk()) repair_offsets();
    return h.n;
}
