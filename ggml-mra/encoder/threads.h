// How contexts that do not say how many threads they want share the CPUs: each gets n_cpu / contexts at work. More
// threads than CPUs would be slow beyond measure: ggml's threads wait for each other by spinning.
#pragma once

#include <stdbool.h>

// A context, in the list of all; zero: not in it. At work: between enter and leave, and for a while behind that,
// because a caller with many short texts comes back at once.
struct mra_threads_user {
    struct mra_threads_user * next;
    bool is_listed, is_inside;
    double left_ms; // when it left the last time
};

void mra_threads_enter(struct mra_threads_user * u);
void mra_threads_leave(struct mra_threads_user * u);
void mra_threads_forget(struct mra_threads_user * u); // before it is freed

// the share of each context at work now, at least 1
int mra_threads_share(int n_cpu);
