// A file that is complete or not there.
#include "file-writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum mra_status write_failed(const struct mra_writer * w, struct mra_error * err) {
    return mra_fail(err, MRA_ERR_IO, "%.120s: %s", w->path, strerror(errno ? errno : EIO));
}

enum mra_status mra_write_bytes(
    struct mra_writer * w, const void * data, size_t n, size_t align, struct mra_error * err) {
    static const char zeros[4096];
    errno = 0;
    if (fwrite(data, 1, n, w->file) != n) return write_failed(w, err);
    for (size_t pad = (align - n % align) % align; pad > 0;) {
        const size_t m = pad < sizeof(zeros) ? pad : sizeof(zeros);
        if (fwrite(zeros, 1, m, w->file) != m) return write_failed(w, err);
        pad -= m;
    }
    return MRA_OK;
}

enum mra_status mra_writer_open(struct mra_writer * w, const char * in, const char * out, struct mra_error * err) {
    struct stat a, b;
    w->path = out;
    if (stat(in, &a) == 0 && stat(out, &b) == 0) {
        if (a.st_dev == b.st_dev && a.st_ino == b.st_ino) return mra_fail(err, MRA_ERR_ARG, "%.120s is the input", out);
        if (!S_ISREG(b.st_mode)) return mra_fail(err, MRA_ERR_IO, "%.120s is not a regular file", out);
    }
    const size_t n = strlen(out) + 32;
    w->tmp = malloc(n);
    if (!w->tmp) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    snprintf(w->tmp, n, "%s.%ld.tmp", out, (long) getpid());
    w->file = fopen(w->tmp, "wbx");
    return w->file ? MRA_OK : write_failed(w, err);
}

enum mra_status mra_writer_close(struct mra_writer * w, enum mra_status st, struct mra_error * err) {
    if (w->file) {
        errno = 0;
        if (st == MRA_OK && (fflush(w->file) != 0 || fsync(fileno(w->file)) != 0)) st = write_failed(w, err);
        if (fclose(w->file) != 0 && st == MRA_OK) st = write_failed(w, err);
        if (st == MRA_OK && rename(w->tmp, w->path) != 0) st = write_failed(w, err);
        if (st != MRA_OK) unlink(w->tmp);
    }
    free(w->tmp);
    return st;
}
