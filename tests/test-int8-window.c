// Attention within a window in small numbers, kernel by kernel: the same as the scalar reference (1e-5), about the same
// as floats, rows that are left to floats included; tiles and their plain form bit by bit.
#include "harness.h"

enum kind { NORMAL, HUGE_ROW, BAD_KEY };
struct window_case {
    int n, d, dv, window;
    enum kind kind; // of row or key 70
    int left;       // rows left to floats
};
static const struct window_case cases[] = {
    { 1, 64, 64, 64, NORMAL, 0 }, { 31, 64, 64, 64, NORMAL, 0 }, { 65, 64, 64, 64, NORMAL, 0 },
    { 200, 64, 64, 64, NORMAL, 0 }, { 1100, 64, 64, 64, NORMAL, 0 }, { 300, 64, 64, 0, NORMAL, 0 },
    { 211, 32, 32, 5, NORMAL, 0 }, { 130, 80, 48, 100, NORMAL, 0 }, { 513, 128, 128, 33, NORMAL, 0 },
    { 700, 24, 40, MRA_MAX_WINDOW, NORMAL, 0 }, { 300, 64, 64, 20, HUGE_ROW, 1 },
    { 300, 64, 64, 20, BAD_KEY, 128 }, // its block is 64 to 127: seen from the 16 rows at 32 to those at 144
};

struct head {
    float *q, *k, *v;
    struct mra_attn_head a;
};
static struct head head_new(const struct window_case * c) {
    struct head h = { .q = data_new(DATA_NORMAL, c->n, c->d, 1),
        .k = data_new(DATA_NORMAL, c->n, c->d, 2),
        .v = data_new(DATA_NORMAL, c->n, c->dv, 3) };
    for (int64_t i = 0; i < (int64_t) c->n * c->d; i++) h.q[i] *= 1.5f;
    for (int x = 0; c->kind == HUGE_ROW && x < c->d; x++) h.q[70 * c->d + x] *= 2000;
    if (c->kind == BAD_KEY) h.k[70 * c->d + 1] = NAN;
    h.a = (struct mra_attn_head) { .q = { (char *) h.q, sizeof(float) * c->d, MRA_F32 },
        .k = { (char *) h.k, sizeof(float) * c->d, MRA_F32 },
        .v = { (char *) h.v, sizeof(float) * c->dv, MRA_F32 },
        .n_q = c->n,
        .n_k = c->n,
        .d = c->d,
        .dv = c->dv,
        .scale = 1 / sqrtf((float) c->d),
        .ld_out = c->dv };
    h.a.out = malloc(sizeof(float) * c->n * c->dv);
    return h;
}
static void head_free(struct head * h) {
    free(h->q);
    free(h->k);
    free(h->v);
    free(h->a.out);
}

// K and V as the float kernels take them
static void lay_out(const struct mra_kernels * k, struct mra_attn_head * a, void ** mem) {
    const int d = MRA_ROUND_UP(a->d, MRA_PAD), dv = MRA_ROUND_UP(a->dv, MRA_PAD);
    mem[0] = aligned_alloc(64, sizeof(float) * (size_t) d * MRA_ROUND_UP(a->n_k, 16));
    mem[1] = aligned_alloc(64, sizeof(float) * (size_t) dv * MRA_ROUND_UP(a->n_k, 16));
    a->pack = (struct mra_pack) { .type = MRA_F32, .k = mem[0], .v = mem[1], .ldk = d, .ldv = dv };
    k->pack(a, 0, a->n_k, true, false);
}

// kernels of k, floats as well where full; NaN in rows that are left to them otherwise. Owned; *n_left: such rows
static float * run(const struct mra_kernels * k, const struct mra_int8_kernels * small, const struct window_case * c,
    bool full, int * n_left) {
    struct head h = head_new(c);
    const size_t other = mra_block_sparse_attn_scratch(c->d, c->dv);
    void *pack = aligned_alloc(64, mra_int8_pack_size(c->d, c->dv, c->n, small->bytes) + 64), *mem[2],
         *scratch = aligned_alloc(64, MRA_ROUND_UP(other > MRA_INT8_SCRATCH ? other : MRA_INT8_SCRATCH, 64));
    struct mra_int8_pack p = mra_int8_pack_at(pack, c->d, c->dv, c->n, small->bytes, false);
    small->pack(&h.a, &p, 0, c->n);
    lay_out(k, &h.a, mem);
    *n_left = 0;
    for (int i = 0; i < c->n; i += MRA_INT8_ROWS) {
        const int end = mra_min(i + MRA_INT8_ROWS, c->n);
        if (full) {
            *n_left += mra_int8_window_rows(k, &h.a, &p, i, end, c->window, scratch);
            continue;
        }
        const uint32_t left = small->window_attn(&h.a, &p, i, end, c->window, scratch);
        for (int r = i; r < end; r++)
            for (int x = 0; left >> (r - i) & 1 && x < c->dv; x++) h.a.out[r * c->dv + x] = NAN;
    }
    float * out = h.a.out;
    h.a.out = NULL;
    head_free(&h);
    free(pack);
    free(mem[0]);
    free(mem[1]);
    free(scratch);
    return out;
}

static float * run_floats(const struct window_case * c) {
    struct head h = head_new(c);
    mra_kernels_ref.window_attn(&h.a, 0, c->n, c->window, 0, NULL);
    float * out = h.a.out;
    h.a.out = NULL;
    head_free(&h);
    return out;
}

static void test_case(const struct mra_kernels * k, const struct window_case * c) {
    const int64_t n = (int64_t) c->n * c->dv;
    int left, n_left;
    float *got = run(k, &k->int8, c, false, &left), *ref = run(k, mra_int8_reference(&k->int8), c, false, &left),
          *rows = run(k, &k->int8, c, true, &n_left), *floats = run_floats(c);
    const double e = max_difference(got, ref, n), off = max_difference(rows, floats, n);
    CHECK(e <= 1e-5, "%s n=%d d=%d window %d: differs from the reference by %.1e", k->name, c->n, c->d, c->window, e);
    CHECK(off <= .02, "%s n=%d d=%d window %d: error %.4f", k->name, c->n, c->d, c->window, off);
    CHECK(n_left == c->left, "%s n=%d window %d: %d rows left to floats", k->name, c->n, c->window, n_left);
    free(got);
    free(ref);
    free(rows);
    free(floats);
}

int main(void) {
    const struct mra_kernels *tables[12], *tiles = mra_kernels_by_name("v4-amx"), *plain = plain_tiles();
    const int n = dense_tables(tables, 12);
    int n_levels = 0;
    for (int t = 0; t < n; t++) {
        if (!tables[t]->int8.window_attn) continue;
        n_levels++;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) test_case(tables[t], &cases[i]);
    }
    CHECK(n_levels > 0 || !mra_kernels_by_name("v3"), "no level has such kernels");
    for (size_t i = 0; tiles && plain && i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct window_case * c = &cases[i];
        int left;
        float *a = run(tiles, &tiles->int8, c, false, &left), *b = run(plain, &plain->int8, c, false, &left);
        CHECK(memcmp(a, b, sizeof(float) * c->n * c->dv) == 0, "n=%d window %d: tiles in plain C differ", c->n,
            c->window);
        free(a);
        free(b);
    }
    return summary("test-int8-window");
}
