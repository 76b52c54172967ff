// Which kernels run where: CPUID words -> levels, each feature that a level needs taken away once; and MRA_ISA.
// usage: test-levels [print]    print: the name of the kernels in use
#include "../ggml-mra/src/cpu/x86-levels.h"
#include "../ggml-mra/src/kernels.h"
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define L(level) (1u << MRA_X86_##level)
#define ALL      (L(V2) | L(V3) | L(V3_VNNI) | L(V4) | L(V4_VNNI) | L(V4_AMX))
enum { LEAF1, LEAF7_B, LEAF7_C, LEAF7_1, EXT1, XCR0, LEAF7_D, N_WORDS };

static unsigned levels_of(const uint32_t * w) {
    return mra_x86_levels(
        (struct mra_x86_words) { w[LEAF1], w[LEAF7_B], w[LEAF7_C], w[LEAF7_D], w[LEAF7_1], w[EXT1], w[XCR0] });
}

// CPUs as their manuals have them, and systems that do not save all registers
static const struct {
    const char * name;
    uint32_t words[N_WORDS];
    unsigned levels;
} cpus[] = {
    { "nothing", { 0 }, 0 },
    { "Core 2", { 0x0000e3fd, 0, 0, 0, 1, 0 }, 0 },
    { "Nehalem", { 0x009ae3bd, 0, 0, 0, 1, 0 }, L(V2) },
    { "Haswell", { 0x7ffafbff, 0x000027ab, 0, 0, 0x21, 7 }, L(V2) | L(V3) },
    { "Zen 3", { 0x7ef8320b, 0x219c97a9, 0x0040068c, 0, 0x75c237ff, 7 }, L(V2) | L(V3) },
    { "Alder Lake", { 0x7ffafbff, 0x239ca7eb, 0x98c027ac, 0x00400810 | 0x10, 0x121, 7 }, L(V2) | L(V3) | L(V3_VNNI) },
    { "Skylake-X", { 0x7ffefbff, 0xd39ffffb, 0x08, 0, 0x121, 0xe7 }, L(V2) | L(V3) | L(V4) },
    { "Ice Lake", { 0x7ffefbff, 0xf2bf67eb, 0x40417f5e | 0x800, 0, 0x121, 0xe7 }, L(V2) | L(V3) | L(V4) | L(V4_VNNI) },
    { "Sapphire Rapids", { 0x7ffefbff, 0xf3bfbfeb, 0xfb417ffe, 0x00001c30, 0x121, 0x602e7, 0xffdd4432 },
        L(V2) | L(V3) | L(V3_VNNI) | L(V4) | L(V4_VNNI) | L(V4_AMX) },
    { "Sapphire Rapids, no tiles saved", { 0x7ffefbff, 0xf3bfbfeb, 0xfb417ffe, 0x00001c30, 0x121, 0x2e7, 0xffdd4432 },
        L(V2) | L(V3) | L(V3_VNNI) | L(V4) | L(V4_VNNI) },
    { "Ice Lake, no zmm saved", { 0x7ffefbff, 0xf2bf67eb, 0x40417f5e, 0, 0x121, 7 }, L(V2) | L(V3) },
    { "Ice Lake, no ymm saved", { 0x7ffefbff, 0xf2bf67eb, 0x40417f5e, 0, 0x121, 3 }, L(V2) },
    { "Haswell, no osxsave", { 0x77fafbff, 0x000027ab, 0, 0, 0x21, 0 }, L(V2) },
};

// a bit that is needed: without it, the levels that are left
static const struct {
    const char * name;
    int word, bit;
    unsigned left;
} needed[] = {
    { "sse3", LEAF1, 0, 0 },
    { "ssse3", LEAF1, 9, 0 },
    { "sse4.1", LEAF1, 19, 0 },
    { "sse4.2", LEAF1, 20, 0 },
    { "popcnt", LEAF1, 23, 0 },
    { "lahf", EXT1, 0, 0 },
    { "fma", LEAF1, 12, L(V2) },
    { "movbe", LEAF1, 22, L(V2) },
    { "avx", LEAF1, 28, L(V2) },
    { "f16c", LEAF1, 29, L(V2) },
    { "bmi1", LEAF7_B, 3, L(V2) },
    { "avx2", LEAF7_B, 5, L(V2) },
    { "bmi2", LEAF7_B, 8, L(V2) },
    { "lzcnt", EXT1, 5, L(V2) },
    { "ymm saved", XCR0, 2, L(V2) },
    { "avx512f", LEAF7_B, 16, L(V2) | L(V3) | L(V3_VNNI) },
    { "avx512dq", LEAF7_B, 17, L(V2) | L(V3) | L(V3_VNNI) },
    { "avx512cd", LEAF7_B, 28, L(V2) | L(V3) | L(V3_VNNI) },
    { "avx512bw", LEAF7_B, 30, L(V2) | L(V3) | L(V3_VNNI) },
    { "avx512vl", LEAF7_B, 31, L(V2) | L(V3) | L(V3_VNNI) },
    { "opmask saved", XCR0, 5, L(V2) | L(V3) | L(V3_VNNI) },
    { "zmm saved", XCR0, 7, L(V2) | L(V3) | L(V3_VNNI) },
    { "avx512vnni", LEAF7_C, 11, L(V2) | L(V3) | L(V3_VNNI) | L(V4) },
    { "avxvnni", LEAF7_1, 4, L(V2) | L(V3) | L(V4) | L(V4_VNNI) | L(V4_AMX) },
    { "avx512vbmi", LEAF7_C, 1, ALL & ~L(V4_AMX) },
    { "avx512bf16", LEAF7_1, 5, ALL & ~L(V4_AMX) },
    { "amx-bf16", LEAF7_D, 22, ALL & ~L(V4_AMX) },
    { "amx-tile", LEAF7_D, 24, ALL & ~L(V4_AMX) },
    { "amx-int8", LEAF7_D, 25, ALL & ~L(V4_AMX) },
    { "tile configuration saved", XCR0, 17, ALL & ~L(V4_AMX) },
    { "tiles saved", XCR0, 18, ALL & ~L(V4_AMX) },
};

static void test_words(void) {
    for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++)
        CHECK(levels_of(cpus[i].words) == cpus[i].levels, "%s: levels %#x, not %#x", cpus[i].name,
            levels_of(cpus[i].words), cpus[i].levels);
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        uint32_t w[N_WORDS];
        memset(w, 0xff, sizeof(w));
        CHECK(levels_of(w) == ALL, "a CPU with everything");
        w[needed[i].word] &= ~(1u << needed[i].bit);
        CHECK(levels_of(w) == needed[i].left, "without %s: levels %#x, not %#x", needed[i].name, levels_of(w),
            needed[i].left);
    }
}

// stdout and stderr of this program with MRA_ISA
static const char * with_isa(const char * self, const char * isa, const char * mode) {
    static char out[1024];
    char command[2048];
    snprintf(command, sizeof(command), "MRA_ISA='%s' '%s' %s 2>&1", isa, self, mode);
    FILE * p = popen(command, "r");
    const size_t n = p ? fread(out, 1, sizeof(out) - 1, p) : 0;
    out[n] = 0;
    CHECK(p && WEXITSTATUS(pclose(p)) == 0, "MRA_ISA=%s: exit code", isa);
    return out;
}

static void test_names(const char * self) {
    static const char * const names[] = { "ref", "base", "v3", "v3-vnni", "v4", "v4-vnni", "v4-amx", "neon", "neon-dot",
        "neon-i8mm", "v9", "V3", "v3 " };
    const char * best = NULL;
    char line[1024];
    unsetenv("MRA_ISA");
    best = mra_kernels_get()->name;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const bool runs = mra_kernels_by_name(names[i]) != NULL;
        const char * out = with_isa(self, names[i], "print");
        if (runs) {
            snprintf(line, sizeof(line), "%s\n", names[i]);
            CHECK(strcmp(out, line) == 0, "MRA_ISA=%s: %s", names[i], out);
            continue;
        }
        snprintf(line, sizeof(line), "this CPU does not run '%s'; using %s, of ", names[i], best);
        const char * said = strstr(out, line);
        CHECK(said && strstr(said, " ref\n"), "MRA_ISA=%s says: %s", names[i], out);
        snprintf(line, sizeof(line), "\n%s\n", best);
        CHECK(strstr(out, line) == strchr(out, '\n'), "MRA_ISA=%s: one line, then %s: %s", names[i], best, out);
    }
    snprintf(line, sizeof(line), "%s\n", best);
    CHECK(strcmp(with_isa(self, "", "print"), line) == 0, "MRA_ISA of nothing: the best");
}

// Linux refuses tiles to a process with a signal stack that is too small for them: the next best kernels, and why
static void test_refused(const char * self) {
    const char * out;
    if (!mra_kernels_by_name("v4-amx")) return;
    out = with_isa(self, "v4-amx", "print-refused");
    CHECK(strstr(out,
              "the system refuses tiles to this process (No space left on device), which 'v4-amx' needs; using "
              "v4-vnni, of v4-vnni "),
        "refused: %s", out);
    CHECK(strstr(out, "\nv4-vnni\n"), "refused: %s", out);
    CHECK(strcmp(with_isa(self, "", "print-refused"), "v4-vnni\n") == 0, "refused, and not asked for by name");
}

int main(int argc, char ** argv) {
    if (argc > 1) {
        static char stack[8192];
        if (strcmp(argv[1], "print-refused") == 0)
            sigaltstack(&(stack_t) { .ss_sp = stack, .ss_size = sizeof(stack) }, NULL);
        mra_kernels_get(); // twice: said once
        printf("%s\n", mra_kernels_get()->name);
        return 0;
    }
    test_words();
    test_names(argv[0]);
    test_refused(argv[0]);
    printf("test-levels: %d checks, %d failed\n", n_checks, n_failed);
    return n_failed != 0;
}
