#define PEAK_ISA  peak_i8mm
#define PEAK_NAME "i8mm"
#include "bench-peak.inc"
