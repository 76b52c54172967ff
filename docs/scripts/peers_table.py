"""docs/peers.md from the rows of bench_peers.py, and what machine they are from."""
from __future__ import annotations

import math


def machine(threads: int) -> dict:
    with open("/proc/cpuinfo") as f:
        info = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in f)}
    flags = info.get("flags", info.get("Features", "")).split()
    known = ["avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"]
    return {"cpu": info.get("model name", info.get("CPU part", "unknown")), "flags": [f for f in known if f in flags], "threads": threads}


def closeness(x: float) -> str:
    """a cosine with as many digits as tell it from 1, at most six"""
    digits = min(6, max(4, math.ceil(-math.log10(max(1 - x, 1e-9))) + 1))
    return f"{min(x, 1):.{digits}f}"


def pair(row: dict | None) -> str:
    return f"{closeness(row['cosine_mean'])} {closeness(row['cosine_min'])}" if row else ""


def table(m: dict, rows: list, shape: str) -> str:
    """One line per contender: its time at every length, and how close it is on every real model."""
    names = list(dict.fromkeys(r["contender"] for r in rows))
    ns, models = sorted({r["n"] for r in rows if "n" in r}), sorted({r["model"] for r in rows if "model" in r})
    at = {(r["contender"], r.get("n") or r["model"]): r for r in rows}
    ours = {n: min((r["seconds"] for r in rows if r.get("n") == n and r["key"] == "ours-int8"), default=math.nan) for n in ns}
    runs = {n: next((r["run"] for r in rows if r.get("n") == n and r["key"] == "ours-int8"), None) for n in ns}
    out = ["<!-- written by docs/scripts/bench_peers.py -->", f"{m['cpu']} ({', '.join(m['flags'])}), {m['threads']} threads.", ""]
    out.append("| |" + "".join(f" {n} tokens: s | against exact int8 | MB |" for n in ns) + "".join(f" {x}: cosine, mean and smallest |" for x in models))
    out.append("|---|" + "---:|---:|---:|" * len(ns) + "---:|" * len(models))
    other_run = False
    for name in names:
        cells = []
        for n in ns:
            r = at.get((name, n))
            if not r:
                cells += ["", "", ""]
                continue
            mark = "*" if r["run"] != runs[n] and runs[n] else ""
            other_run = other_run or bool(mark)
            cells += [f"{r['seconds']:.3g}{mark}", "" if math.isnan(ours[n]) else f"{r['seconds'] / ours[n]:.2f}x", f"{r['peak_mb']:.0f}"]
        out.append(f"| {name} | " + " | ".join(cells + [pair(at.get((name, x))) for x in models]) + " |")
    out += ["", *notes(shape, ns, models, other_run), ""]
    out += sorted({f"- {r['contender']}: {r['about']}" for r in rows if not r["key"].startswith("ours")})
    return "\n".join(out) + "\n"


def notes(shape: str, ns: list, models: list, other_run: bool) -> list:
    out = []
    if ns:
        out += [f"Time: one text through a model of {shape}'s shape with random weights, the same for all. Seconds: median of the turns, loading left out.",
                "Against exact int8: by how much our `q8_0, exact int8` is faster. MB: peak memory of the process, loading and mapped files counted."]
    if other_run:
        out.append("\\*: from another run than ours of that length, so not in turn with it.")
    if models:
        out += ["Cosine: of embeddings to those of PyTorch in float, mean and smallest over 30 news articles of 250 to 400 tokens. granite's weights, as they can be had,",
                "lie on a grid of 8-bit integers, which flatters all 8-bit weights; MiniLM's do not. `sorted` gets closer with length: attention.md has it at 4096 tokens.",
                "OpenVINO int8: NNCF's post-training quantization, calibrated with 40 other articles; onnxruntime int8 and PyTorch int8: dynamic quantization."]
    return out
