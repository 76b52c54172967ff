#!/usr/bin/env python3
"""What people use now beside ggml-mra, on this machine: how long a text takes, and how close its embedding is to float arithmetic.

    python3 docs/scripts/bench_peers.py build            # or: make bench-peers
    python3 docs/scripts/bench_peers.py build -n 512,4096 --only ours,torch-int8
    python3 docs/scripts/bench_peers.py build --model modernbert-base

Everything it needs is put under BUILD/peers: a venv with docs/scripts/peers-requirements.txt, models, texts. Two parts:

Time: a model of RoBERTa-base's shape with random weights, or of ModernBERT-base's. All contenders of a length must first compute the same
embedding: one whose cosine to PyTorch's float result is below its limit is left out. Then they take turns, each in a process that stays alive,
so loading is not timed.

Closeness: two real models, the embeddings of 30 news articles of 250 to 400 tokens, cosine to PyTorch's float result.

After each part docs/peers.jsonl, docs/peers.md and docs/peers.svg are written (elsewhere with -o). What peers.jsonl already has, from this machine
and the same versions, is not measured again (--fresh: is). A contender that fails is named at the end, with exit code 1; the others are kept.
With --model modernbert-base there is no second part and no figure; the files are peers-modernbert-base.jsonl and .md.
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
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from peers_prepare import REAL, REQUIREMENTS, Model, PeerError, digest, prepare_venv
from peers_table import machine, table

SCRIPTS = Path(__file__).resolve().parent
DOCS = SCRIPTS.parent
FIRST_ID = 10  # below are special tokens: RoBERTa in PyTorch does not count padding as a position


@dataclass
class Contender:
    key: str  # kind of worker, see peers_worker.py; ours-...: mra-bench model --worker
    name: str
    job: dict = field(default_factory=dict)
    limit: float = 0.99  # least cosine to PyTorch's float result, on random weights
    process: subprocess.Popen | None = None
    seconds: list = field(default_factory=list)
    last: dict = field(default_factory=dict)
    about: str = ""


# in the order of their turns
CONTENDERS = [
    Contender("torch-fp32", "PyTorch float"),
    Contender("torch-bf16", "PyTorch bfloat16", limit=0.95),
    Contender("torch-int8", "PyTorch int8", limit=0.95),
    Contender("openvino", "OpenVINO"),
    Contender("openvino-int8", "OpenVINO int8", limit=0.8),
    Contender("onnxruntime-int8", "onnxruntime int8", limit=0.8),
    Contender("llama", "llama.cpp Q8_0"),
    Contender("ours-float", "ggml-mra f16, exact float", {"frame": "exact", "budget": 1, "attn_type": "float"}),
    Contender("ours-int8", "ggml-mra q8_0, exact int8", {"frame": "exact", "budget": 1, "attn_type": "int8"}),
    Contender("ours-sorted", "ggml-mra q8_0, sorted 1/4", {"frame": "sorted", "budget": 0.25, "attn_type": "int8"}, limit=0.9),
]
REFERENCE = CONTENDERS[0].key
KEYS = [c.key for c in CONTENDERS] + ["ours"]
# the timed models: what they are called in the table, lengths, how their files end. The first also has a part of closeness.
MODELS = {"roberta-base": ("RoBERTa-base", [512, 4096], ""), "modernbert-base": ("ModernBERT-base", [512, 4096, 8192], "-modernbert-base")}


# ---- workers ----------------------------------------------------------------------------------------------------


def read_answer(c: Contender, seconds: float) -> dict:
    if not select.select([c.process.stdout], [], [], seconds)[0]:
        raise PeerError(f"no answer in {seconds:g} s")
    line = c.process.stdout.readline()
    if not line:
        raise PeerError(f"its process ended with {c.process.wait()}")
    answer = json.loads(line)
    if "error" in answer:
        raise PeerError(answer["error"])
    return answer


def start(c: Contender, model: Model, n: int, pooling: str, args) -> None:
    path = model.file(c.key)
    if c.key.startswith("ours"):
        c.job = {**c.job, "pooling": pooling}
        command = [model.build / "bin/mra-bench", "model", "-m", path, "-t", args.threads, "--worker"]
    else:
        command = [model.python, SCRIPTS / "peers_worker.py", c.key, path, n, args.threads, pooling]
    env = dict(os.environ, HF_HUB_OFFLINE="1", OMP_NUM_THREADS=str(args.threads), TOKENIZERS_PARALLELISM="false")
    c.process = subprocess.Popen([str(x) for x in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    c.about = read_answer(c, args.max_seconds).get("about", "ggml-mra")


def ask(c: Contender, ids: list, seconds: float) -> float:
    try:
        c.process.stdin.write(json.dumps({**c.job, "ids": ids}) + "\n")
        c.process.stdin.flush()
    except BrokenPipeError:
        pass  # reading says how it ended
    c.last = read_answer(c, seconds)
    return c.last["seconds"]


def stop(c: Contender) -> None:
    if c.process:
        c.process.kill()
        c.process.wait()


def cosine(a: list, b: list) -> float:
    if len(a) != len(b) or any(x is None for x in a):
        return math.nan
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


# ---- results ----------------------------------------------------------------------------------------------------


class Results:
    """The rows of peers.jsonl: one per contender and length, or contender and real model. Written after each part."""

    def __init__(self, args, build: Path):
        self.shape, _, suffix = MODELS[args.model]
        self.path = args.output / f"peers{suffix}.jsonl"
        self.machine, self.failed, self.figure = machine(args.threads), [], not suffix
        self.stamps = {"ours": digest(build / "bin/mra-bench")}
        old = [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() and not args.fresh else []
        self.rows = [r for r in old if r.get("stamp") == self.stamp(r.get("key", "")) and all(r.get(k) == v for k, v in self.machine.items())]

    def stamp(self, key: str) -> str:
        """what a row was measured with: our program, or the versions of the others"""
        return self.stamps["ours"] if key.startswith("ours") else digest(REQUIREMENTS)

    def has(self, c: Contender, part) -> bool:
        return any(r["key"] == c.key and part in (r.get("n"), r.get("model")) for r in self.rows)

    def add(self, c: Contender, row: dict) -> None:
        self.rows.append({"key": c.key, "contender": c.name, **row, "about": c.about, "stamp": self.stamp(c.key), **self.machine})

    def fail(self, c: Contender, where: str, why: Exception) -> None:
        stop(c)
        self.failed.append(f"{c.name}, {where}: {why}")
        print(f"bench_peers.py: left out: {self.failed[-1]}", file=sys.stderr)

    def table(self) -> str:
        return table(self.machine, self.rows, self.shape)

    def write(self) -> None:
        from plot_peers import draw

        order = [c.key for c in CONTENDERS]
        self.rows.sort(key=lambda r: (r.get("n") or math.inf, r.get("model", ""), order.index(r["key"])))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(json.dumps(r) + "\n" for r in self.rows))
        self.path.with_suffix(".md").write_text(self.table())
        if self.figure:
            self.path.with_suffix(".svg").write_text(draw(self.rows) + "\n")


def reference(model: Model, lists: list, name: str, pooling: str, args) -> list:
    """Embeddings of the reference, computed once: whoever is measured later is compared with the same."""
    path = model.folder / f"reference-{name}.json"
    wanted = {"ids": lists, "with": digest(REQUIREMENTS)}
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["of"] == wanted:
            return kept["embeddings"]
    c = replace(CONTENDERS[0])
    out = []
    try:
        start(c, model, max(map(len, lists)), pooling, args)
        for ids in lists:
            ask(c, ids, args.max_seconds)
            out.append(c.last["embedding"])
    except (PeerError, OSError) as e:
        raise PeerError(f"{c.name}, which all are compared with: {e}") from e
    finally:
        stop(c)
    path.write_text(json.dumps({"of": wanted, "embeddings": out}))
    return out


# ---- time -------------------------------------------------------------------------------------------------------


def each(group: list, where: str, results: Results, step) -> list:
    """step(c) for all; those that fail are left out of what is returned."""
    left = []
    for c in group:
        try:
            step(c)
            left.append(c)
        except (PeerError, OSError, json.JSONDecodeError) as e:
            results.fail(c, where, e)
    return left


def first_run(c: Contender, ids: list, right: list, args) -> None:
    """Nothing is timed that computes something else. Counts where it takes so long that there is no second run."""
    seconds = ask(c, ids, args.max_seconds)
    got = cosine(c.last["embedding"], right)
    if not got >= c.limit:
        raise PeerError(f"computes something else than {CONTENDERS[0].name}: cosine {got:.4f}, not {c.limit} or more")
    if seconds >= args.seconds:
        c.seconds.append(seconds)


def take_turns(group: list, ids: list, where: str, results: Results, args) -> list:
    while waiting := [c for c in group if len(c.seconds) < args.reps and sum(c.seconds) < args.seconds]:
        ran = each(waiting, where, results, lambda c: c.seconds.append(ask(c, ids, args.max_seconds)))
        group = [c for c in group if c not in waiting or c in ran]
    return group


def expected(c: Contender, n: int, rows: list) -> float:
    """Seconds, from the next shorter length; attention grows with the square."""
    known = [r for r in rows if r["key"] == c.key and r.get("n", n) < n]
    return known[-1]["seconds"] * (n / known[-1]["n"]) ** 2 if known else 0


def measure_time(n: int, model: Model, wanted: list, results: Results, args) -> None:
    todo = [replace(c, seconds=[]) for c in wanted if not results.has(c, n) and expected(c, n, results.rows) <= args.max_seconds]
    if not todo:
        return
    rng, vocab, where = random.Random(n), model.config("vocab_size"), f"{n} tokens"
    ids = [rng.randrange(FIRST_ID, vocab) for _ in range(n)]
    right = reference(model, [ids], f"{n}", "mean", args)[0]
    try:
        group = each(todo, where, results, lambda c: (print(f"{where}: {c.name}", file=sys.stderr), start(c, model, n, "mean", args)))
        group = each(group, where, results, lambda c: first_run(c, ids, right, args))
        group = take_turns(group, ids, where, results, args)
    finally:
        for c in todo:
            stop(c)
    at = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {os.getpid()}"  # names this run
    for c in group:
        s = statistics.median(c.seconds)
        results.add(c, {"n": n, "seconds": s, "seconds_best": min(c.seconds), "tokens_per_second": n / s, "reps": len(c.seconds),
                        "peak_mb": c.last["peak_mb"], "cosine": cosine(c.last["embedding"], right), "run": at})
    results.write()


# ---- closeness --------------------------------------------------------------------------------------------------


def measure_closeness(model: Model, wanted: list, results: Results, args) -> None:
    todo = [replace(c) for c in wanted if not results.has(c, model.name)]
    if not todo:
        return
    lists, pooling = json.loads(model.tokens().read_text())["measured"], model.pooling()
    right = reference(model, lists, "texts", pooling, args)

    def compare(c):
        print(f"{model.name}: {c.name}", file=sys.stderr)
        start(c, model, max(map(len, lists)), pooling, args)
        cosines = []
        for ids, embedding in zip(lists, right):
            ask(c, ids, args.max_seconds)
            cosines.append(cosine(c.last["embedding"], embedding))
        stop(c)
        if not min(cosines) > 0:
            raise PeerError(f"smallest cosine {min(cosines)}")
        results.add(c, {"model": model.name, "texts": len(lists), "cosine_mean": statistics.fmean(cosines), "cosine_min": min(cosines)})
        results.write()

    each(todo, model.name, results, compare)


# ---- command line -----------------------------------------------------------------------------------------------


def numbers(text: str) -> list:
    out = [int(x) for x in text.split(",") if x.isdecimal() and 0 < int(x) <= 1 << 17]
    if len(out) != len(text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of lengths")
    return sorted(out)


def names(text: str) -> list:
    unknown = set(text.split(",")) - set(KEYS)
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(KEYS)}")
    return text.split(",")


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", type=Path, help="folder with bin/mra-bench; everything that is needed goes into its folder peers")
    p.add_argument("--model", choices=MODELS, default="roberta-base", help="what is timed, with random weights; default roberta-base")
    p.add_argument("-n", type=numbers, metavar="LIST", help="lengths, default 512,4096; of modernbert-base also 8192")
    p.add_argument("-t", "--threads", type=int, default=2, metavar="N", help="of every contender, default 2")
    p.add_argument("--reps", type=int, default=7, metavar="N", help="turns of every contender, default 7")
    p.add_argument("--seconds", type=float, default=20, metavar="S", help="no further turn for one that has run for so long, default 20")
    p.add_argument("--max-seconds", type=float, default=600, metavar="S", help="leave out what would take longer per turn, default 600")
    p.add_argument("--only", type=names, default=[], metavar="LIST", help=f"of {', '.join(KEYS)} (all of ours)")
    p.add_argument("--skip", type=names, default=[], metavar="LIST", help="all but these")
    p.add_argument("--part", choices=("time", "closeness"), help="only this part")
    p.add_argument("--fresh", action="store_true", help="measure everything again")
    p.add_argument("--python", type=Path, help="a Python that has the requirements already, instead of a venv")
    p.add_argument("-o", "--output", type=Path, default=DOCS, metavar="FOLDER", help="for the files it writes; default docs")
    args = p.parse_args()
    if args.threads < 1 or args.reps < 1:
        p.error("-t and --reps must be positive")
    args.n = args.n or MODELS[args.model][1]
    return args


def chosen(args) -> list:
    def named(c, keys):
        return c.key in keys or c.key.startswith("ours") and "ours" in keys

    return [c for c in CONTENDERS if (not args.only or named(c, args.only)) and not named(c, args.skip)]


def main() -> int:
    args = parse()
    try:
        build = args.build.resolve()
        if not (build / "bin/mra-bench").exists():
            raise PeerError(f"{args.build}/bin/mra-bench is not there: run make first")
        (build / "peers").mkdir(exist_ok=True)
        python, wanted = args.python or prepare_venv(build / "peers/venv"), chosen(args)
        results = Results(args, build)
        if args.part != "time" and results.figure:
            for name in REAL:
                measure_closeness(Model(name, build, python, 0), wanted, results, args)
        if args.part != "closeness":
            model = Model(args.model, build, python, max(args.n + MODELS[args.model][1]))  # the same files for shorter lengths
            for n in args.n:
                measure_time(n, model, wanted, results, args)
        print(results.table())
    except (PeerError, OSError, json.JSONDecodeError) as e:
        print(f"bench_peers.py: {e}", file=sys.stderr)
        return 1
    for line in results.failed:
        print(f"bench_peers.py: left out: {line}", file=sys.stderr)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
