// Options that every program on a model takes.
#pragma once

#include "args.h"
#include "input.h"
#include "mra-encoder.h"

enum truncate { TRUNCATE_ERROR, TRUNCATE_RIGHT, TRUNCATE_CHUNK };

struct options {
    const char *model, *out, *resume, *prefix, *prompt; // NULL: not given
    const char * device;                                // "cpu", "cuda", "auto"
    const char * plan;                                  // a file, "none", or NULL: the model's
    char ** files;                                      // -f: [n_files], owned
    int n_files;
    bool whole_files;  // --files
    bool lines;        // the output is JSON Lines, a record each
    char ** said_each; // [n_said]
    int n_said;
    char * said; // options that matter for the results, as given, in the order of the alphabet; owned
    struct input_options input;
    int batch_tokens;
    size_t max_memory;                       // of the program, weights included; 0: what the machine has free
    int n_threads, max_tokens, chunk_tokens; // 0: the default
    enum truncate truncate;
    enum mra_attention attention;
    enum mra_attention_type attention_type;
    struct mra_attn_params attn;
    float max_error; // --error, 0: not given
    bool budget_given;
    bool verify, estimate, dry_run, verbose, json, no_mmap;
};

extern const struct arg_opt common_options[];
extern const int n_common_options;
extern const char common_notes[]; // exit codes, for the end of a help text

struct options options_default(void);
// true if id was one of common_options
bool options_take(struct options * o, const struct args * a, int id);
// keeps what was given of an option, where it matters for the results
void options_say(struct options * o, const struct args * a, int id);
// after the last option: operands, and what contradicts itself
void options_end(struct options * o, const struct args * a, int argc, char ** argv);
void options_free(struct options * o);
// Whether a and b name the same regular file that is there; "-" as a: standard input. Either may be NULL.
bool same_file(const char * a, const char * b);
