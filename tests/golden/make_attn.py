#!/usr/bin/env python3
"""Makes attn/: queries, keys and values of the real all-MiniLM-L6-v2 over prose.txt, and what attention of each frame gives for
them by the specification (mra_reference.py, float64).

    python convert/fetch_minilm.py models/all-MiniLM-L6-v2
    python convert/convert_hf.py models/all-MiniLM-L6-v2 -o minilm.gguf --type f32
    python tests/golden/make_attn.py minilm.gguf models/all-MiniLM-L6-v2

attn/qkv.npy   float16 [3, 4 heads, 512, 32]: two heads of layer 1, two of layer 4
attn/cases.txt one case a line: name, frame, length, counts, rule, first_n, diag_n, relative error to exact attention of each head
attn/sorted.txt the same for the sorted frame, counts m1, m2 and exact rows of cells; NAME.order.npy: float32 [4 heads, n], the order of
               the queries; NAME.bias.npy: float32 [4 heads, n], the keys' biases
attn/NAME.npy  float32 [4 heads, 64, 32]: every eighth output row
"""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import mra_reference as ref
from encoder_reference import Encoder

HERE = Path(__file__).resolve().parent
N, LAYERS, HEADS, STEP = 512, (1, 4), (0, 7), 8

# name, frame, length, counts (columns: m1 m2; square: per level), rule, first_n, diag_n
CASES = [
    ("exact",        "exact",     512, (),           "-",      0, 0),
    ("exact-211",    "exact",     211, (),           "-",      0, 0),
    ("columns-16",   "columns",   512, (9, 19),      "-",      0, 0),  # w = 1/16, 1/8, 1/4, 1/2
    ("columns-8",    "columns",   512, (18, 42),     "-",      0, 0),
    ("columns-4",    "columns",   512, (32, 92),     "-",      0, 0),
    ("columns-2",    "columns",   512, (32, 220),    "-",      0, 0),
    ("columns-301",  "columns",   301, (10, 40),     "-",      0, 0),
    ("columns-pri",  "columns",   512, (9, 40),      "-",      1, 3),
    ("mra2-16",      "32,1",      512, (16,),        "rowmax", 0, 0),
    ("mra2-8",       "32,1",      512, (32,),        "rowmax", 0, 0),
    ("mra2-4",       "32,1",      512, (64,),        "rowmax", 0, 0),
    ("mra2-mu",      "32,1",      512, (64,),        "mu",     0, 0),
    ("mra2-301",     "32,1",      301, (25,),        "rowmax", 0, 0),
    ("mra2-d3",      "32,1",      512, (128,),       "rowmax", 3, 1),
    ("mra2s-4",      "32,1,s",    512, (64,),        "rowmax", 0, 0),
    ("16-4-1",       "16,4,1",    512, (200, 1200),  "rowmax", 0, 0),
    ("64-16-4-1",    "64,16,4,1", 490, (20, 80, 500), "mu",    0, 0),
]

# name, length, m1, m2, exact rows of cells; w = 1/4, 3/8; half the key blocks; short
SORTED = [("sorted-4", 512, 32, 78, 1), ("sorted-3", 512, 32, 142, 1), ("sorted-half", 512, 16, 80, 0), ("sorted-301", 301, 10, 40, 2)]


def heads_of(gguf_path, folder):
    encoder = Encoder(gguf_path)
    ids = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    ids.no_truncation()
    ids.no_padding()
    ids = np.array(ids.encode((HERE / "prose.txt").read_text().replace("\n", " ")).ids)[:N]
    assert len(ids) == N, f"prose.txt has {len(ids)} tokens"
    seen = []
    encoder.hidden(ids, np.zeros(N, int), lambda q, k, v: (seen.append((q, k, v)), ref.exact(q, k, v))[1])
    picked = [seen[layer * encoder.n_head + head] for layer in LAYERS for head in HEADS]
    return np.array(picked).transpose(1, 0, 2, 3).astype(np.float16)


def run(case, q, k, v):
    _, frame, _, counts, rule, first_n, diag_n = case
    if frame == "exact":
        return ref.exact(q, k, v)
    if frame == "columns":
        return ref.columns(q, k, v, *counts, first_n=first_n, local=diag_n // 2 + 1 if diag_n else 0)
    sizes = [int(s) for s in frame.split(",") if s != "s"]
    return ref.square(q, k, v, sizes, counts, rule=rule, first_n=first_n, diag_n=diag_n, sparse=frame.endswith("s"))


def main():
    out = HERE / "attn"
    out.mkdir(exist_ok=True)
    qkv = heads_of(sys.argv[1], sys.argv[2])
    np.save(out / "qkv.npy", qkv)
    lines = []
    for case in CASES:
        name, frame, n, counts, rule, first_n, diag_n = case
        x = qkv[:, :, :n].astype(np.float64)
        got, want = (np.array([f(*x[:, h]) for h in range(x.shape[1])]) for f in (lambda *a: run(case, *a), ref.exact))
        error = np.sqrt(((got - want) ** 2).sum((1, 2)) / (want ** 2).sum((1, 2)))
        np.save(out / f"{name}.npy", got[:, ::STEP].astype(np.float32))
        lines.append(" ".join([name, frame, str(n), ",".join(map(str, counts)) or "-", rule, str(first_n), str(diag_n)] + [f"{e:.7f}" for e in error]))
        print(lines[-1])
    (out / "cases.txt").write_text("\n".join(lines) + "\n")
    make_sorted(out, qkv)


def make_sorted(out, qkv):
    lines = []
    for name, n, m1, m2, n_exact in SORTED:
        x = qkv[:, :, :n].astype(np.float64)
        heads = [x[:, h] for h in range(x.shape[1])]
        orders = [ref.query_order(q, k) for q, k, _ in heads]
        got = np.array([ref.sorted_rows(*qkv, m1, m2, n_exact, order=order) for qkv, order in zip(heads, orders)])
        want = np.array([ref.exact(*qkv) for qkv in heads])
        bias = [ref.key_bias(q * ref._scale(q, None), k, v, order) for (q, k, v), order in zip(heads, orders)]
        error = np.sqrt(((got - want) ** 2).sum((1, 2)) / (want ** 2).sum((1, 2)))
        np.save(out / f"{name}.npy", got[:, ::STEP].astype(np.float32))
        np.save(out / f"{name}.order.npy", np.array(orders, np.float32))
        np.save(out / f"{name}.bias.npy", np.array(bias, np.float32))
        lines.append(" ".join([name, str(n), f"{m1},{m2},{n_exact}"] + [f"{e:.7f}" for e in error]))
        print(lines[-1])
    (out / "sorted.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
