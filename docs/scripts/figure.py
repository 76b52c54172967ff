"""The look of all figures: SVG line charts with logarithmic axes on a white card, readable on light and dark pages.

Every line is named at the right edge, where no line runs. A name stands where its line would arrive if it went on straight, moved only
as far as the names beside it require; a thin dotted line leads to it where that is not next to the line's last point.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 880, 460, 78, 284, 70, 56
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
INK, QUIET, GRID = "#1c2430", "#5a6472", "#e3e7ec"
OTHERS = ["#6b7280", "#9a6b1f", "#8b5a8c", "#4b7f86"]  # what people use now: quiet colours, thin
OURS = ["#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#b91c1c"]  # ours: strong ones, thick
LABEL_STEP = 20


@dataclass
class Line:
    name: str
    points: list  # [(n, milliseconds)]
    ours: bool = False
    note: str = ""  # in a quiet colour behind the name
    color: str = field(default="", init=False)


def nice_time(ms: float) -> str:
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"


def place(wanted: list, step: float, low: float, high: float) -> list:
    """Heights near the wanted ones, in the same order, at least step apart, within [low, high]."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    at = [wanted[i] for i in order]
    for _ in range(500):
        moved = False
        for i in range(len(at) - 1):
            gap = at[i + 1] - at[i]
            if gap < step - 1e-6:
                at[i], at[i + 1], moved = at[i] - (step - gap) / 2, at[i + 1] + (step - gap) / 2, True
        at[0], at[-1] = max(at[0], low), min(at[-1], high)
        if not moved:
            break
    out = [0.0] * len(wanted)
    for i, y in zip(order, at):
        out[i] = y
    return out


def chart(title: str, subtitle: str, lines: list) -> str:
    """SVG of lines of time against the number of tokens."""
    for palette, group in ((OTHERS, [l for l in lines if not l.ours]), (OURS, [l for l in lines if l.ours])):
        for i, line in enumerate(group):
            line.color = palette[i % len(palette)]
    ns = sorted({n for l in lines for n, _ in l.points})
    ms = [t for l in lines for _, t in l.points]
    lo, hi = math.log10(min(ms) / 1.5), math.log10(max(ms) * 1.5)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(n):
        return LEFT + (math.log2(n) - math.log2(ns[0])) / (math.log2(ns[-1]) - math.log2(ns[0]) or 1) * (right - LEFT)

    def y(t):
        return bottom - (math.log10(t) - lo) / ((hi - lo) or 1) * (bottom - TOP)

    def arrival(points):
        """height at the right edge of a line that goes on straight"""
        at = [(x(n), y(t)) for n, t in points]
        slope = (at[-1][1] - at[-2][1]) / (at[-1][0] - at[-2][0]) if len(at) > 1 else 0
        return at[-1][1] + slope * (right - at[-1][0])

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}" font-size="13" fill="{INK}" role="img">',
           f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>',
           f'<text x="24" y="30" font-size="17" font-weight="600">{escape(title)}</text>',
           f'<text x="24" y="50" fill="{QUIET}">{escape(subtitle)}</text>']
    for e in range(math.ceil(lo), math.floor(hi) + 1):
        out.append(f'<path d="M{LEFT} {y(10 ** e):.1f}H{right}" stroke="{GRID}"/>')
        out.append(f'<text x="{LEFT - 10}" y="{y(10 ** e) + 4:.1f}" text-anchor="end" fill="{QUIET}">{nice_time(10 ** e)}</text>')
    for n in ns:
        out.append(f'<path d="M{x(n):.1f} {TOP}V{bottom}" stroke="{GRID}"/>')
        out.append(f'<text x="{x(n):.1f}" y="{bottom + 20}" text-anchor="middle" fill="{QUIET}">{n}</text>')
    out.append(f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle" fill="{QUIET}">tokens</text>')
    heights = place([arrival(l.points) for l in lines], LABEL_STEP, TOP, bottom)
    for line, at in zip(lines, heights):
        end_x, end_y = x(line.points[-1][0]), y(line.points[-1][1])
        if end_x < right - 1 or abs(at - end_y) > 2:
            out.append(f'<path d="M{end_x + 5:.1f} {end_y:.1f}L{max(right, end_x) + 12} {at:.1f}" stroke="{line.color}" stroke-dasharray="1 3" stroke-linecap="round" fill="none"/>')
    for line, at in zip(lines, heights):
        path = "M" + "L".join(f"{x(n):.1f} {y(t):.1f}" for n, t in line.points)
        out.append(f'<path d="{path}" fill="none" stroke="{line.color}" stroke-width="{2.6 if line.ours else 1.6}" stroke-linejoin="round"/>')
        out += [f'<circle cx="{x(n):.1f}" cy="{y(t):.1f}" r="{3.4 if line.ours else 2.6}" fill="{line.color}"/>' for n, t in line.points]
        note = f' <tspan fill="{QUIET}" font-weight="400">{escape(line.note)}</tspan>' if line.note else ""
        weight = ' font-weight="600"' if line.ours else ""
        out.append(f'<text x="{right + 16}" y="{at + 4.5:.1f}" fill="{line.color}"{weight}>{escape(line.name)}{note}</text>')
    return "\n".join(out + ["</svg>"])
