// mra-bench model: asking workers, and validation of their answers.
#include "bench-model-ask.h"

#include <math.h>
#include <string.h>

enum { CUT = 96, CUT_REF = 32 }; // tokens that are compared: one thread with all of them, and with the reference

enum mra_status ask(struct bench * b, struct contender * c, int64_t n, int threads, const char * isa, bool profile,
    cJSON ** reply, struct mra_error * err) {
    cJSON * job = cJSON_CreateObject();
    cJSON_AddStringToObject(job, "frame", c->frame);
    cJSON_AddStringToObject(job, "attn_type", c->type);
    cJSON_AddNumberToObject(job, "budget", c->budget);
    cJSON_AddItemToObject(job, "ids", cJSON_CreateIntArray(b->ids, (int) n));
    if (threads) cJSON_AddNumberToObject(job, "threads", threads);
    if (isa) cJSON_AddStringToObject(job, "isa", isa);
    if (profile) cJSON_AddTrueToObject(job, "profile");
    return worker_ask(&c->w, job, reply, err);
}

double number(const cJSON * o, const char * name) {
    const cJSON * v = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

struct likeness compare(const cJSON * a, const cJSON * b) {
    const cJSON *x = cJSON_GetObjectItem(a, "embedding"), *y = cJSON_GetObjectItem(b, "embedding");
    double ee = 0, aa = 0, bb = 0, ab = 0;
    if (!x || cJSON_GetArraySize(x) == 0 || cJSON_GetArraySize(x) != cJSON_GetArraySize(y))
        return (struct likeness) { NAN, NAN };
    for (x = x->child, y = y->child; x; x = x->next, y = y->next) {
        const double u = cJSON_IsNumber(x) ? x->valuedouble : NAN, v = cJSON_IsNumber(y) ? y->valuedouble : NAN;
        ee += (u - v) * (u - v);
        aa += u * u;
        bb += v * v;
        ab += u * v;
    }
    return (struct likeness) { sqrt(ee / bb), ab / sqrt(aa * bb) };
}

const char * type_of(const cJSON * answer) {
    const char * type = cJSON_GetStringValue(cJSON_GetObjectItem(answer, "attn_type"));
    return type ? type : "";
}

// How far the embedding r[1] of the kernels may be from r[0] of the reference. Kernels may round what meets quantized
// weights to 8 bits, some of them the weights, too; how far that moves an embedding depends on the model - one that
// amplifies every difference by a quarter per layer moves by .15 - so r[2] says it: the reference where x is rounded.
// NULL: nothing is quantized. Every layer adds what keys are exchanged next to a threshold, and what integers of
// attention round.
static double allowed(const struct bench * b, const struct contender * c, cJSON * const r[3]) {
    const double n_layer = number(b->about, "layers"), moved = r[2] ? compare(r[2], r[0]).difference : 0;
    const double tol = 2e-3 + 3 * moved + (strcmp(c->frame, "exact") == 0 ? 0 : .01 * n_layer) +
        (strcmp(type_of(r[1]), "int8") == 0 ? .005 * n_layer : 0); // the reference kernels are floats
    return tol > .5 ? .5 : tol;                                    // NaN stays, and fails
}

enum mra_status check_cut(struct bench * b, struct contender * c, struct mra_error * err) {
    const int64_t n = b->n < CUT ? b->n : CUT, n_ref = b->n < CUT_REF ? b->n : CUT_REF;
    const char * type = cJSON_GetStringValue(cJSON_GetObjectItem(b->about, "type"));
    const bool quantized = strcmp(type, "f32") != 0 && strcmp(type, "f16") != 0;
    cJSON * r[5] = { 0 };
    enum mra_status st = ask(b, c, n_ref, 0, "ref", false, &r[0], err);
    if (st == MRA_OK) st = ask(b, c, n_ref, 0, NULL, false, &r[1], err);
    if (st == MRA_OK && quantized) st = ask(b, c, n_ref, 0, "ref-rounded", false, &r[2], err);
    if (st == MRA_OK) st = ask(b, c, n, 1, NULL, false, &r[3], err);
    if (st == MRA_OK) st = ask(b, c, n, 0, NULL, false, &r[4], err);
    if (st == MRA_OK) {
        const double tol = allowed(b, c, r), diff = compare(r[1], r[0]).difference,
                     threads = compare(r[4], r[3]).difference;
        if (!(diff <= tol))
            st = mra_fail(err, MRA_ERR_BACKEND,
                "the embedding of %lld tokens differs from the reference kernels' by %.2g (allowed %.2g)",
                (long long) n_ref, diff, tol);
        else if (!(threads == 0))
            st = mra_fail(err, MRA_ERR_BACKEND,
                "the embedding of %lld tokens depends on the number of threads (by %.2g)", (long long) n, threads);
    }
    for (int i = 0; i < 5; i++) cJSON_Delete(r[i]);
    return st;
}

enum mra_status run_once(struct bench * b, struct contender * c, struct mra_error * err) {
    cJSON * r;
    const enum mra_status st = ask(b, c, b->n, 0, NULL, false, &r, err);
    if (st != MRA_OK) return st;
    cJSON_Delete(c->last);
    c->last = r;
    return isfinite(compare(r, r).cosine)
        ? MRA_OK
        : mra_fail(err, MRA_ERR_BACKEND, "the embedding has values that are not finite, or is 0");
}
