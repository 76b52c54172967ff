#!/usr/bin/env python3
"""Adds to families/: models whose classes are not in transformers, jina v2 and NeoBERT, from numpy in float64 after their published formulas.

    python tests/golden/make_own_code.py [--llama-cpp DIR]

jina v2: BERT with -slope_h |i - j| added to the scores, no positions, ffn(x) = wo(gelu(W_g x) * W_u x), W_g the first half of
gated_layers. For code: norms of q and k over all heads, x1 = norm(x + norm(x + attention)), W_u the first half of up_gated_layer.
NeoBERT: x += wo attention(rms(x)), x += w3(silu(W_1 rms(x)) * W_2 rms(x)), rms at the end; rows of qkv head by head, each its q, k and v;
RoPE turns channels 2c and 2c + 1.
"""
from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from make_families import HERE, N_VOCAB, OUT, convert, save, save_texts, tokenized, write_family_tokenizer

D, HEADS, FF, LAYERS = 96, 3, 64, 1            # three heads: slopes of two kinds
erf = np.vectorize(math.erf)
gelu = lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))
silu = lambda x: x / (1 + np.exp(-x))


def layer_norm(x, w, b, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w + b


def rms_norm(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def attention(q, k, v, bias):
    """q, k, v [heads, n, d]; bias [heads, n, n]"""
    s = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]) + bias
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(q.shape[1], -1)


def slopes(n: int) -> list:
    """Of ALiBi: powers of 2^(-8/n); where n is no power of two, every second of the next one's for the rest."""
    m = 2 ** math.floor(math.log2(n))
    powers = lambda k: [2 ** (-8 * (i + 1) / k) for i in range(k)]
    return powers(m) + powers(2 * m)[0::2][:n - m]


class Weights(dict):
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def matrix(self, name, n_out, n_in):
        self[name + ".weight"] = self.rng.standard_normal((n_out, n_in)) * (0.5 if "embedd" in name or name == "encoder" else 1.3 / math.sqrt(n_in))

    def vector(self, name, n, one=False):
        self[name] = one + 0.1 * self.rng.standard_normal(n)

    def norm(self, name, bias=True):
        self.vector(name + ".weight", D, True)
        if bias:
            self.vector(name + ".bias", D)

    def dense(self, name, n_out, n_in):
        self.matrix(name, n_out, n_in)
        self.vector(name + ".bias", n_out)

    def done(self):
        for name in self:
            self[name] = self[name].astype(np.float16)
        return {name: values.astype(np.float64) for name, values in self.items()}


def jina_weights(code: bool, seed: int) -> Weights:
    w = Weights(seed)
    w.matrix("embeddings.word_embeddings", N_VOCAB, D)
    w.matrix("embeddings.token_type_embeddings", 2, D)
    w.norm("embeddings.LayerNorm")
    for i in range(LAYERS):
        p = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            w.dense(f"{p}attention.self.{part}", D, D)
        w.dense(p + "attention.output.dense", D, D)
        w.norm(p + "attention.output.LayerNorm")
        w.matrix(p + ("mlp.up_gated_layer" if code else "mlp.gated_layers"), 2 * FF, D)
        w.dense(p + ("mlp.down_layer" if code else "mlp.wo"), D, FF)
        w.norm(p + ("layer_norm_2" if code else "mlp.layernorm"))
        if code:
            for part in ("attention.self.layer_norm_q", "attention.self.layer_norm_k", "layer_norm_1"):
                w.norm(p + part)
    return w


def jina_hidden(w: dict, ids, code: bool):
    dense = lambda name, x: x @ w[name + ".weight"].T + w.get(name + ".bias", 0)
    norm = lambda name, x: layer_norm(x, w[name + ".weight"], w[name + ".bias"], 1e-12)
    heads = lambda x: x.reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
    at = np.arange(len(ids))
    bias = -np.array(slopes(HEADS))[:, None, None] * np.abs(at[:, None] - at)
    x = norm("embeddings.LayerNorm", w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0])
    for i in range(LAYERS):
        p = f"encoder.layer.{i}."
        q, k, v = (dense(f"{p}attention.self.{part}", x) for part in ("query", "key", "value"))
        if code:
            q, k = norm(p + "attention.self.layer_norm_q", q), norm(p + "attention.self.layer_norm_k", k)
        y = norm(p + "attention.output.LayerNorm", x + dense(p + "attention.output.dense", attention(heads(q), heads(k), heads(v), bias)))
        if code:
            y = norm(p + "layer_norm_1", x + y)
            up, gate = np.split(dense(p + "mlp.up_gated_layer", y), 2, axis=1)
            x = norm(p + "layer_norm_2", y + dense(p + "mlp.down_layer", gelu(gate) * up))
        else:
            gate, up = np.split(dense(p + "mlp.gated_layers", y), 2, axis=1)
            x = norm(p + "mlp.layernorm", y + dense(p + "mlp.wo", gelu(gate) * up))
    return x


def neobert_weights(seed: int) -> Weights:
    w = Weights(seed)
    w.matrix("encoder", N_VOCAB, D)
    for i in range(LAYERS):
        p = f"transformer_encoder.{i}."
        w.matrix(p + "qkv", 3 * D, D)
        w.matrix(p + "wo", D, D)
        w.matrix(p + "ffn.w12", 2 * FF, D)
        w.matrix(p + "ffn.w3", D, FF)
        w.norm(p + "attention_norm", False)
        w.norm(p + "ffn_norm", False)
    w.norm("layer_norm", False)
    return w


def neobert_hidden(w: dict, ids):
    dense = lambda name, x: x @ w[name + ".weight"].T
    norm = lambda name, x: rms_norm(x, w[name + ".weight"], 1e-5)
    d = D // HEADS
    turns = np.exp(1j * np.arange(len(ids))[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d))

    def turn(x):
        y = (x[..., 0::2] + 1j * x[..., 1::2]) * turns
        return np.stack([y.real, y.imag], -1).reshape(x.shape)

    x = w["encoder.weight"][ids]
    for i in range(LAYERS):
        p = f"transformer_encoder.{i}."
        q, k, v = np.split(dense(p + "qkv", norm(p + "attention_norm", x)).reshape(len(ids), HEADS, 3 * d).transpose(1, 0, 2), 3, axis=-1)
        x = x + dense(p + "wo", attention(turn(q), turn(k), v, 0))
        a, b = np.split(dense(p + "ffn.w12", norm(p + "ffn_norm", x)), 2, axis=1)
        x = x + dense(p + "ffn.w3", silu(a) * b)
    return norm("layer_norm", x)


JINA = dict(model_type="bert", hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=FF, vocab_size=N_VOCAB,
            max_position_embeddings=256, type_vocab_size=2, hidden_act="gelu", layer_norm_eps=1e-12, position_embedding_type="alibi",
            feed_forward_type="geglu", pad_token_id=0)
NEO = dict(model_type="neobert", hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=96, vocab_size=N_VOCAB,
           max_length=256, norm_eps=1e-5, hidden_act="SwiGLU", pad_token_id=0)
# name: architecture, config, weights, hidden states
MODELS = {
    "jina-v2": ("JinaBertModel", JINA, lambda s: jina_weights(False, s), lambda w, ids: jina_hidden(w, ids, False)),
    "jina-v2-code": ("JinaBertModel", JINA, lambda s: jina_weights(True, s), lambda w, ids: jina_hidden(w, ids, True)),
    "neobert": ("NeoBERT", NEO, neobert_weights, neobert_hidden),
}
LENGTHS = (1, 2, 33, 64, 150)


def make(name: str, llama_cpp: Path | None) -> None:
    architecture, config, weights, hidden_states = MODELS[name]
    seed = sum(map(ord, name))
    texts = [np.random.default_rng(seed + n).integers(5, N_VOCAB - 1, n) for n in LENGTHS]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        w = weights(seed)
        values = w.done()
        save_file({k: np.ascontiguousarray(v) for k, v in w.items()}, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps({"architectures": [architecture], **config}))
        write_family_tokenizer(folder, "wordpiece", N_VOCAB)
        convert(folder, OUT / f"{name}.gguf", "f16", name=f"tiny random {name}")
        cases = {name: tokenized(folder, True)} if name != "neobert" else {}    # it is loaded with our keys only
        if llama_cpp and name != "neobert":     # the file of jina-v2-code is one that is refused
            subprocess.run([sys.executable, "-B", HERE / "convert_llama_cpp.py", llama_cpp, folder, OUT / f"{name}-llama-cpp.gguf", "default"], check=True)
            if name == "jina-v2":
                cases[f"{name}-llama-cpp"] = cases[name]
    save_texts(cases)
    hidden = np.concatenate([hidden_states(values, ids) for ids in texts])
    save(name, "lengths", LENGTHS, np.int32)
    save(name, "ids", np.concatenate(texts), np.int32)
    save(name, "hidden", hidden, np.float32)
    print(f"{name}: hidden states of deviation {hidden.std():.2f}")


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--llama-cpp", type=Path)
    args = p.parse_args()
    for name in MODELS:
        make(name, args.llama_cpp)


if __name__ == "__main__":
    main()
