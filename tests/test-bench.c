// mra-bench from the outside. test-bench MRA_BENCH FOLDER MODELS [BROKEN_MRA_BENCH]
#include "bench-run.h"
#include "check.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TINY "attn -n 64 --heads 2 --dim 32 -t 1 --reps 1 "

// ---- options ---------------------------------------------------------------------------------------------------

static const struct {
    const char * args;
    int code;
    const char * says;
} lines[] = {
    { "", 2, "no command" },
    { "fly", 2, "unknown command 'fly'" },
    { "--help", 0, "usage: mra-bench COMMAND" },
    { "attn --help", 0, "--perf-guard FILE" },
    { "peak --help", 0, "mra-bench peak -t 1,2,4" },
    { "attn --fly", 2, "--fly" },
    { "attn -z", 2, "-z" },
    { "attn -n", 2, "-n needs a value" },
    { "attn -n 0", 2, "-n: '0' is not a whole number" },
    { "attn -n 5x", 2, "'5x'" },
    { "attn -n 64,", 2, "is not a whole number" },
    { "attn --dim 12", 2, "multiple of 8" },
    { "attn --budget 0", 2, "--budget: '0'" },
    { "attn --budget 1/0", 2, "--budget" },
    { "attn --budget nan", 2, "--budget" },
    { "attn --frame round", 2, "frame 'round'" },
    { "attn --frame 16,4", 2, "the last one 1" },
    { "attn --attn-type int4", 2, "'int4' is not a list of float and int8" },
    { "attn --attn-type int8,int8", 2, "is not a list" },
    { "attn --attn-type float,int8 --frame mra2", 2, "frames are exact and columns, not mra2" },
    { "model -m x.gguf --attn-type int4", 2, "int4" },
    { "attn --heads 12 --kv-heads 5", 2, "does not divide" },
    { "attn --json=1", 2, "--json" },
    { "attn extra", 2, "unexpected 'extra'" },
    { "attn --reps 1,2", 2, "takes one value" },
    { "attn --qkv x.npy --heads 3", 2, "--qkv gives heads" },
    { "peak -t 0", 2, "-t: '0'" },
    { "linear --help", 0, "--outliers" },
    { "linear --shape 5,32", 2, "is not M,K,N" },
    { "linear --shape 5,32,0", 2, "--shape" },
    { "linear --shape 5,40,8", 2, "no multiple of q8_0's block of 32" },
    { "linear --ffn --shape 5,32,40", 2, "40 channels are no multiple of q8_0's block of 32" },
    { "linear --type q9_0", 2, "unknown type 'q9_0'" },
    { "linear more", 2, "unexpected 'more'" },
    { "model", 2, "no model" },
    { "model -m x.gguf -n 0", 2, "-n: '0'" },
    { "model -m x.gguf --frame 5", 2, "--frame" },
    { "model -m x.gguf --budget 2", 2, "--budget" },
    { "model -m x.gguf --reps 0", 2, "--reps" },
    { "model -m x.gguf more", 2, "unexpected 'more'" },
    { "model --help", 0, "--worker" },
    { "model -m /nonexistent.gguf", 1, "No such file" },
    { "model -m /dev/null", 1, "mra-bench model: " },
    { "attn --qkv /nonexistent.npy", 1, "No such file" },
    { "attn --perf-guard /nonexistent", 1, "No such file" },
    { TINY "--max-seconds 0", 0, " -  " },
    { TINY "-n 1,31,33 --frame exact", 0, "thread, isa" },
    { TINY "--kv-heads 1 --f16", 0, "2/1 heads x 32, K and V F16" },
    { TINY "> /dev/full", 1, "No space left" },
    { "--help > /dev/full", 1, "No space left" },
};

static void test_lines(const char * bench) {
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const int code = run(fmt("'%s' 2>&1 %s", bench, lines[i].args));
        CHECK(code == lines[i].code, "mra-bench %s: exit code %d, not %d", lines[i].args, code, lines[i].code);
        CHECK(strstr(out, lines[i].says), "mra-bench %s: no '%s' in: %.300s", lines[i].args, lines[i].says, out);
        if (lines[i].code == 2)
            CHECK(strchr(out, '\n') == out + strlen(out) - 1, "mra-bench %s: more than one line", lines[i].args);
    }
    run(fmt("{ '%s' %s-n 64,65,66,67 --json 2>&3 | true; } 3>&1", bench, TINY));
    CHECK(!*out, "a closed pipe: %s", out);
}

// ---- JSON ------------------------------------------------------------------------------------------------------

// floats and integers in one run, the second beside floats; kernels without integers have no such row
static void test_types(const char * bench) {
    const bool base = run(fmt("MRA_ISA=base '%s' %s--attn-type float,int8 --json 2>&1 >/dev/null", bench, TINY)) == 0;
    CHECK(base && strstr(out, "kernels base have no int8: no row"), "base: %s", out);
    CHECK(run(fmt("'%s' attn -n 300 --heads 2 -t 2 --reps 3 --frame exact --attn-type float,int8 --json", bench)) == 0,
        "types: %s", out);
    for (int r = 0; r < 2; r++) {
        cJSON * o = json_at(r);
        if (!o) break; // a CPU without integers
        const char * type = cJSON_GetStringValue(cJSON_GetObjectItem(o, "attn_type"));
        CHECK(type && strcmp(type, r ? "int8" : "float") == 0, "line %d: type %s", r, type);
        CHECK(isfinite(number(o, "float_ms")) == (r == 1), "line %d: float_ms", r);
        CHECK(number(o, "rel_error") < (r ? .03 : 1e-5) && number(o, "rel_error") > (r ? 1e-5 : 0), "line %d: error %g",
            r, number(o, "rel_error"));
        CHECK(number(o, "peak_share") > 0 && number(o, "peak_share") <= 1.05, "line %d: share of the peak", r);
        cJSON_Delete(o);
    }
}

static void test_json(const char * bench) {
    static const char * const fields[] = { "n", "heads", "kv_heads", "dim", "budget", "work", "ms", "gflops",
        "peak_share", "flash_ms", "flash_f16_ms", "speedup", "matmul_ms", "rel_error", "scratch_mb", "threads",
        "reps" };
    static const char * const frames[] = { "exact", "columns", "mra2", "16,4,1" };
    CHECK(run(fmt("'%s' attn -n 96 --heads 2 --dim 32 -t 2 --reps 3 --budget 1/4 --json --frame exact --frame columns "
                  "--frame mra2 --frame 16,4,1",
              bench)) == 0,
        "json: %s", out);
    for (int r = 0; r < 4; r++) {
        cJSON * o = json_at(r);
        CHECK(cJSON_IsObject(o), "line %d is not JSON: %s", r, out);
        for (size_t f = 0; f < sizeof(fields) / sizeof(fields[0]); f++) {
            CHECK(isfinite(number(o, fields[f])), "line %d: no number %s", r, fields[f]);
        }
        const char * frame = cJSON_GetStringValue(cJSON_GetObjectItem(o, "frame"));
        CHECK(frame && strcmp(frame, frames[r]) == 0, "line %d: frame %s", r, frame);
        CHECK(cJSON_IsString(cJSON_GetObjectItem(o, "isa")), "line %d: no isa", r);
        CHECK(number(o, "n") == 96 && number(o, "threads") == 2 && number(o, "reps") == 3, "line %d: n, threads, reps",
            r);
        CHECK(fabs(number(o, "speedup") / (number(o, "flash_ms") / number(o, "ms")) - 1) < 1e-3, "line %d: speedup", r);
        CHECK(r ? number(o, "rel_error") > .001 && number(o, "rel_error") < 1 : number(o, "rel_error") < 1e-5,
            "line %d: rel_error %g", r, number(o, "rel_error"));
        cJSON_Delete(o);
    }
    CHECK(json_at(4) == NULL, "more than four lines");
    CHECK(run(fmt("'%s' %s--no-matmul --json", bench, TINY)) == 0, "no-matmul");
    cJSON * o = json_at(0);
    CHECK(cJSON_IsNull(cJSON_GetObjectItem(o, "matmul_ms")), "matmul_ms is not null");
    cJSON_Delete(o);
    test_types(bench);
    CHECK(run(fmt("'%s' peak -t 1 --json", bench)) == 0, "peak");
    o = json_at(0);
    CHECK(number(o, "fma_gflops") > .1 && number(o, "threads") == 1, "peak: %s", out);
    cJSON_Delete(o);
}

// Every level of the kernels has the peak of its own vectors, and nothing runs above it
static void test_peaks(const char * bench) {
    static const char * const names[][2] = { { "ref", "base" }, { "base", "base" }, { "v3", "v3" },
        { "v3-vnni", "avxvnni" }, { "v4", "v4" }, { "v4-vnni", "vnni" }, { "neon", "neon" }, { "neon-dot", "dotprod" },
        { "neon-i8mm", "i8mm" } };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const int code = run(
            fmt("MRA_ISA=%s '%s' attn -n 256 --heads 2 --dim 64 -t 1 --reps 3 --frame exact --no-matmul "
                "--json 2>&1",
                names[i][0], bench));
        if (strstr(out, "does not run")) continue;
        cJSON * o = json_at(0);
        const char *isa = cJSON_GetStringValue(cJSON_GetObjectItem(o, "isa")),
                   *peak = cJSON_GetStringValue(cJSON_GetObjectItem(o, "peak_isa"));
        CHECK(code == 0 && isa && strcmp(isa, names[i][0]) == 0, "peak of %s: %s", names[i][0], out);
        CHECK(peak && strcmp(peak, names[i][1]) == 0, "%s: the peak of %s", names[i][0], peak);
        CHECK(number(o, "peak_share") <= 1.05 && number(o, "peak_share") > 0, "%s: share of the peak: %s", names[i][0],
            out);
        cJSON_Delete(o);
    }
}

// every level has a row, and they agree on the error
static void test_isa(const char * bench) {
    CHECK(run(fmt("'%s' %s--isa --no-matmul --json", bench, TINY)) == 0, "isa: %s", out);
    double first = NAN;
    for (int i = 0; i < 8; i++) {
        cJSON * o = json_at(i);
        if (!o) {
            CHECK(i > 0, "no level");
            break;
        }
        if (i == 0) first = number(o, "rel_error");
        CHECK(fabs(number(o, "rel_error") / first - 1) < .05, "levels differ: %s", out);
        cJSON_Delete(o);
    }
}

// ---- dense layers ----------------------------------------------------------------------------------------------

static void test_linear(const char * bench) {
    static const struct {
        const char * type;
        double error;
    } types[] = { { "f32", 1e-6 }, { "f16", 1e-3 }, { "q8_0", .02 }, { "q4_0", .02 }, { "q4_k", .04 },
        { "q6_k", .04 } };
    enum { N = sizeof(types) / sizeof(types[0]) };
    char args[512] = "linear --shape 33,256,40 -t 2 --reps 3 --json";
    for (int i = 0; i < N; i++) {
        strcat(args, " --type ");
        strcat(args, types[i].type);
    }
    CHECK(run(fmt("'%s' linear --ffn --shape 33,96,64 -t 2 --reps 3 --json", bench)) == 0, "linear --ffn: %s", out);
    cJSON * ffn = json_at(0);
    CHECK(fabs(number(ffn, "gops") * number(ffn, "ms") / (4e-6 * 33 * 96 * 64) - 1) < 1e-3 &&
            number(ffn, "error") < .03 && number(ffn, "plain_error") < .03 &&
            cJSON_IsTrue(cJSON_GetObjectItem(ffn, "ffn")),
        "linear --ffn: %s", out);
    cJSON_Delete(ffn);
    for (int pass = 0; pass < 2; pass++) {
        CHECK(run(fmt("'%s' %s %s 2>&1", bench, args, pass ? "--fused --outliers" : "")) == 0, "linear: %s", out);
        for (int i = 0; i < N; i++) {
            cJSON * o = json_at(i);
            const char * type = cJSON_GetStringValue(cJSON_GetObjectItem(o, "type"));
            CHECK(type && strcmp(type, types[i].type) == 0 && number(o, "m") == 33 && number(o, "k") == 256 &&
                    number(o, "n") == 40,
                "line %d: type, shape", i);
            CHECK(fabs(number(o, "gops") * number(o, "ms") / (2e-6 * 33 * 256 * 40) - 1) < 1e-3 &&
                    fabs(number(o, "plain_gops") * number(o, "plain_ms") / (2e-6 * 33 * 256 * 40) - 1) < 1e-3,
                "line %d: rates: %s", i, out);
            CHECK(fabs(number(o, "peak_share") * number(o, "peak_gops") / number(o, "gops") - 1) < 1e-2,
                "line %d: share of the peak", i);
            CHECK(
                number(o, "speedup") > 0 && number(o, "speedup") <= 1.001 * number(o, "gops") / number(o, "plain_gops"),
                "line %d: speedup", i);
            CHECK(number(o, "error") < types[i].error && number(o, "plain_error") < types[i].error,
                "line %d: errors %g, %g", i, number(o, "error"), number(o, "plain_error"));
            CHECK(cJSON_IsBool(cJSON_GetObjectItem(o, "fused")) &&
                    cJSON_IsTrue(cJSON_GetObjectItem(o, "fused")) == (pass == 1),
                "line %d: fused", i);
            cJSON_Delete(o);
        }
    }
}

// ---- --perf-guard ----------------------------------------------------------------------------------------------

// the row in `out` with its speedup multiplied by `factor`, as a file
static void guard_file(const char * path, const cJSON * row, double factor) {
    cJSON * o = cJSON_Duplicate(row, true);
    cJSON_ReplaceItemInObject(o, "speedup", cJSON_CreateNumber(factor * number(row, "speedup")));
    char * s = cJSON_PrintUnformatted(o);
    write_file(path, s, strlen(s));
    free(s);
    cJSON_Delete(o);
}

static void test_guard(const char * bench, const char * dir) {
    const char * path = fmt("%s/guard.jsonl", dir);
    char file[1024];
    snprintf(file, sizeof(file), "%s", path);
    CHECK(run(fmt("'%s' %s--no-matmul --json", bench, TINY)) == 0, "guard");
    cJSON * row = json_at(0);
    const char * again = fmt("'%s' %s--no-matmul --perf-guard '%s' 2>&1", bench, TINY, file);
    guard_file(file, row, .01);
    CHECK(run(again) == 0 && strstr(out, "0 of 1 rows slower"), "guard: %s", out);
    guard_file(file, row, 100);
    CHECK(run(again) == 1 && strstr(out, "slower: n 64"), "guard that must fail: %s", out);
    CHECK(run(fmt("'%s' %s--no-matmul --budget 1/2 --perf-guard '%s' 2>&1", bench, TINY, file)) == 1 &&
            strstr(out, "nothing in"),
        "guard without a match: %s", out);
    write_file(file, "{\"n\":", 5);
    CHECK(run(fmt("'%s' %s--perf-guard '%s' 2>&1", bench, TINY, file)) == 1 && strstr(out, "line 1 is not"),
        "guard file cut off: %s", out);
    cJSON_Delete(row);
}

// ---- .npy ------------------------------------------------------------------------------------------------------

// format 1: magic, length of the header, header padded to 128 bytes in all, values
static size_t npy_bytes(unsigned char * dst, const char * header, const void * values, size_t size) {
    memset(dst, ' ', 128);
    memcpy(dst, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(dst + 10, header, strlen(header));
    dst[127] = '\n';
    memcpy(dst + 128, values, size);
    return 128 + size;
}

static void test_npy(const char * bench, const char * dir) {
    enum { N = 3 * 2 * 40 * 16 };
    static float x[N];
    static unsigned char file[128 + sizeof(x)];
    for (int i = 0; i < N; i++) x[i] = (float) ((i * 2654435761u >> 8) % 2001) / 500 - 2;
    static const struct {
        const char * header;
        int cut, code;
        const char * says;
    } cases[] = {
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 40, 16), }", 0, 0, "2 heads x 16" },
        { "{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4, 40, 16), }", 0, 0, "4 heads x 16" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 40, 16), }", 4, 1, "its shape needs" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 41, 16), }", 0, 1, "its shape needs" },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2, 40, 16), }", 0, 1, "Fortran order" },
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2, 20, 16), }", 0, 1, "'<f8', not float32" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (240, 16), }", 0, 1, "[3, heads, n, dim]" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 64, 10), }", 0, 1, "multiple of 8" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -2, 40, 16), }", 0, 1, "shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }", 0, 1, "shape" },
        { "{'descr': '<f4', 'fortran_order': False}", 0, 1, "without" },
        { "{}", sizeof(x) + 64, 1, "ends in its header" },
        { "{}", sizeof(x) + 122, 1, "not an .npy file" },
    };
    char path[1024];
    snprintf(path, sizeof(path), "%s/qkv.npy", dir);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static uint16_t half[2 * N]; // the f2 case: 0.5 to 0.99
        for (int k = 0; k < 2 * N; k++) half[k] = (uint16_t) (0x3800 + k * 37 % 1000);
        const size_t size = npy_bytes(
            file, cases[i].header, strstr(cases[i].header, "f2") ? (void *) half : (void *) x, sizeof(x));
        write_file(path, file, size - (size_t) cases[i].cut);
        const int code = run(fmt("'%s' attn --qkv '%s' --reps 1 -t 1 --no-matmul 2>&1", bench, path));
        CHECK(code == cases[i].code && strstr(out, cases[i].says), "npy case %d: exit code %d: %.300s", (int) i, code,
            out);
    }
    x[77] = NAN;
    write_file(path, file, npy_bytes(file, cases[0].header, x, sizeof(x)));
    CHECK(run(fmt("'%s' attn --qkv '%s' 2>&1", bench, path)) == 1 && strstr(out, "value 77 is not finite"),
        "npy with NaN: %s", out);
    CHECK(run(fmt("'%s' attn --qkv '%s' -n 41 2>&1", bench, path)) == 1, "npy, too many tokens: %s", out);
}

// ---- broken kernels --------------------------------------------------------------------------------------------

#define ATTN  "attn --heads 2 --dim 32 -t 1 --reps 1 "
#define MODEL "model -m \"$MODELS/bert.gguf\" -n 100 -t 2 --reps 1 "

static void test_broken(const char * broken, const char * models) {
    static const struct {
        const char *bug, *args;
        int code;
        const char * says;
    } cases[] = {
        { "none", ATTN "-n 64,640 --frame exact --frame columns", 0, "" },
        { "attend-misses-key", ATTN "-n 64 --frame exact", 1, "differ from the reference" },
        { "attend-scale", ATTN "-n 64 --frame mra2 --budget 1/2", 1, "differ from the reference" },
        { "attend-misses-key-of-many", ATTN "-n 640 --frame exact", 1, "exact attention is off" },
        { "columns-keep-less", ATTN "-n 256 --frame columns", 1, "differ from the reference" },
        { "columns-keep-less-of-many", ATTN "-n 640 --frame columns", 1, "in the first 64 rows" },
        { "none", ATTN "-n 300,640 --frame sorted --budget 1/4", 0, "" },
        { "columns-keep-less", ATTN "-n 300 --frame sorted --budget 1/4", 1, "differ from the reference" },
        { "columns-keep-less-of-many", ATTN "-n 640 --frame sorted", 1, "in the first 64 rows" },
        { "columns-miss-row", ATTN "-n 64 --frame columns", 1, "differ from the reference" },
        { "columns-nan", ATTN "-n 64 --frame columns", 1, "differ from the reference" },
        { "none", ATTN "-n 64,640 --frame exact --frame columns --attn-type int8", 0, "" },
        { "none", ATTN "-n 640 --frame sorted --attn-type int8", 0, "" },
        { "int8-scale-of-many", ATTN "-n 640 --frame sorted --attn-type int8", 1, "in the first 64 rows" },
        { "int8-scale", ATTN "-n 64 --frame exact --attn-type int8", 1, "differ from the reference" },
        { "int8-scale", ATTN "-n 128 --frame columns --attn-type int8", 1, "differ from the reference" },
        { "int8-scale-of-many", ATTN "-n 640 --frame exact --attn-type int8", 1, "exact attention is off" },
        { "peak-low", ATTN "-n 512 --frame exact", 1, " % of the peak that was measured for " },
        { "linear-misses-row", "linear --shape 33,64,40", 1, "ggml-mra's linear: value 1280 is" },
        { "linear-misses-input", "linear --shape 33,320,40", 1, "ggml-mra's linear is off by " },
        { "linear-misses-input", "linear --shape 33,320,40 --type f16 --fused", 1, "ggml-mra's linear is off by " },
        { "mul-mat-scale", "linear --shape 33,64,40", 1, "mul_mat is off by 0.05" },
        { "mul-mat-scale", "linear --shape 33,64,40 --type f32 --fused", 1, "mul_mat is off by 0.0" },
        { "mul-mat-inf", "linear --shape 33,64,40", 1, "value 0 is inf" },
        { "none", MODEL "--frame exact --frame columns", 0, "" },
        { "attend-misses-key", MODEL "--frame exact", 1, "differs from the reference kernels' by 0." },
        { "attend-by-thread", MODEL "--frame exact", 1, "depends on the number of threads" },
        { "columns-keep-less", MODEL "--frame columns --budget 1/4", 1, "differs from the reference kernels' by 0." },
        { "columns-nan", MODEL "--frame columns", 1, "differs from the reference kernels' by nan" },
        { "columns-nan-of-more", MODEL "--frame columns", 1, "not finite" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int code = run(
            fmt("MODELS='%s' && MRA_BENCH_BUG=%s '%s' %s 2>&1", models, cases[i].bug, broken, cases[i].args));
        if (strstr(out, "have no int8")) continue;
        CHECK(code == cases[i].code && strstr(out, cases[i].says), "bug %s: exit code %d: %.600s", cases[i].bug, code,
            out);
    }
}

int main(int argc, char ** argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: test-bench MRA_BENCH FOLDER MODELS [BROKEN_MRA_BENCH]\n");
        return 2;
    }
    if (mkdir(argv[2], 0777) != 0 && errno != EEXIST) {
        perror(argv[2]);
        return 1;
    }
    test_lines(argv[1]);
    test_json(argv[1]);
    test_isa(argv[1]);
    test_peaks(argv[1]);
    test_linear(argv[1]);
    test_guard(argv[1], argv[2]);
    test_npy(argv[1], argv[2]);
    if (argc > 4) test_broken(argv[4], argv[3]);
    else puts("skipped: broken kernels, which need a static library and the linker's --wrap");
    printf("test-bench: %d checks, %d failed\n", n_checks, n_failed);
    return n_failed != 0;
}
