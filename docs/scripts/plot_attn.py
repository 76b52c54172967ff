#!/usr/bin/env python3
"""Draws attn-curve.svg: time of one attention node against the number of tokens, from the JSON lines of mra-bench.

    build/bin/mra-bench attn --curve --frame exact --frame columns --budget 1/8,1/16,1/32 --no-matmul --max-seconds 16 --json > docs/attn-curve.jsonl
    python3 docs/scripts/plot_attn.py docs/attn-curve.jsonl > docs/attn-curve.svg
"""
from __future__ import annotations

import json
import sys

from figure import Line, chart

GGML = (("ggml flash attention", "flash_ms"), ("ggml mul_mat + soft_max", "matmul_ms"))


def lines(rows: list) -> list:
    """ggml's contenders first"""
    times: dict = {name: {} for name, _ in GGML}
    for r in rows:
        for name, key in GGML:
            if r.get(key):
                times[name].setdefault(r["n"], r[key])
        label = f"{r['frame']}" if r["frame"] == "exact" else f"{r['frame']}, budget 1/{round(1 / r['budget'])}"
        times.setdefault(label, {})[r["n"]] = r["ms"]
    ggml = {name for name, _ in GGML}
    return [Line(name, sorted(points.items()), ours=name not in ggml) for name, points in times.items() if points]


def main() -> None:
    with open(sys.argv[1]) as f:
        rows = [r for r in map(json.loads, filter(str.strip, f)) if r["ms"]]  # null: skipped, would take too long
    r = rows[0]
    about = f"{r['heads']} heads x {r['dim']}, {r['cpu']}, {r['threads']} threads, kernels {r['isa']}, ggml {r['ggml']}; both axes logarithmic"
    print(chart("Time of one attention node", about, lines(rows)))


if __name__ == "__main__":
    main()
