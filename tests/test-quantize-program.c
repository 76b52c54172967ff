// The program mra-quantize: options, names of types, what it prints, exit codes.
#include "harness.h"
#include "quantize-input.h"

#include <sys/wait.h>
#include <unistd.h>

static const char * program;
static char tmp[] = "/tmp/test-quantize-program-XXXXXX", in[1100], out[1100], other[1100];

// runs it with output and errors in `text`; returns the exit code
static int run(char * text, size_t size, const char * args) {
    char cmd[8192];
    snprintf(cmd, sizeof(cmd), "'%s' %s 2>&1 </dev/null", program, args);
    FILE * f = popen(cmd, "r");
    if (!f) return -1;
    const size_t n = fread(text, 1, size - 1, f);
    text[n] = 0;
    const int st = pclose(f);
    return WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

static int n_lines(const char * text) {
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

// llama.cpp's names of types
static void check_names(void) {
    char text[8192], args[6144];
    const struct {
        const char *name, *same, *part;
        int code;
    } names[] = {
        { "Q8_0", "q8_0", "are q8_0", 0 },
        { "Q4_K_M", "q4_k", "Q4_K_M is written as q4_k", 0 },
        { "q5_k_s", "q5_k", "q5_k_s is written as q5_k", 0 },
        { "F16", "f16", "are f16", 0 },
        { "Q3_K_M", NULL, "not written here; the smallest are q4_k and q4_0", 2 },
        { "IQ4_XS", NULL, "not written here", 2 },
        { "BF16", NULL, "take f16", 2 },
        { "Q4_K_X", NULL, "unknown type", 2 },
        { "q8_0_m", NULL, "unknown type", 2 },
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(args, sizeof(args), "'%s' '%s' %s", in, out, names[i].name);
        const int code = run(text, sizeof(text), args);
        CHECK(code == names[i].code && strstr(text, names[i].part), "%s: exit %d, '%s'", names[i].name, code, text);
        if (!names[i].same) continue;
        snprintf(args, sizeof(args), "-q '%s' '%s' %s && cmp '%s' '%s'", in, other, names[i].same, out, other);
        CHECK(run(text, sizeof(text), args) == 0, "%s is not %s: %s", names[i].name, names[i].same, text);
    }
}

static void check_program(void) {
    char text[8192], args[4096];
    const struct {
        const char * args;
        int code;
        const char * part;
    } runs[] = {
        { "--help", 0, "Exit status" },
        { "-h", 0, "usage: mra-quantize" },
        { "--version", 0, "mra-quantize 0." },
        { "", 2, "expected INPUT OUTPUT TYPE" },
        { "a b", 2, "expected" },
        { "a b c d", 2, "expected" },
        { "a b q9", 2, "unknown type 'q9'" },
        { "--wrong a b q8_0", 2, "wrong" },
        { "-t 0 a b q8_0", 2, "0" },
        { "-t two a b q8_0", 2, "two" },
        { "-t", 2, "mra-quantize: " },
        { "/nonexistent.gguf x.gguf q8_0", 1, "No such file" },
    };
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        const int code = run(text, sizeof(text), runs[i].args);
        CHECK(code == runs[i].code && strstr(text, runs[i].part), "mra-quantize %s: exit %d, '%s'", runs[i].args, code,
            text);
    }
    unlink(out);
    snprintf(args, sizeof(args), "-t 2 '%s' '%s' q4_k", in, out);
    CHECK(run(text, sizeof(text), args) == 0 && access(out, F_OK) == 0, "%s", text);
    CHECK(strstr(text, "MB") && strstr(text, "of the weights 18.1% are q4_K") &&
            strstr(text, "do not fit q4_K: rows of 64") && strstr(text, "they are q5_0") && !strchr(text, '\r') &&
            n_lines(text) == 2,
        "output: %s", text);
    snprintf(args, sizeof(args), "--quiet '%s' '%s' q8_0", in, out);
    CHECK(run(text, sizeof(text), args) == 0 && !text[0], "not quiet: %s", text);
    snprintf(args, sizeof(args), "--verbose --threads 1 '%s' '%s' q8_0", in, out);
    CHECK(run(text, sizeof(text), args) == 0 && strstr(text, "blk.0.ffn_up.weight: f16 -> q8_0"), "not verbose: %s",
        text);
    snprintf(args, sizeof(args), "'%s' '%s' q8_0 > /dev/full", in, in);
    CHECK(run(text, sizeof(text), args) == 1, "same file");
    CHECK(run(text, sizeof(text), "--help > /dev/full") == 1, "help onto a full device");
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s golden/models mra-quantize\n", argv[0]);
        return 2;
    }
    program = argv[2];
    if (!mkdtemp(tmp)) {
        perror(tmp);
        return 1;
    }
    snprintf(in, sizeof(in), "%s/in.gguf", tmp);
    snprintf(out, sizeof(out), "%s/out.gguf", tmp);
    snprintf(other, sizeof(other), "%s/other.gguf", tmp);
    quantize_input_write(argv[1], in);
    check_program();
    check_names();
    unlink(in);
    unlink(out);
    unlink(other);
    CHECK(rmdir(tmp) == 0, "files are left in %s", tmp);
    return summary("test-quantize-program");
}
