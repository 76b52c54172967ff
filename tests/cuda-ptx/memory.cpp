// Loads, stores, atomics and copies; shuffles, votes, barriers and matrix instructions.
#include "memory.h"

#include <algorithm>

namespace ptx {

enum { SECTOR = 32 };

static bool is_shared(const warp & w, const unsigned char * p) {
    return p >= w.b->shared && p < w.b->shared + 128 * 1024;
}
static unsigned char * address(const warp & w, const instr & i, const operand & o, int lane) {
    const uint64_t a = raw(w, o, lane);
    for (const std::string & s : i.word)
        if (s == "shared") return w.b->shared + a;
    return (unsigned char *) a;
}
// counts the sectors that a request of these lanes takes
static void count_sectors(unsigned char * const * at, uint32_t lanes, int bytes, uint64_t * sum) {
    uintptr_t sectors[32 * 2];
    int n = 0;
    EACH_LANE {
        const uintptr_t a = (uintptr_t) at[l];
        sectors[n++] = a / SECTOR;
        if ((a + bytes - 1) / SECTOR != a / SECTOR) sectors[n++] = (a + bytes - 1) / SECTOR;
    }
    std::sort(sectors, sectors + n);
    *sum += SECTOR * (uint64_t) (std::unique(sectors, sectors + n) - sectors);
}
// an instruction may leave open which memory it means
static void count_request(
    warp & w, const instr & i, unsigned char * const * at, uint32_t lanes, bool global, int bytes, uint64_t * sum) {
    if (i.kind != GLOBAL) return;
    if (global) count_sectors(at, lanes, bytes, sum);
    else {
        w.b->counts[GLOBAL]--;
        w.b->counts[SHARED]++;
    }
}

static void load(warp & w, const instr & i, uint32_t lanes) {
    const size_t n = std::max<size_t>(1, i.op[0].parts.size());
    const bool is_signed = i.word.back()[0] == 's';
    unsigned char * at[32];
    bool global = false;
    EACH_LANE {
        at[l] = address(w, i, i.op[1], l);
        global |= !is_shared(w, at[l]);
        for (size_t p = 0; p < n; p++) {
            uint64_t x = 0;
            memcpy(&x, at[l] + p * i.width, i.width);
            if (is_signed && i.width < 4 && x >> (i.width * 8 - 1)) x |= 0xffffffffull << i.width * 8 & 0xffffffffull;
            put(w, i.op[0].parts.empty() ? i.op[0] : i.op[0].parts[p], l, x);
        }
    }
    count_request(w, i, at, lanes, global, (int) n * i.width, w.b->read_bytes);
}
static void store(warp & w, const instr & i, uint32_t lanes) {
    const size_t n = std::max<size_t>(1, i.op[1].parts.size());
    unsigned char * at[32];
    bool global = false;
    EACH_LANE {
        at[l] = address(w, i, i.op[0], l);
        global |= !is_shared(w, at[l]);
        for (size_t p = 0; p < n; p++) {
            const uint64_t x = raw(w, i.op[1].parts.empty() ? i.op[1] : i.op[1].parts[p], l);
            memcpy(at[l] + p * i.width, &x, i.width);
        }
    }
    count_request(w, i, at, lanes, global, (int) n * i.width, w.b->write_bytes);
}
static void load_param(warp & w, const instr & i, uint32_t lanes) {
    const size_t n = std::max<size_t>(1, i.op[0].parts.size());
    EACH_LANE {
        for (size_t p = 0; p < n; p++) {
            uint64_t x = 0;
            memcpy(&x, w.b->params + raw(w, i.op[1], l) + p * i.width, i.width);
            put(w, i.op[0].parts.empty() ? i.op[0] : i.op[0].parts[p], l, x);
        }
    }
}
template <bool max> static void atomic(warp & w, const instr & i, uint32_t lanes) {
    unsigned char * place[32];
    bool global = false;
    EACH_LANE {
        unsigned char * at = place[l] = address(w, i, i.op[1], l);
        global |= !is_shared(w, at);
        uint32_t old, x = get<uint32_t>(w, i.op[2], l);
        memcpy(&old, at, 4);
        x = max ? std::max(old, x) : old + x;
        memcpy(at, &x, 4);
        put(w, i.op[0], l, old);
    }
    count_request(w, i, place, lanes, global, 4, w.b->write_bytes);
}
// at once: whether a kernel waits for its copies is the emulator's to find
static void copy16(warp & w, const instr & i, uint32_t lanes) {
    unsigned char * at[32];
    uint32_t some = 0;
    EACH_LANE {
        const uint32_t from = i.op.size() > 3 ? get<uint32_t>(w, i.op[3], l) : 16;
        unsigned char * dst = w.b->shared + raw(w, i.op[0], l);
        at[l] = (unsigned char *) raw(w, i.op[1], l);
        memset(dst, 0, 16);
        memcpy(dst, at[l], from);
        if (from) some |= 1u << l;
    }
    count_sectors(at, some, 16, w.b->read_bytes);
}
static void nothing(warp &, const instr &, uint32_t) {}
static void to_shared(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE put(w, i.op[0], l, raw(w, i.op[1], l) - (uint64_t) w.b->shared);
}
static void from_shared(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE put(w, i.op[0], l, raw(w, i.op[1], l) + (uint64_t) w.b->shared);
}
static void same_address(warp & w, const instr & i, uint32_t lanes) {
    EACH_LANE put(w, i.op[0], l, raw(w, i.op[1], l));
}

action action_of_memory(instr & i) {
    const std::string & op = i.word[0];
    const auto has = [&](const char * x) { return std::find(i.word.begin(), i.word.end(), x) != i.word.end(); };
    const bool shared = has("shared");
    if (op == "cvta") {
        i.kind = MOVE;
        return !shared ? same_address : has("to") ? to_shared : from_shared;
    }
    if (op == "ld" || op == "st") {
        i.width = atoi(i.word.back().c_str() + 1) / 8;
        i.kind = has("param") ? MOVE : shared ? SHARED : has("local") ? ARITHMETIC : GLOBAL;
        return has("param") ? load_param : op == "ld" ? load : store;
    }
    if (op == "atom") {
        i.kind = shared ? SHARED : GLOBAL;
        i.width = 4;
        if (has("add")) return atomic<false>;
        return has("max") && i.word.back() == "u32" ? atomic<true> : nullptr;
    }
    if (op == "cp" && has("async")) {
        i.kind = GLOBAL;
        return i.op.size() > 1 ? copy16 : nothing;
    }
    return nullptr;
}

// ---- lanes together ----

static void shuffle(warp & w, const instr & i, uint32_t lanes) {
    const char how = i.word[2][0]; // idx, bfly, up, down
    uint64_t old[32];
    EACH_LANE old[l] = raw(w, i.op[1], l);
    EACH_LANE {
        const int by = get<int>(w, i.op[2], l), c = get<int>(w, i.op[3], l), segment = c >> 8 & 31, clamp = c & 31;
        const int first = (int) l & segment, last = first | (clamp & ~segment);
        int from = how == 'i' ? first | (by & ~segment)
            : how == 'b'      ? (int) l ^ by
            : how == 'u'      ? (int) l - by
                              : (int) l + by;
        if (how == 'u' ? from < last : from > last) from = (int) l;
        put(w, i.op[0], l, old[from & 31]);
    }
}
static void vote(warp & w, const instr & i, uint32_t lanes) {
    uint32_t yes = 0;
    EACH_LANE if ((raw(w, i.op[1], l) != 0) != i.op[1].negated) yes |= 1u << l;
    const std::string & how = i.word[2];
    const uint32_t r = how == "ballot" ? yes : how == "any" ? yes != 0 : yes == lanes;
    EACH_LANE put(w, i.op[0], l, r);
}
static void ldmatrix(warp & w, const instr & i, uint32_t) {
    const bool trans = std::find(i.word.begin(), i.word.end(), "trans") != i.word.end();
    for (int m = 0; m < 4; m++)
        for (int l = 0; l < 32; l++) {
            const auto value = [&](int r, int c) {
                uint16_t x;
                memcpy(&x, w.b->shared + raw(w, i.op[1], m * 8 + r) + c * 2, 2);
                return x;
            };
            const int a = l / 4, b = l % 4 * 2;
            const uint32_t lo = trans ? value(b, a) : value(a, b), hi = trans ? value(b + 1, a) : value(a, b + 1);
            put(w, i.op[0].parts[m], l, lo | hi << 16);
        }
}
// d += a b, K = 16
static void mma(warp & w, const instr & i, uint32_t) {
    static thread_local float a[16][16], b[16][8], d[16][8];
    for (int l = 0; l < 32; l++) {
        const int g = l / 4, t = l % 4 * 2;
        for (int p = 0; p < 4; p++) {
            const uint32_t x = get<uint32_t>(w, i.op[1].parts[p], l);
            a[g + p % 2 * 8][t + p / 2 * 8] = half_value((uint16_t) x);
            a[g + p % 2 * 8][t + p / 2 * 8 + 1] = half_value((uint16_t) (x >> 16));
            d[g + p / 2 * 8][t + p % 2] = get<float>(w, i.op[3].parts[p], l);
        }
        for (int p = 0; p < 2; p++) {
            const uint32_t x = get<uint32_t>(w, i.op[2].parts[p], l);
            b[t + p * 8][g] = half_value((uint16_t) x);
            b[t + p * 8 + 1][g] = half_value((uint16_t) (x >> 16));
        }
    }
    for (int r = 0; r < 16; r++)
        for (int k = 0; k < 16; k++)
            for (int c = 0; c < 8; c++) d[r][c] += a[r][k] * b[k][c];
    for (int l = 0; l < 32; l++)
        for (int p = 0; p < 4; p++) put(w, i.op[0].parts[p], l, d[l / 4 + p / 2 * 8][l % 4 * 2 + p % 2]);
}

action action_of_warp(instr & i) {
    const std::string & op = i.word[0];
    i.together = true;
    if (op == "shfl" || op == "vote") {
        i.kind = EXCHANGE;
        return op == "shfl" ? shuffle : vote;
    }
    if (op == "bar" || op == "barrier") {
        i.kind = EXCHANGE;
        i.barrier = i.word[1] == "sync";
        return nothing;
    }
    if (op == "ldmatrix") {
        i.kind = LDMATRIX;
        return ldmatrix;
    }
    if (op == "mma" && i.word[3] == "m16n8k16") {
        i.kind = MMA;
        return mma;
    }
    i.together = false;
    if (op == "bra" || op == "ret" || op == "exit") {
        i.kind = BRANCH;
        i.ends = op != "bra";
        return nothing;
    }
    return nullptr;
}

} // namespace ptx
