// The headers of a zip file whose entries are stored as they are. All sizes have 64 bits (ZIP64).
#pragma once

#include <stddef.h>
#include <stdint.h>

struct zip_entry {
    const char * name;
    uint32_t crc;    // of its bytes, zlib's crc32
    uint64_t size;   // of them
    uint64_t offset; // of its header in the file
};

enum { ZIP_MAX = 512 }; // bytes of a header, and of the end of a file with two entries

// The header before an entry's bytes; returns its length, which depends on the name only.
size_t zip_header(unsigned char to[ZIP_MAX], const struct zip_entry * e);
// What follows the last entry, at byte `at` of the file; n <= 2. Returns its length.
size_t zip_end(unsigned char to[ZIP_MAX], const struct zip_entry * entries, int n, uint64_t at);
