// In place of backend.c where ggml's header of the backend interface is not at hand, or is of a version we do not know.
#include "backend.h"

ggml_backend_t ggml_backend_mra_init(ggml_backend_t peer, struct mra_error * err) {
    (void) peer;
    mra_fail(err, MRA_ERR_UNSUPPORTED, "built without the companion backend: %s", GGML_MRA_NO_BACKEND);
    return NULL;
}

bool ggml_backend_is_mra(ggml_backend_t b) {
    (void) b;
    return false;
}
const char * ggml_backend_mra_error(ggml_backend_t mra) {
    (void) mra;
    return "";
}
int ggml_backend_mra_pin(ggml_backend_sched_t s, struct ggml_cgraph * g, ggml_backend_t m) {
    (void) s;
    (void) g;
    (void) m;
    return 0;
}
void mra_exec_register(const struct mra_exec * exec) { (void) exec; }
