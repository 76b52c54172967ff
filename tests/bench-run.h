// Runs mra-bench and reads its JSON lines, for tests.
#pragma once

#include <cjson/cJSON.h>

#include <stddef.h>

extern char out[1 << 16]; // stdout, and where the command says so stderr, of the last command

const char * fmt(const char * format, ...);                         // valid until the fourth call after it
int run(const char * command);                                      // a shell command; its exit code
void write_file(const char * path, const void * data, size_t size); // exits on failure

double number(const cJSON * o, const char * name); // NAN: there is none
cJSON * json_at(int i);                            // the i-th line of out, NULL if there is none
