// The bytes of a file or of standard input. gzip and zstd are recognised by their first bytes and undone; what is not
// text is refused by name.
#pragma once

#include "mra-error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packing { PACKING_NOT_KNOWN, PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

struct source {
    const char * name; // for messages
    int fd;
    int64_t size;   // of the file, packed where it is packed; -1: not known
    int64_t n_read; // of those bytes
    enum packing packing;
    bool checked;       // that it is text
    bool inside;        // packed: a gzip member or a zstd frame has begun and not ended
    bool ended;         // there is no more to read
    unsigned char * in; // bytes as they were read: in[at .. n)
    size_t at, n;
    void * unpacker; // z_stream or ZSTD_DCtx
};

enum input_state { INPUT_END, INPUT_RECORD, INPUT_NOT_YET, INPUT_FAILED };

// path "-": standard input. as_is: nothing is unpacked or refused.
enum mra_status source_open(struct source * s, const char * path, bool as_is, struct mra_error * err);
void source_close(struct source * s);

// Up to cap (at least 64) bytes of text; *n of them, more than 0 with INPUT_RECORD. wait false: INPUT_NOT_YET rather
// than waiting for whoever writes the other end of a pipe. INPUT_FAILED: err says why, or the read was interrupted by a
// signal (err->code is MRA_OK).
enum input_state source_read(struct source * s, char * to, size_t cap, size_t * n, bool wait, struct mra_error * err);
