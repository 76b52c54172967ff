#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

enum { IN_SIZE = 1 << 16 };

enum mra_status source_open(struct source * s, const char * path, bool as_is, struct mra_error * err) {
    const bool std = strcmp(path, "-") == 0;
    *s = (struct source) { .name = std ? "standard input" : path, .size = -1 };
    if (as_is) {
        s->packing = PACKING_NONE;
        s->checked = true;
    }
    s->fd = std ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0) return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(s->fd, &st) != 0) return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return mra_fail(err, MRA_ERR_IO, "%s is a folder; --files takes folders", path);
    if (S_ISREG(st.st_mode)) s->size = st.st_size;
    s->in = malloc(IN_SIZE);
    return s->in ? MRA_OK : mra_fail(err, MRA_ERR_MEMORY, "out of memory");
}

void source_close(struct source * s) {
    if (s->fd > STDIN_FILENO) close(s->fd);
    if (s->packing == PACKING_GZIP) {
        inflateEnd(s->unpacker);
        free(s->unpacker);
    }
    if (s->packing == PACKING_ZSTD) ZSTD_freeDCtx(s->unpacker);
    free(s->in);
    *s = (struct source) { .fd = -1 };
}

static enum input_state failed(
    struct mra_error * err, enum mra_status code, const struct source * s, const char * why) {
    mra_fail(err, code, "%s: %s", s->name, why);
    return INPUT_FAILED;
}

// more bytes behind in[at .. n)
static enum input_state read_more(struct source * s, bool wait, struct mra_error * err) {
    if (s->at > 0) memmove(s->in, s->in + s->at, s->n - s->at);
    s->n -= s->at;
    s->at = 0;
    struct pollfd p = { .fd = s->fd, .events = POLLIN };
    if (!wait && poll(&p, 1, 0) == 0) return INPUT_NOT_YET;
    const ssize_t n = read(s->fd, s->in + s->n, IN_SIZE - s->n);
    if (n < 0) {
        err->code = MRA_OK;
        if (errno != EINTR) failed(err, MRA_ERR_IO, s, strerror(errno));
        return INPUT_FAILED;
    }
    if (n == 0) s->ended = true;
    s->n += (size_t) n;
    s->n_read += n;
    return INPUT_RECORD;
}

// ---- what it is ----

struct magic {
    const char * bytes;
    size_t n;
    const char * what; // and what to do; NULL: packed text
    enum packing packing;
};
#define MAGIC(bytes, what) \
    { bytes, sizeof(bytes) - 1, what, PACKING_NONE }

static const struct magic packed[] = {
    { "\x1f\x8b", 2, NULL, PACKING_GZIP },
    { "\x28\xb5\x2f\xfd", 4, NULL, PACKING_ZSTD },
};
static const struct magic foreign[] = {
    MAGIC("PAR1",
        "Parquet is not read here; convert it to JSON Lines: pandas.read_parquet(...).to_json(..., "
        "orient=\"records\", lines=True)"),
    MAGIC("ARROW1", "Arrow is not read here; convert it to JSON Lines or CSV"),
    MAGIC("\x93NUMPY", "an .npy array is not text"),
    MAGIC("\x89HDF", "HDF5 is not read here; convert it to JSON Lines or CSV"),
    MAGIC("PK\x03\x04", "a zip file (or .xlsx, .docx, .npz) is not read here; unpack or convert it to text first"),
    MAGIC("BZh", "bzip2 is not read here; unpack it first: bunzip2 -c FILE | ... -"),
    MAGIC("\xfd"
          "7zXZ",
        "xz is not read here; unpack it first: xz -dc FILE | ... -"),
    MAGIC("%PDF-", "PDF is not text; convert it first, for example with pdftotext"),
    MAGIC("GGUF", "a model, not text"),
    MAGIC("SQLite format 3", "a database is not read here; export it to CSV"),
    MAGIC("\xff\xfe", "UTF-16 is not read here; convert it first: iconv -f UTF-16 -t UTF-8"),
    MAGIC("\xfe\xff", "UTF-16 is not read here; convert it first: iconv -f UTF-16 -t UTF-8"),
};

enum match { MATCH_NO, MATCH_YES, MATCH_SO_FAR };
// so far: all n bytes agree, but there are too few
static enum match starts_with(const void * bytes, size_t n, const struct magic * m) {
    if (memcmp(bytes, m->bytes, n < m->n ? n : m->n) != 0) return MATCH_NO;
    return n < m->n ? MATCH_SO_FAR : MATCH_YES;
}

static enum input_state find_packing(struct source * s, bool wait, struct mra_error * err) {
    for (;;) {
        bool maybe = s->n == 0;
        for (int i = 0; i < 2; i++) {
            const enum match m = starts_with(s->in, s->n, &packed[i]);
            if (m == MATCH_YES) s->packing = packed[i].packing;
            if (m == MATCH_SO_FAR) maybe = true;
        }
        if (s->packing) break;
        if (!maybe || s->ended) {
            s->packing = PACKING_NONE;
            return INPUT_RECORD;
        }
        const enum input_state st = read_more(s, wait, err);
        if (st != INPUT_RECORD) return st;
    }
    if (s->packing == PACKING_ZSTD) {
        s->unpacker = ZSTD_createDCtx();
        return s->unpacker ? INPUT_RECORD : failed(err, MRA_ERR_MEMORY, s, "out of memory");
    }
    z_stream * z = s->unpacker = calloc(1, sizeof(*z));
    if (!z || inflateInit2(z, 15 + 16) != Z_OK) return failed(err, MRA_ERR_MEMORY, s, "out of memory");
    return INPUT_RECORD;
}

// ---- unpacking ----

// as much of in[at .. n) as fits; false: damaged
static bool inflate_some(struct source * s, char * to, size_t cap, size_t * n) {
    z_stream * z = s->unpacker;
    if (!s->inside && s->at < s->n) { // also another member behind the first
        if (inflateReset(z) != Z_OK) return false;
        s->inside = true;
    }
    z->next_in = s->in + s->at;
    z->avail_in = (uInt) (s->n - s->at);
    z->next_out = (unsigned char *) to;
    z->avail_out = cap > 1 << 30 ? 1 << 30 : (uInt) cap;
    const uInt room = z->avail_out;
    const int rc = inflate(z, Z_NO_FLUSH);
    s->at = s->n - z->avail_in;
    *n = room - z->avail_out;
    if (rc == Z_STREAM_END) s->inside = false;
    return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR;
}

static bool unzstd_some(struct source * s, char * to, size_t cap, size_t * n) {
    ZSTD_inBuffer in = { s->in + s->at, s->n - s->at, 0 };
    ZSTD_outBuffer out = { to, cap, 0 };
    const size_t rc = ZSTD_decompressStream(s->unpacker, &out, &in);
    s->at += in.pos;
    *n = out.pos;
    if (ZSTD_isError(rc)) return false;
    if (in.pos || out.pos) s->inside = rc != 0;
    return true;
}

static enum input_state unpack(
    struct source * s, char * to, size_t cap, size_t * n, bool wait, struct mra_error * err) {
    for (*n = 0;;) {
        const bool good = s->inside || s->at < s->n
            ? (s->packing == PACKING_GZIP ? inflate_some(s, to, cap, n) : unzstd_some(s, to, cap, n))
            : true;
        if (!good) return failed(err, MRA_ERR_FORMAT, s, "damaged, or something behind the packed data");
        if (*n > 0) return INPUT_RECORD;
        if (s->at < s->n) continue;
        if (s->ended) return s->inside ? failed(err, MRA_ERR_FORMAT, s, "packed, and cut off") : INPUT_END;
        const enum input_state st = read_more(s, wait, err);
        if (st != INPUT_RECORD) return st;
    }
}

static enum input_state next_bytes(
    struct source * s, char * to, size_t cap, size_t * n, bool wait, struct mra_error * err) {
    if (!s->packing) {
        const enum input_state st = find_packing(s, wait, err);
        if (st != INPUT_RECORD) return st;
    }
    if (s->packing != PACKING_NONE) return unpack(s, to, cap, n, wait, err);
    if (s->at == s->n && !s->ended) {
        const enum input_state st = read_more(s, wait, err);
        if (st != INPUT_RECORD) return st;
    }
    *n = s->n - s->at < cap ? s->n - s->at : cap;
    memcpy(to, s->in + s->at, *n);
    s->at += *n;
    return *n > 0 ? INPUT_RECORD : INPUT_END;
}

enum input_state source_read(struct source * s, char * to, size_t cap, size_t * n, bool wait, struct mra_error * err) {
    enum input_state st = next_bytes(s, to, cap, n, wait, err);
    if (s->checked || st != INPUT_RECORD) return st;
    bool maybe = true;
    while (maybe) { // a few bytes more, where these could be the beginning of something foreign
        maybe = false;
        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
            const enum match m = starts_with(to, *n, &foreign[i]);
            if (m == MATCH_YES) return failed(err, MRA_ERR_UNSUPPORTED, s, foreign[i].what);
            if (m == MATCH_SO_FAR) maybe = true;
        }
        size_t more = 0;
        if (!maybe) break;
        st = next_bytes(s, to + *n, cap - *n, &more, true, err);
        if (st == INPUT_FAILED) return st;
        if (st == INPUT_END) break;
        *n += more;
    }
    s->checked = true;
    if (memchr(to, 0, *n)) return failed(err, MRA_ERR_UNSUPPORTED, s, "not a text file: it holds NUL bytes");
    return INPUT_RECORD;
}
