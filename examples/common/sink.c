#include "sink.h"
#include "output.h"
#include "utf8-length.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FLUSH_AT = 1 << 16 };

enum mra_status sink_open(struct sink * s, const char * path, struct mra_error * err) {
    const bool std = !path || strcmp(path, "-") == 0;
    *s = (struct sink) { .path = std ? "stdout" : path, .fd = STDOUT_FILENO, .std = std };
    if (!std) s->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (s->fd < 0) return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    s->regular = fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode);
    if (!std && s->regular && flock(s->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return mra_fail(err, MRA_ERR_IO, "%s: another run is writing to it", path);
    return MRA_OK;
}

enum mra_status sink_start(struct sink * s, int64_t keep, struct mra_error * err) {
    if (s->std) {
        const off_t at = s->regular ? lseek(s->fd, 0, SEEK_CUR) : 0; // `>>`: what is there stays
        s->start = s->offset = at > 0 ? at : 0;
        if (s->regular && (fcntl(s->fd, F_GETFL) & O_APPEND)) s->regular = false;
    } else if (s->regular) {
        if (ftruncate(s->fd, keep) != 0 || lseek(s->fd, keep, SEEK_SET) != keep)
            return mra_fail(err, MRA_ERR_IO, "%s: %s", s->path, strerror(errno));
        s->offset = keep;
    }
    return MRA_OK;
}

static bool grow(void ** p, size_t * cap, size_t need, size_t size) {
    if (need <= *cap) return true;
    const size_t n = need + need / 2 + 64;
    void * q = realloc(*p, n * size);
    if (!q) return false;
    *p = q;
    *cap = n;
    return true;
}

void sink_write(struct sink * s, const void * p, size_t n) {
    if (s->error) return;
    if (!grow((void **) &s->buf, &s->cap, s->n + n, 1)) {
        s->error = ENOMEM;
        return;
    }
    memcpy(s->buf + s->n, p, n);
    s->n += n;
}
void sink_text(struct sink * s, const char * text) { sink_write(s, text, strlen(text)); }

void sink_printf(struct sink * s, const char * fmt, ...) {
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    sink_write(s, line, n < 0 ? 0 : (size_t) n < sizeof(line) ? (size_t) n : sizeof(line) - 1);
}

void sink_real(struct sink * s, double x, int digits) {
    if (isfinite(x)) sink_printf(s, "%.*g", digits, x);
    else sink_text(s, "null");
}

void sink_json(struct sink * s, const char * text, size_t n) {
    const unsigned char *p = (const unsigned char *) text, *end = p + n;
    sink_text(s, "\"");
    while (p < end) {
        const size_t len = utf8_length(p, (size_t) (end - p));
        if (len == 0) sink_text(s, "\xef\xbf\xbd");
        else if (*p == '"' || *p == '\\') sink_printf(s, "\\%c", *p);
        else if (*p == '\n') sink_text(s, "\\n");
        else if (*p == '\t') sink_text(s, "\\t");
        else if (*p < 0x20 || *p == 0x7f) sink_printf(s, "\\u%04x", *p);
        else sink_write(s, p, len);
        p += len ? len : 1;
    }
    sink_text(s, "\"");
}

void sink_commit(struct sink * s) {
    if (s->error) return;
    if (!grow((void **) &s->ends, &s->cap_ends, s->n_ends + 1, sizeof(*s->ends))) {
        s->error = ENOMEM;
        return;
    }
    s->ends[s->n_ends++] = s->n;
    if (s->n >= FLUSH_AT) sink_flush(s);
}

// a write failed with `done` bytes of buf in the file: back to the end of a record
static void cut(struct sink * s, size_t done) {
    size_t keep = 0;
    for (size_t i = 0; i < s->n_ends && s->ends[i] <= done; i++) {
        s->before = s->offset + (int64_t) keep;
        keep = s->ends[i];
    }
    if (s->regular && ftruncate(s->fd, s->offset + (int64_t) keep) == 0)
        lseek(s->fd, s->offset + (int64_t) keep, SEEK_SET);
    s->offset += (int64_t) keep;
}

bool sink_flush(struct sink * s) {
    size_t done = 0;
    while (!s->error && done < s->n) {
        const ssize_t w = write(s->fd, s->buf + done, s->n - done);
        if (w > 0) done += (size_t) w;
        else if (w < 0 && errno != EINTR) {
            s->error = errno;
            cut(s, done);
        }
    }
    if (!s->error) {
        if (s->n_ends) s->before = s->offset + (int64_t) (s->n_ends > 1 ? s->ends[s->n_ends - 2] : 0);
        s->offset += (int64_t) s->n;
    }
    s->n = s->n_ends = 0;
    return !s->error;
}

void sink_retry(struct sink * s) {
    if (s->regular) s->error = 0;
}
bool sink_cut(struct sink * s, int64_t at) {
    if (!s->regular || ftruncate(s->fd, at) != 0 || lseek(s->fd, at, SEEK_SET) != at) return false;
    s->offset = at;
    if (s->error) s->lost = s->error;
    s->error = 0;
    return true;
}
bool sink_back(struct sink * s) { return sink_cut(s, s->before); }

bool sink_patch(struct sink * s, int64_t at, const void * p, size_t n) {
    return s->regular && pwrite(s->fd, p, n, s->start + at) == (ssize_t) n;
}

bool sink_close(struct sink * s, const char * program) {
    sink_flush(s);
    if (s->fd >= 0 && close(s->fd) != 0 && !s->error) s->error = errno;
    free(s->buf);
    free(s->ends);
    s->buf = NULL;
    s->ends = NULL;
    s->fd = -1;
    if (!s->error) s->error = s->lost;
    if (!s->error || s->error == EPIPE) return true;
    progress_clear();
    fprintf(stderr, "%s: cannot write to %s: %s\n", program, s->path, strerror(s->error));
    return false;
}
