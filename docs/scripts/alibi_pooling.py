#!/usr/bin/env python3
"""ALiBi: what approximate attention gives where the distance term enters cell scores by the cells' centres, against leaving far keys out.

    mra-eval -m minilm.gguf -f text.txt -n 2048 --capture qkv.npy; alibi_pooling.py qkv.npy

p_ij = scale q_i.k_j - slope |i - j|, with the slopes that ALiBi gives these heads. Printed for each budget: ||out - exact||/||exact||, mean over
the heads, and in brackets of the mean over all tokens, by
    ignored   columns, keys chosen and pooled as if there were no term; exact scores have it
    centres   columns with the term: of single keys by the distance to the query block's centre, of key blocks by the nearest distance where a
              bound chooses them and by both centres where they are pooled
    rows      the same, but what is pooled has the term of each row
    near      exact attention within a window of each head, c/slope, nothing else; c is that of all heads of a layer for the same work
    mixed     near with c = 12 in heads where that takes less than the others have, centres in the others, the same work in all
and how far the reach goes that changes no result beyond rounding (ggml-mra/src/op-window-attn.c): its share of all pairs.
"""
from __future__ import annotations

import argparse
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rope_pooling import plan_columns, relative

H = 16                   # queries of a block
NEAR = 12                # of mixed: e^-12 is what the term leaves of a key at the window's end
ROUNDING = 2.0 ** -24    # weight of what is left out, of a row's sum


def slopes(n_head, max_bias=8.0):
    m = 1 << (n_head.bit_length() - 1)
    return [2 ** (-max_bias * ((h + 1) / m if h < m else (2 * (h - m) + 1) / (2 * m))) for h in range(n_head)]


def softmax(scores, values, counts=1.0):
    e = np.exp(scores - scores.max(1, keepdims=True)) * counts
    return e @ values / e.sum(1, keepdims=True)


def exact(q, k, v, slope, window=None):
    i, out = np.arange(len(q)), np.empty_like(v)
    for a in range(0, len(q), 256):
        distance = abs(i[a:a + 256, None] - i)
        scores = q[a:a + 256] @ k.T - slope * distance
        out[a:a + 256] = softmax(scores if window is None else np.where(distance <= window, scores, -np.inf), v)
    return out


def columns(q, k, v, m1, m2, g, slope, term):
    """term: ignored, centres, rows"""
    n, i = len(q), np.arange(len(q))
    cells = [np.arange(a, min(a + g, n)) for a in range(0, n, g)]
    first, last, centre = (np.array([f(c) for c in cells]) for f in (np.min, np.max, np.mean))
    k_max, k_min, k_mean, v_mean = (np.array([f(x[c], axis=0) for c in cells]) for x, f in ((k, np.max), (k, np.min), (k, np.mean), (v, np.mean)))
    count, s, out = np.array([len(c) for c in cells]), 0 if term == "ignored" else slope, np.empty_like(v)
    for a in range(0, n, H):
        rows = i[a:a + H]
        mean, at = q[rows].mean(0), rows.mean()
        nearest = np.maximum(0, np.maximum(first - rows[-1], rows[0] - last))
        bound = np.maximum(mean * k_max, mean * k_min).sum(1) - s * nearest
        expanded = np.sort(np.argsort(-bound, kind="stable")[:m1])
        column = np.concatenate([cells[y] for y in expanded])
        plain = k[column] @ mean
        order = np.argsort(-(plain - s * abs(column - at)), kind="stable")
        kept, pooled = column[order[:m2]], order[m2:]
        rest = np.setdiff1d(np.arange(len(cells)), expanded)
        where = np.concatenate([column[pooled], centre[rest]])
        distance = abs(rows[:, None] - where) if term == "rows" else abs(at - where)[None]
        fixed = np.concatenate([plain[pooled], k_mean[rest] @ mean]) - s * distance
        scores = q[rows] @ k[kept].T - slope * abs(rows[:, None] - kept)
        out[rows] = softmax(np.concatenate([scores, np.broadcast_to(fixed, (len(rows), len(where)))], 1),
                            np.concatenate([v[kept], v[column[pooled]], v_mean[rest]]),
                            np.concatenate([np.ones(len(kept) + len(pooled)), count[rest]]))
    return out


def share(window, n):
    """of all pairs, within a window"""
    w = min(int(window), n - 1)
    return (n * (2 * w + 1) - w * (w + 1)) / n ** 2


def near_factor(all_slopes, w, n):
    low, high = 0.0, 1e6
    for _ in range(60):
        c = (low + high) / 2
        low, high = (c, high) if np.mean([share(c / s, n) for s in all_slopes]) <= w else (low, c)
    return low


def mixed_budgets(all_slopes, w, n):
    """{slope: budget of columns, or None: near is cheaper}; mean work w"""
    budgets, left = {}, sorted(all_slopes)
    while left and share(NEAR / left[-1], n) <= (w * len(all_slopes) - sum(share(NEAR / s, n) for s in budgets)) / len(left):
        budgets[left.pop()] = None
    rest = w * len(all_slopes) - sum(share(NEAR / s, n) for s in budgets)
    return {**budgets, **{s: rest / len(left) for s in left}}


def reach_share(q, k, slope):
    """blocks of 64 queries: of all pairs, those within the reach"""
    n, centred = len(q), k - k.mean(0)
    radius, pairs = np.sqrt((centred ** 2).sum(1).max()), 0
    for a in range(0, n, 64):
        rows = q[a:a + 64]
        spread = np.sqrt((rows ** 2).sum(1)) * radius - (rows * centred[a:a + 64]).sum(1)
        reach = (spread.max() + np.log(n / ROUNDING)) / slope
        pairs += len(rows) * (min(n, a + 64 + reach) - max(0, a - reach))
    return pairs / n ** 2


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("qkv", help="array [3][heads][n][d], heads of a layer one after the other")
    p.add_argument("-w", default="1/16,1/8,1/4", help="budgets, default 1/16,1/8,1/4")
    p.add_argument("--heads", type=int, default=12, help="of a layer, default 12")
    p.add_argument("--layers", default="", help="which, default all: 0,3")
    args = p.parse_args()
    qkv = np.load(args.qkv, mmap_mode="r")
    n, of_heads = qkv.shape[2], slopes(args.heads)
    layers = [int(x) for x in args.layers.split(",") if x] or range(qkv.shape[1] // args.heads)
    heads = [(l * args.heads + h, of_heads[h]) for l in layers for h in range(args.heads)]
    budgets = [float(Fraction(w)) for w in args.w.split(",")]
    found = {w: [] for w in budgets}
    reaches = []
    for h, slope in heads:
        q, k, v = (np.array(x[h], np.float64) for x in qkv)
        q /= np.sqrt(q.shape[1])
        want = exact(q, k, v, slope)
        reaches.append(reach_share(q, k, slope))
        for w in budgets:
            got = {term: columns(q, k, v, *plan_columns(w, n), slope, term) for term in ("ignored", "centres", "rows")}
            got["near"] = exact(q, k, v, slope, int(near_factor(of_heads, w, n) / slope))
            own = mixed_budgets(of_heads, w, n)[slope]
            got["mixed"] = columns(q, k, v, *plan_columns(own, n), slope, "centres") if own else exact(q, k, v, slope, int(NEAR / slope))
            found[w].append({name: (relative(o, want), relative(o.mean(0), want.mean(0))) for name, o in got.items()})
    print(f"{n} tokens, {len(heads)} heads")
    for w in budgets:
        print(f"budget {Fraction(w)}: " + ", ".join(
            f"{name} {np.mean([f[name][0] for f in found[w]]):.3g} ({np.mean([f[name][1] for f in found[w]]):.2g})" for name in found[w][0]) +
            f"; centres is closer than ignored in {sum(f['centres'] < f['ignored'] for f in found[w])} heads, near than centres in " +
            f"{sum(f['near'] < f['centres'] for f in found[w])}, window c = {near_factor(of_heads, w, n):.1f}")
    for slope in sorted(set(of_heads)):
        print(f"slope {slope:.4f}: the reach has {np.mean([r for r, (_, s) in zip(reaches, heads) if s == slope]):.3f} of all pairs")
    print(f"all: {np.mean(reaches):.3f}")


if __name__ == "__main__":
    main()
