"""other-cpu.sh: which kernels this CPU gets, and whether a text is embedded as mra-embed does it, within rounding."""
import subprocess
import sys
from pathlib import Path

import numpy as np

import ggml_mra

model = Path(__file__).resolve().parents[3] / "tests/golden/models/bert.gguf"
theirs = np.frombuffer(subprocess.run([f"{sys.argv[1]}/bin/mra-embed", "-m", model, "--format", "raw", "a man is eating"], capture_output=True,
                                      check=True).stdout, np.float32)
error = np.abs(ggml_mra.Encoder(model, n_threads=1).encode("a man is eating") - theirs).max()
print(f"kernels {ggml_mra.kernels()}, difference {error:.2g}, {'good' if error < 1e-4 else 'WRONG'}")
