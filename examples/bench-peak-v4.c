#define PEAK_ISA  peak_v4
#define PEAK_NAME "v4"
#include "bench-peak.inc"
