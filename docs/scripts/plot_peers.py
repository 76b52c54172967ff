#!/usr/bin/env python3
"""Draws peers.svg: time of a whole model against the number of tokens, from the JSON lines of bench_peers.py.

    python3 docs/scripts/plot_peers.py docs/peers.jsonl > docs/peers.svg
"""
from __future__ import annotations

import json
import sys

from figure import Line, chart, nice_time


def draw(rows: list) -> str:
    times: dict = {}
    for r in rows:
        name = "ggml-mra, budget 1/8 to 1/16" if "w = " in r["contender"] else r["contender"]
        times.setdefault(name, []).append((r["n"], 1000 * r["seconds"]))
    lines = [Line(name, points, ours=name.startswith("ggml-mra"), note=nice_time(float(f"{points[-1][1]:.3g}"))) for name, points in times.items()]
    r = rows[0]
    about = f"{r['cpu']} ({', '.join(r['flags'])}), {r['threads']} threads; both axes logarithmic; behind each name its last point"
    return chart("One text through a model of RoBERTa-base's shape", about, lines)


def main() -> None:
    with open(sys.argv[1]) as f:
        print(draw([json.loads(line) for line in f if line.strip()]))


if __name__ == "__main__":
    main()
