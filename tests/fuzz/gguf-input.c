#include "gguf-input.h"

#include <string.h>

enum { N_CHOICE = 4, MAX_DATA = 255 * 2048 };

bool gguf_input_make(struct gguf_input * in, const uint8_t * data, size_t size) {
    static float tails[N_FILL][MAX_DATA / sizeof(float)];
    static bool filled;
    for (int i = 0; !filled && i < N_FILL; i++) fill(tails[i], MAX_DATA / sizeof(float), (enum fill) i, (uint64_t) i);
    filled = true;
    if (size < N_CHOICE) return false;
    in->choice = (struct choices) { data + 2, 2 };
    in->path = memory_file(data + N_CHOICE, size - N_CHOICE, tails[data[1] % N_FILL], data[0] * 2048);
    return true;
}

size_t LLVMFuzzerMutate(uint8_t * data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t * data, size_t size, size_t max_size, unsigned seed);

// Half of the time numbers are changed in place: a length that no longer fits ends most files at once.
size_t LLVMFuzzerCustomMutator(uint8_t * data, size_t size, size_t max_size, unsigned seed) {
    static const uint64_t numbers[] = { 0, 1, 2, 7, 31, 32, 33, 127, 128, 255, 256, 4096, 65535, 1u << 20, 0x7fffffff,
        0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff, UINT64_MAX, 0x7fc00001, 0x60ad78ec };
    if (size < 16 || seed % 2) return LLVMFuzzerMutate(data, size, max_size);
    for (unsigned i = 0; i < 1 + seed / 2 % 3; i++) {
        seed = seed * 1664525 + 1013904223;
        const size_t width = (size_t) 1 << (seed >> 28) % 4, at = (seed >> 4) % (size - width + 1);
        memcpy(data + at, &numbers[(seed >> 20) % (sizeof(numbers) / sizeof(numbers[0]))], width);
    }
    return size;
}
