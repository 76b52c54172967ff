#include "quantize-files.h"

#include "gguf-edit.h"
#include "harness.h"

#include <unistd.h>

char quantize_folder[64], quantize_in[128], quantize_out[128], quantize_other[128];

static void write_input(const char * golden, const char * path) {
    char model[1024];
    snprintf(model, sizeof(model), "%s/roberta.gguf", golden);
    struct gguf_edit e = gguf_edit_open(model);
    uint64_t seed = 3;
    const struct {
        const char * name;
        enum ggml_type type;
        int64_t ne0, ne1;
    } extra[] = {
        { "extra.a.weight", GGML_TYPE_F32, 512, 37 },
        { "extra.b.weight", GGML_TYPE_F16, 256, 5 },
        { "extra.c.weight", GGML_TYPE_F32, 40, 9 },
        { "extra.d.weight", GGML_TYPE_BF16, 96, 64 },
        { "token_types.weight", GGML_TYPE_F32, 64, 2 },
    };
    gguf_edit_drop(&e, "token_types.weight"); // of one row, which stays a float in any case
    for (size_t i = 0; i < sizeof(extra) / sizeof(extra[0]); i++) {
        struct ggml_tensor * t = gguf_edit_add(&e, extra[i].name, extra[i].type, extra[i].ne0, extra[i].ne1);
        for (int64_t k = 0; k < ggml_nelements(t); k++) {
            const float x = rng_normal(&seed);
            if (t->type == GGML_TYPE_F32) ((float *) t->data)[k] = x;
            else if (t->type == GGML_TYPE_F16) ((ggml_fp16_t *) t->data)[k] = ggml_fp32_to_fp16(x);
            else ((ggml_bf16_t *) t->data)[k] = ggml_fp32_to_bf16(x);
        }
    }
    gguf_set_val_u32(e.kv, "general.file_type", 1);
    gguf_edit_write(&e, path);
    gguf_edit_free(&e);
}

void quantize_files_open(const char * program, const char * golden) {
    snprintf(quantize_folder, sizeof(quantize_folder), "/tmp/%s-XXXXXX", program);
    if (!mkdtemp(quantize_folder)) {
        perror(quantize_folder);
        exit(1);
    }
    snprintf(quantize_in, sizeof(quantize_in), "%s/in.gguf", quantize_folder);
    snprintf(quantize_out, sizeof(quantize_out), "%s/out.gguf", quantize_folder);
    snprintf(quantize_other, sizeof(quantize_other), "%s/other.gguf", quantize_folder);
    write_input(golden, quantize_in);
}

void quantize_files_close(void) {
    unlink(quantize_in);
    unlink(quantize_out);
    unlink(quantize_other);
    CHECK(rmdir(quantize_folder) == 0, "files are left in %s", quantize_folder);
}
