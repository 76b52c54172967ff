#define PEAK_ISA  peak_avxvnni
#define PEAK_NAME "avxvnni"
#include "bench-peak.inc"
