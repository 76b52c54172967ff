// pack: K and V of every sequence laid out for the attention kernels, and one scratch slot per thread behind them.
// Devices lay the same memory out in their own way (device-pack.h).
#include "op-pack.h"

#include "checks.h"
#include "device-pack.h"

#include <stdatomic.h>

enum {
    ALIGN = 64,
    PACK_KEYS = 512,         // keys per work item of this node: a multiple of 16 key blocks of any size
    GROUP_STEP = 8,          // groups are a multiple of this
    GROUP_BYTES = 512 << 10, // logits of a group, so that they fit a cache
    ITEMS_PER_THREAD = 4,    // groups of even one sequence, so that threads end at about the same time
    SHORT = 1024,            // tokens of a sequence whose rows are read in place, even if spread
};
_Static_assert(PACK_KEYS % (16 * MRA_KEY_BLOCK_WIDE) == 0, "the pack kernel takes whole panels");

// Rows that need no padding are read in place if they lie end to end. So are, in the exact frame, the rows of a short
// sequence, which are read in order: a copy would cost more than the page misses of rows that are spread; and in all
// frames rows that few queries read as floats, or only those near them.
static bool in_place(const struct ggml_tensor * t, const struct mra_attn_node * a) {
    const bool few = a->frame == MRA_FRAME_NEAR || (a->frame == MRA_FRAME_EXACT && (a->max_len <= SHORT || a->int8)) ||
        a->int8_all,
               spread = few && t->nb[1] % ggml_type_size(t->type) == 0;
    return t->ne[0] % MRA_PAD == 0 && (t->nb[1] == ggml_row_size(t->type, t->ne[0]) || spread);
}

static struct mra_node pack_params(
    const struct mra_attn_node * attn, const struct ggml_tensor * k, const struct ggml_tensor * v, bool starts) {
    struct mra_node p = { .kind = MRA_KIND_PACK, .flags = starts ? MRA_FLAG_STARTS : 0 };
    p.u.attn = *attn;
    if (!in_place(k, attn) || !in_place(v, attn)) p.flags |= MRA_FLAG_COPY;
    return p;
}

// query blocks per work item
static int group_size(const struct mra_attn_node * a, int64_t n_head) {
    if (!mra_attn_has_columns(a)) return MRA_GROUP_MAX;
    const struct mra_columns_plan c = mra_attn_plan(a, a->max_len);
    const int64_t share = a->max_len / MRA_QUERY_BLOCK * n_head / (ITEMS_PER_THREAD * a->slots),
                  fit = GROUP_BYTES / (int64_t) (sizeof(float) * ((size_t) c.m1 * c.g + 16)),
                  n = share < fit ? share : fit;
    return n > MRA_GROUP_MAX ? MRA_GROUP_MAX : n < GROUP_STEP ? GROUP_STEP : (int) (n / GROUP_STEP * GROUP_STEP);
}

static size_t slot_size(const struct mra_attn_node * a, int d, int dv, int group) {
    const size_t integers = a->int8 ? MRA_INT8_SCRATCH : 0;
    size_t bytes = mra_block_sparse_attn_scratch(d, dv);
    if (bytes < integers) bytes = integers;
    for (int i = 0; i < 2 && mra_attn_has_columns(a); i++) {
        const int n = mra_columns_worst_length(a->max_len, i);
        const struct mra_columns_plan c = mra_attn_plan(a, n);
        const int m2 = a->shares ? mra_min(c.m1 * c.g, n) : c.m2; // kept keys of a head, at most
        const size_t b = integers + mra_columns_scratch(d, dv, n, c.g, c.m1 + 1, m2 + MRA_KEY_BLOCK_WIDE, group);
        bytes = b > bytes ? b : bytes;
    }
    return MRA_ROUND_UP(bytes, ALIGN);
}

// p: of a pack node of k and v, which hold n_seq sequences
static struct mra_pack_layout layout_of(
    const struct mra_node * p, const struct ggml_tensor * k, const struct ggml_tensor * v, int64_t n_seq) {
    const size_t d = MRA_ROUND_UP(k->ne[0], MRA_PAD), dv = MRA_ROUND_UP(v->ne[0], MRA_PAD),
                 es = ggml_type_size(k->type), tokens = (size_t) k->ne[1] * k->ne[3];
    struct mra_pack_layout l = { .first = ALIGN, .per_head = 8 * ALIGN };
    if (p->flags & MRA_FLAG_COPY) l.per_token += (d + dv) * es;
    if (mra_attn_has_columns(&p->u.attn)) {
        // n tokens have at most n/16 + 1 blocks of at least 16 keys, n/16 + 32 with those that fill the last panel
        const size_t transposed = p->u.attn.int8_all ? 0 : d * es;
        l.per_token += transposed + (3 * d + dv) * sizeof(float) / MRA_KEY_BLOCK;
        l.per_head += MRA_KEY_BLOCK_WIDE * transposed + MRA_PANEL * 3 * d * sizeof(float) + dv * sizeof(float);
    }
    if (p->u.attn.int8) { // 1: keys' ranges
        l.per_token += (MRA_ROUND_UP(d, MRA_INT8_PAD) + MRA_ROUND_UP(dv, MRA_INT8_PAD)) * p->u.attn.int8 +
            sizeof(struct mra_int8_key) + 1;
        l.per_head += mra_int8_pack_size((int) d, (int) dv, MRA_INT8_KEYS, p->u.attn.int8) + ALIGN;
    }
    l.group = group_size(&p->u.attn, k->ne[2]);
    l.slots = MRA_ROUND_UP(l.first + k->ne[2] * (tokens * l.per_token + n_seq * l.per_head), ALIGN);
    l.slot = slot_size(&p->u.attn, (int) k->ne[0], (int) v->ne[0], l.group);
    l.bytes = l.slots + p->u.attn.slots * l.slot + ALIGN; // the last to align the start
    return l;
}

struct ggml_tensor * mra_pack_new(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
    struct ggml_tensor * v, struct ggml_tensor * lengths, bool starts, const struct mra_attn_node * attn, int64_t n_seq,
    struct mra_error * err) {
    const struct mra_node p = pack_params(attn, k, v, starts);
    const size_t bytes = layout_of(&p, k, v, n_seq).bytes;
    const bool f16 = k->type == GGML_TYPE_F16, // buffers begin aligned: a view's offset says where its rows do
        copies = !mra_device_in_place(f16, k->nb, k->view_offs) || !mra_device_in_place(f16, v->nb, v->view_offs);
    const struct mra_device_pack device = mra_device_pack_of(
        attn, mra_attn_has_columns(attn), copies, (int) k->ne[0], (int) v->ne[0], k->ne[2], k->ne[1] * k->ne[3], n_seq);
    const struct mra_sources src = { .fixed = { k, v, attn->int8 ? q : NULL },
        .optional = { [MRA_SRC_LENGTHS] = lengths } };
    const int64_t ne[4] = { (int64_t) (bytes > device.bytes ? bytes : device.bytes), 1, 1, 1 };
    return mra_node_new(ctx, GGML_TYPE_I8, ne, &src, p, err);
}

// kinds of nodes whose pack has rows where they are
static bool reads_in_place(int kind) { return kind == MRA_KIND_WINDOW_ATTN || kind == MRA_KIND_ATTN_ERROR; }

bool mra_pack_is_foreign(const struct ggml_tensor * attn) {
    const int kind = mra_node_get(attn).kind;
    return (kind == MRA_KIND_ATTN || kind == MRA_KIND_BLOCK_SPARSE_ATTN || reads_in_place(kind)) &&
        mra_node_get(attn->src[3]).kind != MRA_KIND_PACK;
}

struct ggml_tensor mra_pack_again(const struct ggml_tensor * attn) {
    const struct mra_node p = mra_node_get(attn);
    struct ggml_tensor *k = attn->src[1], *v = attn->src[2], *lengths = mra_source(attn, &p, MRA_SRC_LENGTHS);
    // one slot: whoever packs again goes on alone
    const struct mra_attn_node exact = {
        .frame = reads_in_place(p.kind) ? MRA_FRAME_NEAR : MRA_FRAME_EXACT, .slots = 1, .max_len = (int32_t) k->ne[1]
    };
    struct mra_node pack = pack_params(p.kind == MRA_KIND_ATTN ? &p.u.attn : &exact, k, v, p.flags & MRA_FLAG_STARTS);
    const bool sampled = p.kind == MRA_KIND_ATTN && p.u.attn.int8;
    pack.n_fixed = sampled ? 3 : 2;
    pack.sources = lengths ? 1 << MRA_SRC_LENGTHS : 0;
    struct ggml_tensor t = *attn->src[3];
    t.op = GGML_OP_CUSTOM;
    memset(t.src, 0, sizeof(t.src));
    mra_node_set(&t, pack);
    t.src[0] = k;
    t.src[1] = v;
    t.src[2] = sampled ? attn->src[0] : lengths;
    t.src[3] = sampled ? lengths : NULL;
    return t;
}

// NULL: in floats, or other kernels than planned
static const struct mra_int8_kernels * int8_of(const struct mra_attn_node * a) {
    const struct mra_int8_kernels * k = &mra_kernels_get()->int8;
    return a->int8 && k->attn && k->bytes == a->int8 ? k : NULL;
}

// mem: the pack node's data; p: its parameters
static struct mra_job job_new(const struct ggml_tensor * k, const struct ggml_tensor * v,
    const struct ggml_tensor * lengths, const struct mra_node * p, void * mem) {
    struct mra_job j = {
        .k = k,
        .v = v,
        .lengths = lengths,
        .attn = p->u.attn,
        .starts = p->flags & MRA_FLAG_STARTS,
        .copy = p->flags & MRA_FLAG_COPY,
        .mem = (char *) MRA_ROUND_UP((uintptr_t) mem, ALIGN),
    };
    j.n_seq = j.starts ? lengths->ne[0] - 1 : k->ne[3];
    j.int8 = int8_of(&j.attn);
    j.layout = layout_of(p, k, v, j.n_seq);
    return j;
}

struct mra_job mra_job_of_order(struct ggml_tensor * dst, const struct mra_node * p) {
    struct mra_job j = {
        .q = dst->src[0],
        .k = dst->src[1],
        .v = dst->src[2],
        .lengths = mra_source(dst, p, MRA_SRC_LENGTHS),
        .attn = p->u.attn,
        .starts = p->flags & MRA_FLAG_STARTS,
        .order = dst,
        .shares = mra_source(dst, p, MRA_SRC_SHARES),
    };
    j.n_seq = j.starts ? j.lengths->ne[0] - 1 : j.k->ne[3];
    return j;
}

// The sources of dst count, not those of the pack, which may be gone. Where the pack came from another device, thread 0
// packs again and goes on alone: there is no barrier in a node.
bool mra_job_of(
    struct mra_job * j, struct ggml_tensor * dst, const struct mra_node * p, int ith, struct ggml_tensor * again) {
    const struct ggml_tensor * pack = dst->src[3];
    if (mra_pack_is_foreign(dst)) {
        if (ith > 0) return false;
        *again = mra_pack_again(dst);
        mra_compute(again, 0, 1, NULL);
        pack = again;
    }
    const struct mra_node of_pack = mra_node_get(pack);
    if (ith >= of_pack.u.attn.slots) return false;
    *j = job_new(dst->src[1], dst->src[2], mra_source(dst, p, MRA_SRC_LENGTHS), &of_pack, pack->data);
    j->q = dst->src[0];
    j->dst = dst;
    j->finest_only = p->flags & MRA_FLAG_FINEST_ONLY;
    if (p->kind == MRA_KIND_ATTN && p->u.attn.frame == MRA_FRAME_SORTED) {
        j->order = dst->src[4];
        j->shares = mra_source(dst, p, MRA_SRC_SHARES);
    }
    return true;
}

// first token and number of tokens of packed sequence s, cut to what the tensors hold
static void packed_range(const struct mra_job * j, int64_t s, int64_t * first, int64_t * n) {
    const int32_t * starts = j->lengths->data;
    const int n_max = (int) j->k->ne[1], a = starts[s] < 0 ? 0 : mra_min(starts[s], n_max),
              b = mra_min(starts[s + 1], n_max);
    *first = a;
    *n = b < a ? 0 : mra_min(b - a, j->attn.max_len);
}

// a->pack and a->int8_pack of head `head` of sequence s, whose n_tokens tokens begin at `first` of all.
static void lay_out_head(const struct mra_job * j, struct mra_attn_head * a, bool exact, int64_t first,
    int64_t n_tokens, int64_t s, int64_t head) {
    const struct mra_pack_layout * l = &j->layout;
    const size_t d = MRA_ROUND_UP(a->d, MRA_PAD), dv = MRA_ROUND_UP(a->dv, MRA_PAD), es = a->k.type == MRA_F16 ? 2 : 4;
    size_t at = l->first + (first * l->per_token + s * l->per_head) * j->k->ne[2] +
        head * (n_tokens * l->per_token + l->per_head);
    struct mra_pack p = { .type = a->k.type,
        .k = (void *) a->k.data,
        .v = (void *) a->v.data,
        .ldk = a->k.stride / es,
        .ldv = a->v.stride / es };
#define TAKE(bytes) (at = MRA_ROUND_UP(at, ALIGN) + (bytes), (void *) (j->mem + at - (bytes)))
    if (j->copy) {
        p.ldk = d;
        p.ldv = dv;
        p.k = TAKE(n_tokens * d * es);
        p.v = TAKE(n_tokens * dv * es);
    }
    if (a->g) {
        const size_t n_b = mra_div_up(a->n_k, a->g), n_p = MRA_ROUND_UP(n_b, MRA_PANEL);
        if (!j->attn.int8_all) p.kp = TAKE(n_b * a->g * d * es);
        p.k_range = TAKE(n_p * 2 * d * sizeof(float));
        p.k_mean = TAKE(n_p * d * sizeof(float));
        p.v_mean = TAKE(n_b * dv * sizeof(float));
    }
    if (j->int8) {
        const int bytes = j->int8->bytes;
        a->int8 = j->int8;
        a->int8_pack = mra_int8_pack_at(
            TAKE(mra_int8_pack_size(a->d, a->dv, a->n_k, bytes)), a->d, a->dv, a->n_k, bytes, !exact);
    }
#undef TAKE
    a->pack = p;
}

// In integers a head that uses all keys keeps them all: its K and V are laid out for lists of keys, as its neighbours'.
struct mra_columns_plan mra_head_plan(
    const struct mra_attn_node * a, const struct ggml_tensor * shares, int64_t head, int n_k) {
    struct mra_columns_plan c = mra_attn_plan(a, n_k);
    if (!shares || c.exact) return c;
    c = mra_plan_share(c, ((const float *) shares->data)[head], n_k);
    if (int8_of(a)) c.exact = false;
    return c;
}

// the columns or sorted frame of a head of n_k > 0 keys; returns whether it is exact
static bool plan_head(const struct mra_job * j, const struct mra_columns_plan c, struct mra_attn_head * a) {
    a->g = c.g;
    a->m1 = c.m1;
    a->m2 = c.m2;
    a->bound = c.bound;
    a->first_n = j->attn.first_n;
    a->diag_n = j->attn.diag_n;
    a->finest_only = j->finest_only;
    return c.exact;
}

struct mra_attn_head mra_job_head(const struct mra_job * j, int64_t s, int64_t head, int64_t * n_rows, bool * exact) {
    const struct ggml_tensor * q = j->q ? j->q : j->sample;
    const int64_t head_kv = j->q ? head / (q->ne[2] / j->k->ne[2]) : head;
    int64_t first = 0, n_tokens = j->k->ne[1], batch = s, n_q = q ? q->ne[1] : n_tokens;
    struct mra_len len;
    if (j->starts) {
        packed_range(j, s, &first, &n_tokens);
        n_q = n_tokens;
        batch = 0;
        len = (struct mra_len) { (int) n_tokens, (int) n_tokens };
    } else len = mra_lengths(j->lengths, j->k->ne[3], s, n_q, n_tokens);

    struct mra_attn_head a = {
        .k = mra_rows_of(j->k, first, head_kv, batch),
        .v = mra_rows_of(j->v, first, head_kv, batch),
        .d = (int) j->k->ne[0],
        .dv = (int) j->v->ne[0],
        .n_q = len.n_q,
        .n_k = len.n_k,
        .group = j->layout.group,
        .scale = j->attn.scale,
    };
    if (q) a.q = mra_rows_of(q, first, j->q ? head : head_kv * (q->ne[2] / j->k->ne[2]), batch);
    *n_rows = n_q;
    const bool has_plan = mra_attn_has_columns(&j->attn) && len.n_k > 0;
    *exact = has_plan ? plan_head(j, mra_attn_plan(&j->attn, a.n_k), &a) : true;
    if (j->mem) lay_out_head(j, &a, *exact, j->starts ? first : s * j->k->ne[1], n_tokens, s, head_kv);
    if (has_plan && j->shares) *exact = plan_head(j, mra_head_plan(&j->attn, j->shares, head, a.n_k), &a);
    if (j->order && (!*exact || a.n_k == 0)) mra_sorted_head(j, s, head, first, &a);
    if (j->dst) {
        a.ld_out = j->dst->nb[2] / sizeof(float);
        a.out = mra_row(j->dst, head, first, batch);
    }
    return a;
}

int mra_job_take(const struct mra_job * j) {
    return atomic_fetch_add_explicit((atomic_int *) j->mem, 1, memory_order_relaxed);
}

void * mra_job_slot(const struct mra_job * j, int ith) { return j->mem + j->layout.slots + ith * j->layout.slot; }

// Each thread has every nth-th piece of PACK_KEYS keys.
void mra_compute_pack(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    struct mra_job j = job_new(dst->src[0], dst->src[1], mra_source(dst, p, MRA_SRC_LENGTHS), p, dst->data);
    j.sample = p->n_fixed > 2 ? dst->src[2] : NULL;
    if (ith == 0) atomic_store_explicit((atomic_int *) j.mem, 0, memory_order_relaxed);
    int item = 0;
    for (int64_t s = 0; s < j.n_seq; s++)
        for (int64_t h = 0; h < j.k->ne[2]; h++) {
            int64_t n_rows;
            bool exact;
            const struct mra_attn_head a = mra_job_head(&j, s, h, &n_rows, &exact);
            const bool floats = j.copy || (!exact && (a.pack.kp || a.m1 * a.g < a.n_k));
            for (int k0 = 0; k0 < a.n_k && (floats || a.int8); k0 += PACK_KEYS) {
                if (item++ % nth != ith) continue;
                const int k1 = mra_min(k0 + PACK_KEYS, a.n_k);
                if (floats) mra_kernels_get()->pack(&a, k0, k1, j.copy, !exact);
                if (a.int8) a.int8->pack(&a, &a.int8_pack, k0, k1);
            }
        }
}
