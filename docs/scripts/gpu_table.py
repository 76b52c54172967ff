#!/usr/bin/env python3
"""Puts the output of tests/cuda-count.sh into docs/gpu.md.

usage: tests/cuda-count.sh . build --all | docs/scripts/gpu_table.py docs/gpu.md
"""
import sys

BEGIN, END = "| | w | n |", "\n\n"
NAMES = {"mra2": "MRA-2", "order": "the order of sorted"}
FRAMES = ("exact", "columns", "sorted", "order", "mra2")


def number(text):
    value = f"{float(text):.2f}"
    return value[1:] if value.startswith("0.") else value


def rows(lines):
    for line in lines:
        f = line.replace("sorted: its order", "order").split()
        if len(f) < 17 or f[0] not in FRAMES:
            continue
        kbyte = float(f[12]) + float(f[13])
        yield (f"| {NAMES.get(f[0], f[0])} | {f[1]} | {f[2]} | {f[3]} | {float(f[4]):.0f} | {kbyte:.1f} "
               f"| {' | '.join(number(x) for x in f[14:17])} |")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    with open(sys.argv[1], encoding="utf-8") as page:
        text = page.read()
    at = text.index(BEGIN)
    head = "\n".join(text[at:].split("\n")[:2])
    table = list(rows(sys.stdin))
    if not table:
        sys.exit("gpu_table.py: no counts on standard input")
    text = text[:at] + head + "\n" + "\n".join(table) + text[text.index(END, at):]
    with open(sys.argv[1], "w", encoding="utf-8") as page:
        page.write(text)


if __name__ == "__main__":
    main()
