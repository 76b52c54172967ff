// The pack node: K and V of every sequence laid out for the attention kernels, and behind them one scratch slot per
// thread. [ header: work counter | sequence 0: head 0, head 1, ... | sequence 1 ... | slot 0 | slot 1 ... ] Devices lay
// it out in their own way (device-pack.h).
#include "device-pack.h"
#include "node.h"

#include <stdatomic.h>

enum { ALIGN = 64, CHUNK_KEYS = 512, LOGIT_BYTES = 512 << 10 }; // logits of a group of query blocks

struct sizes {
    size_t token, seq;
}; // a head of a sequence of n tokens takes at most n*token + seq bytes

static struct sizes head_sizes(const struct mra_node * p, int64_t d, int64_t dv, size_t es) {
    const size_t D = MRA_ROUND_UP(d, MRA_PAD), DV = MRA_ROUND_UP(dv, MRA_PAD);
    struct sizes s = { 0, 8 * ALIGN };
    if (p->flags & MRA_COPY) s.token += (D + DV) * es;
    if (p->u.attn.frame == MRA_FRAME_COLUMNS) {
        // at most n/16 + 1 blocks of at least 16 keys, n/16 + 32 with the panel's padding; D, DV are multiples of 16
        s.token += D * es + (3 * D + DV) * sizeof(float) / 16;
        s.seq += 32 * D * es + MRA_PANEL * 3 * D * sizeof(float) + DV * sizeof(float);
    }
    return s;
}

// Query blocks per work item: their logits fit a cache, and every thread gets a few items of even one sequence.
static int group_size(const struct mra_node * p, int64_t max_len, int64_t n_head) {
    if (p->u.attn.frame != MRA_FRAME_COLUMNS) return MRA_GROUP_MAX;
    const int64_t share = max_len / MRA_QUERY_BLOCK * n_head / (4 * p->u.attn.slots);
    const struct mra_columns_plan c = mra_plan_columns(
        p->u.attn.budget, p->u.attn.m1, p->u.attn.m2, p->u.attn.block, (int) max_len);
    const int fit = LOGIT_BYTES / ((int) sizeof(float) * (c.m1 * c.g + 16)), n = share < fit ? (int) share : fit;
    return n > MRA_GROUP_MAX ? MRA_GROUP_MAX : n < 8 ? 8 : n & ~7;
}

static size_t slot_size(const struct mra_node * p, int64_t d, int64_t dv, int64_t max_len, int group) {
    size_t bytes = mra_block_sparse_attn_scratch((int) d, (int) dv);
    // the plan of a shorter sequence needs no more, except that blocks of 16 become 32 at 2048 keys
    for (int i = 0; i < 2 && p->u.attn.frame == MRA_FRAME_COLUMNS; i++) {
        const int n = i == 0 || max_len < 2048 ? (int) max_len : 2047;
        const struct mra_columns_plan c = mra_plan_columns(
            p->u.attn.budget, p->u.attn.m1, p->u.attn.m2, p->u.attn.block, n);
        const size_t b = mra_columns_scratch((int) d, (int) dv, n, c.g, c.m1 + 1, c.m2 + c.g, group);
        bytes = b > bytes ? b : bytes;
    }
    return MRA_ROUND_UP(bytes, ALIGN);
}

// Rows that need no padding are used where they lie if they lie end to end; or if they are few and read in order, where
// a copy costs more than the pages that rows between others' rows are spread over.
static bool as_it_lies(const struct ggml_tensor * t, const struct mra_node * p) {
    const bool few = p->u.attn.frame == MRA_FRAME_EXACT && p->u.attn.max_len <= 1024 &&
        t->nb[1] % ggml_type_size(t->type) == 0;
    return t->ne[0] % MRA_PAD == 0 && (t->nb[1] == ggml_row_size(t->type, t->ne[0]) || few);
}

static struct mra_node pack_params(
    const struct mra_node * attn, const struct ggml_tensor * k, const struct ggml_tensor * v, int64_t max_len) {
    struct mra_node p = *attn;
    p.kind = MRA_KIND_PACK;
    p.u.attn.max_len = (int32_t) max_len;
    if (!as_it_lies(k, &p) || !as_it_lies(v, &p)) p.flags |= MRA_COPY;
    return p;
}

struct ggml_tensor * mra_pack_node(struct ggml_context * ctx, struct ggml_tensor * k, struct ggml_tensor * v,
    struct ggml_tensor * lengths, const struct mra_node * attn, int64_t n_seq, int64_t max_len,
    struct mra_error * err) {
    const struct mra_node p = pack_params(attn, k, v, max_len);
    const struct sizes s = head_sizes(&p, k->ne[0], v->ne[0], ggml_type_size(k->type));
    const size_t tokens = (size_t) k->ne[1] * k->ne[3];
    const size_t bytes = 2 * ALIGN + k->ne[2] * (tokens * s.token + n_seq * s.seq) +
        p.u.attn.slots * slot_size(&p, k->ne[0], v->ne[0], max_len, group_size(&p, max_len, k->ne[2])) + ALIGN;
    const bool f16 = k->type == GGML_TYPE_F16,
               copies = !mra_device_as_it_lies(f16, k->nb) || !mra_device_as_it_lies(f16, v->nb);
    const size_t device = mra_device_pack_of(
        &p, p.u.attn.frame == MRA_FRAME_COLUMNS, copies, (int) k->ne[0], (int) v->ne[0], k->ne[2], tokens, n_seq)
                              .bytes;
    return mra_node_new(ctx, GGML_TYPE_I8, (int64_t) (bytes > device ? bytes : device), 1, 1, 1,
        (struct ggml_tensor *[]) { k, v, lengths }, 3, p, "mra_pack", err);
}

bool mra_pack_is_foreign(const struct ggml_tensor * attn) {
    const int kind = mra_node_get(attn).kind;
    return (kind == MRA_KIND_ATTN || kind == MRA_KIND_BLOCK_SPARSE_ATTN) &&
        mra_node_get(attn->src[3]).kind != MRA_KIND_PACK;
}

struct ggml_tensor mra_pack_again(const struct ggml_tensor * attn) {
    struct mra_node p = mra_node_get(attn), of = { .magic = MRA_MAGIC, .flags = p.flags & MRA_HAS_LENGTHS };
    struct ggml_tensor *k = attn->src[1], *v = attn->src[2], t = *attn->src[3];
    struct ggml_tensor * lengths = NULL;
    for (int i = 4; i < GGML_MAX_SRC && attn->src[i] && p.flags & (MRA_HAS_LENGTHS | MRA_IS_STARTS); i++)
        lengths = attn->src[i]; // the last one
    if (p.kind == MRA_KIND_BLOCK_SPARSE_ATTN) {
        of.u.attn.frame = MRA_FRAME_EXACT;
        of.u.attn.slots = 1; // whoever packs again goes on alone
        p = pack_params(&of, k, v, k->ne[1]);
    } else {
        p = pack_params(&p, k, v, p.u.attn.max_len);
    }
    t.op = GGML_OP_CUSTOM;
    memset(t.src, 0, sizeof(t.src));
    memcpy((char *) t.op_params + MRA_PARAMS_OFFS, &p, sizeof(p));
    t.src[0] = k;
    t.src[1] = v;
    t.src[2] = lengths;
    return t;
}

struct mra_job mra_job_new(const struct ggml_tensor * q, const struct ggml_tensor * k, const struct ggml_tensor * v,
    const struct ggml_tensor * lengths, const struct ggml_tensor * pack, struct ggml_tensor * dst) {
    struct mra_job j = { .q = q, .k = k, .v = v, .lengths = lengths, .dst = dst, .pack = mra_node_get(pack) };
    j.mem = (char *) MRA_ROUND_UP((uintptr_t) pack->data, ALIGN);
    j.n_seq = j.pack.flags & MRA_IS_STARTS ? lengths->ne[0] - 1 : k->ne[3];
    j.group = group_size(&j.pack, j.pack.u.attn.max_len, k->ne[2]);
    j.slot_bytes = slot_size(&j.pack, k->ne[0], v->ne[0], j.pack.u.attn.max_len, j.group);
    return j;
}

// first token and number of tokens of sequence s, made harmless whatever the tensor holds
static void packed_range(const struct mra_job * j, int64_t s, int64_t * first, int64_t * n) {
    const int32_t * st = j->lengths->data;
    const int64_t n_max = j->k->ne[1],
                  a = st[s] < 0 ? 0
        : st[s] > n_max         ? n_max
                                : st[s],
                  b = st[s + 1] > n_max ? n_max : st[s + 1];
    *first = a;
    *n = b < a ? 0 : b - a > j->pack.u.attn.max_len ? j->pack.u.attn.max_len : b - a;
}

static struct mra_rows rows_of(const struct ggml_tensor * t, int64_t first, int64_t head, int64_t batch) {
    return (struct mra_rows) {
        .data = (const char *) t->data + first * t->nb[1] + head * t->nb[2] + batch * t->nb[3],
        .stride = t->nb[1],
        .type = t->type == GGML_TYPE_F16 ? MRA_F16 : MRA_F32,
    };
}

static struct mra_pack pack_of(const struct mra_job * j, const struct mra_attn_head * a, int64_t first,
    int64_t n_tokens, int64_t s, int64_t head) {
    const size_t D = MRA_ROUND_UP(a->d, MRA_PAD), DV = MRA_ROUND_UP(a->dv, MRA_PAD), es = a->k.type == MRA_F16 ? 2 : 4;
    const struct sizes z = head_sizes(&j->pack, a->d, a->dv, es);
    size_t at = ALIGN + (first * z.token + s * z.seq) * j->k->ne[2] + head * (n_tokens * z.token + z.seq);
    struct mra_pack p = { .type = a->k.type,
        .k = (void *) a->k.data,
        .v = (void *) a->v.data,
        .ldk = a->k.stride / es,
        .ldv = a->v.stride / es };
#define TAKE(bytes) (at = MRA_ROUND_UP(at, ALIGN) + (bytes), (void *) (j->mem + at - (bytes)))
    if (j->pack.flags & MRA_COPY) {
        p.ldk = D;
        p.ldv = DV;
        p.k = TAKE(n_tokens * D * es);
        p.v = TAKE(n_tokens * DV * es);
    }
    if (j->pack.u.attn.frame == MRA_FRAME_COLUMNS && a->g) {
        const size_t n_b = (a->n_k + a->g - 1) / a->g, n_p = MRA_ROUND_UP(n_b, MRA_PANEL);
        p.kp = TAKE(n_b * a->g * D * es);
        p.k_range = TAKE(n_p * 2 * D * sizeof(float));
        p.k_mean = TAKE(n_p * D * sizeof(float));
        p.v_mean = TAKE(n_b * DV * sizeof(float));
    }
#undef TAKE
    return p;
}

struct mra_attn_head mra_job_head(const struct mra_job * j, int64_t s, int64_t head, int64_t * n_rows, bool * exact) {
    const bool packed = j->pack.flags & MRA_IS_STARTS;
    const int64_t head_kv = j->q ? head / (j->q->ne[2] / j->k->ne[2]) : head;
    int64_t first = 0, n_tokens = j->k->ne[1], batch = s, n_q = j->q ? j->q->ne[1] : n_tokens;
    struct mra_len len;
    if (packed) {
        packed_range(j, s, &first, &n_tokens);
        n_q = n_tokens;
        batch = 0;
        len = (struct mra_len) { (int) n_tokens, (int) n_tokens };
    } else len = mra_lengths(j->lengths, j->k->ne[3], s, n_q, n_tokens);

    struct mra_attn_head a = {
        .k = rows_of(j->k, first, head_kv, batch),
        .v = rows_of(j->v, first, head_kv, batch),
        .d = (int) j->k->ne[0],
        .dv = (int) j->v->ne[0],
        .n_q = len.n_q,
        .n_k = len.n_k,
        .group = j->group,
        .scale = j->pack.u.attn.scale,
    };
    if (j->q) a.q = rows_of(j->q, first, head, batch);
    *n_rows = n_q;
    *exact = true;
    if (j->pack.u.attn.frame == MRA_FRAME_COLUMNS && len.n_k > 0) {
        const struct mra_columns_plan c = mra_plan_columns(
            j->pack.u.attn.budget, j->pack.u.attn.m1, j->pack.u.attn.m2, j->pack.u.attn.block, len.n_k);
        *exact = c.exact;
        a.g = c.g;
        a.m1 = c.m1;
        a.m2 = c.m2;
        a.bound = c.bound;
        a.first_n = j->pack.u.attn.first_n;
        a.diag_n = j->pack.u.attn.diag_n;
        a.sparse = j->pack.flags & MRA_DROP;
    }
    a.pack = pack_of(j, &a, packed ? first : s * j->k->ne[1], n_tokens, s, head_kv);
    if (j->dst) {
        a.ld_out = j->dst->nb[2] / sizeof(float);
        a.out = (float *) ((char *) j->dst->data + head * j->dst->nb[1] + first * j->dst->nb[2] +
            batch * j->dst->nb[3]);
    }
    return a;
}

int mra_job_take(const struct mra_job * j) {
    return atomic_fetch_add_explicit((atomic_int *) j->mem, 1, memory_order_relaxed);
}

void * mra_job_slot(const struct mra_job * j, int ith) {
    if (ith >= j->pack.u.attn.slots) return NULL;
    const struct sizes s = head_sizes(&j->pack, j->k->ne[0], j->v->ne[0], ggml_type_size(j->k->type));
    const size_t tokens = (size_t) j->k->ne[1] * j->k->ne[3];
    return j->mem + MRA_ROUND_UP(ALIGN + j->k->ne[2] * (tokens * s.token + j->n_seq * s.seq), ALIGN) +
        ith * j->slot_bytes;
}

void mra_compute_pack(struct ggml_tensor * dst, const struct mra_node * p, int ith, int nth) {
    const struct mra_job j = mra_job_new(
        NULL, dst->src[0], dst->src[1], p->flags & (MRA_HAS_LENGTHS | MRA_IS_STARTS) ? dst->src[2] : NULL, dst, NULL);
    if (ith == 0) atomic_store_explicit((atomic_int *) j.mem, 0, memory_order_relaxed);
    const bool copy = p->flags & MRA_COPY;
    int item = 0;
    for (int64_t s = 0; s < j.n_seq; s++)
        for (int64_t h = 0; h < j.k->ne[2]; h++) {
            int64_t n_rows;
            bool exact;
            const struct mra_attn_head a = mra_job_head(&j, s, h, &n_rows, &exact);
            if (exact && !copy) continue;
            for (int k0 = 0; k0 < a.n_k; k0 += CHUNK_KEYS) {
                if (item++ % nth == ith)
                    mra_kernels_get()->pack(&a, k0, k0 + CHUNK_KEYS < a.n_k ? k0 + CHUNK_KEYS : a.n_k, copy, !exact);
            }
        }
}
