#define PEAK_ISA  peak_vnni
#define PEAK_NAME "vnni"
#include "bench-peak.inc"
