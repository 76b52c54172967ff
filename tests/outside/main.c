// One attention by the installed library: everything refined, against a softmax written out.
#include <ggml-mra.h>
#include <ggml-mra-backend.h>
#include <ggml-cpu.h>

#include <math.h>
#include <stdio.h>

enum { N = 50, D = 16 };

int main(void) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = 16 << 20 });
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, D, N);
    float * xd = x->data;
    for (int i = 0; i < N * D; i++) xd[i] = sinf((float) (i * i % 97));
    struct mra_attn_params p = mra_attn_params_default();
    p.budget = 1;
    p.n_threads = 2;
    struct mra_error err = { 0 };
    struct ggml_tensor * o = ggml_mra_attn(ctx, x, x, x, NULL, &p, &err);
    if (!o) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    struct ggml_cgraph * g = ggml_new_graph(ctx);
    ggml_build_forward_expand(g, o);
    ggml_graph_compute_with_ctx(ctx, g, 2);

    if (ggml_backend_mra_init(NULL, &err) || !err.msg[0]) {
        fprintf(stderr, "a companion of nothing\n");
        return 1;
    }

    double worst = 0;
    for (int i = 0; i < N; i++) {
        double w[N], sum = 0;
        for (int j = 0; j < N; j++) {
            double s = 0;
            for (int c = 0; c < D; c++) s += xd[i * D + c] * xd[j * D + c];
            sum += w[j] = exp(s / sqrt(D));
        }
        for (int c = 0; c < D; c++) {
            double want = 0;
            for (int j = 0; j < N; j++) want += w[j] / sum * xd[j * D + c];
            worst = fmax(worst, fabs(want - ((float *) o->data)[i * D + c]));
        }
    }
    printf("outside: kernels %s, largest difference %.1e\n", mra_isa(), worst);
    ggml_free(ctx);
    return worst < 1e-5 ? 0 : 1;
}
