// The emulator: every thread of a block is a fiber, so barriers, shuffles, matrix instructions and asynchronous copies
// are real meetings.
#pragma once

#include "host.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#ifndef EMU_ARCH
#    define EMU_ARCH 800
#endif

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

namespace emu {

// ---- what cuda-host.h turns kernels into ----

struct coordinates {
    dim3 thread, block, block_dim, grid_dim;
};
extern coordinates at; // of the running thread

int launch_thunk(const char * name, dim3 grid, dim3 block, size_t smem, void (*thunk)(const void *), const void * fn,
    size_t fn_bytes);
template <class Fn> __attribute__((no_sanitize("thread"))) void call_thunk(const void * fn) { (*(const Fn *) fn)(); }
template <class Fn> int launch(const char * name, dim3 grid, dim3 block, size_t smem, const Fn & fn) {
    return launch_thunk(name, grid, block, smem, call_thunk<Fn>, &fn, sizeof(Fn));
}
size_t shared_max();
void * dyn_shared();
void * static_shared(const char * file, int line, size_t bytes, size_t align);
template <class T, size_t n> T * shared_array(const char * file, int line) {
    return (T *) static_shared(file, line, n * sizeof(T), alignof(T));
}

void sync_threads(int line); // the line tells barriers apart; an address does not, where the compiler copies code
void sync_warp(unsigned mask);
uint64_t shuffle(uint64_t v, int from, unsigned mask, int op); // op tells the collectives apart
unsigned ballot(bool p, unsigned mask);
void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
void mma_16x8x8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0);
void ldmatrix_x4(uint32_t (&r)[4], const void * row, bool transpose);
void copy16(void * dst, const void * src, int from);
void copy_commit();
void copy_wait(int n);
void touch_atomic(void * p, int bytes);
int lane();
float half_to_float(uint16_t h);
uint16_t float_to_half(float f); // to nearest even

// ---- what the parts of the emulator share ----

struct pending_copy {
    void * dst;
    const void * src;
    int from;
    bool done;
};
struct fiber {
    void * sp;
    dim3 thread;
    bool exited;
    std::vector<pending_copy> open;                // not committed
    std::vector<std::vector<pending_copy>> groups; // committed, oldest first
};

struct array {
    const char * file;
    int line;
    size_t offset, bytes;
}; // of static shared memory

// The block that runs.
struct block_state {
    const char * kernel;
    long index;       // of the block in its grid
    int current = -1; // thread, -1: none
    int n_threads;
    uint32_t epoch; // barriers passed
    uint32_t warp_epoch[32];
    unsigned char * shared; // dynamic, then static
    size_t dyn_bytes, shared_bytes;
    std::vector<array> arrays;
    const char * args; // of the launch
    size_t arg_bytes;
    const char *stack_lo, *stack_hi; // of the running fiber
};
extern block_state block;
extern std::vector<fiber> fibers;

struct options {
    enum mra_host_order order;
    uint64_t seed;
};
extern options option;
uint64_t random_bits();

void finding(const char * fmt, ...) __attribute__((format(printf, 1, 2)));

// called by the last lane of the mask to arrive, with what every lane brought
void collective(int op, unsigned mask, void * mine, void (*last)(void ** lanes, unsigned mask));

// The checker, where it is linked in.
enum access_kind { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC, ACCESS_COPY_ISSUE, ACCESS_COPY_DONE };
struct hooks {
    void (*access)(const void * p, int bytes, access_kind kind, const void * pc);
    void (*ldmatrix)(const void * const * rows); // 32 of them
    void (*block_begin)();
    void (*block_end)();
};
extern hooks hook;
struct buffer {
    const char *lo, *hi;
    const char * name;
};
extern std::vector<buffer> buffers;

} // namespace emu
