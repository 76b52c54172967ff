// Between the two halves of the checker: what is wrong (check.cpp), what is wasteful (traffic.cpp).
#pragma once

#include "emu.h"

namespace emu {
void note_traffic(const char * p, int bytes, access_kind kind, const void * pc, bool in_shared);
void note_ldmatrix(const void * const * rows);
void traffic_begin();
void traffic_end();
} // namespace emu
