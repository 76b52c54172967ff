// Blocks one after another, the threads of a block as fibers; which runs next, and barriers.
#include "emu.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emu {

enum { STACK_BYTES = 64 * 1024, MAX_PRINTED = 8, MAX_THREADS = 1024, GUARD_BYTES = 64 };

coordinates at;
block_state block;
std::vector<fiber> fibers;
options option = { MRA_HOST_LOWEST, 1 };
hooks hook;
std::vector<buffer> buffers;

struct warp {
    unsigned arrived, mask;
    int op;
    void * slot[32];
};
static warp warps[MAX_THREADS / 32];
static std::vector<uint64_t> runnable; // a bit per thread
static char * stacks;
static void * main_sp;
static void (*thunk)(const void *);
static int n_live, n_waiting;
static int barrier_line;
static uint64_t rng;
static unsigned n_findings;

void finding(const char * fmt, ...) {
    if (n_findings++ >= MAX_PRINTED) return;
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "cuda-host: %s, block %ld, thread %d: ", block.kernel, block.index, block.current);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

uint64_t random_bits() {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

int lane() { return block.current & 31; }

// saves the callee-saved registers on this stack, goes on with another one
extern "C" void emu_switch(void ** save, void * load);
#if defined(__x86_64__)
asm(".text\n.globl emu_switch\n.type emu_switch,@function\nemu_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\nmovq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size emu_switch, . - emu_switch\n");
static void * new_stack(char * top, void (*entry)()) {
    void ** sp = (void **) (top - 64);
    *--sp = nullptr; // entry finds the stack as a call leaves it
    *--sp = (void *) entry;
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    return sp;
}
#elif defined(__aarch64__)
asm(".text\n.globl emu_switch\n.type emu_switch,%function\nemu_switch:\n"
    "sub sp, sp, #160\nstp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, "
    "[sp, #128]\n"
    "stp d14, d15, [sp, #144]\nmov x2, sp\nstr x2, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
    "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, "
    "[sp, #128]\n"
    "ldp d14, d15, [sp, #144]\nadd sp, sp, #160\nret\n"
    ".size emu_switch, . - emu_switch\n");
static void * new_stack(char * top, void (*entry)()) {
    void ** sp = (void **) (top - 64 - 160);
    memset(sp, 0, 160);
    sp[11] = (void *) entry; // x30
    return sp;
}
#else
#    error "fibers need a switch for this processor"
#endif

static void set_runnable(int t, bool on) {
    if (on) runnable[t >> 6] |= 1ull << (t & 63);
    else runnable[t >> 6] &= ~(1ull << (t & 63));
}

static int pick() {
    const int n = (int) runnable.size();
    const int start = option.order == MRA_HOST_RANDOM ? (int) (random_bits() % (n * 64)) : 0;
    for (int k = 0; k <= n; k++) {
        const int i = option.order == MRA_HOST_HIGHEST ? (n - 1 - k + n) % n : (start / 64 + k) % n;
        uint64_t m = runnable[i];
        if (k == 0) m &= ~0ull << (start & 63);
        if (m) return i * 64 + (option.order == MRA_HOST_HIGHEST ? 63 - __builtin_clzll(m) : __builtin_ctzll(m));
    }
    return -1;
}

// goes on with another thread, or this one
static void yield_from(int me) {
    const int t = pick();
    if (t == me) return;
    void ** save = me >= 0 ? &fibers[me].sp : &main_sp;
    if (t < 0) {
        if (n_live > 0) {
            finding("deadlock: %d threads wait, %d of them at __syncthreads, for others that do not come", n_live,
                n_waiting);
            exit(3); // the fibers cannot be unwound
        }
        emu_switch(save, main_sp);
        return;
    }
    block.current = t;
    at.thread = fibers[t].thread;
    block.stack_lo = stacks + (size_t) t * STACK_BYTES;
    block.stack_hi = block.stack_lo + STACK_BYTES;
    emu_switch(save, fibers[t].sp);
}

static void fiber_entry() {
    thunk(block.args);
    const int me = block.current;
    bool flying = !fibers[me].open.empty();
    for (const auto & g : fibers[me].groups) flying |= !g.empty();
    if (flying) finding("a thread ends with copies in flight");
    fibers[me].exited = true;
    n_live--;
    set_runnable(me, false);
    if (n_waiting && n_waiting == n_live) finding("__syncthreads is not reached by a thread that ends");
    yield_from(me);
    abort();
}

static void run_block() {
    block.epoch = 0;
    memset(block.warp_epoch, 0, sizeof(block.warp_epoch));
    for (size_t i = 0; i + 1 < block.shared_bytes; i += 2) { // NaN in 16 and in 32 bits
        block.shared[i] = 0xff;
        block.shared[i + 1] = 0x7f;
    }
    memset(warps, 0, sizeof(warps));
    n_live = block.n_threads;
    n_waiting = 0;
    if (hook.block_begin) hook.block_begin();
    const dim3 b = at.block_dim;
    for (int t = 0; t < block.n_threads; t++) {
        fiber & f = fibers[t];
        f.exited = false;
        f.thread = dim3(t % b.x, t / b.x % b.y, t / (b.x * b.y));
        f.open.clear();
        f.groups.clear();
        f.sp = new_stack(stacks + (size_t) (t + 1) * STACK_BYTES, fiber_entry);
        set_runnable(t, true);
    }
    block.current = -1;
    yield_from(-1);
    block.current = -1;
    if (hook.block_end) hook.block_end();
}

size_t shared_max() { return EMU_ARCH < 800 ? 64 * 1024 : 99 * 1024; } // sm_75; the least of those behind it

static size_t static_bytes() {
    return block.arrays.empty() ? 0 : block.arrays.back().offset + block.arrays.back().bytes - block.dyn_bytes;
}

static bool only_list;
static std::vector<struct mra_host_launch> launches;

int launch_thunk(
    const char * name, dim3 grid, dim3 b, size_t smem, void (*fn)(const void *), const void * args, size_t arg_bytes) {
    const uint64_t n = (uint64_t) b.x * b.y * b.z;
    block.kernel = name;
    if (n < 1 || n > MAX_THREADS || smem > shared_max() || grid.x < 1 || grid.x > INT32_MAX || grid.y < 1 ||
        grid.y > 65535 || grid.z < 1 || grid.z > 65535) {
        finding("launch refused: grid %u x %u x %u, %llu threads, %zu bytes of shared memory", grid.x, grid.y, grid.z,
            (unsigned long long) n, smem);
        return 1;
    }
    if (only_list) {
        launches.push_back({ name, (uint64_t) grid.x * grid.y * grid.z });
        return 0;
    }
    if (!stacks) stacks = (char *) aligned_alloc(4096, (size_t) MAX_THREADS * STACK_BYTES);
    static unsigned char * shared = (unsigned char *) aligned_alloc(128, 256 * 1024);
    fibers.resize(n);
    runnable.assign((n + 63) / 64, 0);
    thunk = fn;
    rng = option.seed * 0x9e3779b97f4a7c15ull | 1;
    block.args = (const char *) args;
    block.arg_bytes = arg_bytes;
    block.shared = shared;
    block.dyn_bytes = smem;
    block.shared_bytes = smem + 64 * 1024;
    block.arrays.clear();
    block.n_threads = (int) n;
    at.block_dim = b;
    at.grid_dim = grid;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                at.block = dim3(x, y, z);
                block.index = ((long) z * grid.y + y) * grid.x + x;
                run_block();
            }
    if (static_bytes() > 48 * 1024 || static_bytes() + smem > shared_max())
        finding("%zu bytes of static and %zu of dynamic shared memory", static_bytes(), smem);
    return 0;
}

void * dyn_shared() { return block.shared; }

// every array of the source once, with a gap behind it that nobody may touch
void * static_shared(const char * file, int line, size_t bytes, size_t align) {
    for (const array & a : block.arrays)
        if (a.line == line && strcmp(a.file, file) == 0) return block.shared + a.offset;
    size_t offset = block.arrays.empty() ? block.dyn_bytes : block.arrays.back().offset + block.arrays.back().bytes;
    offset = (offset + GUARD_BYTES + 127) / 128 * 128 + (align > 128 ? align : 0);
    block.arrays.push_back({ file, line, offset, bytes });
    return block.shared + offset;
}

void sync_threads(int line) {
    if (n_waiting == 0) barrier_line = line;
    else if (line != barrier_line)
        finding("threads meet at different __syncthreads, of lines %d and %d", barrier_line, line);
    if (n_live != block.n_threads) finding("__syncthreads after some threads have ended");
    if (++n_waiting < n_live) {
        set_runnable(block.current, false);
        yield_from(block.current);
        return;
    }
    n_waiting = 0;
    block.epoch++;
    for (int t = 0; t < block.n_threads; t++)
        if (!fibers[t].exited) set_runnable(t, true);
    yield_from(block.current);
}

void collective(int op, unsigned mask, void * mine, void (*last)(void **, unsigned)) {
    const int me = block.current, l = me & 31, w = me >> 5, n = block.n_threads - w * 32;
    warp & ww = warps[w];
    if (n < 32) mask &= (1u << n) - 1;
    if (!(mask >> l & 1)) finding("lane %d is not in its own mask %08x", l, mask);
    if (ww.arrived == 0) {
        ww.op = op;
        ww.mask = mask;
    } else if (ww.op != op || ww.mask != mask)
        finding(
            "lanes of a warp meet in different collectives: %d and %d, masks %08x and %08x", ww.op, op, ww.mask, mask);
    ww.slot[l] = mine;
    ww.arrived |= 1u << l;
    if (ww.arrived != ww.mask) {
        set_runnable(me, false);
        yield_from(me);
        return;
    }
    last(ww.slot, ww.mask);
    ww.arrived = 0;
    for (unsigned m = ww.mask; m; m &= m - 1) set_runnable(w * 32 + __builtin_ctz(m), true);
    if (option.order == MRA_HOST_RANDOM) yield_from(me);
}

} // namespace emu

void mra_host_schedule(enum mra_host_order order, uint64_t seed) { emu::option = { order, seed }; }
void mra_host_buffer(const void * p, size_t bytes, const char * name) {
    emu::buffers.push_back({ (const char *) p, (const char *) p + bytes, name });
}
void mra_host_buffers_clear(void) { emu::buffers.clear(); }
void mra_host_only_list(bool on) {
    emu::only_list = on;
    emu::launches.clear();
}
bool mra_host_launch_get(int i, struct mra_host_launch * l) {
    if (i < 0 || (size_t) i >= emu::launches.size()) return false;
    *l = emu::launches[i];
    return true;
}
int mra_host_arch(void) { return EMU_ARCH; }
unsigned mra_host_findings(void) {
    const unsigned n = emu::n_findings;
    emu::n_findings = 0;
    return n;
}
