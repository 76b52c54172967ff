// GGUF headers that no writer makes, and paths and devices that are none: each gives an error of one line that names
// what is wrong.
#include "model-files.h"

// A value of a header as it stands in the file.
struct value {
    enum { END, U32_VALUE, U64_VALUE, STRING } kind;
    uint64_t x;
    const char * s; // of a STRING: u64 length, then bytes
};
#define U32(n) \
    { .kind = U32_VALUE, .x = (n) }
#define U64(n) \
    { .kind = U64_VALUE, .x = (n) }
#define STR(text) \
    { .kind = STRING, .s = (text) }
// a tensor of one or two dimensions: name, number of dimensions, rows of ne0, type, offset of the data
#define TENSOR_1(name, ne0, type, offset)      STR(name), U32(1), U64(ne0), U32(type), U64(offset)
#define TENSOR_2(name, ne0, ne1, type, offset) STR(name), U32(2), U64(ne0), U64(ne1), U32(type), U64(offset)

// types of GGUF's keys, and of ggml's tensors
enum { KEY_U32 = 4, KEY_F32 = 6, KEY_STRING = 8, KEY_ARRAY = 9, KEY_I64 = 11, KEY_UNKNOWN = 13 };
enum { F32 = GGML_TYPE_F32, Q8_0 = GGML_TYPE_Q8_0, REMOVED = 4, UNKNOWN = 12345 };

#define LONG_NAME "0123456789012345678901234567890123456789012345678901234567890123"
#define HUGE_N    (1ull << 61)

static const struct {
    const char *what, *part; // part: of the message
    uint32_t version;
    uint64_t n_tensors, n_keys;
    struct value values[16];
} headers[] = {
    { "version 1", "version 1", 1, 0, 0, { { END } } },
    { "version 4", "version 4", 4, 0, 0, { { END } } },
    { "other endian", "version", 0x03000000, 0, 0, { { END } } },
    { "tensors", "at most", 3, UINT64_MAX, 0, { { END } } },
    { "keys", "at most", 3, 0, 1ull << 60, { { END } } },
    { "empty key", "no valid name", 3, 0, 1, { STR("") } },
    { "long key", "ends inside key", 3, 0, 1, { U64(UINT64_MAX) } },
    { "unknown key type", "unknown type", 3, 0, 1, { STR("k"), U32(KEY_UNKNOWN) } },
    { "array of arrays", "unknown type", 3, 0, 1, { STR("k"), U32(KEY_ARRAY), U32(KEY_ARRAY) } },
    { "strings", "ends inside key", 3, 0, 1, { STR("k"), U32(KEY_ARRAY), U32(KEY_STRING), U64(HUGE_N) } },
    { "numbers", "ends inside key", 3, 0, 1, { STR("k"), U32(KEY_ARRAY), U32(KEY_I64), U64(HUGE_N) } },
    { "twice", "duplicate key 'k'", 3, 0, 2, { STR("k"), U32(KEY_U32), U32(1), STR("k"), U32(KEY_U32), U32(1) } },
    { "alignment 0", "power of two", 3, 0, 1, { STR("general.alignment"), U32(KEY_U32), U32(0) } },
    { "alignment 48", "power of two", 3, 0, 1, { STR("general.alignment"), U32(KEY_U32), U32(48) } },
    { "alignment f32", "not a u32", 3, 0, 1, { STR("general.alignment"), U32(KEY_F32), U32(48) } },
    { "zero rows", "impossible shape", 3, 1, 0, { TENSOR_2("t", 4, 0, F32, 0) } },
    { "zero columns", "impossible shape", 3, 1, 0, { TENSOR_1("t", 0, F32, 0) } },
    { "overflow", "impossible shape", 3, 1, 0, { TENSOR_2("t", 1ull << 40, 1ull << 40, F32, 0) } },
    { "negative", "impossible shape", 3, 1, 0, { TENSOR_2("t", UINT64_MAX, 1, F32, 0) } },
    { "dimensions", "5 dimensions", 3, 1, 0, { STR("t"), U32(5), U64(1), U64(1), U32(F32), U64(0) } },
    { "removed type", "unknown type", 3, 1, 0, { TENSOR_1("t", 32, REMOVED, 0) } },
    { "type", "unknown type", 3, 1, 0, { TENSOR_1("t", 32, UNKNOWN, 0) } },
    { "row of q8_0", "no multiple", 3, 1, 0, { TENSOR_1("t", 33, Q8_0, 0) } },
    { "offset", "offset 32", 3, 1, 0, { TENSOR_1("t", 4, F32, 32) } },
    { "data", "in the file", 3, 1, 0, { TENSOR_1("t", 1 << 12, F32, 0) } },
    { "data end", "cut off", 3, 1, 0, { TENSOR_1("t", 24, F32, 0) } },
    { "tensor twice", "duplicate tensor 't'", 3, 2, 0, { TENSOR_1("t", 4, F32, 0), TENSOR_1("t", 4, F32, 32) } },
    { "name", "no valid name", 3, 1, 0, { TENSOR_1(LONG_NAME, 4, F32, 0) } },
};

struct bytes {
    unsigned char data[512];
    size_t n;
};
static void put(struct bytes * b, const void * x, size_t n) {
    memcpy(b->data + b->n, x, n);
    b->n += n;
}

static void put_value(struct bytes * b, const struct value * v) {
    const uint32_t word = (uint32_t) v->x;
    const uint64_t length = v->s ? strlen(v->s) : 0;
    switch (v->kind) {
        case END: break;
        case U32_VALUE: put(b, &word, sizeof(word)); break;
        case U64_VALUE: put(b, &v->x, sizeof(v->x)); break;
        case STRING:
            put(b, &length, sizeof(length));
            put(b, v->s, length);
            break;
    }
}

static void check_headers(void) {
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        struct bytes b = { 0 };
        put(&b, "GGUF", 4);
        put(&b, &headers[i].version, sizeof(headers[i].version));
        put(&b, &headers[i].n_tensors, sizeof(headers[i].n_tensors));
        put(&b, &headers[i].n_keys, sizeof(headers[i].n_keys));
        for (const struct value * v = headers[i].values; v->kind != END; v++) put_value(&b, v);
        b.n += 96; // zeros: padding and some data
        write_all(model_path, b.data, b.n);
        expect_error(model_path, headers[i].what, headers[i].version == 3 ? MRA_ERR_FORMAT : MRA_ERR_UNSUPPORTED,
            headers[i].part);
    }
}

static void check_paths(void) {
    write_all(model_path, "", 0);
    expect_error(model_path, "empty", MRA_ERR_FORMAT, "empty");
    write_all(model_path, "GGUX1234567", 11);
    expect_error(model_path, "magic", MRA_ERR_FORMAT, "not a GGUF file");
    expect_error("/nonexistent/model.gguf", "missing", MRA_ERR_IO, "No such file");
    expect_error(model_folder, "folder", MRA_ERR_IO, "directory");
    expect_error("/dev/null", "device", MRA_ERR_IO, "regular");
    struct mra_error err = { 0 };
    CHECK(!mra_model_load(NULL, NULL, &err) && err.code == MRA_ERR_ARG, "no path");
    CHECK(!mra_model_load("/nonexistent", NULL, NULL), "no error asked for");
}

static void check_devices(void) {
    struct mra_error err = { 0 };
    if (!ggml_backend_reg_by_name("CUDA")) {
        CHECK(!mra_model_load(model_golden("roberta"), &(struct mra_model_params) { .device = "cuda" }, &err) &&
                strstr(err.msg, "ggml was built without CUDA"),
            "device: %s", err.msg);
    }
    CHECK(!mra_model_load(model_golden("roberta"), &(struct mra_model_params) { .device = "warp9" }, &err) &&
            strstr(err.msg, "warp9"),
        "device: %s", err.msg);
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s golden/models\n", argv[0]);
        return 2;
    }
    model_files_open("test-model-headers", argv[1]);
    check_headers();
    check_paths();
    check_devices();
    model_files_close();
    return summary("test-model-headers");
}
