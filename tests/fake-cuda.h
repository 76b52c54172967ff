// The fake devices' executor with the CUDA kernels, emulated on the host (cuda-host/), in place of the CPU's.
#pragma once

void fake_cuda_use(void);
int fake_cuda_nodes(void); // run so far
