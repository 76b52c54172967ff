#!/usr/bin/env python3
"""Draws attn-curve.svg: time of one attention node against the number of tokens, from the JSON lines of mra-bench.

    build/bin/mra-bench attn --curve --frame exact --frame columns --budget 1/8,1/16,1/32 --no-matmul --max-seconds 16 --json > curve.jsonl
    python docs/plot_attn.py curve.jsonl > docs/attn-curve.svg
"""
from __future__ import annotations

import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 70, 190, 46, 50
COLORS = ["#888888", "#bbbbbb", "#1f4e9c", "#c1440e", "#e08a1e", "#3b8f4d", "#7b4fa3"]


def series(rows):
    """name -> [(n, ms)], ggml's contenders first"""
    out = {"ggml flash attention": {}, "ggml mul_mat + soft_max": {}}
    for r in rows:
        for name, key in (("ggml flash attention", "flash_ms"), ("ggml mul_mat + soft_max", "matmul_ms")):
            if r.get(key):
                out[name].setdefault(r["n"], r[key])
        label = "exact" if r["frame"] == "exact" else f"{r['frame']}, w = 1/{round(1 / r['budget'])}"
        out.setdefault(label, {})[r["n"]] = r["ms"]
    return {name: sorted(points.items()) for name, points in out.items() if points}


def nice_ms(ms):
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"


def draw(title, data):
    """SVG of name -> [(n, ms)], both axes logarithmic."""
    ns = sorted({n for points in data.values() for n, _ in points})
    ms = [t for points in data.values() for _, t in points]
    lo, hi = math.floor(math.log10(min(ms))), math.ceil(math.log10(max(ms)))
    x = lambda n: LEFT + (math.log2(n) - math.log2(ns[0])) / (math.log2(ns[-1]) - math.log2(ns[0]) or 1) * (WIDTH - LEFT - RIGHT)
    y = lambda t: HEIGHT - BOTTOM - (math.log10(t) - lo) / (hi - lo) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', f'<text x="{LEFT}" y="24" font-size="15">{title}</text>']
    for e in range(lo, hi + 1):
        out.append(f'<path d="M{LEFT} {y(10 ** e):.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y(10 ** e) + 4:.1f}" text-anchor="end">{nice_ms(10 ** e)}</text>')
    for n in ns:
        out.append(f'<path d="M{x(n):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#f0f0f0"/>')
        out.append(f'<text x="{x(n):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{n}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">tokens</text>')
    taken = []
    for (name, points), color in zip(data.items(), COLORS):
        path = "M" + "L".join(f"{x(n):.1f} {y(t):.1f}" for n, t in points)
        out.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        out += [f'<circle cx="{x(n):.1f}" cy="{y(t):.1f}" r="3" fill="{color}"/>' for n, t in points]
        at = y(points[-1][1]) + 4
        while any(abs(at - other) < 15 for other in taken):
            at += 1
        taken.append(at)
        out.append(f'<text x="{x(points[-1][0]) + 9:.1f}" y="{at:.1f}" fill="{color}">{name}</text>')
    return "\n".join(out + ["</svg>"])


def main():
    with open(sys.argv[1]) as f:
        rows = [r for r in map(json.loads, filter(str.strip, f)) if r["ms"]]  # null: skipped, would take too long
    r = rows[0]
    print(draw(f"One attention node, {r['heads']} heads x {r['dim']}, {r['threads']} threads, {r['isa']}", series(rows)))


if __name__ == "__main__":
    main()
