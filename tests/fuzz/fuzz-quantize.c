// mra_quantize on a model file: refused with a line, or written; a model that loads still does when it is quantized.
#include "gguf-input.h"
#include "mra-encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/fuzz-quantize-XXXXXX", path[64];
static void clean(void) { rmdir(folder); }
static void quiet(enum ggml_log_level level, const char * text, void * user) { (void) level, (void) text, (void) user; }

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static const char * const types[] = { "q8_0", "q4_0", "q4_k", "q6_k", "f16", "f32", "q5_1", "bf16", "q2_k" };
    struct gguf_input in;
    struct mra_error err = { 0 };
    if (!path[0]) {
        require(mkdtemp(folder) != NULL);
        snprintf(path, sizeof(path), "%s/x.gguf", folder);
        atexit(clean);
        ggml_log_set(quiet, NULL);
    }
    if (!gguf_input_make(&in, data, size)) return 0;
    const uint8_t how = take(&in.choice);
    const enum ggml_type type = mra_quantize_type(types[how % 9]);
    struct mra_quantize_params p = { .type = type, .n_threads = 1, .no_mmap = how & 128 };
    if (how & 64) p.imatrix = in.path;
    if (mra_quantize(in.path, path, &p, NULL, &err) != MRA_OK) {
        require(err.msg[0] && !strchr(err.msg, '\n') && access(path, F_OK) != 0);
        return 0;
    }
    struct mra_model *before = mra_model_load(in.path, NULL, &err), *after = mra_model_load(path, NULL, &err);
    require(!before || after);
    mra_model_free(before);
    mra_model_free(after);
    unlink(path);
    return 0;
}
