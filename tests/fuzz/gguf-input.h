// An input of the targets that read GGUF files: 4 bytes of choices, then a file's keys and tensor shapes. The tensors'
// data is made up here, so that an input is a few KB.
#pragma once

#include "fuzz.h"

struct gguf_input {
    struct choices choice; // of 2 bytes: what to do with the file
    const char * path;
};

// false: too short. input[0]: KB of data / 2, [1]: enum fill.
bool gguf_input_make(struct gguf_input * in, const uint8_t * data, size_t size);

// Changes a head; returns its size, which does not grow.
size_t gguf_mutate(uint8_t * head, size_t size, unsigned seed);
