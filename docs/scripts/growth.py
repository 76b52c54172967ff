#!/usr/bin/env python3
"""The budget that a given closeness takes, and how its cost grows with the length of a text.

    closeness.py ... --frame sorted -n 512,1024,... -w ... > lines.jsonl
    growth.py lines.jsonl --cosine .998

For each model and length: the budget w whose mean cosine is --cosine, between the two measured budgets around it (log of 1 - cosine as a straight line of log w),
and the cost w n^2. Then the exponent of the cost, the slope of its logarithm over that of n (least squares). A length whose measured budgets do not enclose the cosine has no w.
"""
from __future__ import annotations

import argparse
import json
import math
from fractions import Fraction


def budget_for(points, cosine):
    """points: [(w, cosine of w)]; None: not enclosed"""
    points = sorted(points)
    for (w0, c0), (w1, c1) in zip(points, points[1:]):
        if c0 <= cosine <= c1 and c0 < c1:
            t = (math.log(1 - c0) - math.log(1 - cosine)) / (math.log(1 - c0) - math.log(1 - c1))
            return math.exp(math.log(w0) + t * (math.log(w1) - math.log(w0)))
    return None


def slope(points):
    x, y = [math.log(n) for n, _ in points], [math.log(c) for _, c in points]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("lines")
    p.add_argument("--cosine", type=float, default=.998)
    p.add_argument("--frame", default="sorted")
    args = p.parse_args()
    measured = {}
    with open(args.lines) as f:
        for r in map(json.loads, f):
            if r["frame"] == args.frame:
                measured.setdefault(r["model"], {}).setdefault(r["n"], []).append((float(Fraction(r["budget"])), r["mean"]))
    for model, lengths in measured.items():
        found = [(n, w) for n, w in ((n, budget_for(lengths[n], args.cosine)) for n in sorted(lengths)) if w]
        for n, w in found:
            print(f"{model:24} n {n:6} w {w:.3f} cost {w * n * n:.3g}")
        if len(found) > 1:
            print(f"{model:24} cost grows with n^{slope([(n, w * n * n) for n, w in found]):.2f}")


if __name__ == "__main__":
    main()
