// The checker: every memory access of a kernel compiled with -fsanitize=thread comes here instead of to that
// sanitizer's library. Finds races whatever the schedule (two threads, one of them writing, and no barrier between),
// accesses outside of buffers and shared arrays, reads of shared memory that nobody wrote, and uses of data whose
// asynchronous copy is in flight.
#include "check.h"

#include <cstdint>

extern "C" char __executable_start, __bss_start;

namespace emu {

// Who touched two bytes of memory.
struct access_by {
    long block = -1;
    int thread = -1;
    uint32_t epoch = 0, warp_epoch = 0;
};
struct cell {
    access_by writer, atomic;
    access_by reader;     // the latest,
    access_by same_warp;  // one of another lane of its warp since that warp's last __syncwarp,
    access_by other_warp; // and one of another warp: enough to find a reader for any later writer
    int copying = -1;     // thread whose copy is in flight
    bool written = false;
};
struct memory {
    const char * lo;
    std::vector<cell> cells;
    bool shared;
    const char * name;
};

static std::vector<memory> global;
static memory shared;

static bool unordered(const access_by & a) {
    if (a.thread < 0 || (a.block == block.index && a.thread == block.current)) return false;
    if (a.block != block.index) return true; // nothing orders two blocks of a launch
    if (a.epoch != block.epoch) return false;
    return a.thread >> 5 != block.current >> 5 || a.warp_epoch == block.warp_epoch[block.current >> 5];
}

static void note_read(cell & c, const access_by & me) {
    if (c.reader.thread >= 0 && c.reader.thread != me.thread) {
        if (c.reader.block != me.block || c.reader.thread >> 5 != me.thread >> 5) {
            c.other_warp = c.reader;
            c.same_warp = access_by();
        } else c.same_warp = c.reader;
    } else if (c.reader.block != me.block) c.other_warp = c.reader;
    c.reader = me;
}

static bool check_cell(cell & c, access_kind kind, const access_by & me, const char * where, long off, bool in_shared) {
    if (c.copying >= 0 && kind != ACCESS_COPY_DONE) {
        finding("%s of %s+%ld while a copy by thread %d is in flight", kind == ACCESS_READ ? "read" : "write", where,
            off, c.copying);
        return false;
    }
    if (kind == ACCESS_READ) {
        if (in_shared && !c.written) {
            finding("uninitialised read of %s+%ld", where, off);
            return false;
        }
        const access_by * w = unordered(c.writer) ? &c.writer : unordered(c.atomic) ? &c.atomic : nullptr;
        if (w) {
            finding("race: read of %s+%ld, written by block %ld thread %d with no barrier between", where, off,
                w->block, w->thread);
            return false;
        }
        note_read(c, me);
        return true;
    }
    const access_by * o = unordered(c.writer)          ? &c.writer
        : unordered(c.reader)                          ? &c.reader
        : unordered(c.same_warp)                       ? &c.same_warp
        : unordered(c.other_warp)                      ? &c.other_warp
        : kind != ACCESS_ATOMIC && unordered(c.atomic) ? &c.atomic
                                                       : nullptr;
    if (o) {
        finding("race: %s of %s+%ld, touched by block %ld thread %d with no barrier between",
            kind == ACCESS_ATOMIC ? "atomic" : "write", where, off, o->block, o->thread);
        return false;
    }
    (kind == ACCESS_ATOMIC ? c.atomic : c.writer) = me;
    c.written = true;
    c.copying = kind == ACCESS_COPY_ISSUE ? block.current : -1;
    return true;
}

static memory * find_memory(const char * p, int bytes) {
    const char * s = (const char *) block.shared;
    if (p >= s && p < s + block.shared_bytes) {
        if (p + bytes <= s + block.dyn_bytes) return &shared;
        for (const array & a : block.arrays)
            if (p >= s + a.offset && p + bytes <= s + a.offset + a.bytes) return &shared;
        return nullptr;
    }
    for (memory & m : global)
        if (p >= m.lo && p + bytes <= m.lo + m.cells.size() * 2) return &m;
    return nullptr;
}

// a thread's own variables, launch arguments, threadIdx and its like, constants
static bool is_private(const char * p, int bytes, access_kind kind) {
    if (p >= block.stack_lo && p < block.stack_hi) return true;
    if (kind != ACCESS_READ) return false;
    return (p >= block.args && p + bytes <= block.args + block.arg_bytes) ||
        (p >= (const char *) &at && p < (const char *) (&at + 1)) || (p >= &__executable_start && p < &__bss_start);
}

static void on_any_access(const void * ptr, int bytes, access_kind kind, const void * pc) {
    const char * p = (const char *) ptr;
    if (block.current < 0 || is_private(p, bytes, kind)) return;
    memory * m = find_memory(p, bytes);
    if (!m) {
        finding("%s of %d bytes out of bounds of every buffer and shared array", kind == ACCESS_READ ? "read" : "write",
            bytes);
        return;
    }
    const access_by me = { block.index, block.current, block.epoch, block.warp_epoch[block.current >> 5] };
    const long off = (long) (p - m->lo);
    if (m->shared && m->cells.size() < (size_t) (off + bytes + 1) / 2)
        m->cells.resize((off + bytes + 1) / 2); // static arrays, as they appear
    for (long i = off / 2; i < (off + bytes + 1) / 2; i++)
        if (!check_cell(m->cells[i], kind, me, m->name, off, m->shared)) break;
    if (pc && kind != ACCESS_COPY_DONE) note_traffic(p, bytes, kind, pc, m->shared);
}

static void on_access(const void * p, int bytes, access_kind kind, const void * pc) {
    if (block.current < 0 || is_private((const char *) p, bytes, kind)) return;
    if (bytes <= 16 && (bytes & (bytes - 1)) == 0 && (uintptr_t) p % bytes)
        finding("access of %d bytes is not aligned", bytes);
    on_any_access(p, bytes, kind, pc);
}

static void on_block_begin() {
    if (block.index == 0) {
        global.clear();
        for (const buffer & b : buffers)
            global.push_back({ b.lo, std::vector<cell>((b.hi - b.lo + 1) / 2), false, b.name });
    }
    shared = { (const char *) block.shared, std::vector<cell>(block.dyn_bytes / 2 + 1), true, "shared" };
    traffic_begin();
}

static const bool linked = (hook = { on_access, note_ldmatrix, on_block_begin, traffic_end }, true);

} // namespace emu

bool mra_host_checks(void) { return emu::linked; }

using namespace emu;
#define PC __builtin_return_address(0)
// an access that the compiler calls unaligned is several of the source, joined
#define SIZE(n) \
    void __tsan_read##n(void * p) { on_access(p, n, ACCESS_READ, PC); } \
    void __tsan_write##n(void * p) { on_access(p, n, ACCESS_WRITE, PC); } \
    void __tsan_unaligned_read##n(void * p) { on_any_access(p, n, ACCESS_READ, PC); } \
    void __tsan_unaligned_write##n(void * p) { on_any_access(p, n, ACCESS_WRITE, PC); }
extern "C" {
SIZE(1) SIZE(2) SIZE(4) SIZE(8) SIZE(16) void __tsan_read_range(void * p, size_t n) {
    on_any_access(p, (int) n, ACCESS_READ, PC);
}
void __tsan_write_range(void * p, size_t n) { on_any_access(p, (int) n, ACCESS_WRITE, PC); }
void * __tsan_memcpy(void * d, const void * s, size_t n) {
    on_any_access(s, (int) n, ACCESS_READ, PC);
    on_any_access(d, (int) n, ACCESS_WRITE, PC);
    return __builtin_memcpy(d, s, n);
}
void * __tsan_memset(void * d, int c, size_t n) {
    on_any_access(d, (int) n, ACCESS_WRITE, PC);
    return __builtin_memset(d, c, n);
}
void __tsan_init(void) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void *, void *) {}
}
