// A whole encoder on a fake device with a companion whose executor runs the CUDA kernels, emulated on the host; against
// the CPU. Attention multiplies in F16 there. Also with nodes that are left to the CPU: the two lay a pack out
// differently.
#include "encoder-golden.h"
#include "fake-cuda.h"
#include "fake-device.h"

#include "../ggml-mra/src/node-params.h"

#define TOLERANCE 2e-3

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s golden/models\n", argv[0]);
        return 2;
    }
    static const struct {
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
    fake_device_register();
    fake_exec_register();
    fake_cuda_use();
    int32_t ids[250];
    for (int i = 0; i < 250; i++) ids[i] = i * 37 % 300;
    static const int refuse[] = { 0, MRA_KIND_PACK, MRA_KIND_ATTN, MRA_KIND_BLOCK_SPARSE_ATTN, MRA_KIND_WINDOW_ATTN };
    for (int k = 0; k < 5; k++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            for (int kind = MRA_OUTPUT_TOKENS; kind <= MRA_OUTPUT_POOLED; kind++) {
                char path[1024];
                fake.refuse = refuse[k];
                struct mra_error err = { 0 };
                snprintf(path, sizeof(path), "%s/%s.gguf", argv[1], cases[i].model);
                const struct mra_seq seqs[3] = { { .n = 70, .ids = ids }, { .n = cases[i].n, .ids = ids },
                    { .n = 5, .ids = ids + 9 } };
                struct mra_context_params p = mra_context_params_default();
                p.n_threads = 1;
                if (cases[i].frame) {
                    p.attention = MRA_ATTENTION_MRA;
                    p.attn.budget = cases[i].budget;
                    CHECK(mra_attn_params_parse(&p.attn, cases[i].frame, &err) == MRA_OK, "%s", err.msg);
                }
                const int before = fake_cuda_nodes(0), near = fake_cuda_nodes(MRA_KIND_WINDOW_ATTN);
                const struct mra_output want = { .kind = (enum mra_output_kind) kind };
                const struct encoded a = encode_on(path, "CPU", p, seqs, 3, want),
                                     b = encode_on(path, "FAKE0", p, seqs, 3, want);
                const double e = a.x && b.x && a.n == b.n ? relative_error(b.x, a.x, a.n) : INFINITY;
                CHECK(e < TOLERANCE, "%s %s, output %d, without kind %d: error %.1e", cases[i].model,
                    cases[i].frame ? cases[i].frame : "", kind, fake.refuse, e);
                CHECK(fake_cuda_nodes(0) > before, "%s: no CUDA kernel was used", cases[i].model);
                const int n_near = fake_cuda_nodes(MRA_KIND_WINDOW_ATTN) - near;
                CHECK(n_near == (fake.refuse == MRA_KIND_WINDOW_ATTN ? 0 : cases[i].n_near),
                    "%s, without kind %d: %d nodes of window-attn by CUDA kernels", cases[i].model, fake.refuse,
                    n_near);
                if (k == 0)
                    printf("%-22s %-8s output %d: error %.1e, %d nodes by CUDA kernels\n", cases[i].model,
                        cases[i].frame ? cases[i].frame : "", kind, e, fake_cuda_nodes(0) - before);
                free(a.x);
                free(b.x);
            }
    return summary("test-encoder-cuda");
}
