// What is the same for all integer attention kernels (int8.h): memory of a pack, and rows that integers are not good
// enough for.
#include "../kernels.h"

enum { ALIGN = 64 };

// lays out one array of a pack; mem NULL: counts only
static void * part(char * mem, size_t * at, size_t bytes) {
    void * p = mem ? mem + *at : NULL;
    *at += MRA_ROUND_UP(bytes, ALIGN);
    return p;
}

static size_t lay_out(struct mra_int8_pack * p, char * mem, int d, int dv, int n_k, int bytes) {
    const size_t n = MRA_ROUND_UP((size_t) n_k, MRA_INT8_KEYS), dk = MRA_ROUND_UP(d, MRA_INT8_PAD),
                 dvp = MRA_ROUND_UP(dv, MRA_INT8_PAD);
    size_t at = 0;
    p->k = part(mem, &at, n * dk * bytes);
    p->v = part(mem, &at, n * dvp * bytes);
    p->key = part(mem, &at, n * sizeof(*p->key));
    p->range = part(mem, &at, n / MRA_INT8_KEYS * sizeof(*p->range));
    p->mean = part(mem, &at, dk * sizeof(float));
    p->q_factor = part(mem, &at, dk * sizeof(float));
    p->v_factor = part(mem, &at, dvp * sizeof(float));
    return at;
}

size_t mra_int8_pack_size(int d, int dv, int n_k, int bytes) {
    struct mra_int8_pack p;
    return lay_out(&p, NULL, d, dv, n_k, bytes);
}

struct mra_int8_pack mra_int8_pack_at(void * mem, int d, int dv, int n_k, int bytes, bool gather) {
    struct mra_int8_pack p;
    lay_out(&p, mem, d, dv, n_k, bytes);
    p.gather = gather;
    return p;
}

int mra_int8_near(
    struct mra_attn_head * a, struct mra_int8_pack * p, int i, int n, int window, size_t k_row, size_t v_row) {
    const int from = i > window ? i - window : 0, b = from / MRA_INT8_KEYS, first = b * MRA_INT8_KEYS;
    if (a->n_k - i - n > window) a->n_k = i + n + window;
    a->n_k -= first;
    p->k = (char *) p->k + (size_t) first * k_row;
    p->v = (char *) p->v + (size_t) first * v_row;
    p->key += first;
    p->range += b;
    return first;
}

// What integers left of rows i, i + 1, ...: in runs, by the float kernel. window < 0: all keys. Returns how many.
static int leave_to_floats(
    const struct mra_kernels * k, const struct mra_attn_head * a, int i, uint32_t left, int window, void * scratch) {
    int n_left = 0;
    for (int first = 0; left;) {
        const int skip = __builtin_ctz(left);
        first += skip;
        left >>= skip;
        const int run = ~left ? __builtin_ctz(~left) : 32;
        if (window < 0) k->block_sparse_attn(a, i + first, i + first + run, NULL, 0, 1, NULL, scratch);
        else k->window_attn(a, i + first, i + first + run, window, 0, scratch);
        first += run;
        left = run < 32 ? left >> run : 0;
        n_left += run;
    }
    return n_left;
}

int mra_int8_attn_rows(const struct mra_kernels * k, const struct mra_attn_head * a, const struct mra_int8_pack * p,
    int i0, int i1, void * scratch) {
    int n_left = 0;
    for (int i = i0; i < i1; i += MRA_INT8_ROWS) {
        const uint32_t left = k->int8.attn(a, p, i, mra_min(i + MRA_INT8_ROWS, i1), NULL, 0, NULL, scratch);
        n_left += leave_to_floats(k, a, i, left, -1, scratch);
    }
    return n_left;
}

int mra_int8_window_rows(const struct mra_kernels * k, const struct mra_attn_head * a, const struct mra_int8_pack * p,
    int i0, int i1, int window, void * scratch) {
    int n_left = 0;
    for (int i = i0; i < i1; i += MRA_INT8_ROWS) {
        const uint32_t left = k->int8.window_attn(a, p, i, mra_min(i + MRA_INT8_ROWS, i1), window, scratch);
        n_left += leave_to_floats(k, a, i, left, window, scratch);
    }
    return n_left;
}
