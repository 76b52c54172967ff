#!/usr/bin/env python3
"""Makes torch/: small checkpoints as torch itself writes them, in both of its formats. test_convert.py knows their values.

    python tests/golden/make_torch_files.py
"""
from collections import OrderedDict
from pathlib import Path

import torch

base = torch.arange(24, dtype=torch.float32)
STATE = OrderedDict(
    whole=base.reshape(4, 6),
    transposed=base.reshape(4, 6).t(),                # strides (1, 6)
    offset=base[6:18].reshape(3, 4)[:, 1:3],          # offset 7, strides (4, 1)
    parameter=torch.nn.Parameter(torch.tensor([0.5, -1.5])),
    scalar=torch.tensor(3.25),
    half=torch.tensor([1.0, 0.333251953125, -65504.0], dtype=torch.float16),
    bfloat=torch.tensor([1.0, -3.140625, 1e30], dtype=torch.bfloat16),
    double=torch.tensor([1e-3], dtype=torch.float64),
    ids=torch.arange(5),
    empty=torch.zeros(0, 3),
)
STATE._metadata = OrderedDict({"": {"version": 1}})   # every state dict of a module has it

out = Path(__file__).resolve().parent / "torch"
out.mkdir(exist_ok=True)
torch.save(STATE, out / "zip.bin")
torch.save(STATE, out / "legacy.bin", _use_new_zipfile_serialization=False)
