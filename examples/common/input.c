#include "input.h"
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_SIZE = 1 << 16, MAX_LINE = 1 << 28 };

void record_free(struct record * r) {
    free(r->id);
    free(r->text);
    free(r->pair);
    memset(r, 0, sizeof(*r));
}

enum mra_status input_open(
    struct input * in, const char * path, char ** args, int n_args, enum input_kind kind, struct mra_error * err) {
    *in =
        (struct input) { .kind = kind, .name = "arguments", .fd = -1, .args = args, .n_args = n_args, .size = n_args };
    if (!path) return MRA_OK;
    const bool std = strcmp(path, "-") == 0;
    in->name = std ? "standard input" : path;
    in->fd = std ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0) return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(in->fd, &st) != 0) return mra_fail(err, MRA_ERR_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return mra_fail(err, MRA_ERR_IO, "%s is a folder", path);
    in->size = S_ISREG(st.st_mode) ? st.st_size : -1;
    const char * dot = strrchr(path, '.');
    if (kind == INPUT_AUTO && dot && (strcmp(dot, ".jsonl") == 0 || strcmp(dot, ".ndjson") == 0))
        in->kind = INPUT_JSONL;
    return MRA_OK;
}

void input_close(struct input * in) {
    if (in->fd > STDIN_FILENO) close(in->fd);
    free(in->buf);
    in->buf = NULL;
    in->fd = -1;
}

// reads more into buf; INPUT_RECORD: there is more
static enum input_state fill(struct input * in, bool wait, struct mra_error * err) {
    if (in->at > 0) {
        memmove(in->buf, in->buf + in->at, in->n - in->at);
        in->n -= in->at;
        in->seen -= in->at;
        in->at = 0;
    }
    if (in->cap - in->n < READ_SIZE) {
        char * p = realloc(in->buf, 2 * in->cap + READ_SIZE);
        if (!p) {
            mra_fail(err, MRA_ERR_MEMORY, "%s: no memory for line %lld", in->name, (long long) in->line + 1);
            return INPUT_FAILED;
        }
        in->buf = p;
        in->cap = 2 * in->cap + READ_SIZE;
    }
    struct pollfd p = { .fd = in->fd, .events = POLLIN };
    if (!wait && poll(&p, 1, 0) == 0) return INPUT_NOT_YET;
    const ssize_t n = read(in->fd, in->buf + in->n, in->cap - in->n);
    if (n < 0) {
        err->code = MRA_OK;
        if (errno != EINTR) mra_fail(err, MRA_ERR_IO, "%s: %s", in->name, strerror(errno));
        return INPUT_FAILED;
    }
    if (n == 0) in->ended = true;
    in->n += (size_t) n;
    return INPUT_RECORD;
}

enum input_state input_line(struct input * in, const char ** line, size_t * n, bool wait, struct mra_error * err) {
    for (;;) {
        const char *s = in->buf ? in->buf + in->at : NULL,
                   *nl = s ? memchr(in->buf + in->seen, '\n', in->n - in->seen) : NULL;
        if (nl || (in->ended && in->n > in->at)) {
            *line = s;
            *n = nl ? (size_t) (nl - s) : in->n - in->at;
            in->at += *n + (nl != NULL);
            in->seen = in->at;
            in->offset += (int64_t) *n + (nl != NULL);
            in->line++;
            if (in->dropping) *n = SIZE_MAX; // longer than MAX_LINE: its end is here, the rest is gone
            in->dropping = false;
            return INPUT_RECORD;
        }
        if (in->ended) return INPUT_END;
        in->seen = in->n;
        if (in->n - in->at > MAX_LINE) { // keep the last byte: the line still has to end
            in->dropping = true;
            in->offset += (int64_t) (in->n - in->at) - 1;
            in->at = in->n - 1;
        }
        const enum input_state st = fill(in, wait, err);
        if (st != INPUT_RECORD) return st;
    }
}

static char * copy(const char * s, size_t n) {
    char * p = malloc(n + 1);
    if (!p) return NULL;
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

static void fail(struct record * r, enum mra_status st, const char * why) {
    r->status = st;
    snprintf(r->error, sizeof(r->error), "%s", why);
}

static void from_json(struct record * r, const char * line, size_t n) {
    static const char * const keys[] = { "id", "text", "text_pair" };
    struct json_span v[3];
    struct mra_error err;
    if (json_object(line, n, keys, v, 3, &err) != MRA_OK) {
        fail(r, MRA_ERR_FORMAT, err.msg);
        return;
    }
    const bool has_id = v[0].s && !(v[0].n == 4 && memcmp(v[0].s, "null", 4) == 0),
               has_pair = v[2].s && !(v[2].n == 4 && memcmp(v[2].s, "null", 4) == 0);
    if (has_id && !json_is_string(v[0]) && !json_is_integer(v[0])) {
        fail(r, MRA_ERR_FORMAT, "\"id\" is neither a string nor a whole number");
        return;
    }
    if (has_id && !json_is_utf8(v[0])) { // it is written as it came
        fail(r, MRA_ERR_FORMAT, "\"id\" is not UTF-8");
        return;
    }
    if (has_id) r->id = copy(v[0].s, v[0].n);
    if (!json_is_string(v[1])) {
        fail(r, MRA_ERR_FORMAT, v[1].s ? "\"text\" is not a string" : "there is no \"text\"");
        return;
    }
    if (has_pair && !json_is_string(v[2])) {
        fail(r, MRA_ERR_FORMAT, "\"text_pair\" is not a string");
        return;
    }
    r->text = json_unquote(v[1], &r->n_text);
    if (has_pair) r->pair = json_unquote(v[2], &r->n_pair);
    if (!r->text || (has_pair && !r->pair) || (has_id && !r->id)) fail(r, MRA_ERR_MEMORY, "out of memory");
}

static bool is_blank(const char * s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", s[i]) || !s[i]) return false;
    return true;
}

enum input_state input_next(struct input * in, struct record * r, bool wait, struct mra_error * err) {
    memset(r, 0, sizeof(*r));
    const char * line;
    size_t n;
    if (in->fd < 0) {
        if (in->i_arg == in->n_args) return INPUT_END;
        line = in->args[in->i_arg++];
        n = strlen(line);
        r->line = r->end = ++in->line;
    } else do {
            const enum input_state st = input_line(in, &line, &n, wait, err);
            if (st != INPUT_RECORD) return st;
            r->line = in->line;
            r->end = in->offset;
            if (n == SIZE_MAX) {
                fail(r, MRA_ERR_TOO_LONG, "the line has more than 256 MiB");
                return INPUT_RECORD;
            }
            if (in->line == 1 && n >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
                line += 3;
                n -= 3;
            }
            if (n > 0 && line[n - 1] == '\r') n--;
            if (in->kind == INPUT_AUTO && !is_blank(line, n)) { // the first line decides
                struct json_span text = { 0 };
                struct mra_error e;
                const bool json = json_object(line, n, (const char * const[]) { "text" }, &text, 1, &e) == MRA_OK &&
                    text.s;
                in->kind = json ? INPUT_JSONL : INPUT_TEXT;
            }
        } while (in->kind == INPUT_JSONL && is_blank(line, n));
    if (in->fd >= 0 && in->kind == INPUT_JSONL) {
        from_json(r, line, n);
        return INPUT_RECORD;
    }
    r->text = copy(line, n);
    r->n_text = n;
    if (!r->text) fail(r, MRA_ERR_MEMORY, "out of memory");
    return INPUT_RECORD;
}
