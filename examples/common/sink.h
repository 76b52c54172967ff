// Where results go: a file or stdout, record by record. Whatever happens - a full device, Ctrl-C, a closed pipe - a
// regular file ends behind a whole record.
#pragma once

#include "mra-error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sink {
    const char * path; // for messages
    int fd;
    bool std;     // stdout
    bool regular; // can be cut and patched
    char * buf;   // [n] not yet written, from `offset` of the file on
    size_t n, cap;
    int64_t start, offset;
    int64_t before; // start of the last record in the file
    size_t * ends;  // [n_ends] ends of records within buf
    size_t n_ends, cap_ends;
    int error; // errno of the first write that failed
    int lost;  // the same, where sink_cut has dropped records since
};

// path NULL or "-": stdout. A regular file is locked: a second run that writes there fails.
enum mra_status sink_open(struct sink * s, const char * path, struct mra_error * err);
// A file is cut to `keep` bytes and continued, 0: a new one.
enum mra_status sink_start(struct sink * s, int64_t keep, struct mra_error * err);

void sink_write(struct sink * s, const void * p, size_t n);
void sink_text(struct sink * s, const char * text);
void sink_json(
    struct sink * s, const char * text, size_t n);     // as a JSON string; bytes that are not UTF-8 become U+FFFD
void sink_real(struct sink * s, double x, int digits); // null where it is not finite
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void sink_printf(struct sink * s, const char * fmt, ...);

void sink_commit(struct sink * s);                                      // a record ends here
bool sink_flush(struct sink * s);                                       // false: stop, nothing more can be written
bool sink_patch(struct sink * s, int64_t at, const void * p, size_t n); // regular files: bytes written before

// After a write that failed, to end a regular file properly: forget the error; sink_back drops one more record to make
// room.
void sink_retry(struct sink * s);
bool sink_back(struct sink * s);
// the same, down to byte `at` of the file
bool sink_cut(struct sink * s, int64_t at);

// Closes; false and one line on stderr if something could not be written, except to a pipe whose reader is gone.
bool sink_close(struct sink * s, const char * program);
