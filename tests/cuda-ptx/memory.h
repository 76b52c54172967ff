// Registers and memory of a warp, for what instructions do.
#pragma once

#include "ptx.h"

#include "../cuda-host/emu.h"

#include <cstring>
#include <limits>

namespace ptx {

#define EACH_LANE_OF(lanes) \
    for (uint32_t left = (lanes), l = 0; left && (l = (uint32_t) __builtin_ctz(left), true); left &= left - 1)
#define EACH_LANE EACH_LANE_OF(lanes)

inline uint64_t raw(const warp & w, const operand & o, int lane) {
    return o.reg < 0 ? o.value : o.address ? w.regs[o.reg * 32 + lane] + o.value : w.regs[o.reg * 32 + lane];
}
template <class T> inline T get(const warp & w, const operand & o, int lane) {
    const uint64_t x = raw(w, o, lane);
    T v;
    memcpy(&v, &x, sizeof(T));
    return v;
}
template <class T> inline void put(warp & w, const operand & o, int lane, T v) {
    uint64_t x = 0;
    memcpy(&x, &v, sizeof(T));
    if (o.reg >= 0) w.regs[o.reg * 32 + lane] = x;
}

inline float half_value(uint16_t h) { return emu::half_to_float(h); }
inline uint16_t half_bits(float f) { return emu::float_to_half(f); }

action action_of_memory(instr & i); // loads, stores, atomics, asynchronous copies, addresses
action action_of_warp(instr & i);   // shuffles, votes, barriers, matrix instructions

} // namespace ptx
