// The encoder on a device of its own memory: weights copied there, attention on the CPU or by the companion backend, chunks in place across
// all of them. Bit for bit what the CPU gives.
#include "fake-device.h"
#include "harness.h"
#include "mra-encoder.h"

static bool companion;

static float * encode(const char * path, const char * device, struct mra_context_params p, const struct mra_seq * seqs, int n_seq, struct mra_output want, int64_t * n) {
    struct mra_error err = {0};
    struct mra_result r = {0};
    float * x = NULL;
    struct mra_model * m = mra_model_load(path, &(struct mra_model_params) { .device = device }, &err);
    struct mra_context * ctx = m ? mra_context_new(m, &p, &err) : NULL;
    CHECK(ctx && mra_encode(ctx, seqs, n_seq, &want, &r, &err) == MRA_OK, "%s on %s: %s", path, device, err.msg);
    if (r.data) {
        CHECK((*mra_context_note(ctx) != 0) == (strcmp(device, "CPU") && !companion), "%s: note '%s'", device, mra_context_note(ctx));
        *n = r.n_rows*r.n_cols;
        x = malloc((size_t) *n*sizeof(float));
        memcpy(x, r.data, (size_t) *n*sizeof(float));
        CHECK(strcmp(mra_model_info(m).device, strcmp(device, "CPU") ? "FAKE0" : "CPU") == 0, "device %s", mra_model_info(m).device);
    }
    mra_context_free(ctx);
    mra_model_free(m);
    return x;
}

int main(int argc, char ** argv) {
    if (argc != 2) { fprintf(stderr, "usage: %s golden/models\n", argv[0]); return 2; }
    fake_device_register();
    static const char * const names[] = { "roberta", "bert", "mra-sparse" };
    int32_t ids[250];
    for (int i = 0; i < 250; i++) ids[i] = i*37 % 300;
    const struct mra_at at[] = { {2, 3}, {0, 1} };
    const struct mra_output wants[] = {
        { .kind = MRA_OUTPUT_TOKENS }, { .kind = MRA_OUTPUT_POOLED }, { .kind = MRA_OUTPUT_CLASS }, { .kind = MRA_OUTPUT_MLM, .at = at, .n_at = 2 },
    };
    for (int round = 0; round < 4; round++) for (int i = 0; i < 3; i++) for (int chunk = 16; chunk <= 512; chunk *= 32) for (int k = 0; k < 4; k++) {
        companion = round > 0; // with it, three schedules of the device's work
        fake.eager = round == 2;
        fake.exec_eager = round == 3;
        if (companion) fake_exec_register();
        char path[1024];
        snprintf(path, sizeof(path), "%s/%s.gguf", argv[1], names[i]);
        const struct mra_seq seqs[3] = { { .n = 70, .ids = ids }, { .n = i == 2 ? 250 : 100, .ids = ids }, { .n = 5, .ids = ids + 9 } };
        struct mra_context_params p = mra_context_params_default();
        p.n_threads = 1;
        p.n_chunk   = chunk;
        p.profile   = k == 1;
        p.ggml_dense = true; // as a device computes them
        int64_t n_cpu = 0, n_dev = 0;
        const int before = fake_device_graphs(), n_nodes = fake_exec_nodes();
        float * a = encode(path, "CPU", p, seqs, 3, wants[k], &n_cpu), * b = encode(path, k % 2 ? "gpu" : "FAKE0", p, seqs, 3, wants[k], &n_dev);
        CHECK(fake_device_graphs() > before, "%s: the device was not used", names[i]);
        CHECK((fake_exec_nodes() > n_nodes) == companion, "%s: %d nodes on the companion", names[i], fake_exec_nodes() - n_nodes);
        CHECK(a && b && n_cpu == n_dev && memcmp(a, b, (size_t) n_cpu*sizeof(float)) == 0, "%s, chunks of %d, output %d: the device gives something else", names[i], chunk, k);
        free(a);
        free(b);
    }
    return summary("test-encoder-device");
}
