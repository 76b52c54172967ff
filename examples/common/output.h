// What programs write: aligned tables and JSON lines on stdout, a progress line on stderr if that is a terminal.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cJSON;

// ---- stdout ----------------------------------------------------------------------------------------------------

// Flushes. false if the reader is gone or the device is full: stop, and let output_close say why.
bool output_flush(void);
// Last call: flushes, closes, returns the exit code. A full device is an error (one line, 1); a closed pipe ends
// quietly.
int output_close(const char * program, int code);

// ---- tables ----------------------------------------------------------------------------------------------------

struct table_col {
    const char * title;
    int width; // at least; longer cells push the rest of their line aside
    bool left;
};
// Rows are printed as they come: cells[n] are strings, NULL or "" prints as -
void table_head(const struct table_col * cols, int n);
void table_row(const struct table_col * cols, int n, char cells[][32]);

// x with `digits` significant digits and no exponent; "-" if x is not finite
const char * fmt_real(char cell[32], double x, int digits);

// ---- JSON lines ------------------------------------------------------------------------------------------------

// x rounded to `digits` significant digits; null if it is not finite
void json_real(struct cJSON * o, const char * name, double x, int digits);
// prints o on one line and frees it
void json_line(struct cJSON * o);

// ---- progress --------------------------------------------------------------------------------------------------

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void progress(const char * fmt, ...); // replaces the line
void progress_clear(void);
// A bar with the rate and the time left: n records are done, `fraction` of the input (negative: not known). At most ten
// times a second.
void progress_records(int64_t n, double fraction);
