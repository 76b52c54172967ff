// mra-embed: texts -> embeddings.
#include "embed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_FORMAT = 2000, OPT_POOLING, OPT_NORMALIZE, OPT_NO_NORMALIZE, OPT_DIMS, OPT_SIMILARITY, OPT_CHUNK };

static const struct arg_opt opts[] = {
    { OPT_FORMAT, "format", "NAME",
        "text: numbers, a line per embedding; json: one array; jsonl: an object\n"
        "per line; npy, raw: float32; openai: that API's answer\n(default: by the output file's ending, else jsonl)" },
    { OPT_POOLING, "pooling", "NAME", "mean, cls, last, max, mean_sqrt (default: what the model says)" },
    { OPT_NORMALIZE, "normalize", NULL, "make embeddings of length 1" },
    { OPT_NO_NORMALIZE, "no-normalize", NULL, "leave their length as it is (default of both: what the model says)" },
    { OPT_DIMS, "dims", "N", "keep the first N numbers (for models trained for that)" },
    { OPT_SIMILARITY, "similarity", NULL, "print the cosine of every pair of texts instead" },
    { OPT_CHUNK, "chunk-tokens", "N", "with --truncate chunk: tokens per embedding (default 256)" },
};

static const char notes[] =
    "long texts:\n"
    "  A text above the limit fails with a message; nothing is cut silently. --truncate right drops its end.\n"
    "  --truncate chunk gives several embeddings per text (late chunking): one pass over the whole text as far as the\n"
    "  model has positions, then one embedding for each --chunk-tokens tokens of it, so that every chunk knows its\n"
    "  context. The limit is then the number of positions; longer texts take several passes. Outputs say which bytes\n"
    "  of the text a chunk covers. Where there are several chunks, cls and last become the mean.\n"
    "\n"
    "failed records:\n"
    "  text, npy and raw keep their rows in step with the input: a failed record is a row of nan. The other formats\n"
    "  leave it out.\n"
    "\n"
    "examples:\n"
    "  mra-embed -m minilm.gguf --similarity \"A man is eating.\" \"Someone has a meal.\" \"It rains.\"\n"
    "  mra-embed -m minilm.gguf -f docs.jsonl -o docs.emb.jsonl       again, with --resume instead of -o, after "
    "Ctrl-C\n"
    "  mra-embed -m minilm.gguf -f lines.txt -o lines.npy             numpy.load(\"lines.npy\")\n"
    "  cat *.txt | mra-embed -m e5.gguf --prefix \"passage: \" - | head -1\n"
    "  mra-embed -m long.gguf -f books.txt --truncate chunk --chunk-tokens 512 --budget 1/4 --verify\n"
    "\n";

static enum embed_format guess_format(const struct options * o) {
    static const struct {
        const char * ending;
        enum embed_format format;
    } known[] = {
        { ".txt", FORMAT_TEXT },
        { ".json", FORMAT_JSON },
        { ".npy", FORMAT_NPY },
        { ".raw", FORMAT_RAW },
        { ".f32", FORMAT_RAW },
    };
    const char * dot = o->out ? strrchr(o->out, '.') : NULL;
    for (size_t i = 0; dot && !o->json && i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(dot, known[i].ending) == 0) return known[i].format;
    return FORMAT_JSONL;
}

static void parse(struct embed * e, struct options * o, struct args * a, int argc, char ** argv) {
    int format = -1;
    for (int id; (id = args_next(a, argc, argv)) != -1;) {
        switch (id) {
            case OPT_FORMAT: format = args_choice(a, "text|json|jsonl|npy|raw|openai"); break;
            case OPT_POOLING: e->pooling = (enum mra_pooling)(1 + args_choice(a, "mean|cls|last|max|mean_sqrt")); break;
            case OPT_NORMALIZE: e->normalize = 1; break;
            case OPT_NO_NORMALIZE: e->normalize = -1; break;
            case OPT_DIMS: e->dims = (int) args_int(a, 1, 1 << 20); break;
            case OPT_SIMILARITY: e->similarity = true; break;
            case OPT_CHUNK: o->chunk_tokens = (int) args_int(a, 1, 1 << 24); break;
            default: options_take(o, a, id);
        }
    }
    options_end(o, a, argc, argv);
    e->format = format < 0 ? guess_format(o) : (enum embed_format) format;
    if (o->json && format >= 0 && e->format != FORMAT_JSONL)
        usage_error(a->program, "--json%s and --format exclude each other", o->resume ? " (or --resume)" : "");
    if (o->chunk_tokens && o->truncate != TRUNCATE_CHUNK)
        usage_error(a->program, "--chunk-tokens needs --truncate chunk");
    if (e->similarity && o->truncate == TRUNCATE_CHUNK)
        usage_error(a->program, "--similarity and --truncate chunk exclude each other");
    if (e->similarity && (o->resume || format >= 0))
        usage_error(a->program, "--similarity excludes --format and --resume");
    e->chunk = o->truncate == TRUNCATE_CHUNK ? (o->chunk_tokens ? o->chunk_tokens : 256) : 0;
}

// ---- rows of the model -> embeddings ----

static void normalize(float * x, int n) {
    double sum = 0;
    for (int c = 0; c < n; c++) sum += (double) x[c] * x[c];
    const float f = sum > 0 ? (float) (1 / sqrt(sum)) : 0;
    for (int c = 0; c < n; c++) x[c] *= f;
}

// hidden states of tokens -> one embedding. rows : [n][d]
static void pool(enum mra_pooling how, const float * rows, int64_t n, int64_t d, float * to, int dims) {
    for (int c = 0; c < dims; c++) {
        double x = how == MRA_POOLING_MAX ? -INFINITY : 0;
        for (int64_t i = 0; i < n; i++) x = how == MRA_POOLING_MAX ? fmax(x, rows[i * d + c]) : x + rows[i * d + c];
        to[c] = (float) (how == MRA_POOLING_MAX ? x
                : how == MRA_POOLING_MEAN_SQRT  ? x / sqrt((double) n)
                                                : x / (double) n);
    }
}

// bytes of the text that tokens [0 .. n) stand for
static void span(const struct mra_token * t, int n, struct chunk * c) {
    c->n_tokens = n;
    bool first = true;
    for (int i = 0; i < n; i++) {
        if (t[i].text < 0) continue;
        if (first || t[i].start < c->start) c->start = t[i].start;
        if (first || t[i].end > c->end) c->end = t[i].end;
        first = false;
    }
}

static void collect_chunks(struct stream * s, struct item * it, const float * rows, int64_t n_cols) {
    const struct embed * e = s->user;
    int n = 0;
    for (int i = 0; i < it->n_seq; i++) n += (it->seqs[i].n + e->chunk - 1) / e->chunk;
    struct embedding * r = it->result = calloc(
        1, sizeof(*r) + (size_t) n * (sizeof(struct chunk) + (size_t) e->dims * sizeof(float)));
    if (!r) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    r->n = n;
    r->chunks = (struct chunk *) (r + 1);
    r->data = (float *) (r->chunks + n);
    struct chunk * c = r->chunks;
    for (int i = 0; i < it->n_seq; i++) {
        const int parts = (it->seqs[i].n + e->chunk - 1) / e->chunk;
        for (int p = 0; p < parts; p++, c++) { // of even length
            const int a = (int) ((int64_t) it->seqs[i].n * p / parts),
                      b = (int) ((int64_t) it->seqs[i].n * (p + 1) / parts);
            span(it->seqs[i].tokens + a, b - a, c);
            c->start = stream_offset(s, c->start);
            c->end = stream_offset(s, c->end);
            const bool token = n == 1 && (e->pooling == MRA_POOLING_CLS || e->pooling == MRA_POOLING_LAST);
            const int from = token && e->pooling == MRA_POOLING_LAST ? b - 1 : a, count = token ? 1 : b - a;
            pool(e->pooling, rows + (int64_t) from * n_cols, count, n_cols, r->data + (c - r->chunks) * e->dims,
                e->dims);
        }
        rows += (int64_t) it->seqs[i].n * n_cols;
    }
}

static void collect(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols) {
    const struct embed * e = s->user;
    if (e->chunk) {
        collect_chunks(s, it, rows, n_cols);
    } else {
        struct embedding * r = it->result = calloc(1, sizeof(*r) + (size_t) e->dims * sizeof(float));
        if (!r) {
            item_fail(it, MRA_ERR_MEMORY, "out of memory");
            return;
        }
        r->n = (int) n_rows;
        r->data = (float *) (r + 1);
        memcpy(r->data, rows, (size_t) e->dims * sizeof(float));
    }
    const struct embedding * r = it->result;
    for (int i = 0; r && e->normalize > 0 && i < r->n; i++) normalize(r->data + (int64_t) i * e->dims, e->dims);
}

int main(int argc, char ** argv) {
    struct args a = {
        .program = "mra-embed",
        .usage = "-m MODEL [options] [TEXT... | -f FILE | -]",
        .opts = opts,
        .n_opt = sizeof(opts) / sizeof(opts[0]),
        .about = "Embeddings of texts, in the order of the input, written as they are computed.",
        .common = common_options,
        .n_common = n_common_options,
    };
    char help[4096];
    snprintf(help, sizeof(help), "%s%s", notes, common_notes);
    a.notes = help;
    struct embed e = { 0 };
    struct options o = options_default();
    struct stream s;
    parse(&e, &o, &a, argc, argv);
    stream_open(&s, &a, &o);
    if (e.dims > s.info.n_embd) fatal(a.program, "--dims %d: the model's embeddings have %d", e.dims, s.info.n_embd);
    if (!e.dims) e.dims = s.info.n_embd;
    if (!e.pooling) e.pooling = s.info.pooling;
    if (!e.normalize) e.normalize = s.info.normalize ? 1 : -1;
    s.user = &e;
    s.embeds = true;
    s.want = (struct mra_output) {
        .kind = e.chunk ? MRA_OUTPUT_TOKENS : MRA_OUTPUT_POOLED, .pooling = e.pooling, .normalize = -1
    };
    s.collect = collect;
    embed_output(&s);
    return stream_run(&s);
}
