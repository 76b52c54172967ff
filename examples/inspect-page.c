// The page of mra-inspect: inspect.html with its data as JSON in the middle. The characters < > & of a text are
// written as \u003c and so on, so that nothing of it can end the script element that holds the data; the page's script
// puts texts where no markup is read.
#include "inspect.h"
#include "common/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char inspect_html[]; // made from inspect.html
extern const unsigned int inspect_html_len;

enum { MAX_TEXT = 400000, MAX_PIECES = 20000 }; // bytes and tokens of the text that are shown

static void put_text(FILE * f, const char * s, size_t n) {
    char * q = json_quote(s, n);
    for (const char * c = q ? q : "\"\""; *c; c++) {
        if (*c == '<' || *c == '>' || *c == '&') fprintf(f, "\\u%04x", *c);
        else fputc(*c, f);
    }
    free(q);
}
static void put_string(FILE * f, const char * key, const char * s) {
    fprintf(f, "\"%s\":", key);
    put_text(f, s, strlen(s));
    fputc(',', f);
}
static void put_real(FILE * f, double x) {
    if (isfinite(x)) fprintf(f, "%.4g", x);
    else fputs("null", f);
}

static void put_base64(FILE * f, const uint8_t * x, size_t n) {
    static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t u = (uint32_t) x[i] << 16 | (i + 1 < n ? (uint32_t) x[i + 1] << 8 : 0) |
            (i + 2 < n ? x[i + 2] : 0);
        const char c[4] = { abc[u >> 18], abc[u >> 12 & 63], i + 1 < n ? abc[u >> 6 & 63] : '=',
            i + 2 < n ? abc[u & 63] : '=' };
        fwrite(c, 1, 4, f);
    }
}

// [text, weight, special] of every token: its bytes with what stands before them, whole characters each
static void put_tokens(FILE * f, const struct inspect * x, const struct stream * s, const struct item * it) {
    size_t at = 0;
    int shown = 0;
    fputs("\"tokens\":[", f);
    for (; shown < x->n && shown < MAX_PIECES && at < MAX_TEXT; shown++) {
        const struct mra_token * t = &it->list.data[shown];
        const bool special = t->text < 0;
        fputs(shown ? ",[" : "[", f);
        if (special) {
            char word[256];
            const size_t n = mra_tokenizer_text(mra_model_tokenizer(s->engine.model), t->id, word, sizeof(word));
            put_text(f, word, n < sizeof(word) ? n : sizeof(word));
        } else {
            size_t end = t->end > at ? t->end : at;
            while (end < it->rec.n_text && ((unsigned char) it->rec.text[end] & 0xc0) == 0x80) end++;
            put_text(f, it->rec.text + at, end - at);
            at = end;
        }
        fputc(',', f);
        put_real(f, x->n_received ? x->received[shown] * x->n / x->n_received : 0);
        fputs(special ? ",1]" : "]", f);
    }
    fprintf(f, "],\"shown\":%d,", shown);
}

static void put_heads(FILE * f, const struct inspect * x) {
    fputs("\"heads\":[", f);
    for (int i = 0; i < x->n_layer * x->n_head; i++) {
        const struct inspect_head * h = &x->heads[i];
        if (i) fputc(',', f);
        if (!h->pixels) {
            fputs("null", f);
            continue;
        }
        fputs("[\"", f);
        put_base64(f, h->pixels, (size_t) x->side * (size_t) x->side);
        fputc('"', f);
        const double numbers[] = { h->error, h->kept, h->exact, h->entropy };
        for (int k = 0; k < 4; k++) {
            fputc(',', f);
            put_real(f, numbers[k]);
        }
        fputc(']', f);
    }
    fputs("],", f);
}

static void put_times(FILE * f, const struct mra_stats * stats) {
    fputs("\"parts\":[", f);
    for (int i = 0; i < MRA_PART_COUNT; i++) {
        fprintf(f, "%s[\"%s\",", i ? "," : "", mra_part_name((enum mra_part) i));
        put_real(f, stats->part_ms[i]);
        fputc(']', f);
    }
    fputs("],\"ops\":[", f);
    for (int i = 0; i < stats->n_ops; i++) {
        fputs(i ? ",[" : "[", f);
        put_text(f, stats->ops[i].op, strlen(stats->ops[i].op));
        fputc(',', f);
        put_real(f, stats->ops[i].ms);
        fputc(']', f);
    }
    fprintf(f, "],\"threads\":%d,\"total_ms\":", stats->n_threads);
    put_real(f, stats->total_ms);
}

static void put_data(FILE * f, const struct inspect * x, const struct stream * s, const struct item * it,
    const struct mra_stats * stats, const struct mra_attention_choice * choice) {
    const struct mra_model_info * info = &s->engine.info;
    const char * file = strrchr(s->o->model, '/');
    fputc('{', f);
    put_string(f, "model", *info->name ? info->name : file ? file + 1 : s->o->model);
    put_string(f, "family", *info->family ? info->family : "bert");
    put_string(f, "type", info->type);
    put_string(f, "kernels", mra_isa());
    put_string(f, "attention", choice->text);
    put_string(f, "numbers", mra_attn_numbers(choice->attn.type));
    static const char * const frames[] = { "exact", "columns", "square", "sorted" };
    put_string(f, "frame", choice->exact ? "exact" : frames[choice->attn.frame]);
    fprintf(f, "\"n\":%d,\"n_layer\":%d,\"n_head\":%d,\"side\":%d,\"sampled\":%d,\"work\":", x->n, x->n_layer,
        x->n_head, x->side, x->n_sampled);
    put_real(f, choice->work);
    fprintf(f, ",\"weights_bytes\":%zu,\"compute_bytes\":%zu,\"output_bytes\":%zu,", info->n_bytes,
        stats->compute_bytes, stats->output_bytes);
    put_tokens(f, x, s, it);
    put_heads(f, x);
    put_times(f, stats);
    fputc('}', f);
}

bool inspect_page(FILE * f, const struct inspect * x, const struct stream * s, const struct item * it,
    const struct mra_stats * stats, const struct mra_attention_choice * choice) {
    static const char mark[] = "@DATA@";
    const char *html = (const char *) inspect_html, *at = memmem(html, inspect_html_len, mark, sizeof(mark) - 1);
    if (!at) return false;
    fwrite(html, 1, (size_t) (at - html), f);
    put_data(f, x, s, it, stats, choice);
    at += sizeof(mark) - 1;
    fwrite(at, 1, inspect_html_len - (size_t) (at - html), f);
    return !ferror(f);
}
