#!/usr/bin/env python3
"""The same RoBERTa-base-shaped model in PyTorch, llama.cpp and ggml-mra, taking turns on this machine.

    python3 docs/scripts/bench_peers.py build            # or: make bench-peers
    python3 docs/scripts/bench_peers.py build -n 512 --only ours,torch-int8

Everything it needs is put under BUILD/peers: a venv with docs/scripts/peers-requirements.txt, a model with random weights. First all
contenders must compute the same embedding: a cosine to PyTorch's float one below the limit ends the run. Then they take turns,
each in a process that stays alive, so loading is not timed. Writes docs/peers.jsonl, docs/peers.md and docs/peers.svg, or elsewhere with -o.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import random
import select
import statistics
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
DOCS = SCRIPTS.parent
ROOT = DOCS.parent
FIRST_ID = 10  # below are special tokens: RoBERTa in PyTorch does not count padding as a position


class PeerError(Exception):
    pass


@dataclass
class Contender:
    key: str  # kind of worker, see peers_worker.py, or ours
    name: str
    job: dict = field(default_factory=dict)
    limit: float = 0.99  # least cosine to PyTorch's float result
    process: subprocess.Popen | None = None
    seconds: list = field(default_factory=list)
    last: dict = field(default_factory=dict)
    about: str = ""


def contenders(n: int) -> list:
    """In the order of their turns. Ours last, the one to compare with at the end."""
    out = [Contender("torch-fp32", "PyTorch float"), Contender("torch-int8", "PyTorch int8", limit=0.95), Contender("llama", "llama.cpp Q8_0"),
           Contender("ours", "ggml-mra exact, q8_0", {"frame": "exact", "budget": 1})]
    if n > 1024:
        w = 8 if n <= 4096 else 16
        out.append(Contender("ours", f"ggml-mra w = 1/{w}, q8_0", {"frame": "columns", "budget": 1 / w}, limit=0))
    return out


# ---- what is measured -------------------------------------------------------------------------------------------


def run(*command) -> None:
    if subprocess.run([str(c) for c in command]).returncode != 0:
        raise PeerError(f"failed: {' '.join(str(c) for c in command)}")


def prepare_venv(folder: Path) -> Path:
    python = folder / "bin" / "python"
    wanted, stamp = SCRIPTS / "peers-requirements.txt", folder / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print(f"installing docs/scripts/peers-requirements.txt into {folder} (several GB; llama.cpp is compiled)", file=sys.stderr)
        venv.create(folder, with_pip=True)
        run(python, "-m", "pip", "install", "-q", "-r", wanted)
        stamp.write_text(wanted.read_text())
    return python


def prepare_model(python: Path, build: Path, positions: int) -> dict:
    """-> the model for each kind of worker. llama.cpp gets its usual Q8_0 file, without what mra-quantize may add."""
    work = build / "peers"
    hf, f32, q8, llama = (work / f"roberta-{positions}{end}" for end in ("", "-f32.gguf", "-q8_0.gguf", "-llama-q8_0.gguf"))
    if not (hf / "model.safetensors").exists():
        run(python, ROOT / "convert/make_random.py", hf, "--shape", "roberta-base", "--positions", positions)
    for path, type_ in ((f32, "f32"), (llama, "q8_0")):
        if not path.exists():
            run(python, ROOT / "convert/convert_hf.py", hf, "-o", path, "--type", type_, "--no-mlm")
    run(build / "bin/mra-quantize", f32, q8, "q8_0")  # every time: the program may have changed
    return {"torch-fp32": hf, "torch-int8": hf, "llama": llama, "ours": q8}


# ---- workers ----------------------------------------------------------------------------------------------------


def read_answer(c: Contender, seconds: float) -> dict:
    if not select.select([c.process.stdout], [], [], seconds)[0]:
        raise PeerError(f"{c.name}: no answer in {seconds:g} s")
    line = c.process.stdout.readline()
    if not line:
        raise PeerError(f"{c.name}: its process ended with {c.process.wait()}")
    answer = json.loads(line)
    if "error" in answer:
        raise PeerError(f"{c.name}: {answer['error']}")
    return answer


def start(c: Contender, python: Path, build: Path, models: dict, n: int, threads: int, seconds: float) -> None:
    if c.key == "ours":
        command = [build / "bin/mra-bench", "model", "-m", models[c.key], "-t", threads, "--worker"]
    else:
        command = [python, SCRIPTS / "peers_worker.py", c.key, models[c.key], n, threads]
    env = dict(os.environ, HF_HUB_OFFLINE="1", OMP_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="false")
    c.process = subprocess.Popen([str(x) for x in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    c.about = read_answer(c, seconds).get("about", "ggml-mra")


def ask(c: Contender, ids: list, seconds: float) -> float:
    c.process.stdin.write(json.dumps({**c.job, "ids": ids}) + "\n")
    c.process.stdin.flush()
    c.last = read_answer(c, seconds)
    return c.last["seconds"]


def stop(c: Contender) -> None:
    if c.process:
        c.process.kill()
        c.process.wait()


def cosine(a: list, b: list) -> float:
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


# ---- one length -------------------------------------------------------------------------------------------------


def check(group: list) -> dict:
    """Cosines to the first contender, PyTorch's float model; nothing is timed that computes something else."""
    out = {}
    for c in group:
        out[c.name] = cosine(c.last["embedding"], group[0].last["embedding"])
        if not out[c.name] >= c.limit:
            raise PeerError(f"{c.name} computes something else than {group[0].name}: cosine {out[c.name]:.4f}, not {c.limit} or more")
    return out


def warm_up(group: list, ids: list, args) -> None:
    """The first run of each. Counts where it takes so long that there is no second one."""
    for c in group:
        seconds = ask(c, ids, args.max_seconds)
        if seconds >= args.seconds:
            c.seconds.append(seconds)


def take_turns(group: list, ids: list, args) -> None:
    while True:
        waiting = [c for c in group if len(c.seconds) < args.reps and sum(c.seconds) < args.seconds]
        if not waiting:
            return
        for c in waiting:
            c.seconds.append(ask(c, ids, args.max_seconds))


def expected(c: Contender, n: int, rows: list) -> float:
    """Seconds, from the next shorter length; attention grows with the square."""
    known = [r for r in rows if r["contender"] == c.name]
    return known[-1]["seconds"] * (n / known[-1]["n"]) ** 2 if known else 0


def measure(n: int, rows: list, python: Path, build: Path, models: dict, vocab: int, args) -> None:
    group = [c for c in contenders(n) if (not args.only or c.key in args.only) and expected(c, n, rows) <= args.max_seconds]
    rng = random.Random(n)
    ids = [rng.randrange(FIRST_ID, vocab) for _ in range(n)]
    try:
        for c in group:
            print(f"n = {n}: {c.name}", file=sys.stderr)
            start(c, python, build, models, n, args.threads, args.max_seconds)
        warm_up(group, ids, args)
        cosines = check(group) if group and group[0].key == "torch-fp32" else {}
        take_turns(group, ids, args)
    finally:
        for c in group:
            stop(c)
    ours = min((statistics.median(c.seconds) for c in group if c.key == "ours"), default=math.nan)
    for c in group:
        s = statistics.median(c.seconds)
        rows.append({"n": n, "contender": c.name, "seconds": s, "seconds_best": min(c.seconds), "tokens_per_second": n / s, "ratio": s / ours, "reps": len(c.seconds),
                     "peak_mb": c.last["peak_mb"], "cosine": cosines.get(c.name), "about": c.about})


# ---- results ----------------------------------------------------------------------------------------------------


def machine(threads: int) -> dict:
    with open("/proc/cpuinfo") as f:
        info = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in f)}
    flags = info.get("flags", info.get("Features", "")).split()
    known = ["avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"]
    return {"cpu": info.get("model name", info.get("CPU part", "unknown")), "flags": [f for f in known if f in flags], "threads": threads}


def table(m: dict, rows: list) -> str:
    out = ["<!-- written by docs/scripts/bench_peers.py -->", f"{m['cpu']} ({', '.join(m['flags'])}), {m['threads']} threads.", ""]
    out += ["| tokens | | seconds | best | tokens/s | ours is faster by | peak memory | cosine to PyTorch float |", "|---:|---|---:|---:|---:|---:|---:|---:|"]
    for r in rows:
        cos = "" if r["cosine"] is None else f"{r['cosine']:.4f}"
        out.append(f"| {r['n']} | {r['contender']} | {r['seconds']:.3g} | {r['seconds_best']:.3g} | {r['tokens_per_second']:.0f} | {r['ratio']:.2f}x | {r['peak_mb']:.0f} MB | {cos} |")
    versions = sorted({f"{r['contender'].split(',')[0]}: {r['about']}" for r in rows if not r["contender"].startswith("ggml-mra")})
    out += ["", "Seconds: median of the turns, loading left out. Peak memory: of the process, loading and mapped files counted. Ours in the ratio: ggml-mra's fastest row of that length.", ""] + [f"- {v}" for v in versions]
    return "\n".join(out) + "\n"


def write_results(folder: Path, m: dict, rows: list) -> None:
    from plot_peers import draw

    text = table(m, rows)
    print(text)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{**r, **m} for r in rows]
    (folder / "peers.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "peers.md").write_text(text)
    (folder / "peers.svg").write_text(draw(rows) + "\n")


def numbers(text: str) -> list:
    out = [int(x) for x in text.split(",") if x.isdecimal() and 0 < int(x) <= 1 << 17]
    if len(out) != len(text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of lengths")
    return sorted(out)


def main() -> int:
    p = argparse.ArgumentParser(description="PyTorch, llama.cpp and ggml-mra on the same model, taking turns")
    p.add_argument("build", type=Path, help="folder with bin/mra-bench; everything that is needed goes into its folder peers")
    p.add_argument("-n", type=numbers, default=[512, 4096, 16384], metavar="LIST", help="lengths, default 512,4096,16384")
    p.add_argument("-t", "--threads", type=int, default=2, metavar="N", help="of every contender, default 2")
    p.add_argument("--reps", type=int, default=7, metavar="N", help="turns of every contender, default 7")
    p.add_argument("--seconds", type=float, default=20, metavar="S", help="no further turn for one that has run for so long, default 20")
    p.add_argument("--max-seconds", type=float, default=600, metavar="S", help="leave out what would take longer per turn, default 600")
    p.add_argument("--only", type=lambda s: s.split(","), default=[], metavar="LIST", help="of torch-fp32, torch-int8, llama, ours")
    p.add_argument("--python", type=Path, help="a Python that has the requirements already, instead of a venv")
    p.add_argument("-o", "--output", type=Path, default=DOCS, metavar="FOLDER", help="for peers.jsonl, peers.md, peers.svg; default docs")
    args = p.parse_args()
    unknown = set(args.only) - {c.key for c in contenders(1)}
    if unknown or args.threads < 1 or args.reps < 1:
        p.error(f"--only: {', '.join(sorted(unknown))}: not one of torch-fp32, torch-int8, llama, ours" if unknown else "-t and --reps must be positive")
    try:
        build = args.build.resolve()
        if not (build / "bin/mra-bench").exists():
            raise PeerError(f"{args.build}/bin/mra-bench is not there: run make first")
        (build / "peers").mkdir(exist_ok=True)
        python = args.python or prepare_venv(build / "peers/venv")
        models = prepare_model(python, build, max(args.n))
        vocab = json.loads((models["torch-fp32"] / "config.json").read_text())["vocab_size"]
        rows = []
        for n in args.n:
            measure(n, rows, python, build, models, vocab, args)
        write_results(args.output, machine(args.threads), rows)
    except (PeerError, OSError, json.JSONDecodeError) as e:
        print(f"bench_peers.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
