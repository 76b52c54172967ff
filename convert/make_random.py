#!/usr/bin/env python3
"""A Hugging Face folder with seeded random weights, for tests and for measuring speed without a trained model.

    python convert/make_random.py models/random-4096 --shape roberta-base --positions 4096
    python convert/make_random.py models/tiny --shape tiny --family mra --head all
    python convert/make_random.py models/random-modernbert --shape modernbert-base

Statistics are those of a trained net where they matter: scores q.k/sqrt(d) have a deviation of about 2, so that attention is
neither uniform nor one-hot; positions vary smoothly, so that neighbours resemble each other. Attention adds little to the residual, and
GELU's positive mean is kept out of it: otherwise all tokens become alike after a few layers.
"""
from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from hf_gguf.packages import require

require("make_random.py", "numpy", "safetensors")

import numpy as np
from safetensors.numpy import save_file

from random_vocab import write_tokenizer

FAMILIES = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert", "bert": "Bert", "mra": "Mra", "modernbert": "ModernBert",
            "jina-v2": "JinaBert"}
HEADS = {"none": "Model", "mlm": "ForMaskedLM", "classifier": "ForSequenceClassification", "all": "ForSequenceClassification"}


@dataclass
class Shape:
    layers: int
    hidden: int
    heads: int
    ff: int
    vocab: int = 50265
    positions: int = 512
    family: str = "roberta"
    head: str = "none"
    labels: int = 3
    seed: int = 1
    dtype: str = "f32"
    block_per_row: int = 4
    first_n: int = 0
    diag_n: int = 0
    approx_mode: str = "full"


SHAPES = {
    "tiny": Shape(2, 64, 2, 96, vocab=320, positions=128),
    "minilm": Shape(6, 384, 12, 1536, vocab=30522, family="bert"),
    "roberta-base": Shape(12, 768, 12, 3072),
    "roberta-large": Shape(24, 1024, 16, 4096),
    "modernbert-base": Shape(22, 768, 12, 1152, vocab=50368, positions=8192, family="modernbert"),
    "jina-v2-base": Shape(12, 768, 12, 3072, vocab=30528, positions=8192, family="jina-v2"),
}


def modernbert_config(s: Shape) -> dict:
    return {
        "architectures": ["ModernBertModel"], "model_type": "modernbert", "hidden_size": s.hidden, "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads, "intermediate_size": s.ff, "vocab_size": s.vocab, "max_position_embeddings": s.positions,
        "hidden_activation": "gelu", "norm_eps": 1e-5, "norm_bias": False, "attention_bias": False, "mlp_bias": False, "local_attention": 128,
        "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "pad_token_id": 1, "bos_token_id": 0,
        "cls_token_id": 0, "eos_token_id": 2, "sep_token_id": 2,
    }


def config_json(s: Shape) -> dict:
    if s.family == "modernbert":
        return modernbert_config(s)
    config = {
        "architectures": [FAMILIES[s.family] + HEADS[s.head]], "model_type": s.family, "hidden_size": s.hidden, "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads, "intermediate_size": s.ff, "vocab_size": s.vocab, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "initializer_range": 0.02,
        "layer_norm_eps": 1e-12 if s.family == "bert" else 1e-5, "type_vocab_size": 2 if s.family == "bert" else 1,
        "max_position_embeddings": s.positions + (0 if s.family in ("bert", "mra") else 2),
    }
    config.update({"pad_token_id": 0} if s.family == "bert" else {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2})
    if s.family == "jina-v2":
        config.update(model_type="bert", position_embedding_type="alibi", feed_forward_type="geglu", max_position_embeddings=s.positions)
    if s.head in ("classifier", "all"):
        config["id2label"] = {str(i): f"class {i}" for i in range(s.labels)}
        config["label2id"] = {f"class {i}": i for i in range(s.labels)}
    if s.family == "mra":
        config.update(block_per_row=s.block_per_row, approx_mode=s.approx_mode, initial_prior_first_n_blocks=s.first_n,
                      initial_prior_diagonal_n_blocks=s.diag_n)
    return config


class Weights:
    """Fills a dict of tensors; deviations scale with the input size so that every shape gives the same activations."""

    def __init__(self, s: Shape):
        self.s, self.rng, self.tensors = s, np.random.default_rng(s.seed), {}
        self.dtype = np.float16 if s.dtype == "f16" else np.float32

    def put(self, name: str, values: np.ndarray) -> None:
        self.tensors[name] = values.astype(self.dtype)

    def normal(self, *shape, std: float) -> np.ndarray:
        return self.rng.standard_normal(shape, np.float32) * np.float32(std)

    def dense(self, name: str, n_out: int, n_in: int, std: float, centred: bool = False, bias: bool = True) -> None:
        """centred: rows sum to 0, so that what all inputs have in common does not pass."""
        weight = self.normal(n_out, n_in, std=std)
        self.put(f"{name}.weight", weight - weight.mean(1, keepdims=True) if centred else weight)
        if bias:
            self.put(f"{name}.bias", self.normal(n_out, std=0.02))

    def norm(self, name: str, bias: bool = True) -> None:
        self.put(f"{name}.weight", 1 + self.normal(self.s.hidden, std=0.05))
        if bias:
            self.put(f"{name}.bias", self.normal(self.s.hidden, std=0.02))

    def smooth(self, n: int, d: int) -> np.ndarray:
        """[n, d]: per channel a sine of random phase, wave lengths from 8 to 8192 positions."""
        wave = 8 * 1024 ** self.rng.random(d)
        phase = 2 * np.pi * self.rng.random(d)
        return np.sin(2 * np.pi * np.arange(n)[:, None] / wave + phase)


def modernbert_weights(s: Shape) -> dict:
    """The same activations without biases, fused: q, k, v in one matrix, gate and up in one. Layer 0 has no first norm."""
    w, d = Weights(s), s.hidden
    std, score_std = 0.02 * (768 / d) ** 0.5, (2 / d) ** 0.5
    w.put("embeddings.tok_embeddings.weight", w.normal(s.vocab, d, std=0.1))
    w.norm("embeddings.norm", bias=False)
    for i in range(s.layers):
        layer = f"layers.{i}."
        if i > 0:
            w.norm(layer + "attn_norm", bias=False)
        qkv = [w.normal(d, d, std=x) for x in (score_std, score_std, std)]
        w.put(layer + "attn.Wqkv.weight", np.concatenate(qkv))
        w.dense(layer + "attn.Wo", d, d, std, bias=False)
        w.norm(layer + "mlp_norm", bias=False)
        w.dense(layer + "mlp.Wi", 2 * s.ff, d, 2 * std, bias=False)
        w.dense(layer + "mlp.Wo", d, s.ff, 0.04 * (768 / s.ff) ** 0.5, bias=False)
    w.norm("final_norm", bias=False)
    return w.tensors


def make_weights(s: Shape) -> dict:
    if s.family == "modernbert":
        return modernbert_weights(s)
    w = Weights(s)
    d, gated = s.hidden, s.family == "jina-v2"
    std = 0.02 * (768 / d) ** 0.5
    score_std = (2 / d) ** 0.5
    prefix = {"bert": "bert.", "mra": "mra."}.get(s.family, "roberta.") if s.head != "none" else ""
    offset = 0 if s.family == "bert" else 2
    emb = prefix + "embeddings."
    w.put(emb + "word_embeddings.weight", w.normal(s.vocab, d, std=0.1))
    if s.family != "jina-v2":
        w.put(emb + "position_embeddings.weight", np.concatenate([np.zeros((offset, d)), 0.07 * w.smooth(s.positions, d)]))
    w.put(emb + "token_type_embeddings.weight", w.normal(2 if s.family == "bert" else 1, d, std=0.02))
    w.norm(emb + "LayerNorm")
    for i in range(s.layers):
        layer = f"{prefix}encoder.layer.{i}."
        w.dense(layer + "attention.self.query", d, d, score_std)
        w.dense(layer + "attention.self.key", d, d, score_std)
        w.dense(layer + "attention.self.value", d, d, std)
        w.dense(layer + "attention.output.dense", d, d, std)
        w.norm(layer + "attention.output.LayerNorm")
        up, down, last = ("mlp.gated_layers", "mlp.wo", "mlp.layernorm") if gated else ("intermediate.dense", "output.dense", "output.LayerNorm")
        w.dense(layer + up, 2 * s.ff if gated else s.ff, d, 2 * std, bias=not gated)
        w.dense(layer + down, d, s.ff, 0.04 * (768 / s.ff) ** 0.5, centred=True)
        w.norm(layer + last)
    _heads(w, prefix, std)
    return w.tensors


def _heads(w: Weights, prefix: str, std: float) -> None:
    s, d = w.s, w.s.hidden
    bert_names = s.family in ("bert", "mra")
    if s.head in ("mlm", "all"):
        head = "cls.predictions." if bert_names else "lm_head."
        w.dense(head + ("transform.dense" if bert_names else "dense"), d, d, 2 * std)
        w.norm(head + ("transform.LayerNorm" if bert_names else "layer_norm"))
        w.put(head + "bias", w.normal(s.vocab, std=0.1))
    if s.head in ("classifier", "all"):
        if s.family == "bert":
            w.dense(prefix + "pooler.dense", d, d, 2 * std)
            w.dense("classifier", s.labels, d, 4 * std)
        else:
            w.dense("classifier.dense", d, d, 2 * std)
            w.dense("classifier.out_proj", s.labels, d, 4 * std)


def make_model(folder: Path, s: Shape, merges: Path | None = None, vocab_json: Path | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, s.family, s.vocab, merges, vocab_json)
    (folder / "config.json").write_text(json.dumps(config_json(s), indent=1) + "\n", encoding="utf-8")
    save_file(make_weights(s), str(folder / "model.safetensors"), metadata={"format": "pt"})


def main() -> int:
    p = argparse.ArgumentParser(description="a Hugging Face folder with random weights")
    p.add_argument("folder", type=Path)
    p.add_argument("--shape", choices=SHAPES, default="tiny")
    p.add_argument("--family", choices=FAMILIES)
    p.add_argument("--head", choices=HEADS)
    p.add_argument("--dtype", choices=("f32", "f16"))
    for name in ("layers", "hidden", "heads", "ff", "vocab", "positions", "labels", "seed", "block-per-row", "first-n", "diag-n"):
        p.add_argument(f"--{name}", type=int, metavar="N")
    p.add_argument("--merges", type=Path, help="GPT-2's or RoBERTa's merges.txt to use instead of made-up ones")
    p.add_argument("--vocab-json", type=Path, help="the vocabulary that goes with --merges (default: made from them)")
    args = p.parse_args()
    if args.vocab_json and not args.merges:
        p.error("--vocab-json needs --merges")
    names = ("family", "head", "dtype", "layers", "hidden", "heads", "ff", "vocab", "positions", "labels", "seed", "block_per_row", "first_n", "diag_n")
    shape = replace(SHAPES[args.shape], **{n: getattr(args, n) for n in names if getattr(args, n) is not None})
    if min(shape.layers, shape.hidden, shape.heads, shape.ff, shape.positions, shape.labels) < 1 or shape.hidden % shape.heads:
        p.error("sizes must be positive, and --hidden a multiple of --heads")
    if shape.family in ("modernbert", "jina-v2") and shape.head != "none":
        p.error(f"{shape.family} has no --head here")
    try:
        make_model(args.folder, shape, args.merges, args.vocab_json)
    except (OSError, ValueError, KeyError) as e:
        print(f"make_random.py: error: {e}", file=sys.stderr)
        return 1
    print(args.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
