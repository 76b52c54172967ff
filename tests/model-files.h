// Model files that tests damage: a place for them, and loads that must fail, or must work, without a word from ggml.
#pragma once

#include "harness.h"
#include "mra-encoder.h"

extern char model_folder[]; // a temporary one
extern char model_path[];   // a file in it

void model_files_open(const char * program, const char * golden); // exits on failure; golden: the folder of the models
void model_files_close(void);
const char * model_golden(const char * name); // the path of NAME.gguf; valid until the next call

char * read_all(const char * file, size_t * n); // malloc'ed; exits on failure
void write_all(const char * file, const void * data, size_t n);

// true: it loaded, and then also worked; false: it failed with a message of one line
bool try_load(const char * file, const char * what);
// it must fail with this code, and `part` in the message
void expect_error(const char * file, const char * what, enum mra_status code, const char * part);
