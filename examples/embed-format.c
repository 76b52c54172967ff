// mra-embed: which format the options and the output file's ending ask for.
#include "embed.h"

#include "common/ending.h"

#include <string.h>

static const char * const names[] = { "text", "json", "jsonl", "npy", "raw", "openai", "csv", "npz" };

// formats a file with this ending may hold, the usual one first; -1 ends the list
static const int fits[][6] = {
    [ENDING_OTHER] = { FORMAT_JSONL, -1 },
    [ENDING_TEXT] = { FORMAT_TEXT, FORMAT_JSONL, FORMAT_JSON, FORMAT_CSV, FORMAT_OPENAI, -1 },
    [ENDING_TSV] = { -1 },
    [ENDING_CSV] = { FORMAT_CSV, -1 },
    [ENDING_JSON] = { FORMAT_JSON, FORMAT_OPENAI, -1 },
    [ENDING_JSONL] = { FORMAT_JSONL, -1 },
    [ENDING_NPY] = { FORMAT_NPY, -1 },
    [ENDING_NPZ] = { FORMAT_NPZ, -1 },
    [ENDING_RAW] = { FORMAT_RAW, -1 },
    [ENDING_FOREIGN] = { -1 },
};

static enum embed_format choose_similarity(enum ending ending, const struct options * o, const struct args * a) {
    const enum embed_format format = ending == ENDING_NPY            ? FORMAT_NPY
        : ending == ENDING_CSV                                       ? FORMAT_CSV
        : o->json || ending == ENDING_JSON || ending == ENDING_JSONL ? FORMAT_JSON
                                                                     : FORMAT_TEXT;
    if (ending == ENDING_NPZ || ending == ENDING_RAW || ending == ENDING_TSV || ending == ENDING_FOREIGN)
        usage_error(a->program, "-o %s: --similarity writes text, .json, .npy or .csv", o->out);
    if (o->json && format != FORMAT_JSON) usage_error(a->program, "-o %s and --json contradict each other", o->out);
    return format;
}

enum embed_format embed_choose_format(const struct embed * e, const struct options * o, const struct args * a) {
    const enum ending ending = o->out ? ending_of(o->out) : ENDING_OTHER;
    if (o->dry_run) return FORMAT_JSONL; // a table or JSON Lines, and not the embeddings
    if (e->similarity) return choose_similarity(ending, o, a);
    const bool asked = e->format_option >= 0 || o->json;
    const enum embed_format format = e->format_option >= 0 ? (enum embed_format) e->format_option : FORMAT_JSONL;
    if (asked && ending == ENDING_OTHER) return format;
    if (!asked && fits[ending][0] >= 0) return (enum embed_format) fits[ending][0];
    for (const int * f = fits[ending]; asked && *f >= 0; f++)
        if ((enum embed_format) * f == format) return format;
    if (asked)
        usage_error(a->program, "-o %s: the ending says something else than %s; choose another name", o->out,
            o->resume ? "JSON Lines, which --resume goes on with" : names[format]);
    usage_error(
        a->program, "-o %s: no format for this ending; known are .jsonl, .json, .csv, .npy, .npz, .txt, .raw", o->out);
}
