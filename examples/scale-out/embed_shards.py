#!/usr/bin/env python3
"""Embeddings of many documents: each input shard (Parquet or JSON Lines) becomes one Parquet file.

    embed_shards.py IN/ OUT/ -m model.gguf                    all shards, one after the other
    embed_shards.py IN/ OUT/ -m model.gguf --ray auto         on a Ray cluster; "local": on this machine
    embed_shards.py IN/ OUT/ -m model.gguf --shard 3/100      every hundredth shard: a Slurm array, GNU parallel

The name of an output file is made of the input's path and size, the model's hash and the options, and the file appears under that name
when it is whole and on disk. So a file that is there is done: a job may be started again, or twice, or lose machines. Each row of a
shard becomes one row (row, id, vector, error): one that fails has no vector and says why. The work is done by mra-embed in a process of
its own. Exit status: 0 all good, 1 failed, 2 wrong usage, 3 some rows or shards failed.
"""
from __future__ import annotations

import argparse
import glob
import gzip
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

ENDINGS = (".parquet", ".jsonl", ".jsonl.gz")
ROWS = 4096  # read and written at a time


class ShardError(Exception):
    pass


@dataclass(frozen=True)
class Job:
    """All that says what is computed and where; the same for every shard."""

    source: str
    target: str
    model: str
    model_hash: str
    program: str
    options: tuple  # of mra-embed, as they change results
    text: str
    id: str
    width: int
    threads: int

    def output(self, shard: str) -> Path:
        path = Path(self.source) / shard
        said = [shard, path.stat().st_size, self.model_hash, list(self.options), self.text, self.id]
        end = next(e for e in ENDINGS if shard.endswith(e))
        name = shard[:-len(end)].replace("/", "_")
        return Path(self.target) / f"{name}-{hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]}.parquet"


def find_shards(source: Path) -> list[str]:
    found = sorted(str(p.relative_to(source)) for p in source.rglob("*") if p.name.endswith(ENDINGS) and p.is_file())
    if not found:
        raise ShardError(f"{source}: no {', '.join(ENDINGS)} files")
    return found


# ---- rows of a shard ---------------------------------------------------------------------------------------------


@dataclass
class Row:
    id: object
    text: str | None
    error: str | None = None


def read_rows(path: Path, text: str, id_: str) -> Iterator[Row]:
    if path.name.endswith(".parquet"):
        file = pq.ParquetFile(path)
        if text not in file.schema_arrow.names:
            raise ShardError(f"{path}: no column {text}; it has {', '.join(file.schema_arrow.names)}")
        columns = [text] + ([id_] if id_ in file.schema_arrow.names else [])
        for batch in file.iter_batches(ROWS, columns=columns):
            ids = batch.column(id_).to_pylist() if len(columns) > 1 else [None] * len(batch)
            for value, name in zip(batch.column(text).to_pylist(), ids):
                yield _row(name, value)
        return
    with (gzip.open(path, "rb") if path.name.endswith(".gz") else open(path, "rb")) as f:
        for line in f:
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as e:  # also what is not UTF-8
                yield Row(None, None, f"not JSON: {e}")
                continue
            yield _row(value.get(id_), value.get(text)) if isinstance(value, dict) else Row(None, None, "not a JSON object")


def _row(name: object, text: object) -> Row:
    if not isinstance(text, str):
        return Row(name, None, "no text" if text is None else f"the text is {type(text).__name__}, not a string")
    try:
        text.encode()
    except UnicodeEncodeError:
        return Row(name, None, "the text has half a surrogate pair")
    return Row(name, text)


# ---- mra-embed over pipes ----------------------------------------------------------------------------------------


class Worker:
    """Texts into mra-embed, vectors out, in their order. Memory is bounded by the pipes and what mra-embed reads ahead."""

    def __init__(self, job: Job):
        self.width, self.errors, self.said = job.width, {}, deque(maxlen=5)
        command = [job.program, "-m", job.model, "--input", "jsonl", "--format", "raw", *job.options]
        if job.threads:
            command += ["-t", str(job.threads)]
        self.process = subprocess.Popen([*command, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        for line in self.process.stderr:
            said = line.decode("utf-8", "replace").rstrip("\n")
            found = re.match(r"mra-embed: line \d+ \(id (\d+)\): (.*)", said)
            if found:
                self.errors[int(found.group(1))] = found.group(2)
            else:
                self.said.append(said)

    def send(self, number: int, text: str) -> None:
        self.process.stdin.write(json.dumps({"id": number, "text": text}).encode() + b"\n")

    def close(self) -> None:
        self.process.stdin.close()

    def vector(self) -> bytes:
        data = self.process.stdout.read(4 * self.width)
        if len(data) != 4 * self.width:
            raise ShardError(f"mra-embed ended early: {self.end()}")
        return data

    def end(self) -> str:
        code = self.process.wait()
        self.listener.join()
        return f"exit code {code}; {' '.join(self.said)}"

    def finish(self) -> None:
        rest = self.process.stdout.read()
        said = self.end()
        if rest or self.process.returncode not in (0, 3):
            raise ShardError(f"mra-embed: {len(rest)} bytes too many, {said}")

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except OSError:  # what was not written any more
                pass


def embed_rows(job: Job, path: Path) -> Iterator[tuple[int, Row, bytes | None]]:
    """(number, row, vector or None) of every row, in order."""
    worker, waiting, failed = Worker(job), deque(), []
    ready = threading.Semaphore(0)

    def feed() -> None:
        try:
            for number, row in enumerate(read_rows(path, job.text, job.id)):
                if row.error is None:
                    worker.send(number, row.text)
                    row.text = None
                waiting.append((number, row))
                ready.release()
            worker.close()
        except BaseException as e:  # told to the thread that reads
            failed.append(e)
        waiting.append(None)
        ready.release()

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        while True:
            ready.acquire()
            item = waiting.popleft()
            if item is None:
                break
            yield (*item, worker.vector() if item[1].error is None else None)
        if failed:
            raise failed[0]
        worker.finish()
        yield -1, Row(None, None), json.dumps(worker.errors).encode()  # known for sure only now
    finally:
        worker.kill()
        feeder.join()


# ---- one shard -> one file ---------------------------------------------------------------------------------------


def sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def embed_shard(job: Job, shard: str) -> dict:
    """Makes the shard's output, unless it is there. Any number may run at the same time, also of the same shard."""
    out = job.output(shard)
    if out.exists():
        return {"shard": shard, "output": out.name, "computed": False}
    numbers, ids, vectors, errors = [], [], [], []
    said: dict = {}
    for number, row, vector in embed_rows(job, Path(job.source) / shard):
        if number < 0:
            said = json.loads(vector)
            break
        numbers.append(number)
        ids.append(row.id)
        errors.append(row.error)
        vectors.append(vector)
    for i, vector in enumerate(vectors):  # a record that failed is a row of nan
        if vector is not None and vector == vector[:4] * job.width and (int.from_bytes(vector[:4], "little") & 0x7FFFFFFF) > 0x7F800000:
            vectors[i], errors[i] = None, said.get(str(numbers[i]), "failed")
    table = make_table(job, numbers, ids, vectors, errors)
    counts = {"rows": len(numbers), "failed": sum(e is not None for e in errors)}
    about = {"input": shard, "model": job.model_hash, "options": shlex.join(job.options), **counts}
    table = table.replace_schema_metadata({f"mra.{k}": str(v) for k, v in about.items()})
    write_whole(table, out)
    return {"shard": shard, "output": out.name, "computed": True, **counts}


def make_table(job: Job, numbers: list, ids: list, vectors: list, errors: list) -> pa.Table:
    # lists of any length: of fixed ones, readers of Parquet do not agree on what a missing one is
    values = pa.array(memoryview(b"".join(v or b"" for v in vectors)).cast("f") if any(vectors) else [], pa.float32())
    ends = itertools.accumulate((job.width if v else 0 for v in vectors), initial=0)
    rows = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values, mask=pa.array([v is None for v in vectors], pa.bool_()))
    try:
        names = pa.array(ids)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # of several types
        names = pa.array([None if i is None else str(i) for i in ids], pa.string())
    return pa.table({"row": pa.array(numbers, pa.int64()), "id": names, "vector": rows, "error": pa.array(errors, pa.string())})


def write_whole(table: pa.Table, out: Path) -> None:
    temporary = out.with_name(f".{out.name}.{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        pq.write_table(table, temporary, row_group_size=ROWS * 4)
        with open(temporary, "rb+") as f:
            os.fsync(f.fileno())
        os.replace(temporary, out)
        sync_folder(out.parent)
    finally:
        temporary.unlink(missing_ok=True)


# ---- many shards -------------------------------------------------------------------------------------------------


class Progress:
    def __init__(self, n: int):
        self.n, self.done, self.failed, self.rows, self.bad, self.start = n, 0, 0, 0, 0, time.monotonic()

    def add(self, result: dict) -> None:
        self.done += 1
        self.rows += result.get("rows", 0)
        self.bad += result.get("failed", 0)
        if "error" in result:
            self.failed += 1
            print(f"\nembed_shards: {result['shard']}: {result['error']}", file=sys.stderr)
        seconds = time.monotonic() - self.start
        print(f"\rembed_shards: {self.done} of {self.n} shards, {self.rows} rows, {self.rows / max(seconds, 1e-9):.0f} rows/s", end="",
              file=sys.stderr, flush=True)


def run_here(job: Job, shards: list[str], progress: Progress) -> None:
    for shard in shards:
        try:
            progress.add(embed_shard(job, shard))
        except (ShardError, OSError, pa.ArrowException) as e:
            progress.add({"shard": shard, "error": f"{type(e).__name__}: {e}"})


def run_ray(job: Job, shards: list[str], progress: Progress, address: str, retries: int = 5) -> None:
    """A Ray task per shard. A worker or a node that dies costs the shards it had in hand: they are started again elsewhere."""
    import ray

    if not ray.is_initialized():
        ray.init(address=None if address == "local" else address, log_to_driver=False)
    if __name__ != "__main__":
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find this file
    task = ray.remote(max_retries=retries, retry_exceptions=True, num_cpus=max(job.threads, 1))(embed_shard)
    most = 4 * int(ray.cluster_resources().get("CPU", 1)) + 4  # submitted at a time
    todo, flying = deque(shards), {}
    while todo or flying:
        while todo and len(flying) < most:
            shard = todo.popleft()
            flying[task.remote(job, shard)] = shard
        ready, _ = ray.wait(list(flying), num_returns=1)
        shard = flying.pop(ready[0])
        try:
            progress.add(ray.get(ready[0]))
        except Exception as e:  # what was retried in vain; the others go on
            progress.add({"shard": shard, "error": f"{type(e).__name__}: {str(e).strip().splitlines()[-1] if str(e) else ''}"})


def write_manifest(job: Job, shards: list[str]) -> dict:
    """manifest.json: every shard with its output, rows and failed rows, from the files themselves."""
    entries = []
    for shard in shards:
        out = job.output(shard)
        entry = {"input": shard, "output": out.name if out.exists() else None}
        if out.exists():
            meta = pq.read_schema(out).metadata
            entry.update(rows=int(meta[b"mra.rows"]), failed=int(meta[b"mra.failed"]))
            for litter in glob.glob(glob.escape(str(out.parent / f".{out.name}.")) + "*.tmp"):  # of workers that died
                if time.time() - os.path.getmtime(litter) > 3600:
                    Path(litter).unlink(missing_ok=True)
        entries.append(entry)
    manifest = {**asdict(job), "done": sum(e["output"] is not None for e in entries), "shards": len(entries),
                "rows": sum(e.get("rows", 0) for e in entries), "failed": sum(e.get("failed", 0) for e in entries), "files": entries}
    temporary = Path(job.target) / f".manifest.json.{socket.gethostname()}-{os.getpid()}.tmp"
    temporary.write_text(json.dumps(manifest, indent=1) + "\n")
    os.replace(temporary, Path(job.target) / "manifest.json")
    return manifest


# ---- the command line --------------------------------------------------------------------------------------------


def make_job(source: str, target: str, model: str, program: str, options: list[str], text: str = "text", id_: str = "id",
             threads: int = 0) -> Job:
    for option in options:
        if option.split("=")[0] in ("-m", "-f", "-o", "--model", "--file", "--output", "--format", "--input", "--resume", "--similarity", "--json"):
            raise ShardError(f"--options: {option} is set by embed_shards")
    if "chunk" in " ".join(options):
        raise ShardError("--options: --truncate chunk gives several vectors for a row")
    found = shutil.which(program)
    if not found:
        raise ShardError(f"no program {program}: --mra-embed PATH")
    probe = subprocess.run([found, "-m", model, "--format", "raw", *options, "a"], capture_output=True)
    if probe.returncode or not probe.stdout:
        raise ShardError(probe.stderr.decode("utf-8", "replace").strip())
    with open(model, "rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(f.read()).hexdigest()
    Path(target).mkdir(parents=True, exist_ok=True)
    return Job(str(Path(source).resolve()), str(Path(target).resolve()), str(Path(model).resolve()), digest, str(Path(found).resolve()),
               tuple(options), text, id_, len(probe.stdout) // 4, threads)


def part_of(shards: list[str], said: str) -> list[str]:
    try:
        i, n = (int(x) for x in said.split("/"))
    except ValueError:
        i, n = 0, 0
    if not 1 <= i <= n:
        raise ShardError(f"--shard {said}: I/N with I from 1 to N")
    return shards[i - 1::n]


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source", metavar="IN", help="folder with shards, also in folders of it; or one file")
    p.add_argument("target", metavar="OUT")
    p.add_argument("-m", "--model", required=True, metavar="FILE")
    p.add_argument("--text", default="text", metavar="COLUMN", help="column or key of the text (default text)")
    p.add_argument("--id", default="id", metavar="COLUMN", help="of the id, copied to the output where there is one (default id)")
    p.add_argument("--options", default="", metavar="TEXT", help='of mra-embed, such as --options="--normalize --truncate right"')
    p.add_argument("--mra-embed", default="mra-embed", metavar="PROGRAM")
    p.add_argument("--threads", type=int, default=0, metavar="N", help="of each worker; with --ray the CPUs of a task (default: all; with --ray 1)")
    where = p.add_mutually_exclusive_group()
    where.add_argument("--ray", metavar="ADDRESS", help="of a Ray cluster; auto: the one this machine belongs to; local: a new one here")
    where.add_argument("--shard", metavar="I/N", help="only shards I, I + N, I + 2N, ...; no manifest")
    a = p.parse_args(argv)
    try:
        source = Path(a.source)
        only = source.name if source.is_file() else None
        job = make_job(str(source.parent if only else source), a.target, a.model, a.mra_embed, shlex.split(a.options), a.text, a.id,
                       a.threads or (1 if a.ray else 0))
        if only and not only.endswith(ENDINGS):
            raise ShardError(f"{source}: not one of {', '.join(ENDINGS)}")
        shards = [only] if only else find_shards(Path(job.source))
        mine = part_of(shards, a.shard) if a.shard else shards
        progress = Progress(len(mine))
        if a.ray:
            run_ray(job, mine, progress, a.ray)
        else:
            run_here(job, mine, progress)
        print(file=sys.stderr)
        failed = progress.failed or progress.bad
        if not a.shard:
            manifest = write_manifest(job, shards)
            failed = progress.failed or manifest["failed"]
            print(f"embed_shards: {manifest['done']} of {manifest['shards']} shards, {manifest['rows']} rows, {manifest['failed']} failed",
                  file=sys.stderr)
        return 3 if failed else 0
    except (ShardError, OSError) as e:
        print(f"embed_shards: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
