// mra-embed's formats.
#include "embed.h"

#include "common/npy.h"
#include "common/output.h"
#include "common/real.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void embed_numbers(struct sink * out, const float * x, int n, const char * between) {
    for (int c = 0; c < n; c++) {
        char cell[REAL_TEXT_SIZE];
        if (c) sink_text(out, between);
        sink_write(out, cell, (size_t) real_text(cell, x[c]));
    }
}

static void array(struct sink * out, const float * x, int n) {
    sink_text(out, "[");
    embed_numbers(out, x, n, ", ");
    sink_text(out, "]");
}

void embed_csv_cell(struct sink * out, const char * text) {
    if (!strpbrk(text, ",;\t\"\r\n")) {
        sink_text(out, text);
        return;
    }
    sink_text(out, "\"");
    for (; *text; text++) {
        if (*text == '"') sink_text(out, "\"");
        sink_write(out, text, 1);
    }
    sink_text(out, "\"");
}

int embed_n_rows(const struct item * it) {
    const struct embedding * r = it->failed ? NULL : it->result;
    return r ? r->n : 1;
}
const float * embed_row(const struct embed * e, const struct item * it, int i, float * row) {
    const struct embedding * r = it->failed ? NULL : it->result;
    if (r) return r->data + (int64_t) i * e->dims;
    for (int c = 0; c < e->dims; c++) row[c] = NAN;
    return row;
}

void embed_need_file(struct stream * s, const char * format) {
    if (s->out.regular) return;
    usage_error(s->program,
        "%s needs a file it can seek in (its first bytes hold the number of rows): -o FILE.%s, or --format raw for "
        "pipes",
        format, format);
}

void embed_add_name(struct stream * s, const struct item * it) {
    struct name_list * l = &((struct embed *) s->user)->names;
    if (l->n == l->cap) {
        l->cap = 2 * l->cap + 64;
        l->names = realloc(l->names, (size_t) l->cap * sizeof(*l->names));
    }
    char * name = record_name(&it->rec);
    if (!l->names || !name) fatal(s->program, "out of memory");
    l->names[l->n++] = name;
}
void embed_free_names(struct embed * e) {
    for (int64_t i = 0; i < e->names.n; i++) free(e->names.names[i]);
    free(e->names.names);
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
        const long long index = r->chunks ? e->n_rows : it->rec.number - 1;
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
    float * nan_row = malloc((size_t) e->dims * sizeof(float));
    if (!nan_row) fatal(s->program, "out of memory");
    for (int i = 0; i < embed_n_rows(it); i++) {
        const float * x = embed_row(e, it, i, nan_row);
        if (e->format == FORMAT_TEXT) {
            embed_numbers(&s->out, x, e->dims, " ");
            sink_text(&s->out, "\n");
        } else sink_write(&s->out, x, (size_t) e->dims * sizeof(float));
        sink_commit(&s->out);
        e->n_rows++;
    }
    free(nan_row);
}

static void begin_npy(struct stream * s) {
    char head[NPY_HEADER];
    const struct embed * e = s->user;
    embed_need_file(s, "npy");
    npy_header(head, "<f4", 0, e->dims);
    sink_write(&s->out, head, NPY_HEADER);
    sink_commit(&s->out);
}
// keeps the header in step with the file, so that it is valid whenever the program ends
static void npy_flushed(struct stream * s) {
    const struct embed * e = s->user;
    char head[NPY_HEADER];
    npy_header(head, "<f4", (s->out.offset - s->out.start - NPY_HEADER) / ((int64_t) e->dims * 4), e->dims);
    if (s->out.offset - s->out.start >= NPY_HEADER && !sink_patch(&s->out, 0, head, NPY_HEADER) && !s->out.error)
        fatal(s->program, "cannot write to %s", s->out.path);
}
static void end_npy(struct stream * s) {
    sink_flush(&s->out);
    npy_flushed(s);
}

// ---- csv ----

static void begin_csv(struct stream * s) {
    const struct embed * e = s->user;
    sink_text(&s->out, e->chunk ? "id,chunk,start,end" : "id");
    for (int c = 0; c < e->dims; c++) sink_printf(&s->out, ",e%d", c);
    sink_text(&s->out, "\n");
    sink_commit(&s->out);
}
static void emit_csv(struct stream * s, struct item * it) {
    const struct embed * e = s->user;
    const struct embedding * r = it->result;
    char * name = record_name(&it->rec);
    if (!name) fatal(s->program, "out of memory");
    for (int i = 0; i < r->n; i++) {
        embed_csv_cell(&s->out, name);
        if (r->chunks) sink_printf(&s->out, ",%d,%u,%u", i, r->chunks[i].start, r->chunks[i].end);
        sink_text(&s->out, ",");
        embed_numbers(&s->out, r->data + (int64_t) i * e->dims, e->dims, ",");
        stream_line_end(s);
    }
    free(name);
}

void embed_output(struct stream * s) {
    const struct embed * e = s->user;
    s->on.emit_failed = true;
    if (e->similarity || e->format == FORMAT_NPZ) {
        const struct handlers * from = e->similarity ? &embed_similarity : &embed_npz;
        s->on.begin = from->begin;
        s->on.emit = from->emit;
        s->on.end = from->end;
        return;
    }
    switch (e->format) {
        case FORMAT_NPZ: break;
        case FORMAT_CSV:
            s->on.begin = begin_csv;
            s->on.emit = emit_csv;
            s->on.emit_failed = false;
            break;
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
