// mra-quantize: a smaller GGUF file of the same model.
#include "common/args.h"
#include "common/output.h"
#include "mra-encoder.h"

#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

static const char program[] = "mra-quantize";

static const struct arg_opt opts[] = {
    { 't', "threads", "N", "threads to use, default all CPUs" },
    { 'q', "quiet", NULL, "print errors only" },
    { 'v', "verbose", NULL, "print a line for every tensor" },
};

static const char about[] =
    "Writes the model with its weight matrices in another type. Embeddings of positions and token types,\n"
    "norms, biases and the classifier's output layer stay as they are; attn_v gets more bits: f16 in\n"
    "a q8_0 file, q8_0 in smaller ones.";

static const char notes[] =
    "TYPE, with bits per weight:\n"
    "  q8_0  8.5    hardly any loss; the usual choice\n"
    "  q6_k  6.6    q5_k  5.5   q4_k  4.5                rows must be multiples of 256\n"
    "  q5_1  6.0    q5_0  5.5   q4_1  5.0   q4_0  4.5    rows must be multiples of 32\n"
    "  f16  16      f32  32\n"
    "A matrix whose rows do not fit gets a type that does; a line on standard error says which.\n"
    "\n"
    "INPUT must hold f32, f16 or bf16 weights. OUTPUT appears under its name only when it is complete.\n"
    "Exit status: 0 done; 1 a file could not be read, converted or written; 2 wrong usage.\n"
    "\n"
    "example: mra-quantize roberta-f16.gguf roberta-q8_0.gguf q8_0";

struct view {
    bool quiet, verbose;
};

static void on_tensor(
    void * user, int i, int n, const char * name, enum ggml_type from, enum ggml_type to, bool fallback) {
    const struct view * v = user;
    if (v->quiet) return;
    if (v->verbose || fallback) {
        progress_clear();
        fprintf(stderr, "%s: %s -> %s%s\n", name, ggml_type_name(from), ggml_type_name(to),
            fallback ? " (its rows do not fit the type asked for)" : "");
    }
    progress("[%d/%d] %s", i + 1, n, name);
}

int main(int argc, char ** argv) {
    struct view view = { 0 };
    struct mra_quantize_params params = { .progress = on_tensor, .user = &view };
    struct args a = { .program = program,
        .usage = "[options] INPUT.gguf OUTPUT.gguf TYPE",
        .about = about,
        .opts = opts,
        .n_opt = sizeof(opts) / sizeof(opts[0]),
        .notes = notes };
    for (int id; (id = args_next(&a, argc, argv)) != -1;) switch (id) {
            case 't': params.n_threads = (int) args_int(&a, 1, GGML_MAX_N_THREADS); break;
            case 'q': view.quiet = true; break;
            case 'v': view.verbose = true; break;
        }
    if (argc - optind != 3) usage_error(program, "expected INPUT OUTPUT TYPE (see --help)");
    const char *in = argv[optind], *out = argv[optind + 1], *type = argv[optind + 2];
    params.type = mra_quantize_type(type);
    if (params.type == GGML_TYPE_COUNT) usage_error(program, "unknown type '%s' (see --help)", type);

    struct mra_quantize_result r;
    struct mra_error err;
    const enum mra_status st = mra_quantize(in, out, &params, &r, &err);
    progress_clear();
    if (st != MRA_OK) fatal(program, "%s", err.msg);
    if (view.quiet) return 0;
    fprintf(stderr, "%s: %.1f MB -> %.1f MB, %d tensors converted", out, (double) r.n_in / 1e6, (double) r.n_out / 1e6,
        r.n_quantized);
    if (r.n_fallback) fprintf(stderr, ", %d of them not to %s", r.n_fallback, type);
    fputc('\n', stderr);
    return 0;
}
