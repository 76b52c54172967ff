// mra-quantize: a smaller GGUF file of the same model.
#include "mra-encoder.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: mra-quantize [options] INPUT.gguf OUTPUT.gguf TYPE\n"
    "\n"
    "Writes the model with its weight matrices in another type. Embeddings of positions and token types,\n"
    "norms, biases and the classifier's output layer stay as they are.\n"
    "\n"
    "TYPE, with bits per weight:\n"
    "  q8_0   8.5   hardly any loss; the usual choice\n"
    "  q6_k   6.6   q5_k   5.5   q4_k   4.5   rows must be multiples of 256\n"
    "  q5_1   6.0   q5_0   5.5   q4_1   5.0   q4_0   4.5   rows must be multiples of 32\n"
    "  f16   16     f32   32\n"
    "A matrix whose rows do not fit gets the next type that does (a line on standard error says which).\n"
    "\n"
    "options:\n"
    "  -t, --threads N   threads to use (default: all CPUs)\n"
    "  -q, --quiet       print errors only\n"
    "  -v, --verbose     print a line for every tensor\n"
    "  -h, --help        print this text and exit\n"
    "\n"
    "OUTPUT appears under its name only when it is complete. INPUT must hold f32, f16 or bf16 weights.\n"
    "Exit status: 0 done; 1 a file could not be read, converted or written; 2 wrong usage.\n"
    "\n"
    "example: mra-quantize roberta-f16.gguf roberta-q8_0.gguf q8_0\n";

struct view { bool quiet, verbose, terminal, line; };

static void clear_line(struct view * v) {
    if (v->line) fputs("\r\033[K", stderr);
    v->line = false;
}

static void on_tensor(void * user, int i, int n, const char * name, enum ggml_type from, enum ggml_type to, bool fallback) {
    struct view * v = user;
    if (v->quiet) return;
    if (v->verbose || fallback) {
        clear_line(v);
        fprintf(stderr, "%s: %s -> %s%s\n", name, ggml_type_name(from), ggml_type_name(to), fallback ? " (its rows do not fit the type asked for)" : "");
    }
    if (!v->terminal) return;
    fprintf(stderr, "\r\033[K[%d/%d] %s", i + 1, n, name);
    v->line = true;
}

static int misuse(const char * what, const char * arg) {
    fprintf(stderr, "mra-quantize: %s%s%s (see --help)\n", what, arg ? " " : "", arg ? arg : "");
    return 2;
}

int main(int argc, char ** argv) {
    static const struct option options[] = {
        { "threads", required_argument, NULL, 't' }, { "quiet", no_argument, NULL, 'q' }, { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
    };
    struct view view = { .terminal = isatty(STDERR_FILENO) };
    struct mra_quantize_params params = { .progress = on_tensor, .user = &view };
    for (int c; (c = getopt_long(argc, argv, "t:qvh", options, NULL)) != -1; ) {
        char * end;
        long n;
        switch (c) {
            case 't':
                errno = 0;
                n = strtol(optarg, &end, 10);
                if (errno || *end || end == optarg || n < 1 || n > GGML_MAX_N_THREADS) return misuse("not a number of threads:", optarg);
                params.n_threads = (int) n;
                break;
            case 'q': view.quiet   = true; break;
            case 'v': view.verbose = true; break;
            case 'h':
                fputs(usage, stdout);
                return fflush(stdout) == 0 ? 0 : 1;
            default: return misuse("wrong option", NULL);
        }
    }
    if (argc - optind != 3) return misuse("expected INPUT OUTPUT TYPE", NULL);
    params.type = mra_quantize_type(argv[optind + 2]);
    if (params.type == GGML_TYPE_COUNT) return misuse("unknown type", argv[optind + 2]);

    struct mra_quantize_result r;
    struct mra_error err;
    const enum mra_status st = mra_quantize(argv[optind], argv[optind + 1], &params, &r, &err);
    clear_line(&view);
    if (st != MRA_OK) {
        fprintf(stderr, "mra-quantize: %s\n", err.msg);
        return 1;
    }
    if (!view.quiet) {
        fprintf(stderr, "%s: %.1f MB -> %.1f MB, %d tensors converted", argv[optind + 1], (double) r.n_in/1e6, (double) r.n_out/1e6, r.n_quantized);
        if (r.n_fallback) fprintf(stderr, ", %d of them not to %s", r.n_fallback, argv[optind + 2]);
        fputc('\n', stderr);
    }
    return 0;
}
