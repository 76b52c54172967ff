#include "args.h"
#include "ggml-mra.h"
#include "output.h"
#include "utf8-length.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTS = 64, OPT_VERSION = 900 };

static void print_line(const char * program, const char * fmt, va_list ap) {
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}
void usage_error(const char * program, const char * fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_line(program, fmt, ap);
    va_end(ap);
    exit(2);
}
void fatal(const char * program, const char * fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_line(program, fmt, ap);
    va_end(ap);
    exit(1);
}

static void print_options(const struct arg_opt * opts, int n) {
    for (int i = 0; i < n; i++) {
        const struct arg_opt * o = &opts[i];
        if (!o->help) continue;
        char head[64], letter[8] = "    ";
        if (o->id < 256) snprintf(letter, sizeof(letter), "-%c, ", o->id);
        snprintf(head, sizeof(head), "%s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
        const char * text = o->help;
        for (int first = 1; text; first = 0) {
            const char * end = strchr(text, '\n');
            printf("  %-24s %.*s\n", first ? head : "", end ? (int) (end - text) : (int) strlen(text), text);
            text = end ? end + 1 : NULL;
        }
    }
}

static void print_help(const struct args * a) {
    static const struct arg_opt both[] = { { OPT_VERSION, "version", NULL,
                                               "print versions and the CPU kernels in use" },
        { 'h', "help", NULL, "this text" } };
    printf("usage: %s %s\n\n%s\n\noptions:\n", a->program, a->usage, a->about);
    print_options(a->opts, a->n_opt);
    if (a->n_common) printf("\noptions of all programs:\n");
    print_options(a->common, a->n_common);
    print_options(both, 2);
    if (a->notes) printf("\n%s\n", a->notes);
}

void args_version(const char * program) {
    printf("%s %s (ggml %s, kernels %s)\n", program, MRA_VERSION, ggml_version(), mra_isa());
    exit(output_close(program, 0));
}

static void unknown(const struct args * a, int argc, char ** argv, int at) {
    if (optopt && isgraph(optopt) && optopt < 256 && (at >= argc || argv[at][1] != '-'))
        usage_error(a->program, "unknown option -%c (see --help)", optopt);
    usage_error(a->program, "unknown option or value in '%s' (see --help)", at < argc ? argv[at] : "?");
}

int args_next(struct args * a, int argc, char ** argv) {
    struct option longs[MAX_OPTS + 3] = { { 0 } };
    char shorts[2 * MAX_OPTS + 4] = ":h"; // ':' tells a missing value from an unknown option
    size_t n_short = 2;
    const int n_opt = a->n_opt + a->n_common;
    for (int i = 0; i < n_opt && i < MAX_OPTS; i++) {
        const struct arg_opt * o = i < a->n_opt ? &a->opts[i] : &a->common[i - a->n_opt];
        longs[i] = (struct option) { o->name, o->value ? required_argument : no_argument, NULL, o->id };
        if (o->id < 256) {
            shorts[n_short++] = (char) o->id;
            if (o->value) shorts[n_short++] = ':';
        }
    }
    longs[n_opt] = (struct option) { "help", no_argument, NULL, 'h' };
    longs[n_opt + 1] = (struct option) { "version", no_argument, NULL, OPT_VERSION };
    opterr = 0;
    const int at = optind ? optind : 1;
    int which = -1;
    const int id = getopt_long(argc, argv, shorts, longs, &which);
    static char letter[3] = "-?", word[64];
    a->value = optarg;
    a->name = letter;
    if (which >= 0) {
        snprintf(word, sizeof(word), "--%s", longs[which].name);
        a->name = word;
    } else letter[1] = (char) id;
    switch (id) {
        case 'h': print_help(a); exit(output_close(a->program, 0));
        case OPT_VERSION: args_version(a->program);
        case ':': usage_error(a->program, "%s needs a value (see --help)", at < argc ? argv[at] : "the last option");
        case '?': unknown(a, argc, argv, at);
    }
    return id;
}

void args_end(const struct args * a, int argc, char ** argv) {
    if (optind < argc) usage_error(a->program, "unexpected '%s' (see --help)", argv[optind]);
}

int args_choice(const struct args * a, const char * names) {
    const size_t n = strlen(a->value);
    const char * s = names;
    for (int i = 0;; i++) {
        const char * end = strchrnul(s, '|');
        if ((size_t) (end - s) == n && memcmp(s, a->value, n) == 0) return i;
        if (!*end) break;
        s = end + 1;
    }
    usage_error(a->program, "%s: '%s' is not one of %s", a->name, a->value, names);
}

const char * args_text(const struct args * a) {
    const size_t n = strlen(a->value), at = utf8_end(a->value, n);
    if (at < n) usage_error(a->program, "%s: the text is not UTF-8 at byte %zu", a->name, at + 1);
    return a->value;
}

static double real_at(const struct args * a, const char * s, const char ** end, double lo, double hi) {
    char * e;
    double x = strtod(s, &e);
    if (e != s && *e == '/') {
        const char * t = e + 1;
        const double y = strtod(t, &e);
        x = e != t && y > 0 ? x / y : NAN;
    }
    if (e == s || (*e && *e != ',') || !(x >= lo && x <= hi))
        usage_error(a->program, "%s: '%s' is not a number in %g..%g", a->name, s, lo, hi);
    *end = e;
    return x;
}
static int64_t int_at(const struct args * a, const char * s, const char ** end, int64_t lo, int64_t hi) {
    char * e;
    errno = 0;
    const long long x = strtoll(s, &e, 10);
    if (e == s || (*e && *e != ',') || errno || x < lo || x > hi) {
        usage_error(
            a->program, "%s: '%s' is not a whole number in %lld..%lld", a->name, s, (long long) lo, (long long) hi);
    }
    *end = e;
    return x;
}

int64_t args_int(const struct args * a, int64_t lo, int64_t hi) {
    const char * end;
    const int64_t x = int_at(a, a->value, &end, lo, hi);
    if (*end) usage_error(a->program, "%s takes one value, not '%s'", a->name, a->value);
    return x;
}
double args_real(const struct args * a, double lo, double hi) {
    const char * end;
    const double x = real_at(a, a->value, &end, lo, hi);
    if (*end) usage_error(a->program, "%s takes one value, not '%s'", a->name, a->value);
    return x;
}
size_t args_bytes(const struct args * a) {
    static const char units[] = "KMGT";
    char * end;
    double x = strtod(a->value, &end);
    const char * unit = *end ? strchr(units, toupper((unsigned char) *end)) : NULL;
    if (unit) x *= pow(1000, (double) (unit - units) + 1);
    if (end == a->value || end[unit ? 1 : 0] || !(x >= 1 && x < 1e18))
        usage_error(a->program, "%s: '%s' is not a number of bytes such as 500M or 2G", a->name, a->value);
    return (size_t) x;
}
int args_ints(const struct args * a, int64_t lo, int64_t hi, int64_t * list, int max) {
    const char * s = a->value;
    for (int n = 0;; s++) {
        if (n == max) usage_error(a->program, "%s: more than %d values", a->name, max);
        list[n++] = int_at(a, s, &s, lo, hi);
        if (!*s) return n;
    }
}
int args_reals(const struct args * a, double lo, double hi, double * list, int max) {
    const char * s = a->value;
    for (int n = 0;; s++) {
        if (n == max) usage_error(a->program, "%s: more than %d values", a->name, max);
        list[n++] = real_at(a, s, &s, lo, hi);
        if (!*s) return n;
    }
}
