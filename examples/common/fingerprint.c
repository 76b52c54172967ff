#include "fingerprint.h"
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_PARTS = 4 };
static const char * const names[N_PARTS] = { "program", "model", "options", "input" };

// ---- the parts ----

// a word of 8 bytes at a time; to tell files apart, not to keep forgers out
static uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static char * hash_of_file(const char * program, const char * path) {
    enum { SIZE = 1 << 18 };
    uint64_t h = 0, n_bytes = 0, *words = malloc(SIZE + sizeof(uint64_t));
    char * text = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fatal(program, "%s: %s", path, strerror(errno));
    if (!words) fatal(program, "out of memory");
    for (size_t n = 0;;) { // a full block, except the last one
        const ssize_t got = read(fd, (char *) words + n, SIZE - n);
        if (got < 0 && errno != EINTR) fatal(program, "%s: %s", path, strerror(errno));
        if (got > 0) n += (size_t) got;
        if (got > 0 && n < SIZE) continue;
        if (got < 0) continue;
        if (n < SIZE) memset((char *) words + n, 0, 8); // behind the last byte, up to a whole word
        for (size_t i = 0; i < (n + 7) / 8; i++) h = mix(h, words[i]);
        n_bytes += n;
        if (n < SIZE) break;
        n = 0;
    }
    close(fd);
    free(words);
    if (asprintf(&text, "%016" PRIx64 ", %" PRIu64 " bytes", mix(h, n_bytes), n_bytes) < 0)
        fatal(program, "out of memory");
    return text;
}

// names of files with their sizes
static char * input_of(const char * program, const struct options * o) {
    char * all = NULL;
    for (int i = 0; i < o->input.n_names; i++) {
        struct stat st;
        char *name = o->input.names[i], *next = NULL;
        const bool sized = strcmp(name, "-") != 0 && stat(name, &st) == 0 && S_ISREG(st.st_mode);
        const int n = sized
            ? asprintf(&next, "%s%s%s (%lld bytes)", all ? all : "", all ? ", " : "", name, (long long) st.st_size)
            : asprintf(&next, "%s%s%s", all ? all : "", all ? ", " : "", name);
        if (n < 0) fatal(program, "out of memory");
        free(all);
        all = next;
    }
    return all;
}

static bool is_regular_or_new(const char * path) {
    struct stat st;
    return stat(path, &st) == 0 ? S_ISREG(st.st_mode) : errno == ENOENT;
}

static char * copy_of(const char * program, const char * s) {
    char * p = strdup(s);
    if (!p) fatal(program, "out of memory");
    return p;
}

void fingerprint_make(struct fingerprint * f, const char * program, const struct options * o) {
    *f = (struct fingerprint) { 0 };
    if (!o->lines || o->dry_run || !o->out || strcmp(o->out, "-") == 0) return;
    if (o->input.from == FROM_ARGUMENTS || !is_regular_or_new(o->out)) return;
    if (asprintf(&f->path, "%s.resume", o->out) < 0) fatal(program, "out of memory");
    f->parts[0] = copy_of(program, program);
    f->parts[1] = hash_of_file(program, o->model);
    f->parts[2] = copy_of(program, o->said ? o->said : "");
    f->parts[3] = input_of(program, o);
}

void fingerprint_free(struct fingerprint * f) {
    free(f->path);
    for (int i = 0; i < N_PARTS; i++) free(f->parts[i]);
    *f = (struct fingerprint) { 0 };
}

// ---- the file ----

void fingerprint_check(const struct fingerprint * f, const char * program, const struct options * o) {
    struct stat st;
    if (!f->path || stat(o->resume, &st) != 0 || st.st_size == 0) return; // nothing to go on with
    if (access(f->path, F_OK) != 0)
        fatal(program, "--resume %s: there is no %s that says which model, options and input it is of", o->resume,
            f->path);
    struct reader in;
    struct mra_error err;
    struct json_span v[N_PARTS];
    const char * line;
    size_t n, at = 0;
    char differs[700] = "";
    if (reader_open(&in, f->path, true, &err) != MRA_OK) fatal(program, "%s", err.msg);
    if (reader_line(&in, &line, &n, true, &err) != INPUT_RECORD || n == SIZE_MAX ||
        json_object(line, n, names, v, N_PARTS, &err) != MRA_OK)
        fatal(program, "%s is not what an earlier run has written", f->path);
    for (int i = 0; i < N_PARTS && at < sizeof(differs); i++) {
        size_t len = 0;
        char * was = json_is_string(v[i]) ? json_unquote(v[i], &len) : copy_of(program, "");
        if (!was) fatal(program, "out of memory");
        if (strcmp(was, f->parts[i]) != 0)
            at += (size_t) snprintf(
                differs + at, sizeof(differs) - at, "; %s: '%.120s', now '%.120s'", names[i], was, f->parts[i]);
        free(was);
    }
    reader_close(&in);
    if (*differs) fatal(program, "--resume %s: it is of something else%s", o->resume, differs);
}

bool fingerprint_write(const struct fingerprint * f) {
    if (!f->path) return true;
    char * part = NULL;
    if (asprintf(&part, "%s.part", f->path) < 0) return false;
    FILE * out = fopen(part, "we");
    bool good = out != NULL;
    for (int i = 0; good && i < N_PARTS; i++) {
        char * s = json_quote(f->parts[i], strlen(f->parts[i]));
        good = s && fprintf(out, "%s\"%s\": %s", i ? ", " : "{", names[i], s) > 0;
        free(s);
    }
    if (good) good = fputs("}\n", out) >= 0;
    if (out) good = fclose(out) == 0 && good;
    good = good && rename(part, f->path) == 0;
    if (!good && out) unlink(part);
    free(part);
    return good;
}

void fingerprint_remove(const struct fingerprint * f) {
    if (f->path) unlink(f->path);
}
