// The fake devices' executor with the CUDA kernels, emulated on the host (cuda-host/), in place of the CPU's.
#pragma once

void fake_cuda_use(void);
int fake_cuda_nodes(int kind); // run so far, of a kind (enum mra_kind) or of all (0)
