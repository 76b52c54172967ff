// mra-bench: what its parts share.
#pragma once

#include "kernels.h"
#include "mra-error.h"

#include <stdbool.h>
#include <stdint.h>

int bench_attn(int argc, char ** argv);
int bench_linear(int argc, char ** argv);
int bench_model(int argc, char ** argv);
int bench_peak(int argc, char ** argv);

double now_seconds(void);
int cpu_count(void);
const char * cpu_model(void);     // "AMD EPYC 7763"
double memory_available(void);    // bytes; infinite if unknown
double memory_peak(void);         // bytes this process has had in memory at most, mapped files included; NAN if unknown
double median(double * x, int n); // sorts x

// ---- what the machine can do (bench-peak.c) --------------------------------------------------------------------

// One instruction set level's loops. Each returns a value that is known if every step was done: see bench-peak.inc.
struct peak_isa {
    const char * name;      // as the kernels'; int8 levels have their own: "vnni", "avxvnni", "dotprod", "amx"
    const char * int8_name; // instruction of the int8 loop, NULL: none at this level
    double fma_flops;       // per step
    double int8_ops, bf16_flops;
    double (*fma)(int64_t n_step, float one);
    int64_t (*int8)(int64_t n_step);
    double (*bf16)(int64_t n_step);               // by tiles, NULL: none at this level
    int64_t (*sum)(const int64_t * x, int64_t n); // n a multiple of 128
};

enum { PEAK_RUNS = 12, PEAK_RUNS_AGAIN = 3 }; // of 30 ms: the first time; to see whether it has risen

// Best of several runs, all threads together; negative if a loop did not do its work
double peak_fma(const struct peak_isa * isa, int n_threads, int n_runs);  // GFLOP/s
double peak_int8(const struct peak_isa * isa, int n_threads, int n_runs); // GOP/s, a product and a sum counted as two
double peak_bf16(const struct peak_isa * isa, int n_threads, int n_runs); // GFLOP/s by tiles, NAN if there are none
double peak_read(
    const struct peak_isa * isa, int n_threads); // GB/s from memory, NAN if there is no room for the buffer

// The levels this CPU runs, weakest first; NULL after the last
const struct peak_isa * peak_isa_at(int i);
const struct peak_isa * peak_isa_of(const char * kernels); // by the kernels' name; NULL if there are none of it here
