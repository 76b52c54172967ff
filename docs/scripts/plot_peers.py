#!/usr/bin/env python3
"""Draws peers.svg: time of a whole model against how close its embeddings are to float arithmetic, from the JSON lines of bench_peers.py.

    python3 docs/scripts/plot_peers.py docs/peers.jsonl > docs/peers.svg

One point per engine and setting. Its name stands beside it, where it covers neither another name nor a point.
"""
from __future__ import annotations

import json
import math
import sys
from html import escape

from figure import FONT, GRID, HEIGHT, INK, LEFT, OTHERS, OURS, QUIET, TOP, WIDTH, nice_time

TOKENS, MODEL = 4096, "all-MiniLM-L6-v2"
RIGHT, BOTTOM, MARGIN = 30, 66, 30
FINEST = 6  # digits of a cosine that are shown; closer is drawn there
LETTER, LINE = 7.2, 17  # size of a name's letters, generously


def points(rows: list) -> list:
    """[(name, ours, seconds, distance)] of those with both a time and a closeness"""
    longest = max((r["n"] for r in rows if "n" in r), default=0)
    n = TOKENS if any(r.get("n") == TOKENS for r in rows) else longest
    close = {r["key"]: max(1 - r["cosine_mean"], 10.0 ** -FINEST) for r in rows if r.get("model") == MODEL}
    return n, [(r["contender"], r["key"].startswith("ours"), r["seconds"], close[r["key"]]) for r in rows if r.get("n") == n and r["key"] in close]


def overlap(a: tuple, b: tuple) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def place(at: list, widths: list, area: tuple) -> list:
    """Boxes (left, top, right, bottom) of names beside their points: the nearest places where nothing is covered."""
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in at]
    out = []
    for (x, y), w in zip(at, widths):
        offsets = sorted(((dx, dy) for dy in range(-110, 111, 5) for dx in (10, -10 - w, -w / 2)), key=lambda o: abs(o[1]) + (12 if o[0] == -w / 2 else 4 * (o[0] < 0)))
        boxes = [(x + dx, y + dy - LINE / 2, x + dx + w, y + dy + LINE / 2) for dx, dy in offsets]
        inside = [b for b in boxes if b[0] >= area[0] and b[1] >= area[1] and b[2] <= area[2] and b[3] <= area[3]]
        out.append(next((b for b in inside if not any(overlap(b, t) for t in taken)), boxes[0]))
        taken.append(out[-1])
    return out


def leader(point: tuple, box: tuple, color: str) -> list:
    """a thin dotted line where a name does not stand right beside its point"""
    x, y = point
    to = (min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3]))
    if math.dist((x, y), to) <= 16:
        return []
    return [f'<path d="M{x:.1f} {y:.1f}L{to[0]:.1f} {to[1]:.1f}" stroke="{color}" stroke-dasharray="1 3" stroke-linecap="round" fill="none"/>']


def axes(n: int, lo: float, hi: float, x, y, finest: int, coarsest: int) -> list:
    right, bottom, out = WIDTH - RIGHT, HEIGHT - BOTTOM, []
    for t in [t for e in range(-3, 5) for t in (10.0**e, 2 * 10.0**e, 5 * 10.0**e) if lo <= t <= hi]:
        out.append(f'<path d="M{LEFT} {y(t):.1f}H{right}" stroke="{GRID}"/>')
        out.append(f'<text x="{LEFT - 10}" y="{y(t) + 4:.1f}" text-anchor="end" fill="{QUIET}">{nice_time(1000 * t)}</text>')
    for e in range(coarsest, finest + 1):
        more = " or closer" if e == FINEST else ""
        out.append(f'<path d="M{x(10.0 ** -e):.1f} {TOP}V{bottom}" stroke="{GRID}"/>')
        out.append(f'<text x="{x(10.0 ** -e):.1f}" y="{bottom + 20}" text-anchor="{"end" if more else "middle"}" fill="{QUIET}">.{"9" * e}{more}</text>')
    out.append(f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 18}" text-anchor="middle" fill="{QUIET}">cosine of the embeddings to float, {MODEL}: closer to the right</text>')
    out.append(f'<text x="24" y="{TOP - 4}" fill="{QUIET}">time, {n} tokens</text>')
    return out


def draw(rows: list) -> str:
    n, found = points(rows)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}" font-size="13" fill="{INK}" role="img">']
    title = "One text through an encoder: how long it takes, and how close the result is"
    out += [f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>',
            f'<text x="24" y="26" font-size="17" font-weight="600">{escape(title)}</text>']
    if not found:
        return "\n".join(out + [f'<text x="24" y="60" fill="{QUIET}">nothing has both a time and a closeness yet</text>', "</svg>"])
    r = rows[0]
    out.append(f'<text x="24" y="46" fill="{QUIET}">{escape(r["cpu"])} ({r["flags"][-1] if r["flags"] else "?"}), {r["threads"]} threads; both axes logarithmic; below and to the right is better</text>')
    seconds, distances = [p[2] for p in found], [p[3] for p in found]
    lo, hi = min(seconds) / 1.3, max(seconds) * 1.3
    coarsest, finest = math.floor(-math.log10(max(distances))), math.ceil(-math.log10(min(distances)) - 1e-9)

    def x(d):
        return LEFT + MARGIN + (-math.log10(d) - coarsest) / max(finest - coarsest, 1) * (right - LEFT - 2 * MARGIN)

    def y(t):
        return bottom - math.log(t / lo) / math.log(hi / lo) * (bottom - TOP)

    out += axes(n, lo, hi, x, y, finest, coarsest)
    labels = [f"{name}  {nice_time(float(f'{1000 * s:.3g}'))}" for name, _, s, _ in found]
    at = [(x(d), y(s)) for _, _, s, d in found]
    boxes = place(at, [LETTER * len(label) for label in labels], (LEFT + 2, TOP, WIDTH - 4, bottom))
    colors = {True: iter(OURS), False: iter(OTHERS * 3)}
    for (name, ours, _, _), label, point, box in zip(found, labels, at, boxes):
        color = next(colors[ours])
        out += leader(point, box, color)
        out.append(f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="{5.5 if ours else 4.5}" fill="{color}"/>')
        anchor, tx = ("start", box[0]) if box[0] > point[0] else ("end", box[2]) if box[2] < point[0] else ("middle", (box[0] + box[2]) / 2)
        weight = ' font-weight="600"' if ours else ""
        out.append(f'<text class="name" x="{tx:.1f}" y="{(box[1] + box[3]) / 2 + 4.5:.1f}" text-anchor="{anchor}" fill="{color}"{weight}>{escape(label)}</text>')
    return "\n".join(out + ["</svg>"])


def main() -> None:
    with open(sys.argv[1]) as f:
        print(draw([json.loads(line) for line in f if line.strip()]))


if __name__ == "__main__":
    main()
