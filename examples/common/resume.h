// --resume: which records of the input an interrupted run has finished. Four bytes per line of the input.
#pragma once

#include "input.h"

struct resume {
    const char *program, *path;
    uint32_t * finished; // [n_finished] hash of the id at a line of the input, 0: not done
    int64_t n_finished;
};

// Reads path; returns its length up to the end of the last whole record, 0 if there is no such file. Ends the program
// where it is something else.
int64_t resume_read(struct resume * r, const char * program, const char * path);
// false where nothing was read; ends the program where the record is not what was finished at its line
bool resume_has(const struct resume * r, const struct record * rec);
void resume_free(struct resume * r);
