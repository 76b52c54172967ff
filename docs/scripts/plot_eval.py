#!/usr/bin/env python3
"""Draws eval-tasks.svg: how many of the ten nearest documents stay the same, against the budget, from the JSON lines of eval_tasks.py.

    python3 docs/scripts/plot_eval.py docs/eval-tasks.jsonl > docs/eval-tasks.svg
"""
from __future__ import annotations

import json
import sys
from fractions import Fraction

from figure import Axis, Line, panels

FRAMES = {"sorted": "sorted", "columns": "columns", "mra2": "MRA-2"}
LEVELS = {("q8_0", "exact float"): "q8_0 weights, exact", ("q4_k", "exact float"): "q4_k weights, exact"}  # no budget: a line across
BUDGETS = ("1/8", "1/4", "3/8")
ENDS = (1 / 8, 3 / 8)


def lines(rows: list) -> list:
    """of one model and task"""
    out = []
    for frame, name in FRAMES.items():
        points = [(float(Fraction(r["attention"].split()[1])), *r["same_ten"]) for r in rows
                  if r["weights"] == "f16" and r["attention"].split()[0] == frame]
        out.append(Line(name + ", f16", sorted(points), ours=True))
    for r in rows:
        name = LEVELS.get((r["weights"], r["attention"]))
        if name:
            out.append(Line(name, [(x, r["same_ten"][0]) for x in ENDS]))
    return [l for l in out if l.points]


def draw(rows: list) -> str:
    charts: dict = {}
    for r in rows:
        charts.setdefault(r["model"], {}).setdefault(r["task"], []).append(r)
    low = min(v for r in rows for v in r["same_ten"])
    y = Axis("", "{:g}".format, [i / 10 for i in range(11) if i / 10 >= low // 0.1 / 10], float, (low // 0.1 / 10, 1))
    x = Axis("budget", lambda v: str(Fraction(v)), list(map(float, map(Fraction, BUDGETS))), float)
    about = "part of the ten documents nearest to a query that stay the same as with f32 weights and exact attention; bars: 95 %"
    every = [(f"{model}, {task}", lines(group)) for model, tasks in charts.items() for task, group in tasks.items()]
    return panels("What approximate attention and quantized weights change", about, [every[i:i + 3] for i in range(0, len(every), 3)], x, y)


def main() -> None:
    with open(sys.argv[1]) as f:
        print(draw([json.loads(line) for line in f if line.strip()]))


if __name__ == "__main__":
    main()
