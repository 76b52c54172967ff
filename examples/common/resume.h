// --resume: which records of the input an interrupted run has finished. 16 bytes per record.
#pragma once

#include "input.h"

struct resume_mark {
    uint64_t place; // hash of file and line, or of the id where there is no line
    uint64_t id;    // hash of the id
};

struct resume {
    const char *program, *path;
    struct resume_mark * marks; // [n] sorted
    size_t n, cap;
};

// Reads path; returns its length up to the end of the last whole record, 0 if there is no such file. Ends the program
// where it is something else.
int64_t resume_read(struct resume * r, const char * program, const char * path);
// false where nothing was read; ends the program where the record is not what was finished at its line
bool resume_has(const struct resume * r, const struct record * rec);
void resume_free(struct resume * r);
