// What a file of JSON Lines was made of: program, model, options, input. It is kept beside the file, as FILE.resume, so
// that --resume does not mix rows of different kinds.
#pragma once

#include "options.h"

struct fingerprint {
    char * path;     // of FILE.resume; NULL: the output is none that can be resumed
    char * parts[4]; // program, model, options, input
};

// Of the output o->out; ends the program where there is no memory or the model cannot be read.
void fingerprint_make(struct fingerprint * f, const char * program, const struct options * o);
// --resume: ends the program where the file that is there is of something else, and says what differs.
void fingerprint_check(const struct fingerprint * f, const char * program, const struct options * o);
// Before the first record is written; false: it could not be.
bool fingerprint_write(const struct fingerprint * f);
void fingerprint_remove(const struct fingerprint * f); // the output is complete
void fingerprint_free(struct fingerprint * f);
