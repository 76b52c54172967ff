// mra-bench: main and what its commands know of the machine.
#include "bench.h"

#include "common/args.h"
#include "common/bus.h"
#include "common/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

int cpu_count(void) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 512 ? 512 : (int) n;
}

// the rest of the first line of `path` that starts with `key`, behind ':' and blanks, in text; false if there is none
static bool line_of(const char * path, const char * key, char * text, int size) {
    FILE * f = fopen(path, "r");
    bool found = false;
    char line[256];
    while (f && !found && fgets(line, sizeof(line), f)) {
        if (strncmp(line, key, strlen(key)) != 0) continue;
        const char * s = strchr(line, ':');
        if (!s) continue;
        s += 1 + strspn(s + 1, " \t");
        snprintf(text, (size_t) size, "%.*s", (int) strcspn(s, "\n"), s);
        found = true;
    }
    if (f) fclose(f);
    return found;
}

const char * cpu_model(void) {
    static char name[128];
    if (!*name && !line_of("/proc/cpuinfo", "model name", name, sizeof(name)) &&
        !line_of("/proc/cpuinfo", "CPU part", name, sizeof(name)))
        strcpy(name, "unknown CPU");
    return name;
}

double memory_available(void) {
    char text[64];
    double kb;
    return line_of("/proc/meminfo", "MemAvailable", text, sizeof(text)) && sscanf(text, "%lf", &kb) == 1 ? 1024 * kb
                                                                                                         : INFINITY;
}

double memory_peak(void) {
    char text[64];
    double kb;
    return line_of("/proc/self/status", "VmHWM", text, sizeof(text)) && sscanf(text, "%lf", &kb) == 1 ? 1024 * kb : NAN;
}

static int by_value(const void * a, const void * b) {
    const double x = *(const double *) a, y = *(const double *) b;
    return x < y ? -1 : x > y;
}
double median(double * x, int n) {
    qsort(x, (size_t) n, sizeof(*x), by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static const char help[] =
    "usage: mra-bench COMMAND [options]\n"
    "\n"
    "Measures attention, dense layers and whole models against ggml's own operators and against what the machine can "
    "do.\n"
    "\n"
    "commands:\n"
    "  attn    validates, then times one attention node: ggml-mra, ggml's flash attention, ggml's matrix products\n"
    "  linear  validates, then times a dense layer: ggml-mra, ggml's mul_mat\n"
    "  model   validates, then times a whole model: tokens/s, time by operator, peak memory\n"
    "  peak    FMA, int8 and memory rates of this machine\n"
    "\n"
    "mra-bench COMMAND --help lists the options of a command; mra-bench --version prints versions and the CPU kernels "
    "in use.\n"
    "Exit codes: 0 done; 1 a validation, a file or the output failed, or --perf-guard found something slower; 2 wrong "
    "options.\n"
    "\n"
    "examples:\n"
    "  mra-bench attn -n 512,4096 --frame columns --frame mra2 --budget 1/16,1/8,1/4\n"
    "  mra-bench attn --curve --json > curve.jsonl\n"
    "  mra-bench linear --shape 4096,768,3072 --type q8_0 --type q4_k\n"
    "  mra-bench model -m model.gguf -n 512,4096 --frame exact --frame columns\n"
    "  mra-bench peak -t 1,2\n";

static const struct {
    const char * name;
    int (*run)(int argc, char ** argv);
} commands[] = {
    { "attn", bench_attn },
    { "linear", bench_linear },
    { "model", bench_model },
    { "peak", bench_peak },
};

int main(int argc, char ** argv) {
    static const char program[] = "mra-bench";
    const char * command = argc > 1 ? argv[1] : NULL;
    bus_catch(program);
    if (!command) usage_error(program, "no command: attn, linear, model or peak (see --help)");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(command, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    }
    if (strcmp(command, "--version") == 0) args_version(program);
    if (strcmp(command, "-h") != 0 && strcmp(command, "--help") != 0 && strcmp(command, "help") != 0) {
        usage_error(program, "unknown command '%s': attn, linear, model or peak (see --help)", command);
    }
    fputs(help, stdout);
    return output_close(program, 0);
}
