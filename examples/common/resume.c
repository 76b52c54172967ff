// --resume: which records of the input an interrupted run has finished. Four bytes per line of the input.
#include "json.h"
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t hash_id(const char * id, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char) id[i]) * 16777619u;
    return h ? h : 1;
}

static void mark(struct stream * s, int64_t line, uint32_t hash) {
    if (line >= s->n_finished) {
        const int64_t n = line + line / 2 + 1024;
        s->finished = realloc(s->finished, (size_t) n * sizeof(*s->finished));
        if (!s->finished) fatal(s->program, "out of memory");
        memset(s->finished + s->n_finished, 0, (size_t) (n - s->n_finished) * sizeof(*s->finished));
        s->n_finished = n;
    }
    s->finished[line] = hash;
}

int64_t resume_read(struct stream * s) {
    static const char * const keys[] = { "line", "id", "chunk", "chunks" };
    struct input in;
    struct mra_error err;
    if (access(s->o->resume, F_OK) != 0) return 0;
    if (input_open(&in, s->o->resume, NULL, 0, INPUT_TEXT, &err) != MRA_OK) fatal(s->program, "%s", err.msg);
    int64_t end = 0;
    for (;;) {
        const char * line;
        size_t n;
        struct json_span v[4];
        const enum input_state st = input_line(&in, &line, &n, true, &err);
        if (st == INPUT_FAILED) fatal(s->program, "%s", err.code ? err.msg : "interrupted");
        if (st == INPUT_END) break;
        if (in.buf[in.at - 1] != '\n') break; // torn
        long long at;
        if (n == SIZE_MAX || json_object(line, n, keys, v, 4, &err) != MRA_OK || (at = json_whole(v[0])) < 1) {
            fatal(s->program, "--resume %s: its line %lld is not a record of an earlier run", s->o->resume,
                (long long) in.line);
        }
        if (v[2].s && json_whole(v[2]) + 1 != json_whole(v[3])) continue; // more chunks of the record should follow
        mark(s, at, v[1].s ? hash_id(v[1].s, v[1].n) : 1);
        end = in.offset;
    }
    input_close(&in);
    return end;
}

bool resume_has(struct stream * s, const struct record * r) {
    if (r->line >= s->n_finished || !s->finished[r->line]) return false;
    if (s->finished[r->line] != (r->id ? hash_id(r->id, strlen(r->id)) : 1)) {
        fatal(s->program, "--resume %s: line %lld of the input has another id there: not the same input", s->o->resume,
            (long long) r->line);
    }
    return true;
}
