#include "zip.h"

#include <string.h>

enum { VERSION = 45, DATE = 0x21 }; // the first that knows ZIP64; 1 January 1980, so that files repeat byte for byte

static unsigned char * put(unsigned char * to, uint64_t x, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) *to++ = (unsigned char) (x >> 8 * i);
    return to;
}

// what both headers of an entry have in common; the sizes are in the ZIP64 field
static unsigned char * put_common(unsigned char * to, const struct zip_entry * e, int n_extra) {
    to = put(to, VERSION, 2);
    to = put(to, 0, 4); // flags, method: stored
    to = put(to, 0, 2); // time
    to = put(to, DATE, 2);
    to = put(to, e->crc, 4);
    to = put(to, UINT32_MAX, 4);
    to = put(to, UINT32_MAX, 4);
    to = put(to, strlen(e->name), 2);
    return put(to, (uint64_t) n_extra, 2);
}

static unsigned char * put_name(unsigned char * to, const struct zip_entry * e, int n_extra) {
    memcpy(to, e->name, strlen(e->name));
    to = put(to + strlen(e->name), 1, 2); // ZIP64
    to = put(to, (uint64_t) n_extra - 4, 2);
    to = put(to, e->size, 8);
    return put(to, e->size, 8);
}

size_t zip_header(unsigned char to[ZIP_MAX], const struct zip_entry * e) {
    unsigned char * p = put_common(put(to, 0x04034b50, 4), e, 20);
    return (size_t) (put_name(p, e, 20) - to);
}

size_t zip_end(unsigned char to[ZIP_MAX], const struct zip_entry * entries, int n, uint64_t at) {
    unsigned char * p = to;
    for (int i = 0; i < n; i++) {
        p = put(put(p, 0x02014b50, 4), VERSION, 2);
        p = put_common(p, &entries[i], 28);
        p = put(put(p, 0, 2), 0, 8); // comment, disk, attributes
        p = put(p, UINT32_MAX, 4);
        p = put(put_name(p, &entries[i], 28), entries[i].offset, 8);
    }
    const uint64_t size = (uint64_t) (p - to);
    p = put(put(p, 0x06064b50, 4), 44, 8);
    p = put(put(p, VERSION, 2), VERSION, 2);
    p = put(p, 0, 8); // disks
    p = put(put(p, (uint64_t) n, 8), (uint64_t) n, 8);
    p = put(put(p, size, 8), at, 8);
    p = put(put(p, 0x07064b50, 4), 0, 4);
    p = put(put(p, at + size, 8), 1, 4);
    p = put(put(p, 0x06054b50, 4), 0, 4);
    p = put(put(p, (uint64_t) n, 2), (uint64_t) n, 2);
    p = put(put(p, UINT32_MAX, 4), UINT32_MAX, 4);
    return (size_t) (put(p, 0, 2) - to);
}
