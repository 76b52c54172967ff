// mra-embed's formats.
#include "embed.h"

#include "common/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NPY_HEADER = 128, MAX_SIMILARITY = 8192 };

static void numbers(struct sink * out, const float * x, int n, const char * between) {
    for (int c = 0; c < n; c++) {
        char cell[32];
        const int len = snprintf(cell, sizeof(cell), "%s%.9g", c ? between : "", (double) x[c]);
        sink_write(out, cell, (size_t) len);
    }
}

static void array(struct sink * out, const float * x, int n) {
    sink_text(out, "[");
    numbers(out, x, n, ", ");
    sink_text(out, "]");
}

// ---- json, jsonl ----

static void emit_json(struct stream * s, struct item * it) {
    struct embed * e = s->user;
    const struct embedding * r = it->result;
    for (int i = 0; i < r->n; i++) {
        if (e->format == FORMAT_JSON) sink_text(&s->out, e->n_rows ? ",\n" : "\n");
        stream_json_head(s, it);
        if (r->chunks) {
            const struct chunk * c = &r->chunks[i];
            sink_printf(&s->out, "\"chunk\": %d, \"chunks\": %d, \"start\": %u, \"end\": %u, \"tokens\": %d, ", i, r->n,
                c->start, c->end, c->n_tokens);
        } else {
            sink_printf(&s->out, "\"tokens\": %lld, ", (long long) it->n_tokens);
        }
        sink_text(&s->out, "\"embedding\": ");
        array(&s->out, r->data + (int64_t) i * e->dims, e->dims);
        e->n_rows++;
        stream_json_tail(s, it);
        if (e->format == FORMAT_JSON) sink_commit(&s->out); // a comma may follow
        else stream_line_end(s);
    }
}
static void begin_json(struct stream * s) {
    sink_text(&s->out, "[");
    sink_commit(&s->out);
}
static void end_json(struct stream * s) {
    sink_text(&s->out, "\n]\n");
    sink_commit(&s->out);
}

// ---- openai ----

static void begin_openai(struct stream * s) {
    sink_text(&s->out, "{\"object\": \"list\", \"data\": [");
    sink_commit(&s->out);
}
static void emit_openai(struct stream * s, struct item * it) {
    struct embed * e = s->user;
    const struct embedding * r = it->result;
    e->n_tokens += it->n_tokens;
    for (int i = 0; i < r->n; i++) {
        const long long index = r->chunks ? e->n_rows : it->rec.line - 1;
        sink_printf(
            &s->out, "%s\n{\"object\": \"embedding\", \"index\": %lld, \"embedding\": ", e->n_rows ? "," : "", index);
        array(&s->out, r->data + (int64_t) i * e->dims, e->dims);
        sink_text(&s->out, "}");
        sink_commit(&s->out);
        e->n_rows++;
    }
}
static void end_openai(struct stream * s) {
    const struct embed * e = s->user;
    sink_text(&s->out, "\n], \"model\": ");
    sink_json(&s->out, s->engine.info.name, strlen(s->engine.info.name));
    sink_printf(&s->out, ", \"usage\": {\"prompt_tokens\": %lld, \"total_tokens\": %lld}}\n", (long long) e->n_tokens,
        (long long) e->n_tokens);
    sink_commit(&s->out);
}

// ---- text, npy, raw: rows ----

static void emit_rows(struct stream * s, struct item * it) {
    struct embed * e = s->user;
    const struct embedding * r = it->failed ? NULL : it->result;
    float * nan_row = NULL;
    if (!r) {
        nan_row = malloc((size_t) e->dims * sizeof(float));
        if (!nan_row) fatal(s->program, "out of memory");
        for (int c = 0; c < e->dims; c++) nan_row[c] = NAN;
    }
    for (int i = 0; i < (r ? r->n : 1); i++) {
        const float * x = r ? r->data + (int64_t) i * e->dims : nan_row;
        if (e->format == FORMAT_TEXT) {
            numbers(&s->out, x, e->dims, " ");
            sink_text(&s->out, "\n");
        } else sink_write(&s->out, x, (size_t) e->dims * sizeof(float));
        sink_commit(&s->out);
        e->n_rows++;
    }
    free(nan_row);
}

// n rows: what is in the file
static void npy_header(const struct embed * e, int64_t n, char head[NPY_HEADER]) {
    static const char magic[] = "\x93NUMPY\x01\x00\x76"; // 118 bytes follow the first ten
    memset(head, ' ', NPY_HEADER);
    memcpy(head, magic, 9);
    head[9] = 0;
    const int len = snprintf(head + 10, NPY_HEADER - 10,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }", (long long) n, e->dims);
    head[10 + len] = ' ';
    head[NPY_HEADER - 1] = '\n';
}
static void begin_npy(struct stream * s) {
    char head[NPY_HEADER];
    if (!s->out.regular) {
        usage_error(s->program,
            "npy needs a file it can seek in (its first line holds the number of rows): -o FILE.npy, or --format raw "
            "for pipes");
    }
    npy_header(s->user, 0, head);
    sink_write(&s->out, head, NPY_HEADER);
    sink_commit(&s->out);
}
// keeps the header in step with the file, so that it is valid whenever the program ends
static void npy_flushed(struct stream * s) {
    const struct embed * e = s->user;
    char head[NPY_HEADER];
    npy_header(e, (s->out.offset - s->out.start - NPY_HEADER) / ((int64_t) e->dims * 4), head);
    if (s->out.offset - s->out.start >= NPY_HEADER && !sink_patch(&s->out, 0, head, NPY_HEADER) && !s->out.error)
        fatal(s->program, "cannot write to %s", s->out.path);
}
static void end_npy(struct stream * s) {
    sink_flush(&s->out);
    npy_flushed(s);
}

// ---- similarity ----

static void emit_similarity(struct stream * s, struct item * it) {
    struct embed * e = s->user;
    const struct embedding * r = it->failed ? NULL : it->result;
    if (e->n_rows == MAX_SIMILARITY) fatal(s->program, "--similarity takes at most %d texts", MAX_SIMILARITY);
    e->all = realloc(e->all, (size_t) ((e->n_rows + 1) * e->dims) * sizeof(float));
    if (!e->all) fatal(s->program, "out of memory");
    float * x = e->all + e->n_rows++ * e->dims;
    double sum = 0;
    for (int c = 0; c < e->dims; c++) {
        x[c] = r ? r->data[c] : NAN;
        sum += (double) x[c] * x[c];
    }
    for (int c = 0; c < e->dims; c++) x[c] = (float) (x[c] / sqrt(sum));
}

static void end_similarity(struct stream * s) {
    struct embed * e = s->user;
    if (s->o->json) sink_text(&s->out, "{\"similarity\": [");
    for (int64_t i = 0; i < e->n_rows; i++) {
        if (s->o->json) sink_text(&s->out, i ? ", [" : "[");
        for (int64_t j = 0; j < e->n_rows; j++) {
            double dot = 0;
            for (int c = 0; c < e->dims; c++) dot += (double) e->all[i * e->dims + c] * e->all[j * e->dims + c];
            if (!s->o->json) sink_printf(&s->out, "%s%7.4f", j ? " " : "", dot);
            else if (isfinite(dot)) sink_printf(&s->out, "%s%.6f", j ? ", " : "", dot);
            else sink_printf(&s->out, "%snull", j ? ", " : "");
        }
        sink_text(&s->out, s->o->json ? "]" : "\n");
        if (!s->o->json) sink_commit(&s->out);
    }
    if (s->o->json) sink_text(&s->out, "]}\n");
    sink_commit(&s->out);
    free(e->all);
}

void embed_output(struct stream * s) {
    const struct embed * e = s->user;
    s->on.emit_failed = true;
    if (e->similarity) {
        s->on.emit = emit_similarity;
        s->on.end = end_similarity;
        return;
    }
    switch (e->format) {
        case FORMAT_NPY:
            s->on.begin = begin_npy;
            s->on.emit = emit_rows;
            s->on.end = end_npy;
            s->on.flushed = npy_flushed;
            break;
        case FORMAT_TEXT:
        case FORMAT_RAW: s->on.emit = emit_rows; break;
        case FORMAT_JSON:
            s->on.begin = begin_json;
            s->on.emit = emit_json;
            s->on.end = end_json;
            s->on.emit_failed = false;
            break;
        case FORMAT_JSONL:
            s->on.emit = emit_json;
            s->on.emit_failed = false;
            break;
        case FORMAT_OPENAI:
            s->on.begin = begin_openai;
            s->on.emit = emit_openai;
            s->on.end = end_openai;
            s->on.emit_failed = false;
            break;
    }
}
