"""The look of all figures: SVG charts of lines on a white card, readable on light and dark pages.

The names of the lines are a list at the right, where no line runs, in the order in which the lines arrive there.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import Callable

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 880, 460, 78, 312, 70, 56
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
INK, QUIET, GRID = "#1c2430", "#5a6472", "#e3e7ec"
OTHERS = ["#6b7280", "#9a6b1f", "#8b5a8c", "#4b7f86"]  # what people use now: quiet colours, thin
OURS = ["#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#b91c1c"]  # ours: strong ones, thick
LABEL_STEP = 24


def nice_time(ms: float) -> str:
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"


@dataclass
class Line:
    name: str
    points: list  # [(x, y)] or [(x, y, low, high)]: low to high is drawn as a bar
    ours: bool = False
    note: str = ""  # in a quiet colour behind the name
    color: str = field(default="", init=False)


@dataclass
class Axis:
    label: str
    text: Callable = "{:g}".format  # of a tick
    ticks: list = field(default_factory=list)  # where there are none: powers of ten, logarithmic
    at: Callable = math.log10  # what is drawn evenly
    ends: tuple = ()  # lowest and highest value; where there are none those of the lines


TOKENS = Axis("tokens", str)
TIME = Axis("", nice_time)


@dataclass
class Box:
    left: float
    top: float
    right: float
    bottom: float


def scale(axis: Axis, values: list, start: float, end: float) -> Callable:
    low, high = (axis.at(v) for v in axis.ends or (min(values), max(values)))
    return lambda v: start + (axis.at(v) - low) / ((high - low) or 1) * (end - start)


def powers_of_ten(low: float, high: float) -> list:
    return [10.0**e for e in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def draw_area(lines: list, box: Box, x_axis: Axis, y_axis: Axis) -> list:
    """the grid with its numbers, and the lines"""
    xs, ys = ([v for l in lines for p in l.points for v in part(p)] for part in (lambda p: p[:1], lambda p: p[1:]))
    y_axis = Axis(y_axis.label, y_axis.text, y_axis.ticks, y_axis.at, y_axis.ends or (min(ys) / 1.5, max(ys) * 1.5))
    x, y = scale(x_axis, xs, box.left, box.right), scale(y_axis, ys, box.bottom, box.top)
    out = []
    for v in y_axis.ticks or powers_of_ten(*y_axis.ends):
        out.append(f'<path d="M{box.left:g} {y(v):.1f}H{box.right:g}" stroke="{GRID}"/>')
        out.append(f'<text x="{box.left - 10:g}" y="{y(v) + 4:.1f}" text-anchor="end" fill="{QUIET}">{y_axis.text(v)}</text>')
    for v in x_axis.ticks or sorted(set(xs)):
        out.append(f'<path d="M{x(v):.1f} {box.top:g}V{box.bottom:g}" stroke="{GRID}"/>')
        out.append(f'<text x="{x(v):.1f}" y="{box.bottom + 20:g}" text-anchor="middle" fill="{QUIET}">{x_axis.text(v)}</text>')
    out.append(f'<text x="{(box.left + box.right) / 2:.0f}" y="{box.bottom + 42:g}" text-anchor="middle" fill="{QUIET}">{escape(x_axis.label)}</text>')
    for line in lines:
        path = "M" + "L".join(f"{x(p[0]):.1f} {y(p[1]):.1f}" for p in line.points)
        out.append(f'<path d="{path}" fill="none" stroke="{line.color}" stroke-width="{2.6 if line.ours else 1.6}" stroke-linejoin="round"/>')
        for p in line.points:
            if len(p) == 4:
                out.append(f'<path d="M{x(p[0]):.1f} {y(p[2]):.1f}V{y(p[3]):.1f}" stroke="{line.color}" stroke-width="1.2"/>')
            out.append(f'<circle cx="{x(p[0]):.1f}" cy="{y(p[1]):.1f}" r="{3.4 if line.ours else 2.6}" fill="{line.color}"/>')
    return out


def draw_names(lines: list, left: float, top: float) -> list:
    out = []
    for i, line in enumerate(lines):
        at = top + 10 + LABEL_STEP * i
        note = f' <tspan fill="{QUIET}" font-weight="400">{escape(line.note)}</tspan>' if line.note else ""
        weight = ' font-weight="600"' if line.ours else ""
        out.append(f'<path d="M{left:g} {at:g}h22" stroke="{line.color}" stroke-width="{2.6 if line.ours else 1.6}"/>')
        out.append(f'<circle cx="{left + 11:g}" cy="{at:g}" r="{3.4 if line.ours else 2.6}" fill="{line.color}"/>')
        out.append(f'<text x="{left + 30:g}" y="{at + 4.5:g}" fill="{line.color}"{weight}>{escape(line.name)}{note}</text>')
    return out


def card(title: str, subtitle: str, height: float, content: list) -> str:
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" font-family="{FONT}" font-size="13" fill="{INK}" role="img">',
            f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{height:g}" rx="8" fill="#ffffff"/>',
            f'<text x="24" y="30" font-size="17" font-weight="600">{escape(title)}</text>',
            f'<text x="24" y="50" fill="{QUIET}">{escape(subtitle)}</text>']
    return "\n".join(head + content + ["</svg>"])


def give_colors(lines: list) -> None:
    """the same name, the same colour"""
    for palette, ours in ((OTHERS, False), (OURS, True)):
        names = list(dict.fromkeys(l.name for l in lines if l.ours == ours))
        for line in lines:
            if line.ours == ours:
                line.color = palette[names.index(line.name) % len(palette)]


def by_arrival(lines: list) -> list:
    """the highest first, at the last place that all of them have"""
    common = set.intersection(*({p[0] for p in l.points} for l in lines))
    if not common:
        return lines
    return sorted(lines, key=lambda l: -next(p[1] for p in l.points if p[0] == max(common)))


def chart(title: str, subtitle: str, lines: list, x_axis: Axis = TOKENS, y_axis: Axis = TIME) -> str:
    """SVG of one chart; by default time in milliseconds against the number of tokens"""
    give_colors(lines)
    box = Box(LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM)
    return card(title, subtitle, HEIGHT, draw_area(lines, box, x_axis, y_axis) + draw_names(by_arrival(lines), box.right + 20, TOP))


def panels(title: str, subtitle: str, rows: list, x_axis: Axis, y_axis: Axis) -> str:
    """SVG of charts in rows: rows[i] = [(name, lines)]. All have the same axes, and lines of the same names, which stand below."""
    every = [l for row in rows for _, lines in row for l in lines]
    give_colors(every)
    wide, tall = (WIDTH - LEFT - 24) / max(map(len, rows)), 236
    out = []
    for i, row in enumerate(rows):
        for j, (name, lines) in enumerate(row):
            box = Box(LEFT + wide * j, TOP + 32 + tall * i, LEFT + wide * (j + 1) - 58, TOP + tall * (i + 1) - 52)
            out.append(f'<text x="{box.left:g}" y="{box.top - 12:g}" font-weight="600">{escape(name)}</text>')
            out += draw_area(lines, box, x_axis, y_axis)
    first = {l.name: l for l in reversed(every)}
    top = TOP + tall * len(rows)
    for k, name in enumerate(dict.fromkeys(l.name for l in every)):
        out += draw_names([first[name]], LEFT + 190 * (k % 4), top + LABEL_STEP * (k // 4))
    return card(title, subtitle, top + LABEL_STEP * ((len(first) + 3) // 4) + 16, out)
