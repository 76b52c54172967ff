#define PEAK_ISA  peak_v3
#define PEAK_NAME "v3"
#include "bench-peak.inc"
