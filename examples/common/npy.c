#include "npy.h"

#include "ggml.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 65536 };

// the text behind 'key': in the header, a Python dictionary; NULL if it is not there
static const char * value_of(const char * header, const char * key) {
    char quoted[32];
    snprintf(quoted, sizeof(quoted), "'%s'", key);
    const char * s = strstr(header, quoted);
    if (!s) return NULL;
    s += strlen(quoted);
    s += strspn(s, " ");
    if (*s++ != ':') return NULL;
    return s + strspn(s, " ");
}

static bool parse_shape(struct npy * a, const char * s) {
    if (*s++ != '(') return false;
    for (a->n_dim = 0, a->n = 1;; s++) {
        s += strspn(s, " ");
        if (*s == ')') return true;
        char * end;
        errno = 0;
        const long long x = strtoll(s, &end, 10);
        if (end == s || errno || x < 0 || a->n_dim == NPY_MAX_DIMS) return false;
        if (x > 0 && a->n > INT64_MAX / 8 / x) return false;
        a->shape[a->n_dim++] = x;
        a->n *= x;
        s = end + strspn(end, " ");
        if (*s == ')') return true;
        if (*s != ',') return false;
    }
}

// magic, version, header length, header; -> bytes per value, and whether they are integers
static enum mra_status read_header(
    struct npy * a, FILE * f, const char * path, size_t * width, bool * integer, struct mra_error * err) {
    unsigned char b[12];
    if (fread(b, 1, 10, f) != 10 || memcmp(b, "\x93NUMPY", 6) != 0)
        return mra_fail(err, MRA_ERR_FORMAT, "%s is not an .npy file", path);
    size_t len = b[8] | (size_t) b[9] << 8;
    if (b[6] < 1 || b[6] > 3) return mra_fail(err, MRA_ERR_FORMAT, "%s: unknown .npy version %d", path, b[6]);
    if (b[6] > 1) {
        if (fread(b + 10, 1, 2, f) != 2) return mra_fail(err, MRA_ERR_FORMAT, "%s ends in its header", path);
        len |= (size_t) b[10] << 16 | (size_t) b[11] << 24;
    }
    if (len > MAX_HEADER) return mra_fail(err, MRA_ERR_FORMAT, "%s: header of %zu bytes", path, len);
    char * h = malloc(len + 1);
    if (!h) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    enum mra_status st = MRA_OK;
    const size_t got = fread(h, 1, len, f);
    h[got] = 0;
    const char *descr = value_of(h, "descr"), *order = value_of(h, "fortran_order"), *shape = value_of(h, "shape");
    if (got < len) st = mra_fail(err, MRA_ERR_FORMAT, "%s ends in its header", path);
    else if (!descr || !order || !shape)
        st = mra_fail(err, MRA_ERR_FORMAT, "%s: header without descr, fortran_order and shape", path);
    else if (strncmp(descr, "'<f4'", 5) == 0) *width = 4;
    else if (strncmp(descr, "'<f2'", 5) == 0) *width = 2;
    else if (strncmp(descr, "'<i4'", 5) == 0) {
        *width = 4;
        *integer = true;
    } else st = mra_fail(err, MRA_ERR_UNSUPPORTED, "%s holds %.5s, not float32, float16 or int32", path, descr);
    if (st == MRA_OK && strncmp(order, "False", 5))
        st = mra_fail(err, MRA_ERR_UNSUPPORTED, "%s is in Fortran order", path);
    if (st == MRA_OK && !parse_shape(a, shape)) st = mra_fail(err, MRA_ERR_FORMAT, "%s: shape %.40s", path, shape);
    free(h);
    return st;
}

static enum mra_status read_values(
    struct npy * a, FILE * f, const char * path, size_t width, bool integer, struct mra_error * err) {
    const long start = ftell(f);
    if (start >= 0 && fseek(f, 0, SEEK_END) == 0) { // checked before anything of that size is allocated
        const int64_t bytes = (int64_t) ftell(f) - start, want = a->n * (int64_t) width;
        if (bytes != want) {
            return mra_fail(err, MRA_ERR_FORMAT, "%s holds %lld bytes of values, its shape needs %lld", path,
                (long long) bytes, (long long) want);
        }
        if (fseek(f, start, SEEK_SET) != 0) return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    }
    a->data = malloc((size_t) a->n * sizeof(float) + 1);
    if (!a->data) return mra_fail(err, MRA_ERR_MEMORY, "%s: no memory for %lld values", path, (long long) a->n);
    // halves are read into the upper end of the array and widened in place: value i never passes half i
    char * dst = (char *) a->data + (size_t) a->n * (sizeof(float) - width);
    if (fread(dst, width, (size_t) a->n, f) != (size_t) a->n)
        return mra_fail(err, MRA_ERR_FORMAT, "%s is cut off", path);
    for (int64_t i = 0; width == 2 && i < a->n; i++) {
        ggml_fp16_t h;
        memcpy(&h, dst + 2 * i, 2);
        a->data[i] = ggml_fp16_to_fp32(h);
    }
    for (int64_t i = 0; integer && i < a->n; i++) {
        int32_t x;
        memcpy(&x, dst + 4 * i, 4);
        a->data[i] = (float) x;
    }
    return MRA_OK;
}

enum mra_status npy_read(struct npy * a, const char * path, struct mra_error * err) {
    memset(a, 0, sizeof(*a));
    FILE * f = fopen(path, "rb");
    if (!f) return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    size_t width = 0;
    bool integer = false;
    enum mra_status st = read_header(a, f, path, &width, &integer, err);
    if (st == MRA_OK) st = read_values(a, f, path, width, integer, err);
    fclose(f);
    if (st != MRA_OK) npy_free(a);
    return st;
}

void npy_free(struct npy * a) {
    free(a->data);
    memset(a, 0, sizeof(*a));
}

void npy_header_of(char head[NPY_HEADER], const char * descr, const int64_t * shape, int n_dim) {
    static const char magic[] = "\x93NUMPY\x01\x00\x76"; // 118 bytes follow the first ten
    char dims[96] = "";
    for (int i = 0; i < n_dim; i++) {
        const size_t n = strlen(dims);
        snprintf(dims + n, sizeof(dims) - n, i ? " %lld%s" : "%lld%s", (long long) shape[i],
            i == 0 || i + 1 < n_dim ? "," : "");
    }
    memset(head, ' ', NPY_HEADER);
    memcpy(head, magic, 9);
    head[9] = 0;
    const int len = snprintf(
        head + 10, NPY_HEADER - 10, "{'descr': '%.16s', 'fortran_order': False, 'shape': (%s), }", descr, dims);
    head[10 + len] = ' ';
    head[NPY_HEADER - 1] = '\n';
}

void npy_header(char head[NPY_HEADER], const char * descr, int64_t n_rows, int64_t n_cols) {
    npy_header_of(head, descr, (const int64_t[]) { n_rows, n_cols }, n_cols ? 2 : 1);
}
