// Mapping or reading a GGUF file, and its keys.
#include "gguf-file.h"
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// size bytes of fd -> memory of our own, aligned as ggml wants its buffers
static enum mra_status read_all(struct mra_gguf * f, int fd, size_t size, struct mra_error * err) {
    const size_t free_bytes = mra_memory_free("");
    if (size > free_bytes) {
        return mra_fail(err, MRA_ERR_MEMORY, "%.1f MB to read, %.1f MB of memory are free", (double) size / 1e6,
            (double) free_bytes / 1e6);
    }
    if (posix_memalign(&f->data, 64, size) != 0) {
        f->data = NULL;
        return mra_fail(err, MRA_ERR_MEMORY, "no memory for %zu bytes", size);
    }
    f->size = size;
    for (size_t done = 0; done < size;) {
        const ssize_t n = read(fd, (char *) f->data + done, size - done);
        if (n == 0) return mra_fail(err, MRA_ERR_IO, "was cut off while it was read: %zu of %zu bytes", done, size);
        if (n > 0) done += (size_t) n;
        else if (errno != EINTR) return mra_fail(err, MRA_ERR_IO, "%s", strerror(errno));
    }
    return MRA_OK;
}

static enum mra_status map_all(struct mra_gguf * f, int fd, const struct stat * st, struct mra_error * err) {
    void * p = mmap(NULL, (size_t) st->st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return mra_fail(err, errno == ENOMEM ? MRA_ERR_MEMORY : MRA_ERR_IO, "cannot be mapped: %s", strerror(errno));
    f->data = p;
    f->size = (size_t) st->st_size;
    f->mapped = true;
    f->fd = fd;
    f->mtime[0] = st->st_mtim.tv_sec;
    f->mtime[1] = st->st_mtim.tv_nsec;
    return MRA_OK;
}

static enum mra_status open_file(struct mra_gguf * f, const char * path, bool no_mmap, struct mra_error * err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe without a writer must not wait for one
    if (fd < 0) return mra_fail(err, MRA_ERR_IO, "%s", strerror(errno));
    struct stat st;
    enum mra_status ret;
    if (fstat(fd, &st) != 0) ret = mra_fail(err, MRA_ERR_IO, "%s", strerror(errno));
    else if (S_ISDIR(st.st_mode)) ret = mra_fail(err, MRA_ERR_IO, "is a directory");
    else if (!S_ISREG(st.st_mode)) ret = mra_fail(err, MRA_ERR_IO, "is not a regular file");
    else if (st.st_size == 0) ret = mra_fail(err, MRA_ERR_FORMAT, "the file is empty");
    else if (no_mmap) ret = read_all(f, fd, (size_t) st.st_size, err);
    else ret = map_all(f, fd, &st, err);
    if (!f->mapped) close(fd);
    return ret;
}

enum mra_status mra_gguf_recheck(const struct mra_gguf * f, struct mra_error * err) {
    struct stat st;
    if (!f->mapped) return MRA_OK;
    if (fstat(f->fd, &st) != 0) return mra_fail(err, MRA_ERR_IO, "the model's file: %s", strerror(errno));
    if ((size_t) st.st_size == f->size && st.st_mtim.tv_sec == f->mtime[0] && st.st_mtim.tv_nsec == f->mtime[1])
        return MRA_OK;
    return mra_fail(err, MRA_ERR_IO, "the model's file was changed while it is in use: %zu bytes, now %lld%s", f->size,
        (long long) st.st_size, (size_t) st.st_size == f->size ? ", written again" : "");
}

enum mra_status mra_gguf_open(struct mra_gguf * f, const char * path, bool no_mmap, struct mra_error * err) {
    *f = (struct mra_gguf) { 0 };
    enum mra_status st = open_file(f, path, no_mmap, err);
    size_t n_header;
    if (st == MRA_OK) st = mra_gguf_check(f->data, f->size, &n_header, err);
    // ggml's reader, which throws without memory, keeps a string of 8 bytes and more in up to 64, some of them twice
    if (st == MRA_OK) st = mra_memory_probe(16 * n_header + (1 << 20), err);
    if (st == MRA_OK) {
        f->gguf = gguf_init_from_buffer(
            f->data, f->size, (struct gguf_init_params) { .no_alloc = true, .ctx = &f->meta });
        if (!f->gguf) st = mra_fail(err, MRA_ERR_FORMAT, "ggml cannot read it");
    }
    if (st != MRA_OK) mra_gguf_close(f);
    return st;
}

void mra_gguf_unmap(struct mra_gguf * f) {
    if (f->mapped) {
        munmap(f->data, f->size);
        close(f->fd);
    } else free(f->data);
    f->data = NULL;
    f->mapped = false;
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
