#define PEAK_ISA  peak_neon
#define PEAK_NAME "neon"
#include "bench-peak.inc"
