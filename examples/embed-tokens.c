// mra-embed --output sparse and colbert: weights or vectors of a text's tokens, as JSON Lines.
#include "embed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct weight {
    int32_t id;
    float x;
};

static int compare(const void * a, const void * b) {
    const struct weight *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->x > y->x ? -1 : x->x < y->x;
}

// rows : [n_tokens][1] -> the largest weight of each id of the text, special tokens and the unknown one left out
static void collect_sparse(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols) {
    const struct mra_tokenizer * tok = mra_model_tokenizer(s->engine.model);
    const int32_t unknown[2] = { mra_tokenizer_find(tok, "<unk>", 5), mra_tokenizer_find(tok, "[UNK]", 5) };
    struct token_weights * r = it->result = malloc(sizeof(*r) + (size_t) n_rows * sizeof(struct weight));
    (void) n_cols;
    if (!r) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    struct weight * w = (struct weight *) (r + 1);
    int n = 0, kept = 0;
    for (int64_t i = 0; i < n_rows; i++) {
        const struct mra_token * t = &it->list.data[i];
        if (t->text >= 0 && rows[i] > 0 && t->id != unknown[0] && t->id != unknown[1])
            w[n++] = (struct weight) { t->id, rows[i] };
    }
    qsort(w, (size_t) n, sizeof(*w), compare);
    for (int i = 0; i < n; i++)
        if (kept == 0 || w[kept - 1].id != w[i].id) w[kept++] = w[i];
    r->n = kept;
}

static void emit_sparse(struct stream * s, struct item * it) {
    const struct token_weights * r = it->result;
    const struct weight * w = (const struct weight *) (r + 1);
    stream_json_head(s, it);
    sink_printf(&s->out, "\"tokens\": %lld, \"weights\": {", (long long) it->n_tokens);
    for (int i = 0; i < r->n; i++) {
        sink_printf(&s->out, "%s\"%d\": ", i ? ", " : "", w[i].id);
        embed_numbers(&s->out, &w[i].x, 1, "");
    }
    sink_text(&s->out, "}");
    stream_json_tail(s, it);
    stream_line_end(s);
}

// rows : [n_tokens][n_colbert]; all but the first token's, as the model was trained
static void collect_colbert(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols) {
    const size_t n = (size_t) (n_rows > 1 ? n_rows - 1 : 0), bytes = n * (size_t) n_cols * sizeof(float);
    struct token_weights * r = it->result = malloc(sizeof(*r) + bytes);
    (void) s;
    if (!r) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    r->n = (int) n;
    if (n) memcpy(r + 1, rows + n_cols, bytes);
}

static void emit_colbert(struct stream * s, struct item * it) {
    const struct token_weights * r = it->result;
    const int d = s->engine.info.n_colbert;
    const float * x = (const float *) (r + 1);
    stream_json_head(s, it);
    sink_printf(&s->out, "\"tokens\": %lld, \"vectors\": [", (long long) it->n_tokens);
    for (int i = 0; i < r->n; i++, x += d) {
        sink_text(&s->out, i ? ", [" : "[");
        embed_numbers(&s->out, x, d, ", ");
        sink_text(&s->out, "]");
    }
    sink_text(&s->out, "]");
    stream_json_tail(s, it);
    stream_line_end(s);
}

const struct handlers embed_sparse = { .collect = collect_sparse, .emit = emit_sparse },
                      embed_colbert = { .collect = collect_colbert, .emit = emit_colbert };
