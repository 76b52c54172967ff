// How large the error of attention was, from the sums of ggml_mra_attn_error.
#include "context.h"

#include <math.h>

const double * mra_context_errors(const struct mra_context * ctx, int seq) {
    if (!ctx || seq < 0 || seq >= ctx->n_errors) return NULL;
    const struct mra_model_info * info = &ctx->model->info;
    return ctx->errors + (size_t) seq * info->n_layer * info->n_head * MRA_ATTN_ERROR_SUMS;
}

struct mra_error_summary mra_error_summary_of(const double * sums, int n_layer, int n_head) {
    struct mra_error_summary s = { 0 };
    double all[MRA_ATTN_ERROR_SUMS] = { 0 };
    for (int i = 0; sums && i < n_layer * n_head; i++, sums += MRA_ATTN_ERROR_SUMS) {
        if (sums[MRA_ATTN_ERROR_ROWS] == 0) continue;
        const struct mra_attn_error e = mra_attn_error_of(sums);
        for (int t = 0; t < MRA_ATTN_ERROR_SUMS; t++) all[t] += sums[t];
        s.mean += e.error;
        if (s.n_heads++ == 0 || e.error > s.worst_head.error || isnan(e.error)) {
            s.worst_head = e;
            s.layer = i / n_head;
            s.head = i % n_head;
        }
    }
    if (s.n_heads) s.mean /= s.n_heads;
    s.all = mra_attn_error_of(all);
    return s;
}
