// Reading SentencePiece's precompiled_charsmap. The units may come from anywhere, so each step checks its bounds.
#include "charsmap.h"
#include "utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// NFKC's longest replacement has 33 bytes; without a limit a small text could grow to any size.
#define MAX_REPLACEMENT 255

static uint32_t read_u32(const uint8_t * p) {
    return (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
}

// A unit: bits 0-7 and 31 label, 8 has a leaf, 9 offset is shifted, 10-30 offset; a leaf: bits 0-30 value.
static bool unit_has_leaf(uint32_t u) { return u >> 8 & 1; }
static uint32_t unit_value(uint32_t u) { return u & 0x7FFFFFFF; }
static uint32_t unit_label(uint32_t u) { return u & 0x800000FF; }
static uint32_t unit_offset(uint32_t u) { return (u >> 10) << ((u & (1u << 9)) >> 6); }

static const char * check_text(const char * text, size_t n) {
    if (n == 0 || text[n - 1] != 0) { return "its replacements do not end with NUL"; }
    if (!mra_utf8_valid(text, n)) { return "its replacements are not UTF-8"; }
    for (size_t i = 0; i < n;) {
        const size_t len = strlen(text + i);
        if (len > MAX_REPLACEMENT) { return "a replacement is too long"; }
        i += len + 1;
    }
    return NULL;
}

enum mra_status mra_charsmap_init(struct mra_charsmap * m, const uint8_t * data, size_t n, struct mra_error * err) {
    *m = (struct mra_charsmap) { 0 };
    if (n == 0) { return MRA_OK; }
    if (!data || n < 4) { return mra_fail(err, MRA_ERR_FORMAT, "precompiled_charsmap: too short"); }
    const size_t size = read_u32(data);
    if (size == 0 || size % 4 || size > n - 4) {
        return mra_fail(err, MRA_ERR_FORMAT, "precompiled_charsmap: its trie has %zu bytes of %zu", size, n - 4);
    }
    const char * text = (const char *) data + 4 + size;
    const char * reason = check_text(text, n - 4 - size);
    if (reason) { return mra_fail(err, MRA_ERR_FORMAT, "precompiled_charsmap: %s", reason); }
    m->n_units = size / 4;
    m->n_text = n - 4 - size;
    m->units = malloc(size);
    m->text = malloc(m->n_text);
    if (!m->units || !m->text) {
        mra_charsmap_free(m);
        return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < m->n_units; i++) { m->units[i] = read_u32(data + 4 + 4 * i); }
    memcpy(m->text, text, m->n_text);
    return MRA_OK;
}

void mra_charsmap_free(struct mra_charsmap * m) {
    free(m->units);
    free(m->text);
    *m = (struct mra_charsmap) { 0 };
}

const char * mra_charsmap_find(const struct mra_charsmap * m, const char * s, size_t n) {
    if (!m->units) { return NULL; }
    uint32_t pos = unit_offset(m->units[0]);

    for (size_t i = 0; i < n && s[i]; i++) {
        const uint8_t c = (uint8_t) s[i];
        pos ^= c;
        if (pos >= m->n_units || unit_label(m->units[pos]) != c) { return NULL; }
        const uint32_t unit = m->units[pos];
        pos ^= unit_offset(unit);
        if (unit_has_leaf(unit)) {
            if (pos >= m->n_units) { return NULL; }
            const uint32_t at = unit_value(m->units[pos]);
            // a damaged map could point into the middle of a character
            return at < m->n_text && (m->text[at] & 0xC0) != 0x80 ? m->text + at : NULL;
        }
    }
    return NULL;
}
