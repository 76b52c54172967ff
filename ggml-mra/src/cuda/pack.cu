// The pack node on the device: K and V in F16 where they are not already, and for the columns frame, per block of g
// keys, channel maxima, minima and means of the keys (as two parts of F16) and means of the values.
#include "cuda.h"
#include "sequence.cuh"

enum { COPY_THREADS = 256, STAT_WARPS = 4, STAT_BLOCKS = 8, STAT_CHANNELS = 16 };

// 4 channels; aligned: to the size of all of them
MRA_DEVICE float4 load4(const float * x, bool aligned) {
    return aligned ? *(const float4 *) x : make_float4(x[0], x[1], x[2], x[3]);
}
MRA_DEVICE float4 load4(const half * x, bool aligned) {
    half h[4];
    if (aligned) *(uint2 *) h = *(const uint2 *) x;
    else
        for (int i = 0; i < 4; i++) h[i] = x[i];
    return make_float4(__half2float(h[0]), __half2float(h[1]), __half2float(h[2]), __half2float(h[3]));
}
template <class T> MRA_DEVICE bool aligned4(const struct mra_tensor & x) {
    return ((uintptr_t) x.data | x.nb[1] | x.nb[2] | x.nb[3]) % (4 * sizeof(T)) == 0;
}

// dst [n_batch][n_head][n_row][d] = x in F16; a thread has 4 channels of a row
template <class T>
__global__ void __launch_bounds__(COPY_THREADS)
    pack_copy(const struct mra_tensor x, half * dst, const struct attn_args a, int64_t n) {
    const int64_t i = (int64_t) blockIdx.x * COPY_THREADS + threadIdx.x;
    if (i >= n) return;
    const int64_t quads = x.ne[0] / 4, row = i / quads, t = row % x.ne[1], h = row / x.ne[1] % x.ne[2],
                  b = row / x.ne[1] / x.ne[2];
    if (!(a.node.flags & MRA_FLAG_STARTS) && t >= sequence_of(a, (int) b).n_k) return; // padding is not read
    const float4 y = load4(
        (const T *) (x.data + t * x.nb[1] + h * x.nb[2] + b * x.nb[3]) + i % quads * 4, aligned4<T>(x));
    *(uint2 *) (dst + i * 4) = make_uint2(mra_pack_half2(y.x, y.y), mra_pack_half2(y.z, y.w));
}

MRA_DEVICE float4 min4(float4 a, float4 b) {
    return make_float4(fminf(a.x, b.x), fminf(a.y, b.y), fminf(a.z, b.z), fminf(a.w, b.w));
}
MRA_DEVICE float4 max4(float4 a, float4 b) {
    return make_float4(fmaxf(a.x, b.x), fmaxf(a.y, b.y), fmaxf(a.z, b.z), fmaxf(a.w, b.w));
}
MRA_DEVICE float4 add4(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
MRA_DEVICE void store_halves(half * at, float4 x) {
    *(uint2 *) at = make_uint2(mra_pack_half2(x.x, x.y), mra_pack_half2(x.z, x.w));
}
// what is lost of x in F16
MRA_DEVICE float rest_of(float x) { return x - __half2float(__float2half_rn(x)); }

// A warp has 16 channels, of K or of V, of 8 key blocks: lane l channels 4*(l/8).. of block l%8, so that both what it
// reads and what it writes are whole sectors.
template <class T>
__global__ void __launch_bounds__(STAT_WARPS * MRA_WARP, 8) pack_stat(const struct attn_args a, int n_part) {
    const int lane = threadIdx.x % MRA_WARP, d = (int) a.k.ne[0], dv = (int) a.v.ne[0], n_head = (int) a.k.ne[2];
    const int k_parts = mra_div_up(d, STAT_CHANNELS), parts = k_parts + mra_div_up(dv, STAT_CHANNELS);
    int64_t item = (int64_t) blockIdx.x * STAT_WARPS + threadIdx.x / MRA_WARP;
    if (blockIdx.x == 0 && threadIdx.x == 0) *(uint4 *) (a.mem + a.pack.zeros) = make_uint4(0, 0, 0, 0);
    const int part = (int) (item % parts), y = (int) (item / parts % n_part) * STAT_BLOCKS + lane % STAT_BLOCKS;
    item /= (int64_t) parts * n_part;
    const int head = (int) (item % n_head), is = (int) (item / n_head);
    if (item / n_head >= a.n_seq) return;
    const struct sequence s = sequence_of(a, is);
    if (s.exact || (int64_t) y * s.plan.g >= s.n_k) return;
    if (s.plan.m1 >= mra_div_up(s.n_k, s.plan.g)) return; // all blocks are expanded: nobody asks
    const bool of_k = part < k_parts;
    const int first = y * s.plan.g, n = min(s.plan.g, s.n_k - first),
              c = (of_k ? part : part - k_parts) * STAT_CHANNELS + lane / STAT_BLOCKS * 4;
    if (c >= (of_k ? d : dv)) return;
    const struct mra_tensor & x = of_k ? a.k : a.v;
    const char * from = row_at(x, s, head, first) + c * sizeof(T);
    const bool aligned = aligned4<T>(x);
    float4 lo = load4((const T *) from, aligned), hi = lo, sum = lo;
    for (int j = 1; j < n; j++) {
        const float4 v = load4((const T *) (from + j * x.nb[1]), aligned);
        lo = min4(lo, v);
        hi = max4(hi, v);
        sum = add4(sum, v);
    }
    sum = make_float4(sum.x / n, sum.y / n, sum.z / n, sum.w / n);
    const int64_t b = first_block(a, s, is) + y;
    if (of_k) {
        half * stat = (half *) (a.mem + a.pack.k_stat) + (head * a.pack.n_b + b) * MRA_DEVICE_STATS * d + c;
        store_halves(stat, hi);
        store_halves(stat + d, lo);
        store_halves(stat + 2 * d, sum);
        store_halves(stat + 3 * d, make_float4(rest_of(sum.x), rest_of(sum.y), rest_of(sum.z), rest_of(sum.w)));
    } else store_halves((half *) (a.mem + a.pack.v_mean) + (head * a.pack.n_b + b) * dv + c, sum);
}

static struct half_rows rows_of(const struct mra_tensor * x, bool copies, char * copy) {
    struct half_rows r = { x->data, (uint32_t) x->nb[1], x->nb[2], x->nb[3] };
    if (!copies) return r;
    r.data = copy;
    r.token = (uint32_t) x->ne[0] * 2;
    r.head = r.token * (size_t) x->ne[1];
    r.batch = r.head * x->ne[2];
    return r;
}

int mra_cuda_attn_args(struct attn_args * a, const struct mra_node * p, bool columns, const struct mra_tensor * dst,
    const struct mra_tensor * q, const struct mra_tensor * k, const struct mra_tensor * v,
    const struct mra_tensor * pack, const struct mra_tensor * lengths) {
    const bool f16 = k->type == MRA_TENSOR_F16,
               copies = !mra_device_in_place(f16, k->nb, (uintptr_t) k->data) ||
        !mra_device_in_place(f16, v->nb, (uintptr_t) v->data);
    memset(a, 0, sizeof(*a));
    if (q) a->q = *q;
    if (dst) a->dst = *dst;
    if (lengths) a->lengths = *lengths;
    a->k = *k;
    a->v = *v;
    a->node = *p;
    a->columns = columns;
    a->n_seq = (int) (p->flags & MRA_FLAG_STARTS ? lengths->ne[0] - 1 : k->ne[3]);
    a->pack = mra_device_pack_of(
        &p->u.attn, columns, copies, (int) k->ne[0], (int) v->ne[0], k->ne[2], k->ne[1] * k->ne[3], a->n_seq);
    a->mem = (char *) (((uintptr_t) pack->data + MRA_DEVICE_ALIGN - 1) / MRA_DEVICE_ALIGN * MRA_DEVICE_ALIGN);
    a->kh = rows_of(k, copies, a->mem + a->pack.k);
    a->vh = rows_of(v, copies, a->mem + a->pack.v);
    if (a->pack.bytes > (size_t) pack->ne[0]) return MRA_CUDA_UNSUPPORTED;
    return MRA_CUDA_OK;
}

static bool is_kv(const struct mra_tensor * k, const struct mra_tensor * v) {
    return k->type == v->type && (k->type == MRA_TENSOR_F32 || k->type == MRA_TENSOR_F16);
}

bool mra_cuda_supports_pack(
    const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) dst;
    return n_src == mra_source_count(p) && is_kv(&src[0], &src[1]) &&
        mra_device_has_frame(&p->u.attn, (int) src[0].ne[0], (int) src[1].ne[0]);
}

template <class T> static int pack(const struct attn_args & a, void * stream) {
    for (int i = 0; i < 2 && a.kh.data == a.mem + a.pack.k; i++) {
        const struct mra_tensor & x = i ? a.v : a.k;
        const int64_t n = x.ne[0] / 4 * x.ne[1] * x.ne[2] * x.ne[3], blocks = (n + COPY_THREADS - 1) / COPY_THREADS;
        if (blocks > INT32_MAX) return MRA_CUDA_UNSUPPORTED;
        const int rc = MRA_LAUNCH(pack_copy<T>, dim3((unsigned) blocks), dim3(COPY_THREADS), 0, stream, x,
            (half *) (i ? a.vh.data : a.kh.data), a, n);
        if (rc != MRA_CUDA_OK) return rc;
    }
    if (!a.columns) return MRA_CUDA_OK;
    const int parts = mra_div_up((int) a.k.ne[0], STAT_CHANNELS) + mra_div_up((int) a.v.ne[0], STAT_CHANNELS);
    const int n_part = mra_div_up(a.node.u.attn.max_len, MRA_KEY_BLOCK * STAT_BLOCKS);
    const int64_t n = ((int64_t) n_part * parts * a.k.ne[2] * a.n_seq + STAT_WARPS - 1) / STAT_WARPS;
    if (n > INT32_MAX) return MRA_CUDA_UNSUPPORTED;
    return MRA_LAUNCH(pack_stat<T>, dim3((unsigned) n), dim3(STAT_WARPS * MRA_WARP), 0, stream, a, n_part);
}

int mra_cuda_pack(
    const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    (void) n_src;
    struct attn_args a;
    const int rc = mra_cuda_attn_args(&a, p, mra_attn_has_columns(&p->u.attn), NULL, NULL, &src[0], &src[1], &dst,
        mra_tensor_source(p, MRA_SRC_LENGTHS, src));
    if (rc != MRA_CUDA_OK) return rc;
    return src[0].type == MRA_TENSOR_F16 ? pack<half>(a, stream) : pack<float>(a, stream);
}
