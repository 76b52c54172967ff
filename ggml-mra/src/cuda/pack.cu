// The pack node on the device: K and V in F16 where they are not already, and for the columns frame, per block of g keys, channel minima, maxima
// and means of the keys and means of the values.
#include "cuda.h"
#include "sequence.cuh"

MRA_DEVICE float load_value(const float * x) { return *x; }
MRA_DEVICE float load_value(const half * x)  { return __half2float(*x); }

enum { COPY_THREADS = 256, STAT_WARPS = 4 };

// dst [n_batch][n_head][n_row][d] = x in F16; a thread has 8 channels of a row
template <class T> __global__ void __launch_bounds__(COPY_THREADS) pack_copy(const struct mra_tensor x, half * dst, const struct attn_args a, int64_t n) {
    const int64_t i = (int64_t) blockIdx.x*COPY_THREADS + threadIdx.x;
    if (i >= n) return;
    const int64_t chunks = x.ne[0]/8, row = i/chunks, t = row%x.ne[1], h = row/x.ne[1]%x.ne[2], b = row/x.ne[1]/x.ne[2];
    if (!(a.node.flags & MRA_IS_STARTS) && t >= sequence_of(a, (int) b).n_k) return; // padding is not read
    const T * from = (const T *) (x.data + t*x.nb[1] + h*x.nb[2] + b*x.nb[3]) + i%chunks*8;
    uint32_t r[4];
    #pragma unroll
    for (int c = 0; c < 4; c++) r[c] = mra_pack_half2(load_value(from + 2*c), load_value(from + 2*c + 1));
    *(uint4 *) (dst + i*8) = make_uint4(r[0], r[1], r[2], r[3]);
}

// one key block per warp, lanes side by side in the channels
template <class T> __global__ void __launch_bounds__(STAT_WARPS*MRA_WARP) pack_stat(const struct attn_args a, int max_blocks) {
    const int lane = threadIdx.x%MRA_WARP, d = (int) a.k.ne[0], dv = (int) a.v.ne[0], n_head = (int) a.k.ne[2];
    const int64_t item = (int64_t) blockIdx.x*STAT_WARPS + threadIdx.x/MRA_WARP;
    const int y = (int) (item%max_blocks), head = (int) (item/max_blocks%n_head);
    const int64_t is = item/max_blocks/n_head;
    if (is >= a.n_seq) return;
    const struct sequence s = sequence_of(a, (int) is);
    if (s.exact || (int64_t) y*s.plan.g >= s.n_k) return;
    const int first = y*s.plan.g, n = min(s.plan.g, s.n_k - first);
    const int64_t b = first_block(a, s, (int) is) + y;
    float * stat = (float *) (a.mem + a.pack.k_stat) + (head*a.pack.n_b + b/MRA_DEVICE_PANEL*MRA_DEVICE_PANEL)*3*d + b%MRA_DEVICE_PANEL;
    float * mean = (float *) (a.mem + a.pack.v_mean) + (head*a.pack.n_b + b)*dv;
    const char * k = row_at(a.k, s, head, first), * v = row_at(a.v, s, head, first);
    for (int c = lane; c < d; c += MRA_WARP) {
        float lo = INFINITY, hi = -INFINITY, sum = 0.0f;
        for (int j = 0; j < n; j++) {
            const float x = load_value((const T *) (k + j*a.k.nb[1]) + c);
            lo = fminf(lo, x); hi = fmaxf(hi, x); sum += x;
        }
        stat[c*MRA_DEVICE_PANEL]         = lo;
        stat[(d + c)*MRA_DEVICE_PANEL]   = hi;
        stat[(2*d + c)*MRA_DEVICE_PANEL] = sum/n;
    }
    for (int c = lane; c < dv; c += MRA_WARP) {
        float sum = 0.0f;
        for (int j = 0; j < n; j++) sum += load_value((const T *) (v + j*a.v.nb[1]) + c);
        mean[c] = sum/n;
    }
}

static struct half_rows rows_of(const struct mra_tensor * x, bool copies, char * copy) {
    struct half_rows r = { x->data, x->nb[1], x->nb[2], x->nb[3] };
    if (!copies) return r;
    r.data  = copy;
    r.token = x->ne[0]*2;
    r.head  = r.token*x->ne[1];
    r.batch = r.head*x->ne[2];
    return r;
}

int mra_cuda_attn_args(struct attn_args * a, const struct mra_node * p, bool columns, const struct mra_tensor * dst, const struct mra_tensor * q,
        const struct mra_tensor * k, const struct mra_tensor * v, const struct mra_tensor * pack, const struct mra_tensor * lengths) {
    const bool f16 = k->type == MRA_TENSOR_F16, copies = !mra_device_as_it_lies(f16, k->nb) || !mra_device_as_it_lies(f16, v->nb);
    memset(a, 0, sizeof(*a));
    if (q)       a->q = *q;
    if (dst)     a->dst = *dst;
    if (lengths) a->lengths = *lengths;
    a->k       = *k;
    a->v       = *v;
    a->node    = *p;
    a->columns = columns;
    a->n_seq   = (int) (p->flags & MRA_IS_STARTS ? lengths->ne[0] - 1 : k->ne[3]);
    a->pack    = mra_device_pack_of(p, columns, copies, (int) k->ne[0], (int) v->ne[0], k->ne[2], k->ne[1]*k->ne[3], a->n_seq);
    a->mem     = (char *) (((uintptr_t) pack->data + MRA_DEVICE_ALIGN - 1)/MRA_DEVICE_ALIGN*MRA_DEVICE_ALIGN);
    a->kh      = rows_of(k, copies, a->mem + a->pack.k);
    a->vh      = rows_of(v, copies, a->mem + a->pack.v);
    if (a->pack.bytes > (size_t) pack->ne[0]) return MRA_CUDA_UNSUPPORTED;
    if ((uintptr_t) a->kh.data % 16 || (uintptr_t) a->vh.data % 16) return MRA_CUDA_UNSUPPORTED; // F16 at an odd place
    return MRA_CUDA_OK;
}

static bool is_kv(const struct mra_tensor * k, const struct mra_tensor * v) {
    return k->type == v->type && (k->type == MRA_TENSOR_F32 || k->type == MRA_TENSOR_F16);
}

bool mra_cuda_supports_pack(const struct mra_node * p, const struct mra_tensor * dst, const struct mra_tensor * src, int n_src) {
    (void) dst;
    return n_src == 2 + !!(p->flags & (MRA_HAS_LENGTHS | MRA_IS_STARTS)) && is_kv(&src[0], &src[1]);
}

template <class T> static int pack(const struct attn_args & a, void * stream) {
    for (int i = 0; i < 2 && a.kh.data == a.mem + a.pack.k; i++) {
        const struct mra_tensor & x = i ? a.v : a.k;
        const int64_t n = x.ne[0]/8*x.ne[1]*x.ne[2]*x.ne[3], blocks = (n + COPY_THREADS - 1)/COPY_THREADS;
        if (blocks > INT32_MAX) return MRA_CUDA_UNSUPPORTED;
        const int rc = MRA_LAUNCH(pack_copy<T>, dim3((unsigned) blocks), dim3(COPY_THREADS), 0, stream, x, (half *) (i ? a.vh.data : a.kh.data), a, n);
        if (rc != MRA_CUDA_OK) return rc;
    }
    if (!a.columns) return MRA_CUDA_OK;
    const int64_t max_blocks = mra_div_up(a.node.u.attn.max_len, 16), n = (max_blocks*a.k.ne[2]*a.n_seq + STAT_WARPS - 1)/STAT_WARPS;
    if (n > INT32_MAX) return MRA_CUDA_UNSUPPORTED;
    return MRA_LAUNCH(pack_stat<T>, dim3((unsigned) n), dim3(STAT_WARPS*MRA_WARP), 0, stream, a, (int) max_blocks);
}

int mra_cuda_pack(const struct mra_node * p, struct mra_tensor dst, const struct mra_tensor * src, int n_src, void * stream) {
    struct attn_args a;
    const int rc = mra_cuda_attn_args(&a, p, p->u.attn.frame == MRA_PLAN_COLUMNS, NULL, NULL, &src[0], &src[1], &dst, n_src > 2 ? &src[2] : NULL);
    if (rc != MRA_CUDA_OK) return rc;
    return src[0].type == MRA_TENSOR_F16 ? pack<half>(a, stream) : pack<float>(a, stream);
}
