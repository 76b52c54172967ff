// The programs' clock.
#pragma once

#include "ggml.h"

static inline double now_ms(void) { return (double) ggml_time_us() * 1e-3; }
