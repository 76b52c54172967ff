// The goldens of golden/models - outputs of transformers, and the models they are of - and short ways to encode.
#pragma once

#include "harness.h"
#include "mra-encoder.h"
#include "../examples/common/npy.h"

struct golden {
    const char * name;
    char path[1024]; // f32 copy of the model
    struct mra_model * model;
    struct npy hidden, mean, logits, mlm;
    int32_t *ids, *types;
    struct mra_seq seqs[32];
    int n_seq;
};

void goldens_begin(const char * folder); // golden/models; also makes a folder for copies
void goldens_end(void);

struct mra_model * load(const char * path, const struct mra_model_params * p); // ends the test where it cannot
const char * temp_path(const char * name); // of a model that the test makes; one of four buffers

struct golden golden_open(const char * name);
struct golden golden_open_hidden(const char * name, const char * file); // only hidden states; of another file's weights
// the same of another file of numbers, such as "logits", in place of the hidden states
struct golden golden_open_of(const char * name, const char * file, const char * what);
void golden_close(struct golden * g);

struct mra_context * context(const struct mra_model * m, struct mra_context_params p); // ends the test where it cannot
struct mra_context_params threads(int n);
struct mra_result encode(struct mra_context * ctx, const struct mra_seq * seqs, int n_seq, struct mra_output want);
float * encode_new(const struct mra_model * m, struct mra_context_params p, const struct mra_seq * seqs, int n_seq,
    struct mra_output want); // a context of its own; malloc'ed

// a model of its own, on a device by name; x malloc'ed, NULL: failed, which is counted. noted: mra_context_note() says
// something
struct encoded {
    float * x;
    int64_t n;
    bool noted;
    char device[32];
};
struct encoded encode_on(const char * path, const char * device, struct mra_context_params p,
    const struct mra_seq * seqs, int n_seq, struct mra_output want);

double max_diff(const float * a, const float * b, int64_t n);
double diff(struct mra_result r, const struct npy * w); // infinite where the shapes differ

struct mra_output tokens(void);
struct mra_output classes(void);
struct mra_output mlm(void);
struct mra_output pooled(enum mra_pooling p);
