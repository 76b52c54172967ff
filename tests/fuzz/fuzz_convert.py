#!/usr/bin/env python3
"""The converter on damaged folders, by plain mutation: every folder is converted, or refused with one line and exit status 1.

    python tests/fuzz/fuzz_convert.py [--seconds 60] [--seed 1] [--findings FOLDER]
"""
from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import shutil
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from convert_helpers import ROOT, convert_hf, make_model, save_torch, load_file, tiny

FAMILIES = ("bert", "roberta", "xlm-roberta", "mra")
VALUES = (None, True, False, 0, 1, -1, 2, 1 << 31, 1 << 63, 1 << 64, -(1 << 63), 1e300, float("nan"), float("inf"), .5, "", "x", "\ud800", "\0",
          "a" * 5000, [], {}, [1], ["a"], [[]], [None], {"type": "x"}, {"a": {}}, "../x", "\u4e2d", "1")


def places(value, path=()):
    """Every path into a JSON value, so deep that mutations of mutations stay finite."""
    yield path
    if len(path) == 50:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*path, key))


def mutate_json(data, rng: random.Random):
    data = copy.deepcopy(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        path = rng.choice([p for p in places(data) if p] or [()])
        if not path:
            return rng.choice(VALUES)
        parent = data
        for key in path[:-1]:
            parent = parent[key]
        how = rng.random()
        if how < .2:
            del parent[path[-1]]
        elif how < .3 and isinstance(parent, dict):
            parent[rng.choice(("\ud800", "", "x", "type", "model"))] = parent.pop(path[-1])
        elif how < .4:
            parent[path[-1]] = copy.deepcopy(data) if how < .31 else [copy.deepcopy(parent[path[-1]])]
        elif how < .5 and isinstance(parent[path[-1]], int):
            parent[path[-1]] += rng.choice((-1, 1, 7, 1 << 20))
        else:
            parent[path[-1]] = rng.choice(VALUES)
    return data


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    data = bytearray(data)
    how = rng.random()
    if how < .1:
        return bytes(data[:rng.randrange(len(data) + 1)])
    head = min(len(data), 6000)  # the interesting part of a checkpoint
    for _ in range(rng.choice((1, 2, 8))):
        at = rng.randrange(max(1, head))
        if how < .6:
            data[at:at + 1] = bytes([rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))])
        elif how < .8:
            data[at:at + 8] = struct.pack("<Q", rng.choice((0, 1, 1 << 31, 1 << 63, (1 << 64) - 1, len(data))))
        else:
            data[at:at + rng.randrange(9)] = bytes(rng.randrange(256) for _ in range(rng.randrange(9)))
    return bytes(data)


def mutate_text(text: bytes, rng: random.Random) -> bytes:
    """JSON as JSON, unless it is damaged already."""
    try:
        return json.dumps(mutate_json(json.loads(text), rng)).encode()
    except ValueError:
        return mutate_bytes(text, rng)


def damage(folder: Path, rng: random.Random) -> None:
    path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
    data = path.read_bytes()
    if rng.random() < .05:
        path.unlink()
    elif path.suffix == ".json" and rng.random() < .8:
        path.write_bytes(mutate_text(data, rng))
    elif path.suffix == ".safetensors" and len(data) > 8 and rng.random() < .6:
        n = struct.unpack("<Q", data[:8])[0]
        head = mutate_text(data[8:8 + n], rng)
        path.write_bytes(struct.pack("<Q", len(head)) + head + data[8 + n:])
    else:
        path.write_bytes(mutate_bytes(data, rng))


class Lines:
    """Which lines of the converter have run."""

    def __init__(self):
        self.seen, self.own = set(), str(ROOT / "convert")

    def trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(self.own):
            return None
        self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self.trace


def attempt(folder: Path, out: Path) -> tuple:
    """(exit status, what is wrong with the answer or '')"""
    err = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            status = convert_hf.main([str(folder), "-o", str(out), "--type", "f16"])
    except BaseException:
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            raise
        return None, traceback.format_exc()
    text = err.getvalue()
    if status == 1 and text.count("\n") == 1 and not out.exists():
        return 1, ""
    return status, "" if status == 0 and not text and out.exists() else f"status {status}: {text!r}, file left: {out.exists()}"


def make_originals(base: Path) -> list:
    folders = []
    for family in FAMILIES:
        folder = base / family
        make_model(folder, tiny(family, layers=1, vocab=270))
        folders.append(folder)
        torch = base / (family + "-torch")
        shutil.copytree(folder, torch)
        save_torch(torch / "pytorch_model.bin", load_file(torch / "model.safetensors"))
        (torch / "model.safetensors").unlink()
        folders.append(torch)
    return folders


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--runs", type=int, default=0, help="so many instead of a time")
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--findings", type=Path, help="folders that broke it are kept there")
    args = p.parse_args()
    lines, runs, good, found, end = Lines(), 0, 0, {}, time.monotonic() + args.seconds
    with tempfile.TemporaryDirectory() as temporary:
        base, folder, out = Path(temporary), Path(temporary) / "model", Path(temporary) / "out.gguf"
        originals = make_originals(base / "originals")
        while runs < args.runs if args.runs else time.monotonic() < end:
            rng = random.Random(args.seed * 1000003 + runs)
            shutil.copytree(originals[runs % len(originals)], folder)
            for _ in range(rng.choice((1, 1, 2))):
                damage(folder, rng)
            sys.settrace(lines.trace if runs % 4 == 0 else None)
            status, wrong = attempt(folder, out)
            sys.settrace(None)
            runs, good = runs + 1, good + (status == 0)
            kind = wrong.strip().split("\n")[-1][:100]
            if wrong and kind not in found:
                found[kind] = wrong
                print(f"finding, seed {args.seed}, run {runs - 1}:\n{wrong}", flush=True)
                if args.findings:
                    shutil.copytree(folder, args.findings / f"convert-{args.seed}-{runs - 1}", dirs_exist_ok=True)
            shutil.rmtree(folder)
            out.unlink(missing_ok=True)
    print(f"convert: {runs} runs, {len(lines.seen)} lines reached, {good} converted, {len(found)} findings (seed {args.seed})")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
