// A GGUF header, byte by byte, before ggml reads it: ggml's reader aborts or divides by zero on some damaged files.
//   "GGUF" version n_tensors n_kv  {key type value}*  {name n_dims ne[] type offset}*  padding  data
#include "gguf-file.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES 65536 // keys or tensors; ggml compares each with each
#define MAX_KEY     65535
#define ALIGN_KEY   "general.alignment"

struct cursor {
    const uint8_t * data;
    size_t size, at;
    bool ok; // false once something did not fit
};

static size_t left(const struct cursor * c) { return c->size - c->at; }

static const uint8_t * take(struct cursor * c, uint64_t n) {
    if (!c->ok || n > left(c)) {
        c->ok = false;
        return NULL;
    }
    const uint8_t * p = c->data + c->at;
    c->at += (size_t) n;
    return p;
}

static uint32_t take_u32(struct cursor * c) {
    uint32_t v = 0;
    const uint8_t * p = take(c, sizeof(v));
    if (p) memcpy(&v, p, sizeof(v));
    return v;
}

static uint64_t take_u64(struct cursor * c) {
    uint64_t v = 0;
    const uint8_t * p = take(c, sizeof(v));
    if (p) memcpy(&v, p, sizeof(v));
    return v;
}

struct name {
    const char * data;
    size_t len;
};

static struct name take_name(struct cursor * c) {
    const uint64_t n = take_u64(c);
    const uint8_t * p = take(c, n);
    return (struct name) { (const char *) p, p ? (size_t) n : 0 };
}

static int compare_names(const void * a, const void * b) {
    const struct name *x = a, *y = b;
    const int r = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);
    return r ? r : (x->len > y->len) - (x->len < y->len);
}

// sorts names
static const struct name * find_duplicate(struct name * names, size_t n) {
    qsort(names, n, sizeof(*names), compare_names);
    for (size_t i = 1; i < n; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0) return &names[i];
    return NULL;
}

static size_t scalar_size(uint32_t type) {
    switch (type) {
        case GGUF_TYPE_UINT8:
        case GGUF_TYPE_INT8:
        case GGUF_TYPE_BOOL: return 1;
        case GGUF_TYPE_UINT16:
        case GGUF_TYPE_INT16: return 2;
        case GGUF_TYPE_UINT32:
        case GGUF_TYPE_INT32:
        case GGUF_TYPE_FLOAT32: return 4;
        case GGUF_TYPE_UINT64:
        case GGUF_TYPE_INT64:
        case GGUF_TYPE_FLOAT64: return 8;
        default: return 0;
    }
}

// one value or array; *align is set by the alignment key
static enum mra_status check_value(struct cursor * c, struct name key, size_t * align, struct mra_error * err) {
    uint32_t type = take_u32(c);
    uint64_t n = 1;
    const bool is_array = type == GGUF_TYPE_ARRAY;
    if (is_array) {
        type = take_u32(c);
        n = take_u64(c);
    }
    if (!c->ok) return MRA_OK; // the caller reports the end of the file
    if (type == GGUF_TYPE_STRING) {
        if (n > left(c) / sizeof(uint64_t)) {
            c->ok = false;
            return MRA_OK;
        }
        for (uint64_t i = 0; i < n && c->ok; i++) take_name(c);
        return MRA_OK;
    }
    const size_t size = scalar_size(type);
    if (size == 0)
        return mra_fail(err, MRA_ERR_FORMAT, "key '%.*s' has the unknown type %u", (int) key.len, key.data, type);
    if (n > left(c) / size) {
        c->ok = false;
        return MRA_OK;
    }
    const uint8_t * p = take(c, n * size);
    if (p && key.len == strlen(ALIGN_KEY) && memcmp(key.data, ALIGN_KEY, key.len) == 0) {
        uint32_t v;
        if (type != GGUF_TYPE_UINT32 || is_array) return mra_fail(err, MRA_ERR_FORMAT, ALIGN_KEY " is not a u32");
        memcpy(&v, p, sizeof(v));
        if (v == 0 || (v & (v - 1))) return mra_fail(err, MRA_ERR_FORMAT, ALIGN_KEY " %u is not a power of two", v);
        *align = v;
    }
    return MRA_OK;
}

// shape, type and offset of a tensor; *end: bytes of tensor data so far
static enum mra_status check_tensor(
    struct cursor * c, struct name name, size_t align, uint64_t * end, uint64_t * unpadded, struct mra_error * err) {
    const uint32_t n_dims = take_u32(c);
    if (c->ok && n_dims > GGML_MAX_DIMS)
        return mra_fail(err, MRA_ERR_FORMAT, "tensor '%.*s' has %u dimensions", (int) name.len, name.data, n_dims);
    uint64_t ne0 = 1, total = 1;
    const uint64_t limit = (uint64_t) c->size * 1024; // no type packs 1024 elements into a byte
    for (uint32_t i = 0; i < n_dims && c->ok; i++) {
        const uint64_t ne = take_u64(c);
        if (!c->ok) break;
        if (ne == 0 || ne > limit / total)
            return mra_fail(err, MRA_ERR_FORMAT, "tensor '%.*s' has an impossible shape", (int) name.len, name.data);
        if (i == 0) ne0 = ne;
        total *= ne;
    }
    const uint32_t type = take_u32(c);
    const uint64_t offset = take_u64(c);
    if (!c->ok) return MRA_OK;
    if (type >= GGML_TYPE_COUNT || ggml_blck_size((enum ggml_type) type) == 0) {
        return mra_fail(err, MRA_ERR_FORMAT, "tensor '%.*s' has the unknown type %u", (int) name.len, name.data, type);
    }
    const uint64_t block = (uint64_t) ggml_blck_size((enum ggml_type) type);
    if (ne0 % block) {
        return mra_fail(err, MRA_ERR_FORMAT, "tensor '%.*s': rows of %llu are no multiple of %s's block of %llu",
            (int) name.len, name.data, (unsigned long long) ne0, ggml_type_name((enum ggml_type) type),
            (unsigned long long) block);
    }
    const uint64_t bytes = total / block * ggml_type_size((enum ggml_type) type);
    if (offset != *end) {
        return mra_fail(err, MRA_ERR_FORMAT, "tensor '%.*s' is at offset %llu, expected %llu", (int) name.len,
            name.data, (unsigned long long) offset, (unsigned long long) *end);
    }
    if (bytes > c->size || *end > c->size)
        return mra_fail(err, MRA_ERR_FORMAT, "tensor '%.*s' does not fit in the file", (int) name.len, name.data);
    *unpadded = *end + bytes;
    *end += (bytes + align - 1) / align * align;
    return MRA_OK;
}

static enum mra_status check_keys(
    struct cursor * c, struct name * names, uint64_t n, size_t * align, struct mra_error * err) {
    for (uint64_t i = 0; i < n; i++) {
        names[i] = take_name(c);
        if (!c->ok)
            return mra_fail(err, MRA_ERR_FORMAT, "the file ends inside key %llu of %llu", (unsigned long long) i,
                (unsigned long long) n);
        if (names[i].len == 0 || names[i].len > MAX_KEY || memchr(names[i].data, 0, names[i].len)) {
            return mra_fail(err, MRA_ERR_FORMAT, "key %llu has no valid name", (unsigned long long) i);
        }
        const enum mra_status st = check_value(c, names[i], align, err);
        if (st != MRA_OK) return st;
        if (!c->ok)
            return mra_fail(err, MRA_ERR_FORMAT, "the file ends inside key '%.*s'", (int) names[i].len, names[i].data);
    }
    const struct name * d = find_duplicate(names, n);
    return d ? mra_fail(err, MRA_ERR_FORMAT, "duplicate key '%.*s'", (int) d->len, d->data) : MRA_OK;
}

static enum mra_status check_tensors(
    struct cursor * c, struct name * names, uint64_t n, size_t align, struct mra_error * err) {
    uint64_t end = 0, unpadded = 0;
    for (uint64_t i = 0; i < n; i++) {
        names[i] = take_name(c);
        if (c->ok && (names[i].len == 0 || names[i].len >= GGML_MAX_NAME || memchr(names[i].data, 0, names[i].len))) {
            return mra_fail(err, MRA_ERR_FORMAT, "tensor %llu has no valid name", (unsigned long long) i);
        }
        const enum mra_status st = c->ok ? check_tensor(c, names[i], align, &end, &unpadded, err) : MRA_OK;
        if (st != MRA_OK) return st;
        if (!c->ok)
            return mra_fail(err, MRA_ERR_FORMAT, "the file ends inside the list of tensors (%llu of %llu)",
                (unsigned long long) i, (unsigned long long) n);
    }
    const struct name * d = find_duplicate(names, n);
    if (d) return mra_fail(err, MRA_ERR_FORMAT, "duplicate tensor '%.*s'", (int) d->len, d->data);
    const uint64_t start = ((uint64_t) c->at + align - 1) / align * align;
    if (n > 0 && (start > c->size || unpadded > c->size - start)) {
        return mra_fail(err, MRA_ERR_FORMAT, "the file is cut off: %llu bytes, the tensors end at %llu",
            (unsigned long long) c->size, (unsigned long long) (start + unpadded));
    }
    return MRA_OK;
}

enum mra_status mra_gguf_check(const void * data, size_t size, size_t * n_header, struct mra_error * err) {
    struct cursor c = { data, size, 0, true };
    const uint8_t * magic = take(&c, 4);
    if (!magic || memcmp(magic, "GGUF", 4) != 0) return mra_fail(err, MRA_ERR_FORMAT, "not a GGUF file");
    const uint32_t version = take_u32(&c);
    const uint64_t n_tensors = take_u64(&c), n_kv = take_u64(&c);
    if (!c.ok) return mra_fail(err, MRA_ERR_FORMAT, "the file ends inside its header");
    if (version < 2 || version > GGUF_VERSION)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "GGUF version %u; supported are 2 and 3", version);
    if (n_tensors > MAX_ENTRIES || n_kv > MAX_ENTRIES) {
        return mra_fail(err, MRA_ERR_FORMAT, "%llu tensors and %llu keys: at most %d of each",
            (unsigned long long) n_tensors, (unsigned long long) n_kv, MAX_ENTRIES);
    }
    struct name * names = malloc((size_t) (n_tensors > n_kv ? n_tensors : n_kv) * sizeof(*names) + 1);
    if (!names) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    size_t align = GGUF_DEFAULT_ALIGNMENT;
    enum mra_status st = check_keys(&c, names, n_kv, &align, err);
    if (st == MRA_OK) st = check_tensors(&c, names, n_tensors, align, err);
    free(names);
    *n_header = c.at;
    return st;
}
