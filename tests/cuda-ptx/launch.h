// Launches of kernels whose host part was compiled here, and whose device part is PTX.
#pragma once

#include "../cuda-host/emu.h"

#include <cstring>

namespace ptx {

int launch(const char * pretty, dim3 grid, dim3 threads, size_t smem, const void * params, const size_t * offsets);

// arguments as the kernel's parameters lie in memory
template <class... P> struct packed {
    unsigned char bytes[4096];
    size_t at = 0, offsets[sizeof...(P) + 1];
    int n = 0;
    template <class T> void add(const T & x) {
        at = (at + alignof(T) - 1) / alignof(T) * alignof(T);
        static_assert(sizeof(T) < sizeof(bytes) / 2, "parameters are at most 4 KiB");
        memcpy(bytes + at, &x, sizeof(T));
        offsets[n++] = at;
        at += sizeof(T);
    }
};

template <auto K> const char * name_of() { return __PRETTY_FUNCTION__; }
template <auto K, class... P, class... A>
int launch_of(void (*)(P...), dim3 grid, dim3 threads, size_t smem, A... args) {
    packed<P...> p;
    (p.add(static_cast<P>(args)), ...);
    return launch(name_of<K>(), grid, threads, smem, p.bytes, p.offsets);
}

} // namespace ptx
