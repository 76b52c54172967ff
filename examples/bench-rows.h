// What the commands of mra-bench check and print alike.
#pragma once

#include "ggml-mra.h"

struct cJSON;

// a frame as --frame names it; ends the program where it is none, or does not go with one of the budgets
enum mra_frame check_frame(const char * program, const char * name, const double * budgets, int n_budgets);

void print_machine(int n_threads); // CPU, threads, instruction set level, ggml; no end of line
void json_machine(struct cJSON * o, const char * isa, int n_threads);

// a share as percent; "-" where it is not finite
const char * fmt_share(char cell[32], double share);

// Says on stderr which row failed, and how; MRA_ERR_BACKEND is a failed validation. which: printf arguments
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
void row_failed(
    const char * program, enum mra_status st, const struct mra_error * err, const char * which, ...);
