// mra-embed --format npz: a zip file of the arrays embeddings [rows][dims] and ids [rows].
#include "embed.h"

#include "common/npy.h"
#include "common/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

static const char data_name[] = "embeddings.npy", ids_name[] = "ids.npy";

static int64_t row_bytes(const struct embed * e) { return (int64_t) e->dims * 4; }

// bytes before the first row
static int64_t data_start(void) {
    unsigned char head[ZIP_MAX];
    return (int64_t) zip_header(head, &(struct zip_entry) { .name = data_name }) + NPY_HEADER;
}

static uint32_t crc_of(uint32_t crc, const void * p, size_t n) { return (uint32_t) crc32_z(crc, p, n); }

static void begin(struct stream * s) {
    const struct embed * e = s->user;
    unsigned char head[ZIP_MAX];
    char npy[NPY_HEADER];
    embed_need_file(s, "npz");
    sink_write(&s->out, head, zip_header(head, &(struct zip_entry) { .name = data_name }));
    npy_header(npy, "<f4", 0, e->dims);
    sink_write(&s->out, npy, NPY_HEADER);
    sink_commit(&s->out);
}

static void emit(struct stream * s, struct item * it) {
    struct embed * e = s->user;
    float * nan_row = malloc((size_t) row_bytes(e));
    if (!nan_row) fatal(s->program, "out of memory");
    for (int i = 0; i < embed_n_rows(it); i++) {
        const float * x = embed_row(e, it, i, nan_row);
        if (e->n_rows == e->cap_crcs) {
            e->cap_crcs = 2 * e->cap_crcs + 1024;
            e->crcs = realloc(e->crcs, (size_t) e->cap_crcs * sizeof(*e->crcs));
            if (!e->crcs) fatal(s->program, "out of memory");
        }
        const uint32_t before = e->n_rows ? e->crcs[e->n_rows - 1] : 0;
        e->crcs[e->n_rows++] = crc_of(before, x, (size_t) row_bytes(e));
        embed_add_name(s, it);
        sink_write(&s->out, x, (size_t) row_bytes(e));
        sink_commit(&s->out);
    }
    free(nan_row);
}

// UTF-8 without errors -> code points; NULL to: counts only
static int64_t decode(const char * s, uint32_t * to) {
    int64_t n = 0;
    for (const unsigned char * p = (const unsigned char *) s; *p; n++) {
        const int more = *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
        uint32_t x = more ? *p & (0x3fu >> more) : *p;
        p++;
        for (int i = 0; i < more && *p; i++) x = x << 6 | (*p++ & 0x3f);
        if (to) to[n] = x;
    }
    return n;
}

// The entry of n ids: numpy's strings, all as wide as the longest. out NULL: only its checksum. false: no memory
static bool write_ids(const struct embed * e, int64_t n, struct sink * out, struct zip_entry * entry) {
    int64_t width = 1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t w = decode(e->names.names[i], NULL);
        if (w > width) width = w;
    }
    uint32_t * row = malloc((size_t) width * sizeof(*row));
    if (!row) return false;
    char descr[24], npy[NPY_HEADER];
    snprintf(descr, sizeof(descr), "<U%lld", (long long) width);
    npy_header(npy, descr, n, 0);
    if (out) sink_write(out, npy, NPY_HEADER);
    else entry->crc = crc_of(0, npy, NPY_HEADER);
    for (int64_t i = 0; i < n; i++) {
        memset(row, 0, (size_t) width * sizeof(*row));
        decode(e->names.names[i], row);
        if (out) sink_write(out, row, (size_t) width * sizeof(*row));
        else entry->crc = crc_of(entry->crc, row, (size_t) width * sizeof(*row));
    }
    entry->size = NPY_HEADER + (uint64_t) (n * width) * sizeof(*row);
    free(row);
    return true;
}

// The file with its first n rows: their header, the ids, the end of the zip file. Returns the bytes behind the rows.
static int64_t write_rest(struct stream * s, int64_t n) {
    const struct embed * e = s->user;
    const int64_t start = data_start(), rows_end = start + n * row_bytes(e);
    unsigned char head[ZIP_MAX];
    char npy[NPY_HEADER];
    struct zip_entry entries[2] = { { .name = data_name }, { .name = ids_name, .offset = (uint64_t) rows_end } };
    npy_header(npy, "<f4", n, e->dims);
    entries[0].size = (uint64_t) (rows_end - start) + NPY_HEADER;
    entries[0].crc = (uint32_t) crc32_combine(crc_of(0, npy, NPY_HEADER), n ? e->crcs[n - 1] : 0, n * row_bytes(e));
    const size_t n_head = zip_header(head, &entries[0]);
    if ((!sink_patch(&s->out, 0, head, n_head) || !sink_patch(&s->out, (int64_t) n_head, npy, NPY_HEADER)) &&
        !s->out.error)
        fatal(s->program, "cannot write to %s", s->out.path);
    if (!write_ids(e, n, NULL, &entries[1])) fatal(s->program, "out of memory");
    const size_t n_ids = zip_header(head, &entries[1]);
    sink_write(&s->out, head, n_ids);
    if (!write_ids(e, n, &s->out, &entries[1])) fatal(s->program, "out of memory");
    const uint64_t at = (uint64_t) rows_end + n_ids + entries[1].size;
    const size_t n_end = zip_end(head, entries, 2, at);
    sink_write(&s->out, head, n_end);
    sink_commit(&s->out);
    return (int64_t) (n_ids + entries[1].size + n_end);
}

static void end(struct stream * s) {
    const struct embed * e = s->user;
    sink_flush(&s->out);
    int64_t n = (s->out.offset - s->out.start - data_start()) / row_bytes(e);
    if (s->out.offset - s->out.start < data_start()) return; // not even the header could be written
    for (;;) {
        const int64_t rest = write_rest(s, n);
        if (sink_flush(&s->out) || n == 0) return;
        const int64_t drop = rest / row_bytes(e) + 1; // a full device: rows make room for it
        n = n > drop ? n - drop : 0;
        if (!sink_cut(&s->out, s->out.start + data_start() + n * row_bytes(e))) return;
    }
}

const struct handlers embed_npz = { .begin = begin, .emit = emit, .emit_failed = true, .end = end };
