// What the kernels execute per query and head of 64 at n = 4096, K and V in F16, w = 1/8: mra-cuda-count counts it and
// fails where it is more (window: of 128, at any n), and mra-test-cuda says which share of the bounds that follow a GPU
// reaches.
#pragma once

struct cuda_counts {
    double instructions; // of warps
    double mma;          // of them, of 16 x 8 x 16
    double kbyte;        // of global memory
};
static const struct cuda_counts exact_counts = { 2720, 256, 16.8 }, columns_counts = { 1180, 66, 10.4 },
                                sorted_counts = { 1255, 73, 9.5 }, order_counts = { 1980, 0, 6.6 },
                                mra2_counts = { 780, 32, 6.4 }, window_counts = { 170, 10.2, 1.3 };
