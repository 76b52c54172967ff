// mra-bench model: the contenders of one length, what their workers are asked, and whether the answers are right
// (bench-model-check.c).
#pragma once

#include "bench-model.h"

#include <cjson/cJSON.h>

enum { MAX_CONTENDERS = 32, MAX_REPS = 100 };

struct options; // bench-model.c

struct contender {
    const char *frame, *type;
    double budget;
    bool is_extra; // exact attention in floats to compare with, not timed
    struct worker w;
    cJSON * profile; // answers with the times by operator, and of the run before
    cJSON * last;
    double s[MAX_REPS], total;
    int n_s;
};

struct bench {
    const struct options * o;
    cJSON * about; // the model
    int64_t n;
    int32_t * ids; // [n]
    struct contender c[MAX_CONTENDERS];
    int n_c;
};

// the first n tokens; threads 0: all; isa NULL: the best. *reply is the caller's, NULL on failure
enum mra_status ask(struct bench * b, struct contender * c, int64_t n, int threads, const char * isa, bool profile,
    cJSON ** reply, struct mra_error * err);

// of an answer: a number, NaN where it has none; the type of its attention, or ""
double number(const cJSON * answer, const char * name);
const char * type_of(const cJSON * answer);

// ||a - b|| / ||b|| and the cosine of two answers' embeddings; not finite if one of them is not
struct likeness {
    double difference, cosine;
};

struct likeness compare(const cJSON * a, const cJSON * b);

// Validation, on a cut of the tokens: kernels against the reference, one thread against all of them.
enum mra_status check_cut(struct bench * b, struct contender * c, struct mra_error * err);

// All tokens; c->last is the answer. An embedding that is not finite, or 0, is a failure.
enum mra_status run_once(struct bench * b, struct contender * c, struct mra_error * err);
