// A window: the records that are in memory, with their tokens and results. About one batch of tokens, so that results
// are written as soon as they are computed.
#pragma once

#include "engine.h"

struct item {
    struct record rec;
    const char * pair;          // the record's second text or the one of all records; NULL: a single text
    struct mra_token_list list; // of the whole text; of several passes: not kept
    struct mra_token * passes;  // tokens of all passes where there are several, else NULL
    struct mra_seq * seqs;      // [n_seq] passes over the text; one, except with --truncate chunk
    int n_seq;
    int64_t n_tokens;        // of all passes
    struct mra_span * spans; // SPANS: [n_span]; seq counts the passes
    int n_span;
    int * at; // MLM: [n_at] positions in the only pass
    int n_at;
    bool failed, done;
    struct mra_error err;
    struct mra_attention_choice attention;
    double max_err, rel_err, cosine;   // --verify: over all rows; the smallest cosine of a row
    struct mra_error_summary estimate; // --estimate: of the pass with the largest error
    void * result;                     // what collect made of the rows; freed with the item
};

struct window {
    struct item * items; // [n_items]
    int n_items, cap_items;
};

// a new item at the end; NULL: no memory
struct item * window_add(struct window * w);
void window_drop_last(struct window * w);
void window_clear(struct window * w);
void window_free(struct window * w);

void item_fail(struct item * it, enum mra_status code, const char * why);
// What to do with a text: options and what the engine allows.
struct text_rules {
    const struct engine * engine;
    enum truncate truncate;
    const char * prefix; // NULL: none
    bool pairs;          // records may have a second text; else it is ignored
    const char * pair;   // the second text of all that have none; may be NULL
    bool can_chunk;      // for the message of a text that is too long
};
void item_add_prefix(struct item * it, const struct text_rules * rules);
// tokens and passes of the record's text
void item_tokenize(struct item * it, const struct text_rules * rules);
