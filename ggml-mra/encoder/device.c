// Devices by name, and the clock.
#include "model.h"

#include <string.h>
#include <strings.h>

static ggml_backend_dev_t cuda_device(struct mra_error * err) {
    ggml_backend_reg_t reg = ggml_backend_reg_by_name("CUDA");
    if (reg && ggml_backend_reg_dev_count(reg) > 0) return ggml_backend_reg_dev_get(reg, 0);
    mra_fail(err, MRA_ERR_DEVICE,
        reg ? "no CUDA device answers: no GPU, or no driver" : "no CUDA device: ggml was built without CUDA");
    return NULL;
}

ggml_backend_dev_t mra_device_find(const char * name, struct mra_error * err) {
    if (ggml_backend_dev_count() == 0) ggml_backend_load_all(); // a ggml whose backends are separate files
    ggml_backend_dev_t dev;
    if (!name || strcasecmp(name, "cpu") == 0) {
        dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    } else if (strcasecmp(name, "gpu") == 0) {
        dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU);
        if (!dev) dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_IGPU);
    } else if (strcasecmp(name, "cuda") == 0) {
        return cuda_device(err);
    } else {
        dev = ggml_backend_dev_by_name(name);
    }
    if (!dev) mra_fail(err, MRA_ERR_DEVICE, "no device '%.60s' in this build", name ? name : "cpu");
    return dev;
}

double mra_now_ms(void) { return (double) ggml_time_us() * 1e-3; }
