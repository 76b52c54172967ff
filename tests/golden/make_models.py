#!/usr/bin/env python3
"""Makes models/: tiny random models as GGUF, and what they must give (see models/README.md).

    pip install -r tests/golden/requirements.txt
    python tests/golden/make_models.py

RoBERTa, XLM-RoBERTa and BERT: Hugging Face's transformers in float64. MRA: transformers' attention returns zeros without a GPU, so its
own classes run with the attention of mra_reference.py put in its place. Every model is also run through encoder_reference.py, which
reads the GGUF; both must agree, and MRA with everything refined must agree with transformers' RoBERTa on the same weights.
"""
from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "convert"))

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers.models.mra import modeling_mra

import mra_reference
from convert_hf import convert
from encoder_reference import Encoder
from make_random import Shape, make_model

OUT = HERE / "models"
CLASSES = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "bert": "Bert", "mra": "Mra"}
N_MLM = 6  # positions of the second text whose fill-mask logits are kept

MODELS = {
    # name: shape, lengths of the texts
    "roberta": (Shape(2, 64, 2, 96, 300, 128, "roberta", "all", 3, seed=11, dtype="f16"), (1, 9, 33, 100)),
    "xlm-roberta": (Shape(2, 72, 3, 96, 300, 128, "xlm-roberta", "all", 1, seed=12, dtype="f16"), (2, 31, 64)),
    "bert": (Shape(3, 64, 2, 64, 300, 128, "bert", "all", 5, seed=13, dtype="f16"), (3, 17, 128)),
    "mra": (Shape(2, 64, 2, 96, 300, 256, "mra", "all", 4, seed=18, dtype="f16", block_per_row=1), (1, 31, 33, 100, 256)),
    "mra-sparse": (Shape(1, 48, 2, 96, 300, 256, "mra", "all", 2, seed=14, dtype="f16", block_per_row=3, first_n=1, diag_n=3,
                         approx_mode="sparse"), (64, 250)),
}
TEXTS = (
    ("The rain in Spain stays mainly in the plain.", None),
    ("", None),
    ("  two  spaces, a tab\tand 3 digits: 1234!", None),
    ("Is this <mask> or [MASK] here?", None),
    ("na\u00efve caf\u00e9 \u4e2d\u6587 \U0001f600", None),
    ("a question", "and its answer"),
)


def random_texts(shape: Shape, lengths, rng) -> tuple:
    """Token ids and types of texts of the given lengths, specials at both ends; BERT's second halves are of type 1."""
    first, last = (2, 3) if shape.family == "bert" else (0, 2)
    texts, types = [], []
    for n in lengths:
        ids = rng.integers(5, shape.vocab - 1, n)
        ids[0] = first
        if n > 1:
            ids[-1] = last
        texts.append(ids)
        types.append((np.arange(n) >= max(n // 2, 1)).astype(np.int64) if shape.family == "bert" else np.zeros(n, np.int64))
    return texts, types


def mra_attention(meta: dict, gaps: list):
    """The attention a trained MRA checkpoint expects, for one head."""
    key = lambda name: meta[f"mra.attention.{name}"]
    budget = mra_reference.checkpoint_budget(key("max_position_embeddings"), key("block_per_row"))
    options = dict(rule="rowmax", first_n=key("initial_prior_first_n_blocks"), diag_n=key("initial_prior_diagonal_n_blocks"),
                   sparse=key("approx_mode") == "sparse", scale=meta.get("mra.attention.scale"), gaps=gaps)
    return lambda q, k, v: mra_reference.square(q, k, v, (32, 1), (budget,), **options)


def patch_transformers(attention) -> None:
    """Puts `attention` in the place of transformers' GPU kernel; it gets heads padded to 32 channels, as the kernel does."""
    def mra2_attention(query, key, value, mask, num_blocks, approx_mode, block_size=32, **priors):
        assert query.shape[0] == 1 and mask.min() > 0
        heads = [attention(*(x[0, h].double().numpy() for x in (query, key, value))) for h in range(query.shape[1])]
        return torch.tensor(np.stack(heads)[None])

    modeling_mra.mra2_attention = mra2_attention
    torch.Tensor.float = torch.Tensor.double  # its attention rounds to float32 on the way; goldens should not


def run_transformers(folder: Path, family: str, texts, types) -> list:
    """Per text (hidden [n, d], classifier logits, fill-mask logits [n, vocab])."""
    def load(suffix, **options):
        cls = getattr(transformers, CLASSES[family] + suffix)
        return cls.from_pretrained(folder, dtype=torch.float64, **options).eval()

    options = {} if family == "mra" else {"attn_implementation": "eager"}
    pooler = {} if family == "mra" else {"add_pooling_layer": False}
    base, mlm, cls = load("Model", **options, **pooler), load("ForMaskedLM", **options), load("ForSequenceClassification", **options)
    results = []
    with torch.no_grad():
        for ids, kinds in zip(texts, types):
            feed = {"input_ids": torch.tensor(ids)[None], "token_type_ids": torch.tensor(kinds)[None]}
            results.append((base(**feed).last_hidden_state[0].numpy(), cls(**feed).logits[0].numpy(), mlm(**feed).logits[0].numpy()))
    return results


def run_numpy(encoder: Encoder, texts, types, attention) -> list:
    results = []
    for ids, kinds in zip(texts, types):
        hidden = encoder.hidden(ids, kinds, attention)
        results.append((hidden, encoder.classify(hidden), encoder.fill_mask(hidden)))
    return results


def difference(a: list, b: list) -> float:
    return max(float(np.abs(x - y).max()) for one, other in zip(a, b) for x, y in zip(one, other))


def check_full_budget(folder: Path, encoder: Encoder, texts, types) -> float:
    """MRA with every cell refined against transformers' RoBERTa with the same weights (scale as RoBERTa's)."""
    everything = lambda q, k, v: mra_reference.square(q, k, v, (32, 1), (10**9,))
    with tempfile.TemporaryDirectory() as temporary:
        config = json.loads((folder / "config.json").read_text())
        config.update(model_type="roberta", architectures=["RobertaModel"], max_position_embeddings=config["max_position_embeddings"] + 2)
        (Path(temporary) / "config.json").write_text(json.dumps(config))
        tensors = {k[4:]: t for k, t in load_file(folder / "model.safetensors").items() if k.startswith("mra.")}
        save_file(tensors, Path(temporary) / "model.safetensors", metadata={"format": "pt"})
        model = transformers.RobertaModel.from_pretrained(temporary, dtype=torch.float64, attn_implementation="eager", add_pooling_layer=False).eval()
        with torch.no_grad():
            expected = [model(input_ids=torch.tensor(ids)[None]).last_hidden_state[0].numpy() for ids in texts]
    got = [encoder.hidden(ids, kinds, everything) for ids, kinds in zip(texts, types)]
    return max(float(np.abs(a - b).max()) for a, b in zip(got, expected))


def save(name: str, what: str, values, dtype) -> None:
    np.save(OUT / f"{name}.{what}.npy", np.ascontiguousarray(values, dtype))


def save_goldens(name: str, texts, types, results) -> None:
    hidden = [r[0] for r in results]
    save(name, "lengths", [len(t) for t in texts], np.int32)
    save(name, "ids", np.concatenate(texts), np.int32)
    save(name, "types", np.concatenate(types), np.int32)
    save(name, "hidden", np.concatenate(hidden), np.float32)
    save(name, "mean", [h.mean(0) for h in hidden], np.float32)
    save(name, "logits", [r[1] for r in results], np.float32)
    save(name, "mlm", results[1][2][:N_MLM], np.float32)


def tokenized(folder: Path) -> list:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    cases = []
    for text, pair in TEXTS:
        encoding = tokenizer.encode(text, pair)
        cases.append({"text": text, "pair": pair, "ids": encoding.ids, "types": encoding.type_ids})
    return cases


def main() -> None:
    OUT.mkdir(exist_ok=True)
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    token_cases = {}
    for name, (shape, lengths) in MODELS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / name
            make_model(folder, shape)
            convert(folder, OUT / f"{name}.gguf", "f16", name=f"tiny random {name}")
            encoder = Encoder(OUT / f"{name}.gguf")
            texts, types = random_texts(shape, lengths, np.random.default_rng(shape.seed))
            gaps = []
            attention = mra_attention(encoder.meta, gaps) if shape.family == "mra" else mra_reference.exact
            if shape.family == "mra":
                error = check_full_budget(folder, encoder, texts, types)
                print(f"{name}: everything refined against transformers' RoBERTa: {error:.1e}")
                assert error < 1e-9
                patch_transformers(attention)
            results = run_transformers(folder, shape.family, texts, types)
            error = difference(results, run_numpy(encoder, texts, types, attention))
            print(f"{name}: transformers against numpy on the GGUF: {error:.1e}")
            assert error < 1e-6
            if gaps:
                change = difference(results, run_numpy(encoder, texts, types, mra_reference.exact))
                print(f"{name}: exact attention differs by {change:.2f}; the closest choice of cells was by {min(gaps):.1e}")
                assert change > 0.1 and min(gaps) > 1e-3  # float32 must come to the same choice
            save_goldens(name, texts, types, results)
            token_cases[name] = tokenized(folder)
    lines = ",\n".join(f'"{name}": [\n' + ",\n".join(map(json.dumps, cases)) + "]" for name, cases in token_cases.items())
    (OUT / "texts.json").write_text("{" + lines + "}\n")


if __name__ == "__main__":
    main()
