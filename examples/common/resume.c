#include "resume.h"
#include "args.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t hash_id(const char * id, size_t n) {
    uint32_t h = 2166136261u; // FNV-1a
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char) id[i]) * 16777619u;
    return h ? h : 1;
}

static void mark(struct resume * r, int64_t line, uint32_t hash) {
    if (line >= r->n_finished) {
        const int64_t n = line + line / 2 + 1024;
        r->finished = realloc(r->finished, (size_t) n * sizeof(*r->finished));
        if (!r->finished) fatal(r->program, "out of memory");
        memset(r->finished + r->n_finished, 0, (size_t) (n - r->n_finished) * sizeof(*r->finished));
        r->n_finished = n;
    }
    r->finished[line] = hash;
}

int64_t resume_read(struct resume * r, const char * program, const char * path) {
    static const char * const keys[] = { "line", "id", "chunk", "chunks" };
    struct input in;
    struct mra_error err;
    *r = (struct resume) { .program = program, .path = path };
    if (access(path, F_OK) != 0) return 0;
    if (input_open(&in, path, NULL, 0, INPUT_TEXT, &err) != MRA_OK) fatal(program, "%s", err.msg);
    int64_t end = 0;
    for (;;) {
        const char * line;
        size_t n;
        struct json_span v[4];
        const enum input_state st = input_line(&in, &line, &n, true, &err);
        if (st == INPUT_FAILED) fatal(program, "%s", err.code ? err.msg : "interrupted");
        if (st == INPUT_END) break;
        if (in.buf[in.at - 1] != '\n') break; // torn
        long long at;
        if (n == SIZE_MAX || json_object(line, n, keys, v, 4, &err) != MRA_OK || (at = json_whole(v[0])) < 1) {
            fatal(program, "--resume %s: its line %lld is not a record of an earlier run", path, (long long) in.line);
        }
        if (v[2].s && json_whole(v[2]) + 1 != json_whole(v[3])) continue; // more chunks of the record should follow
        mark(r, at, v[1].s ? hash_id(v[1].s, v[1].n) : 1);
        end = in.offset;
    }
    input_close(&in);
    return end;
}

bool resume_has(const struct resume * r, const struct record * rec) {
    if (rec->line >= r->n_finished || !r->finished[rec->line]) return false;
    if (r->finished[rec->line] != (rec->id ? hash_id(rec->id, strlen(rec->id)) : 1)) {
        fatal(r->program, "--resume %s: line %lld of the input has another id there: not the same input", r->path,
            (long long) rec->line);
    }
    return true;
}

void resume_free(struct resume * r) { free(r->finished); }
