// mra-quantize: a smaller GGUF file of the same model.
#include "common/args.h"
#include "common/bus.h"
#include "common/output.h"
#include "mra-encoder.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char program[] = "mra-quantize";

enum { OPT_IMATRIX = 2000, OPT_NO_MMAP };

static const struct arg_opt opts[] = {
    { OPT_IMATRIX, "imatrix", "FILE", "what mra-calibrate wrote: columns that matter more get smaller errors" },
    { OPT_NO_MMAP, "no-mmap", NULL, "read INPUT into memory at the start instead of using its file in place" },
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
    "A matrix whose rows do not fit gets the smallest type that does and is about as exact: q5_0 for q4_k,\n"
    "q5_1 for q5_k, q8_0 for q6_k. The last lines on standard error say what share of the weights that is.\n"
    "llama.cpp's names are understood: Q8_0 is q8_0; Q4_K_M and Q4_K_S are q4_k, and so on.\n"
    "\n"
    "INPUT must hold f32, f16 or bf16 weights. OUTPUT appears under its name only when it is complete.\n"
    "Exit status: 0 done; 1 a file could not be read, converted or written; 2 wrong usage.\n"
    "\n"
    "examples:\n"
    "  mra-quantize roberta-f16.gguf roberta-q8_0.gguf q8_0\n"
    "  mra-calibrate -m roberta-f16.gguf -f texts.txt -o roberta.imatrix\n"
    "  mra-quantize --imatrix roberta.imatrix roberta-f16.gguf roberta-q4_k.gguf q4_k";

struct view {
    bool quiet, verbose;
};

static void on_tensor(
    void * user, int i, int n, const char * name, enum ggml_type from, enum ggml_type to, bool fallback) {
    const struct view * v = user;
    if (v->quiet) return;
    if (v->verbose) {
        progress_clear();
        fprintf(stderr, "%s: %s -> %s%s\n", name, ggml_type_name(from), ggml_type_name(to),
            fallback ? " (its rows do not fit the type asked for)" : "");
    }
    progress("[%d/%d] %s", i + 1, n, name);
}

// a type by our name or by llama.cpp's; ends the program where there is none
static enum ggml_type type_by_name(const char * wanted, bool quiet) {
    static const char * const others[] = { "q2_k", "q3_k", "iq", "tq", "mxfp", "nvfp", "bf16", "q1_", "q8_k", "q8_1" };
    char name[32] = "";
    for (size_t i = 0; wanted[i] && i + 1 < sizeof(name); i++) name[i] = (char) tolower((unsigned char) wanted[i]);
    const size_t n = strlen(name);
    const bool mixture = n == 6 && strncmp(name + 2, "_k_", 3) == 0 && strchr("sml", name[5]); // q4_k_m
    if (mixture) name[4] = 0;
    const enum ggml_type type = strlen(wanted) < sizeof(name) ? mra_quantize_type(name) : GGML_TYPE_COUNT;
    if (type != GGML_TYPE_COUNT) {
        if (mixture && !quiet)
            fprintf(stderr,
                "%s: %s is written as %s with attn_v in q8_0; llama.cpp's mixtures S, M and L are not made\n", program,
                wanted, name);
        return type;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            usage_error(program, "'%s' is a type of llama.cpp that is not written here; %s (see --help)", wanted,
                strcmp(others[i], "bf16") == 0 ? "take f16" : "the smallest are q4_k and q4_0");
    }
    usage_error(program, "unknown type '%s' (see --help)", wanted);
}

static double percent(int64_t part, int64_t all) { return all ? 100.0 * (double) part / (double) all : 0; }

static void print_result(const struct mra_quantize_result * r, const char * out, enum ggml_type type) {
    int64_t all = 0;
    for (int i = 0; i < GGML_TYPE_COUNT; i++) all += r->n_weights[i];
    fprintf(stderr, "%s: %.1f MB -> %.1f MB, %d tensors converted; of the weights %.1f%% are %s", out,
        (double) r->n_in / 1e6, (double) r->n_out / 1e6, r->n_quantized, percent(r->n_weights[type], all),
        ggml_type_name(type));
    for (int i = 0; i < GGML_TYPE_COUNT; i++)
        if (r->n_weights[i] && i != (int) type)
            fprintf(stderr, ", %.1f%% %s", percent(r->n_weights[i], all), ggml_type_name((enum ggml_type) i));
    fputc('\n', stderr);
    if (!r->n_fallback) return;
    fprintf(stderr,
        "%s: %d tensors (%.1f%% of the weights) do not fit %s: rows of %lld are no multiple of %lld; they are %s\n",
        out, r->n_fallback, percent(r->n_fallback_weights, all), ggml_type_name(type), (long long) r->fallback_row,
        (long long) ggml_blck_size(type), ggml_type_name(r->fallback_type));
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
            case OPT_IMATRIX: params.imatrix = a.value; break;
            case OPT_NO_MMAP: params.no_mmap = true; break;
            case 'v': view.verbose = true; break;
        }
    if (argc - optind != 3) usage_error(program, "expected INPUT OUTPUT TYPE (see --help)");
    const char *in = argv[optind], *out = argv[optind + 1], *type = argv[optind + 2];
    params.type = type_by_name(type, view.quiet);

    bus_catch(program);
    struct mra_quantize_result r;
    struct mra_error err;
    const enum mra_status st = mra_quantize(in, out, &params, &r, &err);
    progress_clear();
    if (st != MRA_OK) fatal(program, "%s", err.msg);
    if (!view.quiet) print_result(&r, out, params.type);
    return 0;
}
