// What the fuzz targets share: an input as a sequence of choices, numbers that break things, files in memory, graphs
// whose tensors each have memory of their own.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ggml_context;
struct ggml_tensor;

struct choices {
    const uint8_t * p;
    size_t n;
};

uint8_t take(struct choices * c); // 0 behind the end
int take_int(struct choices * c); // small, around a power of two, or any
int take_up_to(struct choices * c, int n);
float take_float(struct choices * c); // a plain one, or one that breaks things

void require(bool ok); // ends the program where a promise is broken

// n floats: plain, or with NaN, infinities, huge and denormal numbers among them; `bits` also arbitrary bytes
enum fill { FILL_PLAIN, FILL_NAN, FILL_INF, FILL_HUGE, FILL_ALL_HUGE, FILL_DENORMAL, FILL_ZERO, FILL_BITS, N_FILL };
void fill(float * x, size_t n, enum fill kind, uint64_t seed);

// A file in memory of head[n_head], then n_tail bytes; returns its path, valid until the next call.
const char * memory_file(const void * head, size_t n_head, const void * tail, size_t n_tail);

// A context for a few tensors; each tensor's memory ends where its data ends, so that a sanitizer sees a byte too far.
struct ggml_context * graph_context(void);
void tensor_alloc(struct ggml_tensor * t);
void graph_compute(struct ggml_context * ctx, struct ggml_tensor * out, int n_threads); // out NULL: nothing
void graph_context_free(struct ggml_context * ctx);
