// Command lines on getopt_long: one table of options gives the parser and the help text. A mistake of the user ends the
// program with one line on stderr and exit code 2.
#pragma once

#include <stddef.h>
#include <stdint.h>

// ids up to 255 are the short letter as well
struct arg_opt {
    int id;
    const char * name;  // long name
    const char * value; // name of its value, NULL: a switch
    const char * help;  // '\n' continues on an aligned line; NULL: not listed
};

struct args {
    const char * program; // "mra-bench attn": names the culprit in messages
    const char * usage;   // what follows the program's name
    const char * about;
    const struct arg_opt * opts; // n_opt of them; -h, --help and --version are added
    int n_opt;
    const struct arg_opt * common; // n_common more, listed behind them; may be NULL
    int n_common;
    const char * notes; // after the options: examples, formats; may be NULL
    // the option at hand
    const char * name; // as the user wrote it: "-n", "--heads"
    const char * value;
};

// The id of the next option, or -1 after the last; args->value is its value. Handles --help and --version. Operands
// start at optind.
int args_next(struct args * a, int argc, char ** argv);
// For programs without operands: complains if there is one
void args_end(const struct args * a, int argc, char ** argv);

// Prints what --version prints, and exits
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void args_version(const char * program);

// The value at hand, checked; lists are separated by commas and return their length
int64_t args_int(const struct args * a, int64_t lo, int64_t hi);
double args_real(const struct args * a, double lo, double hi); // also 1/8
size_t args_bytes(const struct args * a);                      // at least 1; also 500M, 2G, 1.5G: powers of 1000
int args_ints(const struct args * a, int64_t lo, int64_t hi, int64_t * list, int max);
int args_reals(const struct args * a, double lo, double hi, double * list, int max);

// The value, a text: UTF-8
const char * args_text(const struct args * a);

// The index of the value in "first|second|..."
int args_choice(const struct args * a, const char * names);

#if defined(__GNUC__)
#    define ARGS_PRINTF __attribute__((format(printf, 2, 3), noreturn))
#else
#    define ARGS_PRINTF
#endif
// One line on stderr, then exit: 2 for a mistake in the command line, 1 for what went wrong later
ARGS_PRINTF void usage_error(const char * program, const char * fmt, ...);
ARGS_PRINTF void fatal(const char * program, const char * fmt, ...);
