// How many passes over the 32 banks of shared memory, and how many 32-byte sectors of global memory, the requests of a
// warp take, against the fewest possible. A request: the k-th time that the lanes of a warp come to one place of the
// program. First blocks only.
#include "check.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

namespace emu {

enum { BLOCKS = 4, BANKS = 32, SECTOR = 32 };

struct ratio {
    uint64_t spent = 0, least = 0;
};
struct place { // of the program
    const void * pc;
    int bytes;
    access_kind kind;
    bool in_shared;
    bool operator<(const place & o) const {
        return std::tie(pc, bytes, kind, in_shared) < std::tie(o.pc, o.bytes, o.kind, o.in_shared);
    }
};
struct kernel_traffic {
    std::string name;
    std::map<place, ratio> places;
};
static std::vector<kernel_traffic> kernels;
static kernel_traffic * now;

struct lane_access {
    int lane;
    uintptr_t p;
};
static std::map<std::pair<place, uint32_t>, std::vector<lane_access>> requests[32]; // of each warp
static std::vector<std::map<place, uint32_t>> times;                                // of each thread

void traffic_begin() {
    now = nullptr;
    if (block.index >= BLOCKS) return;
    for (kernel_traffic & k : kernels)
        if (k.name == block.kernel) now = &k;
    if (!now) {
        kernels.push_back({ block.kernel, {} });
        now = &kernels.back();
    }
    times.assign(block.n_threads, {});
}

void note_traffic(const char * p, int bytes, access_kind kind, const void * pc, bool in_shared) {
    if (!now || kind == ACCESS_ATOMIC) return; // atomics on one address are serial anyway
    const place at = { pc, bytes, kind, in_shared };
    const uint32_t k = times[block.current][at]++;
    requests[block.current >> 5][{ at, k }].push_back({ block.current & 31, (uintptr_t) p });
}

// passes over the banks for these words; the same word costs once
static int passes(std::vector<uintptr_t> & words) {
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int use[BANKS] = {}, most = 0;
    for (uintptr_t w : words) most = std::max(most, ++use[w % BANKS]);
    return most;
}

static void add_shared(ratio & r, const std::vector<lane_access> & a, int bytes) {
    const size_t lanes = bytes >= 16 ? 8 : bytes == 8 ? 16 : 32; // wide accesses go by parts of the warp
    for (size_t i = 0; i < a.size(); i += lanes) {
        std::vector<uintptr_t> words;
        for (size_t j = i; j < std::min(a.size(), i + lanes); j++)
            for (int x = 0; x < std::max(1, bytes / 4); x++) words.push_back(a[j].p / 4 + x);
        r.spent += passes(words);
        r.least++;
    }
}

static void add_global(ratio & r, const std::vector<lane_access> & a, int bytes) {
    std::vector<uintptr_t> sectors;
    for (const lane_access & l : a)
        for (uintptr_t s = l.p / SECTOR; s <= (l.p + bytes - 1) / SECTOR; s++) sectors.push_back(s);
    std::sort(sectors.begin(), sectors.end());
    sectors.erase(std::unique(sectors.begin(), sectors.end()), sectors.end());
    r.spent += sectors.size();
    r.least += (a.size() * bytes + SECTOR - 1) / SECTOR;
}

void traffic_end() {
    if (!now) return;
    for (auto & warp : requests) {
        for (auto & q : warp) {
            std::sort(q.second.begin(), q.second.end(),
                [](const lane_access & a, const lane_access & b) { return a.lane < b.lane; });
            const place & at = q.first.first;
            if (at.in_shared) add_shared(now->places[at], q.second, at.bytes);
            else add_global(now->places[at], q.second, at.bytes);
        }
        warp.clear();
    }
}

void note_ldmatrix(const void * const * rows) {
    if (!now) return;
    ratio & r = now->places[{ nullptr, 16, ACCESS_READ, true }];
    for (int m = 0; m < 4; m++) {
        std::vector<uintptr_t> words;
        for (int i = 0; i < 8; i++)
            for (int x = 0; x < 4; x++) words.push_back((uintptr_t) rows[m * 8 + i] / 4 + x);
        r.spent += passes(words);
        r.least++;
    }
}

} // namespace emu

bool mra_host_traffic_get(int i, struct mra_host_traffic * t) {
#if defined(__clang__)
    return false; // it splits vectors: what is seen is not what the kernel asks for
#endif
    if (i < 0 || i >= (int) emu::kernels.size()) return false;
    emu::ratio sum[2];
    for (const auto & p : emu::kernels[i].places) {
        sum[p.first.in_shared].spent += p.second.spent;
        sum[p.first.in_shared].least += p.second.least;
    }
    t->kernel = emu::kernels[i].name.c_str();
    t->shared = sum[1].least ? (double) sum[1].spent / sum[1].least : 0;
    t->global = sum[0].least ? (double) sum[0].spent / sum[0].least : 0;
    return true;
}

void mra_host_traffic_print(int i, double limit) {
    static const char * const what[] = { "load", "store", "atomic", "copy", "copy" };
    if (i < 0 || i >= (int) emu::kernels.size()) return;
    for (const auto & p : emu::kernels[i].places) {
        const double r = (double) p.second.spent / p.second.least;
        if (r > limit)
            printf("    %s of %d bytes, %s memory, at %p: %.2f\n", p.first.pc ? what[p.first.kind] : "ldmatrix",
                p.first.bytes, p.first.in_shared ? "shared" : "global", p.first.pc, r);
    }
}
