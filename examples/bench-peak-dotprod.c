#define PEAK_ISA  peak_dotprod
#define PEAK_NAME "dotprod"
#include "bench-peak.inc"
