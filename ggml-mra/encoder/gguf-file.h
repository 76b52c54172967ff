// A GGUF file mapped or read into memory, checked, and typed access to its keys. Errors name the file's key, not the
// file: callers add the path.
#pragma once

#include "mra-error.h"

#include "ggml.h"
#include "gguf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mra_gguf {
    void * data; // the whole file; NULL: not, or no longer
    size_t size;
    bool mapped;      // data is a read-only mapping of fd; else memory of its own
    int fd;           // where mapped
    int64_t mtime[2]; // seconds and nanoseconds of its last change
    struct gguf_context * gguf;
    struct ggml_context * meta; // its tensors, without data
};

// Fails on anything ggml's own reader would reject or stumble over. *n_header: bytes of keys and tensor shapes.
enum mra_status mra_gguf_check(const void * data, size_t size, size_t * n_header, struct mra_error * err);

// Fills *f; on failure it holds nothing. mra_gguf_close(&(struct mra_gguf) {0}) is fine.
enum mra_status mra_gguf_open(struct mra_gguf * f, const char * path, bool no_mmap, struct mra_error * err);
void mra_gguf_close(struct mra_gguf * f);

// Lets go of the file's bytes; keys and tensor shapes stay.
void mra_gguf_unmap(struct mra_gguf * f);
// Whether a mapped file is still what was opened: MRA_ERR_IO where somebody wrote to it or cut it.
enum mra_status mra_gguf_recheck(const struct mra_gguf * f, struct mra_error * err);

// the bytes of a tensor in the file
const void * mra_gguf_data(const struct mra_gguf * f, const struct ggml_tensor * t);

// A key that is absent leaves *v as it is; one of a wrong type or out of range is an error. Integers may be of any
// width.
enum mra_status mra_gguf_int(
    const struct mra_gguf * f, const char * key, int64_t lo, int64_t hi, int64_t * v, struct mra_error * err);
enum mra_status mra_gguf_f32(const struct mra_gguf * f, const char * key, float * v, struct mra_error * err);
enum mra_status mra_gguf_bool(const struct mra_gguf * f, const char * key, bool * v, struct mra_error * err);
enum mra_status mra_gguf_str(
    const struct mra_gguf * f, const char * key, const char ** v, struct mra_error * err); // lives as long as f

// Arrays. A numeric one is given where it lies, a list of strings by id (for gguf_get_arr_str); *n = 0 and id -1 where
// absent.
enum mra_status mra_gguf_array(const struct mra_gguf * f, const char * key, enum gguf_type type, const void ** data,
    size_t * n, struct mra_error * err);
enum mra_status mra_gguf_strings(
    const struct mra_gguf * f, const char * key, int64_t * id, size_t * n, struct mra_error * err);
