#include "fake-cuda.h"
#include "fake-device.h"

#include "../ggml-mra/src/cuda/cuda.h"
#include "../ggml-mra/src/node.h"

static int n_nodes[MRA_KIND_COUNT]; // 0: of all kinds

static int sources(const struct ggml_tensor * t, struct mra_tensor * src) {
    int n = 0;
    for (; n < GGML_MAX_SRC && t->src[n]; n++) src[n] = mra_tensor_of(t->src[n]);
    return n;
}

static bool supports(const struct ggml_tensor * t) {
    struct mra_tensor src[GGML_MAX_SRC], dst = mra_tensor_of(t);
    const struct mra_node p = mra_node_get(t);
    return mra_cuda_supports(&p, &dst, src, sources(t, src));
}

static int run(const struct ggml_tensor * t) {
    struct mra_tensor src[GGML_MAX_SRC];
    const struct mra_node p = mra_node_get(t);
    n_nodes[0]++;
    n_nodes[p.kind]++;
    return mra_cuda_run(&p, mra_tensor_of(t), src, sources(t, src), NULL);
}

void fake_cuda_use(void) {
    fake.run = run;
    fake.supports = supports;
}
int fake_cuda_nodes(int kind) { return n_nodes[kind]; }
