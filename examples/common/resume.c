#include "resume.h"
#include "args.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t hash(uint64_t h, const char * s, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char) s[i]) * 1099511628211u; // FNV-1a
    return h;
}

// file and id are JSON text, s NULL: none. line < 0: the id is the place
static struct resume_mark mark_of(struct json_span file, const char * unit, long long line, struct json_span id) {
    const uint64_t start = 14695981039346656037u, name = hash(start, id.s, id.n);
    if (line < 0) return (struct resume_mark) { name, name };
    const uint64_t place = hash(
        hash(hash(start, unit, strlen(unit)), (const char *) &line, sizeof(line)), file.s, file.n);
    return (struct resume_mark) { place, name };
}

static int by_place(const void * a, const void * b) {
    const struct resume_mark *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

static void add(struct resume * r, struct resume_mark mark) {
    if (r->n == r->cap) {
        r->cap = r->cap + r->cap / 2 + 1024;
        r->marks = realloc(r->marks, r->cap * sizeof(*r->marks));
        if (!r->marks) fatal(r->program, "out of memory");
    }
    r->marks[r->n++] = mark;
}

enum { LINE, ELEMENT, FILE_NAME, ID, CHUNK, CHUNKS, N_KEYS };

// one line of the earlier output; false: it is none
static bool read_mark(struct resume * r, const char * line, size_t n, bool * whole) {
    static const char * const keys[] = { "line", "element", "file", "id", "chunk", "chunks" };
    struct json_span v[N_KEYS];
    struct mra_error err;
    if (n == SIZE_MAX || json_object(line, n, keys, v, N_KEYS, &err) != MRA_OK) return false;
    const bool element = !v[LINE].s && v[ELEMENT].s;
    const long long at = json_whole(v[element ? ELEMENT : LINE]);
    if (at < 1 && (v[LINE].s || element || !v[ID].s)) return false;
    *whole = !v[CHUNK].s || json_whole(v[CHUNK]) + 1 == json_whole(v[CHUNKS]); // else more chunks should follow
    if (*whole) add(r, mark_of(v[FILE_NAME], element ? "element" : "line", at, v[ID]));
    return true;
}

int64_t resume_read(struct resume * r, const char * program, const char * path) {
    struct reader in;
    struct mra_error err;
    *r = (struct resume) { .program = program, .path = path };
    if (access(path, F_OK) != 0) return 0;
    if (reader_open(&in, path, true, &err) != MRA_OK) fatal(program, "%s", err.msg);
    int64_t end = 0;
    for (;;) {
        const char * line;
        size_t n;
        bool whole = false;
        const enum input_state st = reader_line(&in, &line, &n, true, &err);
        if (st == INPUT_FAILED) fatal(program, "%s", err.code ? err.msg : "interrupted");
        if (st == INPUT_END) break;
        if (in.buf[in.at - 1] != '\n') break; // torn
        if (!read_mark(r, line, n, &whole))
            fatal(program, "--resume %s: its line %lld is not a record of an earlier run", path, (long long) in.line);
        if (whole) end = in.offset;
    }
    reader_close(&in);
    if (r->n) qsort(r->marks, r->n, sizeof(*r->marks), by_place);
    size_t twice = 0;
    for (size_t i = 1; i < r->n; i++) twice += r->marks[i].place == r->marks[i - 1].place;
    if (twice) fatal(program, "--resume %s: it holds %zu records more than once", path, twice);
    return end;
}

bool resume_has(const struct resume * r, const struct record * rec) {
    if (r->n == 0) return false;
    const bool is_file = strcmp(rec->place, "file") == 0;
    char * file = rec->file ? json_quote(rec->file, strlen(rec->file)) : NULL;
    const struct json_span none = { 0 }, name = { file, file ? strlen(file) : 0 },
                           id = { rec->id, rec->id ? strlen(rec->id) : 0 };
    const struct resume_mark mark = mark_of(file ? name : none, rec->place, is_file ? -1 : rec->line, id),
                             *found = bsearch(&mark, r->marks, r->n, sizeof(mark), by_place);
    free(file);
    if (!found) return false;
    if (found->id != mark.id) {
        fatal(r->program, "--resume %s: %s %lld of the input has another id there: not the same input", r->path,
            rec->place, (long long) rec->line);
    }
    return true;
}

void resume_free(struct resume * r) { free(r->marks); }
