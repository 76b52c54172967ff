#!/usr/bin/env python3
"""Where rotary positions (RoPE) come in: means of rotated queries and keys, as the kernels take them, or means before the rotation that are
then rotated by the block's centre.

    rope_pooling.py tests/golden/attn/qkv.npy --base 10000 -w 1/8,1/4
    mra-eval -m modernbert.gguf -f text.txt -n 1024 --capture qkv.npy; rope_pooling.py qkv.npy --base 160000 --rotated

QKV: queries, keys and values [3][heads][n][d]; --rotated: they have their rotary positions already. Printed: ||out - exact||/||exact|| of
each frame, mean over the heads, and of the mean over all tokens, which is what mean pooling sees, by the float64 specification
(tests/golden/mra_reference.py). A query block of the sorted frame has no centre: it is shown as it is.
"""
from __future__ import annotations

import argparse
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/golden"))

import mra_reference as ref


def rotate(x, positions, base):
    """pairs (c, c + d/2) of each row turned by position*base^(-2c/d)"""
    half = x.shape[1] // 2
    angle = np.asarray(positions, float)[:, None] * base ** (-np.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], 1)


class Head:
    """q, k: rotated, q scaled; the means of blocks of s are taken after the rotation, or before it (base not None)"""

    def __init__(self, q, k, v, base=None, plain=None):
        self.q, self.k, self.v, self.base = q, k, v, base
        self.plain = plain or (q, k)

    def means(self, which, s):
        x = self.plain[which] if self.base else (self.q, self.k)[which]
        starts = range(0, len(x), s)
        means = np.array([x[a:a + s].mean(0) for a in starts])
        if not self.base:
            return means
        return rotate(means, [(a + min(a + s, len(x)) - 1) / 2 for a in starts], self.base)


def weighted(scores, values, counts):
    e = np.exp(scores - scores.max(1, keepdims=True)) * counts
    return e @ values / e.sum(1, keepdims=True)


def columns(x, m1, m2, g):
    """ref.columns with means of its own"""
    n, h = len(x.q), 16
    cells = [np.arange(a, min(a + g, n)) for a in range(0, n, g)]
    k_max, k_min = (np.array([f(x.k[c], axis=0) for c in cells]) for f in (np.max, np.min))
    k_mean, v_mean, count = x.means(1, g), np.array([x.v[c].mean(0) for c in cells]), np.array([len(c) for c in cells])
    out = np.empty_like(x.v)
    for i, mean in enumerate(x.means(0, h)):
        rows = slice(i * h, (i + 1) * h)
        expanded = np.sort(np.argsort(-np.maximum(mean * k_max, mean * k_min).sum(1), kind="stable")[:m1])
        column = np.concatenate([cells[y] for y in expanded])
        log_col = x.k[column] @ mean
        order = np.argsort(-log_col, kind="stable")
        kept, pooled = column[order[:m2]], order[m2:]
        rest = np.setdiff1d(np.arange(len(cells)), expanded)
        fixed = np.concatenate([log_col[pooled], k_mean[rest] @ mean])
        scores = x.q[rows] @ x.k[kept].T
        out[rows] = weighted(np.concatenate([scores, np.broadcast_to(fixed, (len(scores), len(fixed)))], 1),
                             np.concatenate([x.v[kept], x.v[column[pooled]], v_mean[rest]]),
                             np.concatenate([np.ones(m2 + len(pooled)), count[rest]]))
    return out


def mra2(x, n_cells):
    """cells of 32 x 32, the best n_cells of a head (log mu less its row's maximum) refined; n is a multiple of 32"""
    s, n = 32, len(x.q)
    mu = x.means(0, s) @ x.means(1, s).T
    refined = np.zeros(mu.size, bool)
    refined[np.argsort(-(mu - mu.max(1, keepdims=True)).ravel(), kind="stable")[:n_cells]] = True
    scores = np.repeat(np.repeat(mu, s, 0), s, 1)
    inside = np.repeat(np.repeat(refined.reshape(mu.shape), s, 0), s, 1)
    scores[inside] = (x.q @ x.k.T)[inside]
    v_mean = np.repeat(x.v.reshape(n // s, s, -1).mean(1), s, 0)
    e = np.exp(scores - scores.max(1, keepdims=True))
    return ((e * inside) @ x.v + (e * ~inside) @ v_mean) / e.sum(1, keepdims=True)


# ---- how much of it a budget buys: ggml-mra/src/plan.h ----------------------------------------------------------


def plan_columns(w, n):
    g = 32 if n >= 2048 else 16
    b, n_b = w - 2 / (16 * g), -(-n // g)
    m1 = min(n_b, max(1, round(.3 * b * 16 * n / g)))
    return m1, min(m1 * g, n, max(0, round(b * n - m1 * g / 16))), g


def plan_sorted(w, n):
    g, level = 32 if n >= 2048 else 16, 0
    while 16 << level < n:
        level += 1
    work = (min(n, 128) * 64 + n * (level + 3 + (4 * 24 + 64) // 16) + n * 4) / (2 * n * n)
    all_keys = -(-n // 16) // 128
    a = all_keys * 16 / n
    b, n_b = (w - work - a) / (1 - a), -(-n // g)
    if not (w >= 1 / 4 or (w >= 1 / 8 and n >= 1024)):
        b -= 2 / (16 * g)
        n_b = -(-n_b // 2)
    return n_b, min(n, max(0, round(b * n - n_b * g / 16))), all_keys, g


def errors(q, k, v, base, w):
    """q, k: before the rotation, base None: there is none. {frame: relative error of one head, and of the mean of its rows}"""
    n, scale = len(q), 1 / math.sqrt(q.shape[1])
    turned = (rotate(x, np.arange(n), base) if base else x for x in (q * scale, k))
    after = Head(*turned, v)
    heads = {"after": after}
    if base:
        heads["before"] = Head(after.q, after.k, v, base, (q * scale, k))
    exact = ref.exact(after.q, after.k, v, scale=1)
    m1, m2, g = plan_columns(w, n)
    out = {}
    for name, x in heads.items():
        out["columns " + name] = columns(x, m1, m2, g)
        out["mra2 " + name] = mra2(x, round((w - 1 / 1024) * n * n / 1024))
    assert np.allclose(out["columns after"], ref.columns(after.q, after.k, v, m1, m2, scale=1, g=g))
    m1, m2, all_keys, g = plan_sorted(w, n)
    out["sorted"] = ref.sorted_rows(after.q, after.k, v, m1, m2, all_keys, scale=1, g=g)
    return {name: (relative(o, exact), relative(o.mean(0), exact.mean(0))) for name, o in out.items()}


def relative(x, y):
    return math.sqrt(((x - y) ** 2).sum() / (y ** 2).sum())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("qkv", help="array [3][heads][n][d]")
    p.add_argument("--base", type=float, help="of RoPE; without: no rotation at all")
    p.add_argument("--rotated", action="store_true", help="queries and keys are rotated already")
    p.add_argument("-w", default="1/8,1/4", help="budgets, default 1/8,1/4")
    p.add_argument("--heads", type=int, help="only so many, evenly spaced")
    args = p.parse_args()
    qkv = np.load(args.qkv, mmap_mode="r")
    n_head = qkv.shape[1]
    picked = np.linspace(0, n_head - 1, min(args.heads or n_head, n_head)).astype(int)
    for w in args.w.split(","):
        rows = []
        for h in picked:
            q, k, v = (np.array(x[h][:len(x[h]) // 32 * 32], np.float64) for x in qkv)
            if args.rotated:
                q, k = (rotate(x, -np.arange(len(x)), args.base) for x in (q, k))
            rows.append(errors(q, k, v, args.base, float(Fraction(w))))
        print(f"{len(q)} tokens, {len(rows)} heads, base {args.base or '-'}, budget {w}: " +
              ", ".join(f"{name} {np.mean([r[name][0] for r in rows]):.3f} ({np.mean([r[name][1] for r in rows]):.3f})" for name in rows[0]))
        if args.base:
            for frame in ("columns", "mra2"):
                print(f"   {frame}: before is closer in {sum(r[frame + ' before'] < r[frame + ' after'] for r in rows)} of {len(rows)} heads")
        closer = [sum(r["sorted"][i] < r["columns after"][i] for r in rows) for i in range(2)]
        print(f"   sorted is closer than columns in {closer[0]} of {len(rows)} heads, its mean in {closer[1]}")


if __name__ == "__main__":
    main()
