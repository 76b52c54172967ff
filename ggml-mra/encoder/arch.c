// The architectures: a row each. What differs between models of one row is read from the file.
#include "model-load.h"

#include <math.h>
#include <string.h>

static const struct mra_arch archs[] = {
    { .name = "bert", // BERT, RoBERTa, XLM-R, MRA, DistilBERT
        .position = MRA_POSITION_LEARNT,
        .norm_bias = true,
        .act = MRA_ACT_GELU,
        .cls_act = MRA_ACT_TANH,
        .eps = 1e-12f },
    { .name = "modern-bert",
        .position = MRA_POSITION_ROPE,
        .pre_norm = true,
        .gated = true,
        .out_norm = "output_norm",
        .act = MRA_ACT_GELU,
        .cls_act = MRA_ACT_GELU,
        .eps = 1e-5f,
        .rope_base = 160000,
        .rope_base_local = 10000,
        .pattern = 3 },
    { .name = "nomic-bert",
        .position = MRA_POSITION_ROPE,
        .norm_bias = true,
        .gated = true,
        .act = MRA_ACT_SILU,
        .cls_act = MRA_ACT_TANH,
        .eps = 1e-12f,
        .rope_base = 1000 },
    { .name = "jina-bert-v3",
        .position = MRA_POSITION_ROPE,
        .norm_bias = true,
        .act = MRA_ACT_GELU,
        .cls_act = MRA_ACT_TANH,
        .eps = 1e-5f,
        .rope_base = 20000 },
    { .name = "gte", // gte v1.5 and multilingual; llama.cpp has none
        .position = MRA_POSITION_ROPE,
        .norm_bias = true,
        .gated = true,
        .act = MRA_ACT_GELU,
        .cls_act = MRA_ACT_TANH,
        .eps = 1e-12f,
        .rope_base = 160000 },
    { .name = "eurobert",
        .position = MRA_POSITION_ROPE,
        .pre_norm = true,
        .rms = true,
        .no_embd_norm = true,
        .gated = true,
        .out_norm = "output_norm",
        .act = MRA_ACT_SILU,
        .cls_act = MRA_ACT_GELU,
        .eps = 1e-5f,
        .rope_base = 10000 },
    { .name = "jina-bert-v2",
        .position = MRA_POSITION_ALIBI,
        .norm_bias = true,
        .gated = true,
        .act = MRA_ACT_GELU,
        .cls_act = MRA_ACT_TANH,
        .eps = 1e-12f,
        .max_bias = 8 },
    { .name = "neo-bert", // its q, k and v are stored head by head; llama.cpp's converter leaves them so and reads them
                          // otherwise
        .position = MRA_POSITION_ROPE,
        .interleaved = true,
        .pre_norm = true,
        .rms = true,
        .no_embd_norm = true,
        .gated = true,
        .own_files = true,
        .out_norm = "enc.output_norm",
        .act = MRA_ACT_SILU,
        .cls_act = MRA_ACT_TANH,
        .eps = 1e-6f,
        .rope_base = 10000 },
};
enum { N_ARCHS = sizeof(archs) / sizeof(archs[0]) };

// a file of another converter, where that one is known to be wrong
static enum mra_status check_origin(const struct mra_model * m, struct mra_error * err) {
    if (!m->arch.own_files || gguf_find_key(m->file.gguf, "mra.architecture") >= 0) return MRA_OK;
    return mra_fail(err, MRA_ERR_UNSUPPORTED,
        "architecture '%s' of another converter: q, k and v lie there in another order than they are read; convert "
        "with convert_hf.py",
        m->arch.name);
}

static enum mra_status find_row(struct mra_model * m, struct mra_error * err) {
    const char * name = NULL;
    TRY(mra_gguf_str(&m->file, "general.architecture", &name, err));
    if (!name) return mra_fail(err, MRA_ERR_FORMAT, "no key 'general.architecture'");
    char list[256] = "";
    for (int i = 0; i < N_ARCHS; i++) {
        m->arch = archs[i];
        if (strcmp(name, archs[i].name) == 0) return check_origin(m, err);
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "", archs[i].name);
    }
    return mra_fail(err, MRA_ERR_UNSUPPORTED, "architecture '%.40s'; supported are %s", name, list);
}

// some converters write a layer norm's epsilon under the other norm's key
static enum mra_status load_eps(struct mra_model * m, struct mra_error * err) {
    static const char * const names[2] = { "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon" };
    struct mra_arch * a = &m->arch;
    TRY(mra_gguf_f32(&m->file, mra_key(m, names[!a->rms]).name, &a->eps, err));
    TRY(mra_gguf_f32(&m->file, mra_key(m, names[a->rms]).name, &a->eps, err));
    return a->eps >= 0 && a->eps < 1 ? MRA_OK : mra_fail(err, MRA_ERR_FORMAT, "norm epsilon %g", (double) a->eps);
}

static enum mra_status load_rope(struct mra_model * m, struct mra_error * err) {
    const struct mra_gguf * f = &m->file;
    struct mra_arch * a = &m->arch;
    const char * scaling = "none";
    float factor = 1;
    TRY(mra_gguf_f32(f, mra_key(m, "rope.freq_base").name, &a->rope_base, err));
    if (a->rope_base_local == 0) a->rope_base_local = a->rope_base;
    TRY(mra_gguf_f32(f, mra_key(m, "rope.freq_base_swa").name, &a->rope_base_local, err));
    TRY(mra_gguf_str(f, mra_key(m, "rope.scaling.type").name, &scaling, err));
    if (strcmp(scaling, "linear") == 0) TRY(mra_gguf_f32(f, mra_key(m, "rope.scaling.factor").name, &factor, err));
    else if (strcmp(scaling, "none"))
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "RoPE scaling '%.40s'; supported are none and linear", scaling);
    if (!(a->rope_base > 0) || !(a->rope_base_local > 0) || !(factor > 0))
        return mra_fail(err, MRA_ERR_FORMAT, "RoPE base %g, %g or factor %g", (double) a->rope_base,
            (double) a->rope_base_local, (double) factor);
    a->rope_scale = 1 / factor;
    if (gguf_find_tensor(f->gguf, "rope_freqs.weight") >= 0)
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "RoPE with factors of its own (rope_freqs.weight)");
    return MRA_OK;
}

enum mra_status mra_load_arch(struct mra_model * m, struct mra_error * err) {
    struct mra_arch * a = &m->arch;
    TRY(find_row(m, err));
    TRY(load_eps(m, err));
    if (a->position == MRA_POSITION_ROPE) TRY(load_rope(m, err));
    TRY(mra_load_act(&m->file, mra_key(m, "hidden_activation").name, &a->act, err)); // llama.cpp's
    TRY(mra_load_act(&m->file, "mra.activation", &a->act, err));
    return mra_load_act(&m->file, "mra.classifier.activation", &a->cls_act, err);
}
