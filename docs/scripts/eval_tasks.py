#!/usr/bin/env python3
"""What approximate attention and quantized weights cost on a task: retrieval with two real models.

    make eval                                            # or: build/venv/bin/python docs/scripts/eval_tasks.py build
    make eval EVAL="--models granite --tasks boolq"      # less of it
    make eval EVAL="--boolq 500 --xsum 300 --cross"      # longer: more texts, every attention with every type of weights

Fetches models and texts once (eval_data.py), embeds with mra-embed, measures (eval_metrics.py). Queries are always embedded by exact
attention in floats, with the same weights as the documents: they are short. Vectors are kept under BUILD/eval, setting by setting, so that an
interrupted run goes on where it was; delete that folder to begin again, such as with changed programs. --stored computes nothing and
reports what is there. Writes docs/eval-tasks.jsonl, the tables of docs/evaluation.md and docs/eval-tasks.svg, or into another folder with -o.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import eval_data
import eval_metrics

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parents[1]
MODELS = {"MiniLM": ("fetch_minilm.py", "all-MiniLM-L6-v2"), "granite": ("fetch_granite.py", "granite-embedding-30m-english")}
WEIGHTS = ["f16", "q8_0", "q4_k"]
BUDGETS = ["1/8", "1/4", "3/8"]
EXACT = "exact float"
BOTH_WAYS = [EXACT, "exact int8", "sorted 1/4"]  # with every type of weights; the others with f16 alone, unless --cross
REFERENCE = ("f32", EXACT)
MARKS = ("<!-- tables of eval_tasks.py -->", "<!-- end of the tables of eval_tasks.py -->")


class EvalError(Exception):
    pass


class NotStored(EvalError):
    pass


def attentions() -> dict:
    """name -> options of mra-embed"""
    out = {f"exact {kind}": ["--attn", "exact", "--attn-type", kind] for kind in ("float", "int8")}
    for frame in ("columns", "sorted", "mra2"):
        for w in BUDGETS:
            out[f"{frame} {w}"] = ["--attn", "mra", "--frame", frame, "--budget", w, "--attn-type", "float"]
    return out


def settings(cross: bool) -> list:
    """(weights, attention), the reference first"""
    names = list(attentions())
    return [REFERENCE] + [(w, a) for w in WEIGHTS for a in names if cross or w == "f16" or a in BOTH_WAYS]


def run(*command) -> None:
    if subprocess.run([str(c) for c in command], stdout=subprocess.DEVNULL).returncode:
        raise EvalError(f"failed: {' '.join(str(c) for c in command)}")


def prepare_model(build: Path, name: str) -> dict:
    """weights -> GGUF file with 4096 positions; models are where make demo keeps them"""
    program, folder = MODELS[name]
    hf, work = build / "demo" / folder, build / "eval" / name
    work.mkdir(parents=True, exist_ok=True)
    files = {w: work / f"{name}-4096-{w}.gguf" for w in ["f32", *WEIGHTS]}
    if not files["f32"].exists():
        if not (hf / "model.safetensors").exists():
            run(sys.executable, ROOT / "convert" / program, hf)
        run(sys.executable, ROOT / "convert/convert_hf.py", hf, "-o", files["f32"], "--type", "f32", "--extend-positions", 4096)
    for w in WEIGHTS:
        if not files[w].exists():
            run(build / "bin/mra-quantize", "--quiet", files["f32"], files[w], w)
    return files


def embed(program: list | None, model: Path, texts: list, max_tokens: int, options: list, target: Path) -> np.ndarray:
    """[texts][width], kept in target; goes on with what an interrupted run left beside it. Without a program: only what is there."""
    if target.exists():
        return np.load(target)
    if not program:
        raise NotStored(f"{target} is not there")
    target.parent.mkdir(parents=True, exist_ok=True)
    source, part = target.with_suffix(".texts.jsonl"), target.with_suffix(".part.jsonl")
    source.write_text("".join(json.dumps({"id": str(i), "text": t}) + "\n" for i, t in enumerate(texts)))
    run(*program, "-m", model, "-f", source, "--max-tokens", max_tokens, "--truncate", "right", "--resume", part, *options)
    rows = [json.loads(line) for line in part.read_text().splitlines()]
    if [r["id"] for r in rows] != [str(i) for i in range(len(texts))]:
        raise EvalError(f"{part}: not one row per text")
    vectors = np.array([r["embedding"] for r in rows], np.float32)
    with open(target.with_suffix(".npy.part"), "wb") as f:
        np.save(f, vectors)
    target.with_suffix(".npy.part").replace(target)
    for path in (source, part, Path(f"{part}.resume")):
        path.unlink(missing_ok=True)
    return vectors


def measure_setting(program: list | None, files: dict, task, weights: str, attention: str, at: Path) -> np.ndarray:
    """cosines [queries][documents]"""
    options = attentions()
    queries = embed(program, files[weights], task.queries, min(512, task.max_tokens), options[EXACT], at / f"{weights}-queries.npy")
    name = f"{weights}-{attention}".replace(" ", "-").replace("/", "_")
    documents = embed(program, files[weights], task.documents, task.max_tokens, options[attention], at / f"{name}.npy")
    return eval_metrics.scores(queries, documents)


def measure_task(program: list | None, model: str, files: dict, task, cross: bool, folder: Path) -> list:
    rows, reference = [], None
    for weights, attention in settings(cross):
        if program:
            print(f"{model}, {task.name}: {weights}, {attention}", file=sys.stderr, flush=True)
        try:
            scores = measure_setting(program, files, task, weights, attention, folder / model / task.name)
        except NotStored:
            if reference is None:
                return []  # nothing to compare with
            continue
        reference = scores if reference is None else reference
        rows.append({"model": model, "task": task.name, "weights": weights, "attention": attention, "queries": len(scores),
                     **eval_metrics.measure(scores, reference)})
    return rows


# ---- results ----


def number(x: float, sign: str = "") -> str:
    return f"{x:{sign}.3f}".replace("0.", ".", 1)


def cell(values: list, sign: str = "") -> str:
    return f"{number(values[0], sign)} [{number(values[1], sign)}, {number(values[2], sign)}]"


def table(rows: list) -> str:
    """of one model and task"""
    out = [f"**{rows[0]['model']}, {rows[0]['task']}** ({rows[0]['queries']} queries)", "",
           "| weights | attention | accuracy@1 | nDCG@10 | nDCG@10 less that of f32 exact | same ten |", "|---|---|---|---|---|---|"]
    for r in rows:
        out.append(f"| {r['weights']} | {r['attention']} | {cell(r['accuracy'])} | {cell(r['ndcg'])} | {cell(r['change'], '+')} | {cell(r['same_ten'])} |")
    return "\n".join(out) + "\n"


def put_tables(page: Path, text: str) -> None:
    """between the marks of the page"""
    old = page.read_text()
    before, mark, rest = old.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not mark or not end:
        raise EvalError(f"{page} has no place for the tables: {MARKS[0]} ... {MARKS[1]}")
    page.write_text(f"{before}{MARKS[0]}\n\n{text}\n{MARKS[1]}{after}")


def write_results(folder: Path, rows: list) -> None:
    import plot_eval

    groups: dict = {}
    for r in rows:
        groups.setdefault((r["model"], r["task"]), []).append(r)
    text = "\n".join(table(group) for group in groups.values())
    print(text)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "eval-tasks.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "eval-tasks.svg").write_text(plot_eval.draw(rows) + "\n")
    page = folder / "evaluation.md"
    if not page.exists():
        page.write_text("\n".join(MARKS) + "\n")
    put_tables(page, text)


def main() -> int:
    p = argparse.ArgumentParser(description="retrieval with approximate attention and quantized weights")
    p.add_argument("build", type=Path, help="folder with bin/mra-embed; what is needed goes into its folder eval")
    p.add_argument("--models", type=lambda s: s.split(","), default=list(MODELS), metavar="LIST", help="of " + ", ".join(MODELS))
    p.add_argument("--tasks", type=lambda s: s.split(","), default=[], metavar="LIST", help="beginnings of names: boolq, xsum; default all")
    p.add_argument("--boolq", type=int, default=300, metavar="N", help="passages of BoolQ, the longest (default 300)")
    p.add_argument("--xsum", type=int, default=100, metavar="N", help="documents of XSum, the longest (default 100)")
    p.add_argument("-t", "--threads", type=int, metavar="N", help="threads (default: all CPUs); results do not depend on it")
    p.add_argument("--cross", action="store_true", help="every attention with every type of weights")
    p.add_argument("--stored", action="store_true", help="compute nothing, report what is stored")
    p.add_argument("--quick", type=Path, metavar="MODEL", help="a test: this GGUF file and made-up texts with known answers, nothing fetched")
    p.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="for the results, default docs")
    args = p.parse_args()
    unknown = set(args.models) - set(MODELS)
    if unknown or args.boolq < 11 or args.xsum < 11 or (args.quick and not args.output):
        p.error(f"--models: {', '.join(sorted(unknown))}: not known" if unknown else "--quick needs -o" if args.quick else "at least 11 texts")
    try:
        build = args.build.resolve()
        program = [build / "bin/mra-embed", *(["-t", args.threads] if args.threads else [])]
        if not program[0].exists():
            raise EvalError(f"{args.build}/bin/mra-embed is not there: run make first")
        rows, folder = [], (args.output if args.quick else build / "eval") / "vectors"
        tasks = eval_data.made_up() if args.quick else eval_data.load(build / "eval", args.boolq, args.xsum)
        for model in ["quick"] if args.quick else args.models:
            files = dict.fromkeys(["f32", *WEIGHTS], args.quick) if args.quick else prepare_model(build, model)
            for task in tasks:
                if not args.tasks or any(task.name.startswith(t) for t in args.tasks):
                    rows += measure_task(None if args.stored else program, model, files, task, args.cross, folder)
        if not rows:
            raise EvalError("nothing is stored")
        write_results(args.output or SCRIPTS.parent, rows)
    except (EvalError, eval_data.wheel.FetchError, OSError, ValueError) as e:
        print(f"eval_tasks.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
