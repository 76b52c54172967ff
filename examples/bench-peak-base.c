#define PEAK_ISA  peak_base
#define PEAK_NAME "base"
#include "bench-peak.inc"
