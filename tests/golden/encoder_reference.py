"""Forward pass of BERT-family encoders in float64 numpy, from the tensors of a GGUF file (gguf's reader) and any attention.

h = norm(token + position + type); per layer h = norm(h + W_o attention(h)), h = norm(h + W_down act(W_up h)).
"""
from __future__ import annotations

import math

import gguf
import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])
ACTIVATIONS = {"gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))), "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}


class Encoder:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.meta = {key: field.contents() for key, field in reader.fields.items()}
        self.tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}
        self.n_head = self.meta["bert.attention.head_count"]

    def dense(self, name, x):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.meta["bert.attention.layer_norm_epsilon"])
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def act(self, key, x):
        return ACTIVATIONS[self.meta[key]](x)

    def hidden(self, ids, types, attention):
        """ids, types [n] -> last hidden state [n, d]. attention(q, k, v) works on one head, [n, head size]."""
        t = self.tensors
        x = t["token_embd.weight"][ids] + t["position_embd.weight"][:len(ids)] + t["token_types.weight"][types]
        x = self.norm("token_embd_norm", x)
        for i in range(self.meta["bert.block_count"]):
            q, k, v = (np.split(self.dense(f"blk.{i}.attn_{c}", x), self.n_head, axis=1) for c in "qkv")
            y = np.concatenate([attention(*head) for head in zip(q, k, v)], axis=1)
            x = self.norm(f"blk.{i}.attn_output_norm", x + self.dense(f"blk.{i}.attn_output", y))
            y = self.act("mra.activation", self.dense(f"blk.{i}.ffn_up", x))
            x = self.norm(f"blk.{i}.layer_output_norm", x + self.dense(f"blk.{i}.ffn_down", y))
        return x

    def classify(self, hidden):
        return self.dense("cls.output", self.act("mra.classifier.activation", self.dense("cls", hidden[0])))

    def fill_mask(self, hidden):
        x = self.norm("mlm.norm", self.act("mra.mlm.activation", self.dense("mlm.dense", hidden)))
        decoder = self.tensors.get("mlm.output.weight", self.tensors["token_embd.weight"])
        return x @ decoder.T + self.tensors["mlm.output.bias"]
