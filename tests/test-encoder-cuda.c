// A whole encoder on a fake device with a companion whose executor runs the CUDA kernels, emulated on the host; against
// the CPU. Attention multiplies in F16 there. Also with nodes that are left to the CPU: the two lay a pack out
// differently.
#include "encoder-golden.h"
#include "fake-cuda.h"
#include "fake-device.h"

#include "../ggml-mra/src/node-params.h"

#define TOLERANCE 2e-3

static const struct encoder_case {
    const char *model, *frame;
    float budget;
    int n;
    int n_near; // layers with a window or ALiBi: nodes of window-attn
} cases[] = {
    { "roberta", "exact", 1, 100, 0 },
    { "bert", "columns", .3f, 100, 0 },
    { "xlm-roberta", "mra2", .5f, 90, 0 },
    { "mra", NULL, 0, 250, 0 },
    { "mra-sparse", NULL, 0, 250, 0 },
    { "../families/modernbert", "exact", 1, 90, 2 },
    { "../families/modernbert-bias", "exact", 1, 90, 2 },
    { "../families/jina-v2", NULL, 0, 90, 1 },
    { "../families/jina-v2-code", NULL, 0, 90, 1 },
    { "../families/jina-v3", "exact", 1, 90, 0 },
    { "../families/nomic", "exact", 1, 90, 0 },
    { "../families/eurobert", "exact", 1, 90, 0 },
    { "../families/gte", "exact", 1, 90, 0 },
    { "../families/neobert", "exact", 1, 90, 0 },
    { "../families/distilbert", "exact", 1, 90, 0 },
};

// a batch of three; without kind fake.refuse on the device
static void test_case(const struct encoder_case * c, const char * folder, enum mra_output_kind kind) {
    char path[1024];
    int32_t ids[250];
    for (int i = 0; i < 250; i++) ids[i] = i * 37 % 300;
    struct mra_error err = { 0 };
    snprintf(path, sizeof(path), "%s/%s.gguf", folder, c->model);
    const struct mra_seq seqs[3] = { { .n = 70, .ids = ids }, { .n = c->n, .ids = ids }, { .n = 5, .ids = ids + 9 } };
    struct mra_context_params p = mra_context_params_default();
    p.n_threads = 1;
    if (c->frame) {
        p.attention = MRA_ATTENTION_MRA;
        p.attn.budget = c->budget;
        CHECK(mra_attn_params_parse(&p.attn, c->frame, &err) == MRA_OK, "%s", err.msg);
    }
    const int before = fake_cuda_nodes(0), near = fake_cuda_nodes(MRA_KIND_WINDOW_ATTN);
    const struct mra_output want = { .kind = kind };
    const struct encoded a = encode_on(path, "CPU", p, seqs, 3, want), b = encode_on(path, "FAKE0", p, seqs, 3, want);
    const double e = a.x && b.x && a.n == b.n ? relative_error(b.x, a.x, a.n) : INFINITY;
    const char * frame = c->frame ? c->frame : "";
    CHECK(e < TOLERANCE, "%s %s, output %d, without kind %d: error %.1e", c->model, frame, kind, fake.refuse, e);
    CHECK(fake_cuda_nodes(0) > before, "%s: no CUDA kernel was used", c->model);
    const int n_near = fake_cuda_nodes(MRA_KIND_WINDOW_ATTN) - near;
    CHECK(n_near == (fake.refuse == MRA_KIND_WINDOW_ATTN ? 0 : c->n_near),
        "%s, without kind %d: %d nodes of window-attn by CUDA kernels", c->model, fake.refuse, n_near);
    if (!fake.refuse)
        printf("%-28s %-8s output %d: error %.1e, %d nodes by CUDA kernels\n", c->model, frame, kind, e,
            fake_cuda_nodes(0) - before);
    free(a.x);
    free(b.x);
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s golden/models\n", argv[0]);
        return 2;
    }
    fake_device_register();
    fake_exec_register();
    fake_cuda_use();
    static const int refuse[] = { 0, MRA_KIND_PACK, MRA_KIND_ATTN, MRA_KIND_BLOCK_SPARSE_ATTN, MRA_KIND_WINDOW_ATTN };
    for (int k = 0; k < 5; k++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            for (int kind = MRA_OUTPUT_TOKENS; kind <= MRA_OUTPUT_POOLED; kind++) {
                fake.refuse = refuse[k];
                test_case(&cases[i], argv[1], (enum mra_output_kind) kind);
            }
    return summary("test-encoder-cuda");
}
