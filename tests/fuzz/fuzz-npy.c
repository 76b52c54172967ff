// .npy files: refused with a line, or as many numbers as the shape says.
#include "common/npy.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct npy a;
    struct mra_error err = { 0 };
    if (npy_read(&a, memory_file(data, size, "", 0), &err) != MRA_OK) {
        require(err.code != MRA_OK && err.msg[0]);
        return 0;
    }
    int64_t n = 1;
    for (int i = 0; i < a.n_dim; i++) n *= a.shape[i];
    require(n == a.n);
    for (int64_t i = 0; i < a.n; i++) ((volatile float *) a.data)[i];
    npy_free(&a);
    return 0;
}
