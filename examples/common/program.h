// What the programs on a model have in common: a table of options, a model, and a stream of records through it.
//
//     static const struct program program = { .name = "mra-classify", ..., .on = { .collect = ..., .emit = ... } };
//     int main(int argc, char ** argv) {
//         struct classify c = { 0 };
//         return program_main(&program, &c, argc, argv);
//     }
#pragma once

#include "stream.h"

struct program {
    const char *name, *usage, *about;
    const char * notes; // for the end of the help text, before what is true of all programs,
    bool own_notes;     // unless they are all of it
    const struct arg_opt * opts;
    int n_opt;
    const char * without; // "resume|verify": options of all programs that this one does not have; NULL: it has all
    bool can_chunk;       // knows --truncate chunk
    bool own_formats;     // checks the output file's ending itself
    // one of opts
    void (*option)(void * user, struct options * o, const struct args * a, int id);
    // after the last option: ends the program where they contradict each other; may be NULL
    void (*check)(void * user, struct options * o, const struct args * a);
    // the model is loaded: says what is wanted of it, or ends the program where it cannot give that
    void (*ready)(struct stream * s);
    struct handlers on; // s->on, which ready may change
};

// Reads the options and loads the model: what program_main begins with, for programs that go through the records by
// themselves. o must live as long as s.
void program_open(const struct program * p, void * user, struct stream * s, struct options * o, int argc, char ** argv);

// Returns the exit code.
int program_main(const struct program * p, void * user, int argc, char ** argv);
