// The tests of the operators on a fake device (fake-device.h), by its companion. usage: test-backend-table
// ops|attn|layers|rope|span-pool [N]
#include "device-target.h"
#include "fake-device.h"

// numbers of threads stand for schedules of the device, and the last for one without events
static void vary(int n_threads) {
    struct mra_error err = { 0 };
    const struct fake_options o = { .eager = n_threads == 2, .exec_eager = n_threads == 3, .no_events = n_threads > 3 };
    if (memcmp(&o, &fake, sizeof(o)) == 0 && device_target_backend()) return;
    fake = o;
    if (!device_target_open("FAKE0", true, &err)) {
        printf("%s\n", err.msg);
        exit(1);
    }
}

int main(int argc, char ** argv) {
    fake_device_register();
    fake_exec_register();
    device_target_vary = vary;
    if (argc < 2) {
        fprintf(stderr, "usage: %s ops|attn|layers|rope|span-pool [N]\n", argv[0]);
        return 2;
    }
    if (strcmp(argv[1], "layers") == 0) return test_layers_main();
    if (strcmp(argv[1], "rope") == 0) return test_rope_main();
    if (strcmp(argv[1], "span-pool") == 0) return test_span_pool_main();
    return strcmp(argv[1], "ops") == 0 ? test_ops_main(argc - 1, argv + 1) : test_attn_main(argc - 1, argv + 1);
}
