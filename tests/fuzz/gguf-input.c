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

// Also changes what to do with the file, which bytes anywhere would hardly ever hit, and numbers anywhere in the head.
size_t LLVMFuzzerCustomMutator(uint8_t * data, size_t size, size_t max_size, unsigned seed) {
    if (size <= N_CHOICE || seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
    if (seed / 4 % 4 == 0) data[seed / 16 % N_CHOICE] = (uint8_t) (seed / 64);
    if (seed / 1024 % 4) size = N_CHOICE + gguf_mutate(data + N_CHOICE, size - N_CHOICE, seed);
    return size;
}
