// A device that is not the CPU, for tests without a GPU: memory of its own that the CPU backend refuses, poisoned with NaN; ggml's
// usual operators, but no custom ones. Registered as "FAKE0".
#pragma once

void fake_device_register(void);
int  fake_device_graphs(void); // graphs it has computed so far
