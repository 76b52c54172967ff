#include "fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint8_t take(struct choices * c) {
    if (!c->n) return 0;
    c->n--;
    return *c->p++;
}

int take_up_to(struct choices * c, int n) { return take(c) % (n + 1); }

int take_int(struct choices * c) {
    const uint8_t how = take(c);
    uint32_t any = 0;
    switch (how % 4) {
        case 0: return take(c);
        case 1: return (int8_t) take(c);
        case 2: return (int) (1u << take(c) % 31) - 1 + how / 4 % 3;
    }
    for (int i = 0; i < 4; i++) any = any << 8 | take(c);
    return (int) any;
}

static const float breaking[] = { NAN, INFINITY, -INFINITY, 1e19f, -1e19f, 3e38f, -3e38f, 1e-40f, 0.f, -0.f };
enum { N_BREAKING = sizeof(breaking) / sizeof(breaking[0]) };

float take_float(struct choices * c) {
    const uint8_t how = take(c);
    if (how < 160) return (float) (how - 80) / 16;
    return breaking[how % N_BREAKING];
}

void require(bool ok) {
    if (!ok) abort();
}

static uint64_t next(uint64_t * s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

void fill(float * x, size_t n, enum fill kind, uint64_t seed) {
    static const float some[N_FILL] = { [FILL_NAN] = NAN, [FILL_INF] = INFINITY, [FILL_HUGE] = 1e20f };
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = next(&seed);
        const uint32_t bits = (uint32_t) (r * 2654435761u);
        x[i] = (float) (r % 2001) / 2000 - .5f;
        switch (kind) {
            case FILL_NAN:
            case FILL_INF:
            case FILL_HUGE:
                if (r % 997 == 0) x[i] = r & 1024 ? some[kind] : -some[kind];
                break;
            case FILL_ALL_HUGE: x[i] = 1e19f; break;
            case FILL_DENORMAL: x[i] *= 1e-39f; break;
            case FILL_ZERO: x[i] = 0; break;
            case FILL_BITS: memcpy(&x[i], &bits, 4); break;
            default: break;
        }
    }
}

const char * memory_file(const void * head, size_t n_head, const void * tail, size_t n_tail) {
    static char path[64];
    static int fd = -1;
    if (fd >= 0) close(fd);
    fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, head, n_head) == (ssize_t) n_head && write(fd, tail, n_tail) == (ssize_t) n_tail);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return path;
}
