// Launches: blocks one after another, the warps of a block in turn from barrier to barrier. Of a kernel whose blocks
// are alike and far too many, only some are run: see ptx_run_every.
#include "count.h"
#include "launch.h"
#include "memory.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace ptx {

static std::map<std::string, kernel> kernels;
struct totals {
    std::string name;
    uint64_t launches = 0;
    double counts[N_KIND] = {}, read = 0, write = 0;
};
static std::vector<totals> all;
static int every = 1;

static bool guarded(const warp & w, const instr & i, int lane) {
    return i.guard < 0 || (w.regs[i.guard * 32 + lane] != 0) != i.guard_not;
}

// The lowest place where lanes are, with the lanes there; an instruction for all lanes waits for all of them.
static int next_place(const warp & w, uint32_t * lanes) {
    for (int skip = -1;;) {
        int pc = INT32_MAX;
        for (uint32_t m = w.live; m; m &= m - 1) {
            const int at = w.pc[__builtin_ctz(m)];
            if (at > skip && at < pc) pc = at;
        }
        if (pc == INT32_MAX) return -1;
        *lanes = 0;
        for (uint32_t m = w.live; m; m &= m - 1)
            if (w.pc[__builtin_ctz(m)] == pc) *lanes |= m & -m;
        if (!w.k->code[pc].together || *lanes == w.live) return pc;
        skip = pc;
    }
}

// until the next barrier of the block, or the end
static void run_warp(warp & w) {
    w.waits = false;
    while (w.live) {
        uint32_t lanes;
        const int pc = next_place(w, &lanes);
        if (pc < 0) {
            fprintf(stderr, "ptx: %s: lanes wait for each other\n", w.k->name.c_str());
            exit(3);
        }
        const instr & i = w.k->code[pc];
        uint32_t on = 0;
        EACH_LANE_OF(lanes) {
            if (guarded(w, i, l)) on |= 1u << l;
            w.pc[l] = pc + 1;
        }
        w.b->counts[i.kind]++;
        if (i.target >= 0) EACH_LANE_OF(on) w.pc[l] = i.target;
        else if (i.ends) w.live &= ~on;
        else if (on) i.run(w, i, on);
        if (i.barrier) {
            w.waits = true;
            return;
        }
    }
}

static void start_warp(warp & w, const kernel & k, block & b, int first, int n_threads, const uint32_t * special) {
    w.k = &k;
    w.b = &b;
    w.regs.assign((k.regs.size() + N_SPECIAL) * 32, 0);
    w.local.assign(k.local_bytes * 32, 0);
    w.live = 0;
    w.waits = false;
    for (int l = 0; l < 32; l++) {
        w.pc[l] = 0;
        if (first + l < n_threads) w.live |= 1u << l;
        for (int s = 0; s < N_SPECIAL; s++) w.regs[s * 32 + l] = special[s];
        w.regs[TID_X * 32 + l] = (uint32_t) (first + l);
        w.regs[LOCAL_BASE * 32 + l] = (uint64_t) (w.local.data() + k.local_bytes * l);
    }
}

static void run_block(const kernel & k, block & b, int n_threads, const uint32_t * special) {
    static std::vector<warp> warps;
    warps.resize((n_threads + 31) / 32);
    for (size_t i = 0; i < warps.size(); i++) start_warp(warps[i], k, b, (int) i * 32, n_threads, special);
    for (bool more = true; more;) {
        more = false;
        for (warp & w : warps) {
            run_warp(w);
            more |= w.live != 0;
        }
    }
}

static totals & totals_of(const std::string & name) {
    for (totals & t : all)
        if (t.name == name) return t;
    all.push_back({ name });
    return all.back();
}

// columns<64, (int)0> as the compiler that builds the launch writes it -> as parse() names kernels
static std::string source_name(std::string s) {
    s = s.substr(s.find("K = ") + 4);
    s.erase(s.find_last_of("];"));
    s = s.substr(0, s.find("; ["));
    for (size_t at; (at = s.find("(& ")) != std::string::npos;) s.erase(at, 3);
    while (!s.empty() && (s[0] == '(' || s[0] == '&')) s.erase(0, 1);
    while (!s.empty() && s.back() == ')') s.pop_back();
    return s;
}

int launch(const char * pretty, dim3 grid, dim3 threads, size_t smem, const void * params, const size_t * offsets) {
    static unsigned char * shared = (unsigned char *) aligned_alloc(128, 128 * 1024);
    const std::string name = source_name(pretty);
    const auto it = kernels.find(name);
    if (it == kernels.end() || !it->second.unknown.empty()) {
        fprintf(stderr, "ptx: %s: %s %s\n", name.c_str(), it == kernels.end() ? "no such kernel" : "unknown",
            it == kernels.end() ? pretty : it->second.unknown[0].c_str());
        exit(3);
    }
    const kernel & k = it->second;
    for (size_t i = 0; i < k.param.size(); i++)
        if (offsets[i] != k.param[i]) {
            fprintf(stderr, "ptx: %s: argument %zu at %zu, not %zu\n", name.c_str(), i, offsets[i], k.param[i]);
            exit(3);
        }
    uint64_t counts[N_KIND] = {}, read = 0, write = 0, n_run = 0;
    block b = { shared, (const unsigned char *) params, counts, &read, &write };
    const uint64_t n = (uint64_t) grid.x * grid.y * grid.z,
                   step = (name.compare(0, 6, "attend") == 0 || name.compare(0, 7, "columns") == 0) ? every : 1;
    for (uint64_t i = step / 2 < n ? step / 2 : 0; i < n; i += step, n_run++) {
        uint32_t special[N_SPECIAL] = {};
        special[CTAID_X] = (uint32_t) (i % grid.x);
        special[CTAID_Y] = (uint32_t) (i / grid.x % grid.y);
        special[CTAID_Z] = (uint32_t) (i / grid.x / grid.y);
        special[NTID_X] = threads.x;
        special[NCTAID_X] = grid.x;
        memset(shared, 0x7f, k.shared_bytes + smem);
        run_block(k, b, (int) threads.x, special);
    }
    totals & t = totals_of(name);
    const double scale = (double) n / n_run;
    t.launches++;
    for (int i = 0; i < N_KIND; i++) t.counts[i] += counts[i] * scale;
    t.read += read * scale;
    t.write += write * scale;
    return 0;
}

} // namespace ptx

void ptx_load(const char * path) { ptx::parse(path, ptx::kernels); }
void ptx_run_every(int n) { ptx::every = n; }
void ptx_clear(void) { ptx::all.clear(); }
bool ptx_get(int i, struct ptx_count * c) {
    if (i < 0 || i >= (int) ptx::all.size()) return false;
    const ptx::totals & t = ptx::all[i];
    c->kernel = t.name.c_str();
    c->launches = (int) t.launches;
    c->mma = t.counts[ptx::MMA];
    c->ldmatrix = t.counts[ptx::LDMATRIX];
    c->shared = t.counts[ptx::SHARED];
    c->global = t.counts[ptx::GLOBAL];
    c->exchange = t.counts[ptx::EXCHANGE];
    c->branch = t.counts[ptx::BRANCH];
    c->rest = t.counts[ptx::ARITHMETIC];
    c->move = t.counts[ptx::MOVE];
    c->read = t.read;
    c->write = t.write;
    return true;
}
