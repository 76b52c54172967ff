// The encoder on a device of its own memory: weights copied there, attention on the CPU or by the companion backend,
// chunks in place across all of them. Bit for bit what the CPU gives.
#include "device-counts.h"
#include "encoder-golden.h"
#include "fake-device.h"

static bool companion;

static void check_device(const struct encoded * e, const char * asked) {
    CHECK(!e->x || e->noted == (strcmp(asked, "CPU") && !companion), "%s: a note, or none", asked);
    CHECK(!e->x || strcmp(e->device, strcmp(asked, "CPU") ? "FAKE0" : "CPU") == 0, "device %s", e->device);
}

int main(int argc, char ** argv) {
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: %s golden/models [names]\n", argv[0]);
        return 2;
    }
    fake_device_register();
    static const char * const names[] = { "roberta", "bert", "mra-sparse" };
    int32_t ids[250];
    for (int i = 0; i < 250; i++) ids[i] = i * 37 % 300;
    const struct mra_at at[] = { { 2, 3 }, { 0, 1 } };
    const struct mra_output wants[] = {
        { .kind = MRA_OUTPUT_TOKENS },
        { .kind = MRA_OUTPUT_POOLED },
        { .kind = MRA_OUTPUT_CLASS },
        { .kind = MRA_OUTPUT_MLM, .at = at, .n_at = 2 },
    };
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < 3; i++)
            for (int chunk = 16; chunk <= 512; chunk *= 32)
                for (int k = 0; k < 4; k++) {
                    companion = round > 0; // with it, three schedules of the device's work
                    fake.eager = round == 2;
                    fake.exec_eager = round == 3;
                    fake.rows_of = round % 2 ? GGML_TYPE_F16 : 0; // of the embeddings: they stay on the host
                    if (companion) fake_exec_register();
                    char path[1024];
                    snprintf(path, sizeof(path), "%s/%s.gguf", argv[1], names[i]);
                    const struct mra_seq seqs[3] = { { .n = 70, .ids = ids }, { .n = i == 2 ? 250 : 100, .ids = ids },
                        { .n = 5, .ids = ids + 9 } };
                    struct mra_context_params p = mra_context_params_default();
                    p.n_threads = 1;
                    p.n_ffn_rows = chunk;
                    p.profile = k == 1;
                    p.ggml_dense = true; // as a device computes them
                    const char * device = k % 2 ? "gpu" : "FAKE0";
                    const int before = fake_device_graphs(), n_nodes = fake_exec_nodes();
                    const struct encoded a = encode_on(path, "CPU", p, seqs, 3, wants[k]),
                                         b = encode_on(path, device, p, seqs, 3, wants[k]);
                    check_device(&a, "CPU");
                    check_device(&b, device);
                    CHECK(fake_device_graphs() > before, "%s: the device was not used", names[i]);
                    CHECK((fake_exec_nodes() > n_nodes) == companion, "%s: %d nodes on the companion", names[i],
                        fake_exec_nodes() - n_nodes);
                    CHECK(a.x && b.x && a.n == b.n && memcmp(a.x, b.x, (size_t) a.n * sizeof(float)) == 0,
                        "%s, chunks of %d, output %d: the device gives something else", names[i], chunk, k);
                    free(a.x);
                    free(b.x);
                }
    device_counts(argv[1], argc == 3);
    return summary("test-encoder-device");
}
