// Mapping a GGUF file and reading its keys.
#include "gguf-file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum mra_status map_file(struct mra_gguf * f, const char * path, struct mra_error * err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return mra_fail(err, MRA_ERR_IO, "%s", strerror(errno));
    struct stat st;
    enum mra_status ret = MRA_OK;
    if (fstat(fd, &st) != 0) ret = mra_fail(err, MRA_ERR_IO, "%s", strerror(errno));
    else if (S_ISDIR(st.st_mode)) ret = mra_fail(err, MRA_ERR_IO, "is a directory");
    else if (!S_ISREG(st.st_mode)) ret = mra_fail(err, MRA_ERR_IO, "is not a regular file");
    else if (st.st_size == 0) ret = mra_fail(err, MRA_ERR_FORMAT, "the file is empty");
    if (ret == MRA_OK) {
        void * p = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            ret = mra_fail(err, MRA_ERR_IO, "cannot be mapped: %s", strerror(errno));
        } else {
            f->data = p;
            f->size = (size_t) st.st_size;
        }
    }
    close(fd);
    return ret;
}

enum mra_status mra_gguf_open(struct mra_gguf * f, const char * path, struct mra_error * err) {
    *f = (struct mra_gguf) { 0 };
    enum mra_status st = map_file(f, path, err);
    if (st == MRA_OK) st = mra_gguf_check(f->data, f->size, err);
    if (st == MRA_OK) {
        f->gguf = gguf_init_from_buffer(
            f->data, f->size, (struct gguf_init_params) { .no_alloc = true, .ctx = &f->meta });
        if (!f->gguf) st = mra_fail(err, MRA_ERR_FORMAT, "ggml cannot read it");
    }
    if (st != MRA_OK) mra_gguf_close(f);
    return st;
}

void mra_gguf_unmap(struct mra_gguf * f) {
    if (f->data) munmap(f->data, f->size);
    f->data = NULL;
}

void mra_gguf_close(struct mra_gguf * f) {
    if (f->gguf) gguf_free(f->gguf);
    if (f->meta) ggml_free(f->meta);
    mra_gguf_unmap(f);
    *f = (struct mra_gguf) { 0 };
}

const void * mra_gguf_data(const struct mra_gguf * f, const struct ggml_tensor * t) {
    return (const char *) f->data + gguf_get_data_offset(f->gguf) +
        gguf_get_tensor_offset(f->gguf, gguf_find_tensor(f->gguf, ggml_get_name(t)));
}

static enum mra_status wrong_type(const struct mra_gguf * f, int64_t id, const char * want, struct mra_error * err) {
    return mra_fail(err, MRA_ERR_FORMAT, "key '%s' is %s, expected %s", gguf_get_key(f->gguf, id),
        gguf_type_name(gguf_get_kv_type(f->gguf, id)), want);
}

enum mra_status mra_gguf_int(
    const struct mra_gguf * f, const char * key, int64_t lo, int64_t hi, int64_t * v, struct mra_error * err) {
    const int64_t id = gguf_find_key(f->gguf, key);
    if (id < 0) return MRA_OK;
    int64_t x;
    switch (gguf_get_kv_type(f->gguf, id)) {
        case GGUF_TYPE_UINT8: x = gguf_get_val_u8(f->gguf, id); break;
        case GGUF_TYPE_INT8: x = gguf_get_val_i8(f->gguf, id); break;
        case GGUF_TYPE_UINT16: x = gguf_get_val_u16(f->gguf, id); break;
        case GGUF_TYPE_INT16: x = gguf_get_val_i16(f->gguf, id); break;
        case GGUF_TYPE_UINT32: x = gguf_get_val_u32(f->gguf, id); break;
        case GGUF_TYPE_INT32: x = gguf_get_val_i32(f->gguf, id); break;
        case GGUF_TYPE_INT64: x = gguf_get_val_i64(f->gguf, id); break;
        case GGUF_TYPE_UINT64: {
            const uint64_t u = gguf_get_val_u64(f->gguf, id);
            x = u > INT64_MAX ? INT64_MAX : (int64_t) u;
            break;
        }
        default: return wrong_type(f, id, "an integer", err);
    }
    if (x < lo || x > hi) {
        return mra_fail(err, MRA_ERR_FORMAT, "key '%s' = %lld is not in %lld..%lld", key, (long long) x, (long long) lo,
            (long long) hi);
    }
    *v = x;
    return MRA_OK;
}

enum mra_status mra_gguf_f32(const struct mra_gguf * f, const char * key, float * v, struct mra_error * err) {
    const int64_t id = gguf_find_key(f->gguf, key);
    if (id < 0) return MRA_OK;
    const enum gguf_type type = gguf_get_kv_type(f->gguf, id);
    if (type != GGUF_TYPE_FLOAT32 && type != GGUF_TYPE_FLOAT64) return wrong_type(f, id, "a number", err);
    const double x = type == GGUF_TYPE_FLOAT32 ? (double) gguf_get_val_f32(f->gguf, id) : gguf_get_val_f64(f->gguf, id);
    if (!isfinite(x) || fabs(x) > 1e30) return mra_fail(err, MRA_ERR_FORMAT, "key '%s' = %g", key, x);
    *v = (float) x;
    return MRA_OK;
}

enum mra_status mra_gguf_bool(const struct mra_gguf * f, const char * key, bool * v, struct mra_error * err) {
    const int64_t id = gguf_find_key(f->gguf, key);
    if (id < 0) return MRA_OK;
    if (gguf_get_kv_type(f->gguf, id) != GGUF_TYPE_BOOL) return wrong_type(f, id, "a bool", err);
    *v = *(const int8_t *) gguf_get_val_data(f->gguf, id) != 0; // the byte may hold anything
    return MRA_OK;
}

enum mra_status mra_gguf_str(const struct mra_gguf * f, const char * key, const char ** v, struct mra_error * err) {
    const int64_t id = gguf_find_key(f->gguf, key);
    if (id < 0) return MRA_OK;
    if (gguf_get_kv_type(f->gguf, id) != GGUF_TYPE_STRING) return wrong_type(f, id, "a string", err);
    *v = gguf_get_val_str(f->gguf, id);
    return MRA_OK;
}

enum mra_status mra_gguf_array(const struct mra_gguf * f, const char * key, enum gguf_type type, const void ** data,
    size_t * n, struct mra_error * err) {
    *data = NULL;
    *n = 0;
    const int64_t id = gguf_find_key(f->gguf, key);
    if (id < 0) return MRA_OK;
    if (gguf_get_kv_type(f->gguf, id) != GGUF_TYPE_ARRAY) return wrong_type(f, id, "an array", err);
    if (gguf_get_arr_type(f->gguf, id) != type) {
        return mra_fail(err, MRA_ERR_FORMAT, "key '%s' is an array of %s, expected %s", key,
            gguf_type_name(gguf_get_arr_type(f->gguf, id)), gguf_type_name(type));
    }
    *n = gguf_get_arr_n(f->gguf, id);
    *data = *n ? gguf_get_arr_data(f->gguf, id) : NULL;
    return MRA_OK;
}

enum mra_status mra_gguf_strings(
    const struct mra_gguf * f, const char * key, int64_t * id, size_t * n, struct mra_error * err) {
    *n = 0;
    *id = gguf_find_key(f->gguf, key);
    if (*id < 0) return MRA_OK;
    if (gguf_get_kv_type(f->gguf, *id) != GGUF_TYPE_ARRAY || gguf_get_arr_type(f->gguf, *id) != GGUF_TYPE_STRING) {
        return wrong_type(f, *id, "an array of strings", err);
    }
    *n = gguf_get_arr_n(f->gguf, *id);
    return MRA_OK;
}
