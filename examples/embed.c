// mra-embed: texts -> embeddings.
#include "embed.h"

#include <stdlib.h>
#include <string.h>

enum {
    OPT_FORMAT = 2000,
    OPT_POOLING,
    OPT_NORMALIZE,
    OPT_NO_NORMALIZE,
    OPT_DIMS,
    OPT_SIMILARITY,
    OPT_CHUNK,
    OPT_OUTPUT
};

static const struct arg_opt opts[] = {
    { OPT_FORMAT, "format", "NAME",
        "text: numbers, a line per embedding; json: one array; jsonl: an object\n"
        "per line; npy, raw: float32; npz: arrays embeddings and ids; csv: id, e0,\n"
        "e1, ...; openai: that API's answer\n(default: by the output file's ending, else jsonl)" },
    { OPT_POOLING, "pooling", "NAME", "mean, cls, last, max, mean_sqrt (default: what the model says)" },
    { OPT_NORMALIZE, "normalize", NULL, "make embeddings of length 1" },
    { OPT_NO_NORMALIZE, "no-normalize", NULL, "leave their length as it is (default of both: what the model says)" },
    { OPT_DIMS, "dims", "N", "keep the first N numbers (for models trained for that)" },
    { OPT_SIMILARITY, "similarity", NULL,
        "print the cosine of every pair of texts instead; -o FILE\nwith .npy, .csv or .json: as such" },
    { OPT_OUTPUT, "output", "WHAT",
        "dense (default): an embedding per text; sparse: a weight for each of its\n"
        "tokens; colbert: a vector for each. The latter two for models that have\nthem (bge-m3), as JSON Lines" },
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
    "  text, npy, npz and raw keep their rows in step with the input: a failed record is a row of nan. The other "
    "formats\n"
    "  leave it out.\n"
    "\n"
    "examples:\n"
    "  mra-embed -m minilm.gguf --similarity \"A man is eating.\" \"Someone has a meal.\" \"It rains.\"\n"
    "  mra-embed -m minilm.gguf -f a.csv.gz -f b.csv --column body -o ab.npz\n"
    "  mra-embed -m minilm.gguf -f docs.jsonl -o docs.emb.jsonl       again, with --resume instead of -o, after "
    "Ctrl-C\n"
    "  mra-embed -m minilm.gguf -f lines.txt -o lines.npy             numpy.load(\"lines.npy\")\n"
    "  mra-embed -m minilm.gguf --files notes --pattern '*.md' -o notes.csv\n"
    "  cat *.txt | mra-embed -m e5.gguf --prefix \"passage: \" - | head -1\n"
    "  mra-embed -m long.gguf -f books.txt --truncate chunk --chunk-tokens 512 --budget 1/4 --verify\n"
    "\n";

static void option(void * user, struct options * o, const struct args * a, int id) {
    struct embed * e = user;
    switch (id) {
        case OPT_FORMAT: e->format_option = args_choice(a, EMBED_FORMATS); break;
        case OPT_POOLING: e->pooling = (enum mra_pooling)(1 + args_choice(a, "mean|cls|last|max|mean_sqrt")); break;
        case OPT_NORMALIZE: e->normalize = 1; break;
        case OPT_NO_NORMALIZE: e->normalize = -1; break;
        case OPT_DIMS: e->dims = (int) args_int(a, 1, 1 << 20); break;
        case OPT_SIMILARITY: e->similarity = true; break;
        case OPT_OUTPUT: e->what = (enum embed_what) args_choice(a, "dense|sparse|colbert"); break;
        case OPT_CHUNK: o->chunk_tokens = (int) args_int(a, 1, 1 << 24); break;
    }
}

static void check(void * user, struct options * o, const struct args * a) {
    struct embed * e = user;
    const bool given = e->format_option >= 0;
    if (o->json && given && e->format_option != FORMAT_JSONL)
        usage_error(a->program, "--json%s and --format exclude each other", o->resume ? " (or --resume)" : "");
    if (o->chunk_tokens && o->truncate != TRUNCATE_CHUNK)
        usage_error(a->program, "--chunk-tokens needs --truncate chunk");
    if (e->similarity && o->truncate == TRUNCATE_CHUNK)
        usage_error(a->program, "--similarity and --truncate chunk exclude each other");
    if (e->what && (e->similarity || o->truncate == TRUNCATE_CHUNK || e->dims || e->pooling || e->normalize))
        usage_error(a->program,
            "--output sparse and colbert exclude --similarity, --truncate chunk, --dims, --pooling "
            "and --normalize");
    if (e->similarity && (o->resume || given)) usage_error(a->program, "--similarity excludes --format and --resume");
    e->format = embed_choose_format(e, o, a);
    if (e->what && e->format != FORMAT_JSONL)
        usage_error(a->program, "--output sparse and colbert give JSON Lines only");
    o->lines = e->format == FORMAT_JSONL && !e->similarity;
    e->chunk = o->truncate == TRUNCATE_CHUNK ? (o->chunk_tokens ? o->chunk_tokens : 256) : 0;
}

// ---- chunks ----

static bool is_one_token(enum mra_pooling p) { return p == MRA_POOLING_CLS || p == MRA_POOLING_LAST; }

// --truncate chunk: parts of even length of each pass. A text that is one chunk has a first and a last token, as
// --pooling cls and last want them; the parts of a longer one have none of their own, and get the mean.
static void cut_into_chunks(struct stream * s, struct item * it) {
    const struct embed * e = s->user;
    for (int i = 0; i < it->n_seq; i++) it->n_span += (it->seqs[i].n + e->chunk - 1) / e->chunk;
    it->spans = malloc((size_t) it->n_span * sizeof(*it->spans));
    if (!it->spans) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    struct mra_span * to = it->spans;
    for (int i = 0; i < it->n_seq; i++) {
        const int n = it->seqs[i].n, parts = (n + e->chunk - 1) / e->chunk;
        for (int p = 0; p < parts; p++) {
            const int a = (int) ((int64_t) n * p / parts), b = (int) ((int64_t) n * (p + 1) / parts);
            *to++ = (struct mra_span) { i, a, b - a };
        }
    }
    if (it->n_span == 1 && is_one_token(e->pooling)) {
        it->spans[0].first = e->pooling == MRA_POOLING_LAST ? it->seqs[0].n - 1 : 0;
        it->spans[0].n = 1;
    }
}

// bytes of the text that tokens [0 .. n) stand for
static struct chunk chunk_of(const struct stream * s, const struct mra_token * t, int n) {
    struct chunk c = { .n_tokens = n };
    bool first = true;
    for (int i = 0; i < n; i++) {
        if (t[i].text < 0) continue;
        if (first || t[i].start < c.start) c.start = t[i].start;
        if (first || t[i].end > c.end) c.end = t[i].end;
        first = false;
    }
    c.start = stream_offset(s, c.start);
    c.end = stream_offset(s, c.end);
    return c;
}

// rows : [n_rows][n_cols] embeddings
static void collect(struct stream * s, struct item * it, const float * rows, int64_t n_rows, int64_t n_cols) {
    const size_t n = (size_t) n_rows, n_data = n * (size_t) n_cols * sizeof(float);
    struct embedding * r = it->result = calloc(1, sizeof(*r) + n * sizeof(struct chunk) + n_data);
    if (!r) {
        item_fail(it, MRA_ERR_MEMORY, "out of memory");
        return;
    }
    r->n = (int) n_rows;
    r->data = (float *) ((struct chunk *) (r + 1) + n);
    memcpy(r->data, rows, n_data);
    if (s->want.kind != MRA_OUTPUT_SPANS) return;
    r->chunks = (struct chunk *) (r + 1);
    for (int i = 0; i < r->n; i++) {
        const struct mra_span * p = &it->spans[i];
        const struct mra_seq * seq = &it->seqs[p->seq];
        r->chunks[i] = r->n == 1 ? chunk_of(s, seq->tokens, seq->n) : chunk_of(s, seq->tokens + p->first, p->n);
    }
}

static void ready_tokens(struct stream * s) {
    const struct embed * e = s->user;
    const bool sparse = e->what == WHAT_SPARSE;
    if (sparse ? !s->engine.info.has_sparse : !s->engine.info.n_colbert)
        fatal(s->program, "%s has no %s", s->o->model, sparse ? "weights of tokens" : "ColBERT vectors");
    s->want = (struct mra_output) { .kind = sparse ? MRA_OUTPUT_SPARSE : MRA_OUTPUT_COLBERT };
    s->on = sparse ? embed_sparse : embed_colbert;
}

static void ready(struct stream * s) {
    struct embed * e = s->user;
    const struct mra_model_info * info = &s->engine.info;
    if (e->what) {
        stream_default_prompt(s);
        ready_tokens(s);
        return;
    }
    if (e->dims > info->n_pooled)
        fatal(s->program, "--dims %d: the model's embeddings have %d", e->dims, info->n_pooled);
    if (!e->dims) e->dims = info->n_pooled;
    if (!e->pooling) e->pooling = info->pooling;
    stream_default_prompt(s);
    s->want = (struct mra_output) {
        .kind = e->chunk ? MRA_OUTPUT_SPANS : MRA_OUTPUT_POOLED,
        .pooling = e->chunk && is_one_token(e->pooling) ? MRA_POOLING_MEAN : e->pooling,
        .normalize = e->normalize,
        .n_dims = e->dims,
    };
    if (e->chunk) s->on.prepare = cut_into_chunks;
    embed_output(s);
}

static const struct program program = {
    .name = "mra-embed",
    .usage = "-m MODEL [options] [TEXT... | -f FILE | -]",
    .about = "Embeddings of texts, in the order of the input, written as they are computed.",
    .notes = notes,
    .opts = opts,
    .n_opt = sizeof(opts) / sizeof(opts[0]),
    .can_chunk = true,
    .own_formats = true,
    .option = option,
    .check = check,
    .ready = ready,
    .on = { .collect = collect },
};

int main(int argc, char ** argv) {
    struct embed e = { .format_option = -1 };
    const int code = program_main(&program, &e, argc, argv);
    embed_free_names(&e);
    free(e.crcs);
    free(e.all);
    return code;
}
