// fuzz-replay TARGET FOLDER [N]: the files of FOLDER through the target's LLVMFuzzerTestOneInput, then N simple
// mutations of them, always the same ones. What breaks a promise ends the program; it is then in the file
// fuzz-replay-input.
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TARGETS(X)    X(attn) X(bpe) X(gguf) X(input) X(json) X(npy) X(ops) X(quantize) X(text) X(unigram) X(wordpiece)
#define DECLARE(name) int fuzz_##name(const uint8_t * data, size_t size);
#define ENTRY(name)   { #name, fuzz_##name },
TARGETS(DECLARE)

static const struct target {
    const char * name;
    int (*run)(const uint8_t * data, size_t size);
} targets[] = { TARGETS(ENTRY) };
enum { N_TARGETS = sizeof(targets) / sizeof(targets[0]), MAX_FILES = 1000, MAX_SIZE = 20000 };

static struct file {
    uint8_t * data;
    size_t size;
} files[MAX_FILES];
static int n_files;

static void add(const char * folder, const char * name) {
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE * f = fopen(path, "rb");
    require(f && n_files < MAX_FILES);
    struct file * to = &files[n_files++];
    to->data = malloc(MAX_SIZE);
    require(to->data != NULL);
    to->size = fread(to->data, 1, MAX_SIZE, f);
    fclose(f);
}

static int is_input(const struct dirent * e) { return e->d_name[0] != '.'; }

static unsigned next(unsigned * seed) {
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

// libFuzzer's, in the simplest form: bytes are changed, put in, or removed. The custom mutator of gguf-input.c calls
// it, too.
size_t LLVMFuzzerMutate(uint8_t * data, size_t size, size_t max_size);
size_t LLVMFuzzerMutate(uint8_t * data, size_t size, size_t max_size) {
    static unsigned seed;
    const size_t at = size ? next(&seed) % size : 0, n = 1 + next(&seed) % 4;
    const uint8_t byte = (uint8_t) next(&seed);
    switch (next(&seed) % 4) {
        case 0:
            if (size + n > max_size) return size;
            memmove(data + at + n, data + at, size - at);
            memset(data + at, byte, n);
            return size + n;
        case 1:
            if (size - at < n) return at;
            memmove(data + at, data + at + n, size - at - n);
            return size - n;
        case 2:
            if (size) data[at] ^= (uint8_t) (1 << byte % 8);
            return size;
        default:
            if (size) data[at] = byte;
            return size;
    }
}

// of gguf-input.c, for the targets that read GGUF files
size_t LLVMFuzzerCustomMutator(uint8_t * data, size_t size, size_t max_size, unsigned seed);

static size_t mutate(const struct target * t, uint8_t * data, size_t size, unsigned seed) {
    const bool is_gguf = strcmp(t->name, "gguf") == 0 || strcmp(t->name, "quantize") == 0;
    return is_gguf ? LLVMFuzzerCustomMutator(data, size, MAX_SIZE, seed) : LLVMFuzzerMutate(data, size, MAX_SIZE);
}

static void run(const struct target * t, const uint8_t * data, size_t size) {
    static int fd = -1;                        // stays open: closing a file that was cut waits for the disk
    uint8_t * exact = malloc(size ? size : 1); // so that a read behind it is seen
    if (fd < 0) fd = open("fuzz-replay-input", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    require(exact && pwrite(fd, data, size, 0) == (ssize_t) size && ftruncate(fd, (off_t) size) == 0);
    memcpy(exact, data, size);
    t->run(exact, size);
    free(exact);
}

int main(int argc, char ** argv) {
    const struct target * t = targets;
    while (argc >= 3 && t < targets + N_TARGETS && strcmp(t->name, argv[1]) != 0) t++;
    struct dirent ** names;
    const int n_names = argc >= 3 ? scandir(argv[2], &names, is_input, alphasort) : -1;
    if (n_names < 1 || t == targets + N_TARGETS) {
        fprintf(stderr, "usage: fuzz-replay TARGET FOLDER [N]\n");
        return 2;
    }
    for (int i = 0; i < n_names; i++) {
        add(argv[2], names[i]->d_name);
        free(names[i]);
    }
    free(names);
    for (int i = 0; i < n_files; i++) run(t, files[i].data, files[i].size);
    const int n = argc > 3 ? atoi(argv[3]) : 0;
    uint8_t * data = malloc(MAX_SIZE);
    unsigned seed = 1;
    for (int i = 0; i < n; i++) {
        const struct file * from = &files[i % n_files];
        size_t size = from->size;
        memcpy(data, from->data, size);
        for (unsigned k = 0; k <= next(&seed) % 4; k++) size = mutate(t, data, size, next(&seed));
        run(t, data, size);
    }
    printf("%s: %d inputs and %d mutations of them\n", t->name, n_files, n);
    for (int i = 0; i < n_files; i++) free(files[i].data);
    free(data);
    remove("fuzz-replay-input");
    return 0;
}
