// mra-inspect: one page that shows how a model's attention covers a text: the tiling of each head's score matrix, its
// error, the tokens that attract attention, time and memory.
#include "inspect.h"
#include "common/output.h"
#include "common/reader.h"
#include "common/record.h"
#include "common/signals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char notes[] =
    "output:\n"
    "  One HTML file below 2 MB that needs nothing else: no network, no other files. Long texts are drawn from some\n"
    "  hundred queries; the page says so.\n"
    "\n"
    "examples:\n"
    "  mra-inspect -m roberta.gguf -f article.txt -o report.html\n"
    "  mra-inspect -m roberta.gguf -f article.txt --attn mra --frame mra2 --budget 1/4 -o mra2.html\n"
    "\n"
    "input:\n"
    "  One text: an argument, all of a file, or standard input. gzip and zstd are recognised and unpacked.\n"
    "\n"
    "exit status:\n"
    "  0    all good\n"
    "  1    failed: model, text or output\n"
    "  2    wrong usage\n"
    "  130  interrupted; nothing is written";

static const char name[] = "mra-inspect";

static void option(void * user, struct options * o, const struct args * a, int id) {
    (void) user, (void) o, (void) a, (void) id;
}

static void check(void * user, struct options * o, const struct args * a) {
    (void) user;
    if (o->input.n_names > 1)
        usage_error(a->program, "one text, not %d: give it as one argument, or -f FILE", o->input.n_names);
    if (!o->out || strcmp(o->out, "-") == 0) usage_error(a->program, "no output: -o FILE.html (see --help)");
    const size_t n = strlen(o->out);
    if (n < 6 || strcmp(o->out + n - 5, ".html") != 0)
        usage_error(a->program, "-o %s: this is a page; name it .html", o->out);
    o->device = "cpu";
    o->plan = "none"; // what the page shows is computed again with all heads alike
}

static const struct program program = {
    .name = name,
    .usage = "-m MODEL -o FILE.html [options] [TEXT | -f FILE | -]",
    .about = "A page that shows how attention covers a text, head by head, with its error, time and memory.",
    .notes = notes,
    .own_notes = true,
    .without = "input|column|no-header|files|pattern|resume|prefix|prompt|json|batch-tokens|device|verify|estimate|"
               "error|plan|dry-run|verbose",
    .own_formats = true,
    .option = option,
    .check = check,
};

// the whole of -f FILE, or the argument
static void read_text(const struct options * o, struct record * r) {
    const char * text = o->input.names[0];
    size_t n = strlen(text);
    struct reader reader;
    struct mra_error err = { 0 };
    const bool file = o->input.from != FROM_ARGUMENTS;
    if (file &&
        (reader_open(&reader, o->input.names[0], false, &err) != MRA_OK ||
            reader_all(&reader, &text, &n, &err) == INPUT_FAILED))
        fatal(name, "%s", err.code ? err.msg : "interrupted");
    r->text = malloc(n + 1);
    if (!r->text) fatal(name, "out of memory");
    memcpy(r->text, text, n);
    r->text[n] = 0;
    r->n_text = n;
    if (file) reader_close(&reader);
    if (!o->input.replace) record_check_text(r);
    if (r->status != MRA_OK) fatal(name, "%s", r->error);
}

static void encode(struct stream * s, const struct item * it, struct inspect * x, struct mra_stats * stats) {
    const struct mra_output want = { .kind = MRA_OUTPUT_POOLED, .pooling = MRA_POOLING_MEAN };
    struct mra_result result;
    struct mra_error err = { 0 };
    engine_start(&s->engine, s->o);
    mra_encode(s->engine.ctx, it->seqs, 1, &want, &result, &err);
    if (x->err.code) err = x->err;
    if (interrupted()) exit(130);
    if (err.code) fatal(name, "%s", err.msg);
    *stats = mra_context_stats(s->engine.ctx);
    mra_context_free(s->engine.ctx);
    s->engine.ctx = NULL;
}

static void write_page(const struct inspect * x, const struct stream * s, const struct item * it,
    const struct mra_stats * stats, const struct mra_attention_choice * choice) {
    FILE * f = fopen(s->o->out, "w");
    bool good = f && inspect_page(f, x, s, it, stats, choice);
    if (f && fclose(f) != 0) good = false;
    if (good) return;
    const int error = errno;
    if (f) remove(s->o->out);
    fatal(name, "cannot write to %s: %s", s->o->out, strerror(error));
}

int main(int argc, char ** argv) {
    struct options o;
    struct stream s;
    struct inspect x;
    struct item it = { 0 };
    struct mra_stats stats;
    program_open(&program, NULL, &s, &o, argc, argv);
    read_text(&o, &it.rec);
    item_tokenize(&it, &s.rules);
    if (it.failed) fatal(name, "%s", it.err.msg);
    const int n_threads = o.n_threads ? o.n_threads : (int) sysconf(_SC_NPROCESSORS_ONLN);
    const struct mra_attention_choice choice = mra_attention_of(s.engine.model, &s.engine.params, it.seqs[0].n);
    if (!inspect_begin(&x, &s.engine.info, it.seqs[0].n, n_threads)) fatal(name, "out of memory");
    s.engine.params.on_attention = inspect_layer;
    s.engine.params.on_attention_user = &x;
    encode(&s, &it, &x, &stats);
    s.engine.params.on_attention = NULL;
    s.engine.params.profile = true; // again, undisturbed, for the times
    encode(&s, &it, &x, &stats);
    write_page(&x, &s, &it, &stats, &choice);
    inspect_free(&x);
    record_free(&it.rec);
    mra_token_list_free(&it.list);
    free(it.seqs);
    engine_close(&s.engine);
    options_free(&o);
    return 0;
}
