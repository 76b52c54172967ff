// ggml_mra_attn on values that overflow or are not numbers, on every kernel table: nothing is written where it must not
// be, and the output says that its input was no good.
#include "harness.h"

enum { N_HEAD = 2, D = 32 };

static float nan_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static enum mra_attn_type type; // of all nodes here

// out [n][N_HEAD][D] of frame over q, k, v [N_HEAD][n][D]; malloc'ed
static float * attend(const char * frame, int n, const float * q, const float * k, const float * v, int n_threads) {
    struct graph g = graph_new();
    struct mra_attn_params p = mra_attn_params_default();
    struct mra_error err;
    p.budget = .125f;
    p.n_threads = n_threads;
    p.type = type;
    CHECK(mra_attn_params_parse(&p, frame, &err) == MRA_OK, "%s: %s", frame, err.msg);
    struct ggml_tensor *tq = graph_heads(&g, GGML_TYPE_F32, D, n, N_HEAD, 1, q, 1),
                       *tk = graph_heads(&g, GGML_TYPE_F32, D, n, N_HEAD, 1, k, 1),
                       *tv = graph_heads(&g, GGML_TYPE_F32, D, n, N_HEAD, 1, v, 1);
    float * out = graph_run(&g, ggml_mra_attn(g.ctx, tq, tk, tv, NULL, &p, &err), n_threads);
    CHECK(out, "%s: %s", frame, err.msg);
    graph_free(&g);
    return out;
}

static int count_nan(const float * x, int64_t n) {
    int count = 0;
    for (int64_t i = 0; i < n; i++) count += x[i] != x[i];
    return count;
}

static const char * const frames[] = { "exact", "columns", "sorted", "mra2", "mra2s", "64,16,4,1" };
enum { N_FRAMES = sizeof(frames) / sizeof(frames[0]) };

// Values of 1e19: every score is +inf, far more of them than any level refines
static void test_overflow(const struct mra_kernels * kern, const char * frame, int n) {
    const int64_t size = (int64_t) N_HEAD * n * D;
    float *x = malloc(size * sizeof(float)), *v = data_new(DATA_NORMAL, (int64_t) N_HEAD * n, D, 5);
    for (int64_t i = 0; i < size; i++) x[i] = 1e19f;
    float * out = attend(frame, n, x, x, v, 2);
    if (out)
        CHECK(count_nan(out, size) == size, "%s: %s of %d tokens at 1e19: %d of %d values are NaN", kern->name, frame,
            n, count_nan(out, size), (int) size);
    free(out);
    // of both signs: +inf, -inf, NaN and numbers side by side
    uint64_t seed = 7;
    for (int64_t i = 0; i < size; i++) x[i] = rng_int(&seed, 0, 1) ? 1e19f : -1e19f;
    float *a = attend(frame, n, x, x, v, 1), *b = attend(frame, n, x, x, v, 3);
    if (a && b) CHECK(memcmp(a, b, size * sizeof(float)) == 0, "%s: %s of %d: threads differ", kern->name, frame, n);
    free(a);
    free(b);
    free(x);
    free(v);
}

// One NaN in Q, K or V. where 0: its row; 1: all rows of its head that see the key; 2: its channel, where
// the frame does not drop keys
static void test_nan(const struct mra_kernels * kern, const char * frame, int where, uint32_t bits) {
    enum { N = 301, HEAD = 1, ROW = 77, CHANNEL = 13 };
    const int64_t size = (int64_t) N_HEAD * N * D, at = (HEAD * N + ROW) * D + CHANNEL;
    const bool drops = strcmp(frame, "mra2s") == 0;
    float * x[3];
    for (int i = 0; i < 3; i++) x[i] = data_new(DATA_NORMAL, N_HEAD * N, D, 11 + i);
    float * clean = attend(frame, N, x[0], x[1], x[2], 2);
    x[where][at] = nan_of(bits);
    float * out = attend(frame, N, x[0], x[1], x[2], 2);
    if (clean && out) {
        CHECK(count_nan(clean, size) == 0, "%s: %s: NaN from numbers", kern->name, frame);
        int lost = 0, changed = 0;
        for (int i = 0; i < N; i++) {
            const float * row = out + (i * N_HEAD + HEAD) * D; // [n][N_HEAD][D]
            changed += memcmp(row - D, clean + (i * N_HEAD + HEAD - 1) * D, D * sizeof(float)) != 0;
            if (where == 0 && i == ROW) lost += D - count_nan(row, D);
            if (where == 1) lost += D - count_nan(row, D);
            if (where == 2 && !drops) lost += 1 - count_nan(row + CHANNEL, 1);
            if (where == 2 && drops) // the key is used, or it does not count
                lost += memcmp(row, clean + (i * N_HEAD + HEAD) * D, D * sizeof(float)) && !isnan(row[CHANNEL]);
        }
        CHECK(changed == 0, "%s: %s: %d rows of another head changed", kern->name, frame, changed);
        CHECK(lost == 0, "%s: %s: NaN 0x%08x in %c is lost in %d values", kern->name, frame, (unsigned) bits,
            "QKV"[where], lost);
    }
    free(clean);
    free(out);
    for (int i = 0; i < 3; i++) free(x[i]);
}

int main(void) {
    static const uint32_t nans[] = { 0x7fc00000, 0x7fc00001, 0xffc00155 };
    const struct mra_kernels * tables[12];
    const int n = kernel_tables(tables, 12);
    for (int t = 0; t < n; t++) {
        mra_kernels_set(tables[t]);
        for (int f = 0; f < N_FRAMES; f++) {
            test_overflow(tables[t], frames[f], tables[t] == &mra_kernels_ref ? 257 : 1025);
            for (int i = 0; i < 9; i++) test_nan(tables[t], frames[f], i / 3, nans[i % 3]);
        }
    }
    type = MRA_ATTN_INT8;
    const struct mra_kernels * refs[12];
    const int n_int8 = int8_tables(tables, refs, 12);
    for (int t = 0; t < 2 * n_int8; t++) {
        const struct mra_kernels * k = t < n_int8 ? tables[t] : refs[t - n_int8];
        if (t > n_int8 && k == refs[t - n_int8 - 1]) continue;
        mra_kernels_set(k);
        for (int f = 0; f < 2; f++) { // exact, columns
            test_overflow(k, frames[f], t < n_int8 ? 1025 : 257);
            for (int i = 0; i < 9; i++) test_nan(k, frames[f], i / 3, nans[i % 3]);
        }
    }
    return summary("test-extreme");
}
