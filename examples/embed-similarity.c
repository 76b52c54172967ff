// mra-embed --similarity: s(i, j) = x_i.x_j / (|x_i| |x_j|) of every pair of texts.
#include "embed.h"

#include "common/npy.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_SIMILARITY = 8192 };

static void begin(struct stream * s) {
    const struct embed * e = s->user;
    if (e->format == FORMAT_NPY) embed_need_file(s, "npy");
}

static void emit(struct stream * s, struct item * it) {
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
    embed_add_name(s, it);
}

static double cosine(const struct embed * e, int64_t i, int64_t j) {
    double dot = 0;
    for (int c = 0; c < e->dims; c++) dot += (double) e->all[i * e->dims + c] * e->all[j * e->dims + c];
    return dot;
}

static void write_cell(struct stream * s, double x, int64_t j) {
    const struct embed * e = s->user;
    const float value = (float) x;
    switch (e->format) {
        case FORMAT_NPY: sink_write(&s->out, &value, sizeof(value)); break;
        case FORMAT_CSV: sink_printf(&s->out, ",%.6f", x); break;
        case FORMAT_JSON:
            if (isfinite(x)) sink_printf(&s->out, "%s%.6f", j ? ", " : "", x);
            else sink_printf(&s->out, "%snull", j ? ", " : "");
            break;
        default: sink_printf(&s->out, "%s%7.4f", j ? " " : "", x);
    }
}

static void write_head(struct stream * s) {
    const struct embed * e = s->user;
    char head[NPY_HEADER];
    if (e->format == FORMAT_JSON) sink_text(&s->out, "{\"similarity\": [");
    if (e->format == FORMAT_NPY) {
        npy_header(head, "<f4", e->n_rows, e->n_rows);
        sink_write(&s->out, head, NPY_HEADER);
    }
    if (e->format != FORMAT_CSV) return;
    sink_text(&s->out, "id");
    for (int64_t i = 0; i < e->n_rows; i++) {
        sink_text(&s->out, ",");
        embed_csv_cell(&s->out, e->names.names[i]);
    }
    sink_text(&s->out, "\n");
}

static void end(struct stream * s) {
    const struct embed * e = s->user;
    const bool json = e->format == FORMAT_JSON;
    write_head(s);
    for (int64_t i = 0; i < e->n_rows; i++) {
        if (json) sink_text(&s->out, i ? ", [" : "[");
        if (e->format == FORMAT_CSV) embed_csv_cell(&s->out, e->names.names[i]);
        for (int64_t j = 0; j < e->n_rows; j++) write_cell(s, cosine(e, i, j), j);
        if (e->format != FORMAT_NPY) sink_text(&s->out, json ? "]" : "\n");
        if (e->format == FORMAT_TEXT || e->format == FORMAT_CSV) sink_commit(&s->out);
    }
    if (json) sink_text(&s->out, "]}\n");
    sink_commit(&s->out);
}

const struct handlers embed_similarity = { .begin = begin, .emit = emit, .emit_failed = true, .end = end };
