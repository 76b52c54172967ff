// Making nodes, and the way from a node to its operator's driver.
#include "node.h"

static const struct {
    const char *name, *tensor_name;
    void (*compute)(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth);
} kinds[MRA_KIND_COUNT] = {
#define ROW(kind, word, name) [MRA_KIND_##kind] = { name, "mra_" #word, mra_compute_##word },
    MRA_NODE_KINDS(ROW)
#undef ROW
};

// The sources of a node of kind p->kind, which are counted in p, into used; their number, 0: refused. bytes: of its
// data.
static int sources_of(const struct ggml_context * ctx, const struct mra_sources * src, struct mra_node * p,
    struct ggml_tensor ** used, size_t bytes, struct mra_error * err) {
    if (!ctx) return mra_fail(err, MRA_ERR_ARG, "the ggml context is NULL"), 0;
    if (p->kind >= MRA_KIND_COUNT || !kinds[p->kind].compute)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "unknown kind of node %d", p->kind), 0;
    int n = 0;
    for (; n < (int) (sizeof(src->fixed) / sizeof(src->fixed[0])) && src->fixed[n]; n++) used[n] = src->fixed[n];
    p->n_fixed = (uint8_t) n;
    p->sources = 0;
    for (int i = 0; i < MRA_SRC_COUNT; i++)
        if (src->optional[i]) {
            used[n++] = src->optional[i];
            p->sources |= (uint8_t) (1 << i);
        }
    const size_t total = ggml_get_mem_size(ctx), in_use = ggml_used_mem(ctx);
    if (total - in_use < (ggml_get_no_alloc((struct ggml_context *) ctx) ? 0 : bytes) + 2 * ggml_tensor_overhead())
        return mra_fail(err, MRA_ERR_MEMORY, "%s: the ggml context is full (%zu of %zu bytes used)",
                   kinds[p->kind].tensor_name, in_use, total),
               0; // ggml itself would abort
    return n;
}

struct ggml_tensor * mra_node_new(struct ggml_context * ctx, enum ggml_type type, const int64_t * ne,
    const struct mra_sources * src, struct mra_node p, struct mra_error * err) {
    struct ggml_tensor * used[GGML_MAX_SRC];
    const int n = sources_of(ctx, src, &p, used, ggml_row_size(type, ne[0]) * ne[1] * ne[2] * ne[3], err);
    if (n == 0) return NULL;
    struct ggml_tensor * t = ggml_custom_4d(
        ctx, type, ne[0], ne[1], ne[2], ne[3], used, n, mra_compute, GGML_N_TASKS_MAX, NULL);
    mra_node_set(t, p);
    return ggml_set_name(t, kinds[p.kind].tensor_name);
}

struct ggml_tensor * mra_node_inplace(
    struct ggml_context * ctx, const struct mra_sources * src, struct mra_node p, struct mra_error * err) {
    struct ggml_tensor * used[GGML_MAX_SRC];
    const int n = sources_of(ctx, src, &p, used, 0, err);
    if (n == 0) return NULL;
    struct ggml_tensor * t = ggml_custom_inplace(ctx, used[0], used + 1, n - 1, mra_compute, GGML_N_TASKS_MAX, NULL);
    mra_node_set(t, p);
    return ggml_set_name(t, kinds[p.kind].tensor_name);
}

void mra_compute(struct ggml_tensor * dst, int ith, int nth, void * userdata) {
    (void) userdata;
    const struct mra_node p = mra_node_get(dst);
    if (kinds[p.kind].compute) kinds[p.kind].compute(dst, &p, ith, nth);
    else if (ith == 0) memset(dst->data, 0xff, ggml_nbytes(dst));
}

bool ggml_mra_is_node(const struct ggml_tensor * t) { return mra_node_get(t).kind != MRA_KIND_NONE; }
const char * ggml_mra_op_name(const struct ggml_tensor * t) { return kinds[mra_node_get(t).kind].name; }
const char * mra_isa(void) { return mra_kernels_get()->name; }

struct mra_len mra_lengths(const struct ggml_tensor * lengths, int64_t n_batch, int64_t b, int64_t n_q, int64_t n_k) {
    const bool pairs = lengths && lengths->ne[0] == 2 && lengths->ne[1] == n_batch;
    return mra_len_at(lengths ? lengths->data : NULL, pairs, lengths ? lengths->nb[0] : 0, lengths ? lengths->nb[1] : 0,
        b, (int) n_q, (int) n_k);
}
