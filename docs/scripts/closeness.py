#!/usr/bin/env python3
"""How close approximate attention is to exact attention: cosine of the embeddings, mean and smallest over a set of texts.

    closeness.py build/bin/mra-embed model.gguf texts.jsonl -n 512,2048 -w 1/8,1/4 --frame columns --frame sorted

texts.jsonl: {"id": ..., "text": ...} per line, each at least as long as the largest n; every text is cut to n tokens. One line of JSON per
setting, with the cosine of every text; a table for people follows on standard error.
"""
from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile


def embed(program, model, texts, n, options):
    """{id: vector}"""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as out:
        subprocess.run([program, "-m", model, "-f", texts, "--max-tokens", str(n), "--truncate", "right", "--batch-tokens", str(n),
                        "-o", out.name, *options], check=True, stderr=subprocess.PIPE)
        rows = [json.loads(line) for line in out]
    short = [r["id"] for r in rows if r.get("tokens", n) < n]
    if short:
        raise SystemExit(f"closeness.py: fewer than {n} tokens: {short}")
    return {r["id"]: r["embedding"] for r in rows}


def cosine(a, b):
    dot = lambda x, y: sum(p * q for p, q in zip(x, y))
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("model")
    p.add_argument("texts")
    p.add_argument("-n", default="512,2048,4096")
    p.add_argument("-w", default="1/8,1/4,3/8")
    p.add_argument("--frame", action="append", help="columns, sorted, exact (of the type below); default columns and sorted")
    p.add_argument("--attn-type", default="float", help="of the approximate attention: float, int8")
    p.add_argument("--plan", action="append", help="of the sorted frame: a file of mra-calibrate --plan, or none (default)")
    p.add_argument("-t", default=None, help="threads")
    args = p.parse_args()
    table = []
    threads = ["-t", args.t] if args.t else []
    for n in map(int, args.n.split(",")):
        exact = embed(args.program, args.model, args.texts, n, ["--attn", "exact", "--attn-type", "float", *threads])
        frames = [(f, plan) for f in args.frame or ["columns", "sorted"] for plan in (f == "sorted" and args.plan or ["none"])]
        for frame, plan in frames:
            for w in args.w.split(",") if frame != "exact" else ["1"]:
                got = embed(args.program, args.model, args.texts, n,
                            ["--attn", "mra", "--frame", frame, "--budget", w, "--attn-type", args.attn_type, "--plan", plan, *threads])
                by_text = {i: round(cosine(exact[i], got[i]), 6) for i in exact}
                values = sorted(by_text.values())
                row = {"model": args.model.split("/")[-1], "n": n, "frame": frame, "budget": w, "type": args.attn_type, "plan": plan.split("/")[-1],
                       "texts": len(values), "mean": sum(values) / len(values), "min": values[0], "cosines": by_text}
                print(json.dumps(row), flush=True)
                table.append(row)
    for r in table:
        print(f"{r['model']:24} n {r['n']:6} {r['frame']:8} {r['budget']:>5} {r['type']:6} {r['plan']:12} mean {r['mean']:.5f} min {r['min']:.5f}",
              file=sys.stderr)


if __name__ == "__main__":
    main()
