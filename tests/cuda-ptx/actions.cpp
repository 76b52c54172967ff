// What each PTX instruction does to the registers of a warp, except memory (memory.cpp) and branches (run.cpp).
#include "memory.h"

#include <cmath>
#include <cstring>
#include <functional>

namespace ptx {

template <class T, class F> static void unary(warp & w, const instr & i, uint32_t lanes, F f) {
    EACH_LANE put(w, i.op[0], l, f(get<T>(w, i.op[1], l)));
}
template <class T, class F> static void binary(warp & w, const instr & i, uint32_t lanes, F f) {
    EACH_LANE put(w, i.op[0], l, f(get<T>(w, i.op[1], l), get<T>(w, i.op[2], l)));
}
template <class T, class F> static void ternary(warp & w, const instr & i, uint32_t lanes, F f) {
    EACH_LANE put(w, i.op[0], l, f(get<T>(w, i.op[1], l), get<T>(w, i.op[2], l), get<T>(w, i.op[3], l)));
}
#define DO(shape, T, ...) \
    (action)[](warp & w, const instr & i, uint32_t lanes) { shape<T>(w, i, lanes, __VA_ARGS__); }

// make(T()) for the type that an opcode's last word names
template <class F> static action by_type(const std::string & t, F make) {
    if (t == "s16") return make(int16_t());
    if (t == "u16" || t == "b16") return make(uint16_t());
    if (t == "s32") return make(int32_t());
    if (t == "u32" || t == "b32") return make(uint32_t());
    if (t == "s64") return make(int64_t());
    if (t == "u64" || t == "b64") return make(uint64_t());
    if (t == "pred") return make(uint8_t());
    if (t == "f32") return make(float());
    if (t == "f64") return make(double());
    return nullptr;
}
template <class T> struct twice { typedef T type; };
template <> struct twice<int32_t> { typedef int64_t type; };
template <> struct twice<uint32_t> { typedef uint64_t type; };
template <> struct twice<uint16_t> { typedef uint32_t type; };
template <> struct twice<int16_t> { typedef int32_t type; };

#define OF_TYPE(...) \
    by_type(t, [](auto tag) -> action { \
        using T [[maybe_unused]] = decltype(tag); \
        return __VA_ARGS__; \
    })

template <class T> static T divided(T a, T b) {
    if constexpr (std::is_integral<T>::value) return b ? (T) (a / b) : (T) -1;
    else return a / b;
}
template <class T> static T rest(T a, T b) {
    if constexpr (std::is_integral<T>::value) return b ? (T) (a % b) : a;
    else return a;
}
template <class T> static T smaller(T a, T b) {
    if constexpr (std::is_floating_point<T>::value) return std::fmin(a, b);
    else return a < b ? a : b;
}
template <class T> static T larger(T a, T b) {
    if constexpr (std::is_floating_point<T>::value) return std::fmax(a, b);
    else return a > b ? a : b;
}
template <class T> static T fused(T a, T b, T c) {
    if constexpr (std::is_floating_point<T>::value) return std::fma(a, b, c);
    else return (T) (a * b + c);
}
template <class T> static T high_part(T a, T b) {
    if constexpr (std::is_integral<T>::value && sizeof(T) < 8)
        return (T) ((typename twice<T>::type) a * b >> sizeof(T) * 8);
    else return 0;
}

static action arithmetic(const instr & i, const std::string & op, const std::string & t) {
    const bool wide = i.word.size() > 1 && i.word[1] == "wide", high = i.word.size() > 1 && i.word[1] == "hi";
    if (op == "add") return OF_TYPE(DO(binary, T, [](T a, T b) { return (T) (a + b); }));
    if (op == "sub") return OF_TYPE(DO(binary, T, [](T a, T b) { return (T) (a - b); }));
    if (op == "mul" && wide) return OF_TYPE(DO(binary, T, [](T a, T b) { return (typename twice<T>::type) a * b; }));
    if (op == "mul" && high && t != "s64" && t != "u64") return OF_TYPE(DO(binary, T, high_part<T>));
    if (op == "mul") return OF_TYPE(DO(binary, T, [](T a, T b) { return (T) (a * b); }));
    if ((op == "mad" || op == "fma") && !wide && !high) return OF_TYPE(DO(ternary, T, fused<T>));
    if (op == "div") return OF_TYPE(DO(binary, T, divided<T>));
    if (op == "rem") return OF_TYPE(DO(binary, T, rest<T>));
    if (op == "min") return OF_TYPE(DO(binary, T, smaller<T>));
    if (op == "max") return OF_TYPE(DO(binary, T, larger<T>));
    if (op == "abs") return OF_TYPE(DO(unary, T, [](T a) { return (T) (a < 0 ? -a : a); }));
    if (op == "neg") return OF_TYPE(DO(unary, T, [](T a) { return (T) -a; }));
    if (op == "ex2") return DO(unary, float, [](float a) { return exp2f(a); });
    if (op == "lg2") return DO(unary, float, [](float a) { return log2f(a); });
    if (op == "rcp") return OF_TYPE(DO(unary, T, [](T a) { return (T) (1 / a); }));
    if (op == "sqrt") return DO(unary, float, [](float a) { return sqrtf(a); });
    return nullptr;
}

static uint32_t reversed(uint32_t x) {
    uint32_t r = 0;
    for (int b = 0; b < 32; b++) r |= (x >> b & 1) << (31 - b);
    return r;
}
static void insert_bits(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE {
        const uint32_t a = get<uint32_t>(w, i.op[1], l), b = get<uint32_t>(w, i.op[2], l),
                       at = get<uint32_t>(w, i.op[3], l) & 31, n = get<uint32_t>(w, i.op[4], l);
        const uint32_t m = (n >= 32 ? ~0u : (1u << n) - 1) << at;
        put(w, i.op[0], l, (b & ~m) | (a << at & m));
    }
}
static void extract_bits(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE {
        const uint32_t a = get<uint32_t>(w, i.op[1], l), at = get<uint32_t>(w, i.op[2], l) & 31,
                       n = get<uint32_t>(w, i.op[3], l);
        put(w, i.op[0], l, a >> at & (n >= 32 ? ~0u : (1u << n) - 1));
    }
}
static void permute(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE {
        const uint64_t x = (uint64_t) get<uint32_t>(w, i.op[2], l) << 32 | get<uint32_t>(w, i.op[1], l);
        const uint32_t s = get<uint32_t>(w, i.op[3], l);
        uint32_t r = 0;
        for (int b = 0; b < 4; b++) {
            uint32_t v = (uint32_t) (x >> (s >> 4 * b & 7) * 8) & 255;
            if (s >> 4 * b & 8) v = v & 128 ? 255 : 0;
            r |= v << 8 * b;
        }
        put(w, i.op[0], l, r);
    }
}
// any function of three: bit (a b c) of the table
static void lookup(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE {
        const uint32_t a = get<uint32_t>(w, i.op[1], l), b = get<uint32_t>(w, i.op[2], l),
                       c = get<uint32_t>(w, i.op[3], l), table = (uint32_t) i.op[4].value;
        uint32_t r = 0;
        for (int t = 0; t < 8; t++)
            if (table >> t & 1) r |= (t & 4 ? a : ~a) & (t & 2 ? b : ~b) & (t & 1 ? c : ~c);
        put(w, i.op[0], l, r);
    }
}
template <bool right> static void funnel(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE {
        const uint64_t x = (uint64_t) get<uint32_t>(w, i.op[2], l) << 32 | get<uint32_t>(w, i.op[1], l);
        const uint32_t n = get<uint32_t>(w, i.op[3], l) & 31;
        put(w, i.op[0], l, (uint32_t) (right ? x >> n : x << n >> 32));
    }
}

template <class T> static void shift_left(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE {
        const uint32_t n = get<uint32_t>(w, i.op[2], l);
        put(w, i.op[0], l, n < sizeof(T) * 8 ? (T) (get<T>(w, i.op[1], l) << n) : (T) 0);
    }
}
template <class T> static void shift_right(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE {
        const uint32_t n = get<uint32_t>(w, i.op[2], l), most = sizeof(T) * 8 - 1;
        const T x = get<T>(w, i.op[1], l);
        put(w, i.op[0], l, n > most ? (T) (x < 0 ? -1 : 0) : (T) (x >> n));
    }
}

#define INTEGERS(...) \
    by_type(t, [](auto tag) -> action { \
        using T = decltype(tag); \
        if constexpr (std::is_integral<T>::value) return __VA_ARGS__; \
        else return nullptr; \
    })

static action bits(const instr & i, const std::string & op, const std::string & t) {
    if (op == "and") return INTEGERS(DO(binary, T, [](T a, T b) { return (T) (a & b); }));
    if (op == "or") return INTEGERS(DO(binary, T, [](T a, T b) { return (T) (a | b); }));
    if (op == "xor") return INTEGERS(DO(binary, T, [](T a, T b) { return (T) (a ^ b); }));
    if (op == "not" && t == "pred") return DO(unary, uint8_t, [](uint8_t a) { return (uint8_t) !a; });
    if (op == "not") return INTEGERS(DO(unary, T, [](T a) { return (T) ~a; }));
    if (op == "shl") return INTEGERS((action) shift_left<T>);
    if (op == "shr") return INTEGERS((action) shift_right<T>);
    if (op == "shf") return i.word[1] == "r" ? (action) funnel<true> : (action) funnel<false>;
    if (op == "popc") return DO(unary, uint32_t, [](uint32_t a) { return (uint32_t) __builtin_popcount(a); });
    if (op == "clz") return DO(unary, uint32_t, [](uint32_t a) { return a ? (uint32_t) __builtin_clz(a) : 32u; });
    if (op == "brev") return DO(unary, uint32_t, reversed);
    if (op == "bfind" && i.word[1] == "shiftamt")
        return DO(unary, uint32_t, [](uint32_t a) { return a ? (uint32_t) __builtin_clz(a) : ~0u; });
    if (op == "bfi") return insert_bits;
    if (op == "bfe" && t == "u32") return extract_bits;
    if (op == "prmt") return permute;
    if (op == "lop3") return lookup;
    return nullptr;
}

// ---- comparisons, moves, conversions ----

template <class T> static bool holds(const std::string & c, T a, T b) {
    const bool nan = a != a || b != b;
    if (c == "eq") return a == b;
    if (c == "ne") return a != b && !nan;
    if (c == "lt" || c == "lo") return a < b;
    if (c == "le" || c == "ls") return a <= b;
    if (c == "gt" || c == "hi") return a > b;
    if (c == "ge" || c == "hs") return a >= b;
    if (c == "equ") return nan || a == b;
    if (c == "neu") return nan || a != b;
    if (c == "ltu") return nan || a < b;
    if (c == "leu") return nan || a <= b;
    if (c == "gtu") return nan || a > b;
    if (c == "geu") return nan || a >= b;
    return c == "num" ? !nan : nan;
}
template <class T> static void compare(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE put(w, i.op[0], l, (uint8_t) holds(i.word[1], get<T>(w, i.op[1], l), get<T>(w, i.op[2], l)));
}
static void select(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE put(w, i.op[0], l, raw(w, i.op[raw(w, i.op[3], l) ? 1 : 2], l));
}

// also between a register and a list of smaller ones
static void move(warp & w, const instr & i, uint32_t lanes) {
    const operand &to = i.op[0], &from = i.op[1];
    const int part = i.width / (int) std::max<size_t>(1, to.parts.size() + from.parts.size()) * 8;
    EACH_LANE {
        uint64_t x = 0;
        for (size_t p = 0; p < from.parts.size(); p++) x |= raw(w, from.parts[p], l) << p * part;
        if (from.parts.empty()) x = raw(w, from, l);
        for (size_t p = 0; p < to.parts.size(); p++) put(w, to.parts[p], l, x >> p * part & ((1ull << part) - 1));
        if (to.parts.empty()) put(w, to, l, x);
    }
}
// x as T, clamped as the hardware does
template <class T, class F> static T to_integer(F x) {
    if (x != x) return 0;
    const double lo = (double) std::numeric_limits<T>::min(), hi = (double) std::numeric_limits<T>::max();
    return x <= lo ? std::numeric_limits<T>::min() : x >= hi ? std::numeric_limits<T>::max() : (T) x;
}
static double rounded(double x, const std::string & how) {
    if (how == "rni") return std::nearbyint(x);
    if (how == "rzi") return std::trunc(x);
    if (how == "rmi") return std::floor(x);
    return how == "rpi" ? std::ceil(x) : x;
}
template <class To, class From> static void convert(warp & w, const instr & i, uint32_t lanes) {
    const bool sat = i.word[1] == "sat";
    EACH_LANE {
        const From x = get<From>(w, i.op[1], l);
        if constexpr (std::is_integral<To>::value && std::is_floating_point<From>::value)
            put(w, i.op[0], l, to_integer<To>(rounded(x, i.word[1])));
        else if constexpr (std::is_floating_point<From>::value && std::is_floating_point<To>::value)
            put(w, i.op[0], l, (To) (sat ? std::fmin(std::fmax(x, 0), 1) : rounded(x, i.word[1])));
        else put(w, i.op[0], l, (To) x);
    }
}
static void from_half(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE put(w, i.op[0], l, half_value(get<uint16_t>(w, i.op[1], l)));
}
static void to_half(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE put(w, i.op[0], l, half_bits(get<float>(w, i.op[1], l)));
}
static void to_half_pair(warp & w, const instr & i, uint32_t lanes) { // the first operand is the upper half
    EACH_LANE put(
        w, i.op[0], l, (uint32_t) half_bits(get<float>(w, i.op[1], l)) << 16 | half_bits(get<float>(w, i.op[2], l)));
}
static action conversion(const instr & i) {
    const size_t n = i.word.size();
    const std::string t = i.word[n - 1], to = i.word[n - 2];
    if (t == "f16") return from_half;
    if (to == "f16") return to_half;
    if (to == "f16x2") return to_half_pair;
    static const char * const types[] = { "u8", "s8" };
    if (t == types[0] || t == types[1] || to == types[0] || to == types[1]) return nullptr;
#define TO(name, To) \
    if (to == name) return OF_TYPE((action) convert<To, T>)
    TO("u16", uint16_t);
    TO("s16", int16_t);
    TO("u32", uint32_t);
    TO("s32", int32_t);
    TO("u64", uint64_t);
    TO("s64", int64_t);
    TO("f32", float);
    TO("f64", double);
    return nullptr;
}

static action of_moves(instr & i, const std::string & op, const std::string & t) {
    if (op == "setp" && i.word.size() == 3) return OF_TYPE((action) compare<T>);
    if (op == "selp") return select;
    if (op == "cvt") return conversion(i);
    if (op != "mov") return nullptr;
    i.kind = MOVE;
    i.width = t.size() > 1 ? atoi(t.c_str() + 1) / 8 : 8;
    return move;
}

action action_of(instr & i) {
    const std::string op = i.word[0], t = i.word.back();
    action a = action_of_memory(i);
    if (!a) a = action_of_warp(i);
    if (!a) a = arithmetic(i, op, t);
    if (!a) a = bits(i, op, t);
    if (!a) a = of_moves(i, op, t);
    return a;
}

} // namespace ptx
