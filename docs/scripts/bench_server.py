#!/usr/bin/env python3
"""Requests per second and latency of mra-server beside llama_cpp.server and sentence-transformers behind FastAPI, the same model in each.

    python3 docs/scripts/bench_server.py build                                        # or: make bench-server
    python3 docs/scripts/bench_server.py build --hf FOLDER --gguf F16.gguf --python PYTHON --only ours,st

1, 8 and 64 clients send one text per request, a short one (about 12 words) or one of about 2,000 tokens, each client the next request when
it has its reply. Servers take turns in every row, one at work and the others idle, listen on 127.0.0.1 only, and must first give the same
vectors: a cosine to sentence-transformers' below .99 ends the run. Each row takes at most --seconds per server, and at least one request. Prints a
table and writes JSON Lines with -o. Without --hf and --gguf the model is MiniLM with its positions repeated (convert/fetch_minilm.py).
"""
from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parents[1]
WORDS = ("time year people way day man thing woman life child world school state family student group "
         "country problem hand part place case week company").split()


class BenchError(Exception):
    pass


def texts(kind: str, n: int) -> list[str]:
    """Different ones, always the same; all words are one token."""
    r = random.Random(kind)
    return [" ".join(r.choices(WORDS, k=12 if kind == "short" else 1990)) for _ in range(n)]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, key: str, a: argparse.Namespace, log: Path):
        self.key, self.port = key, free_port()
        threads = str(a.threads)
        command = {
            "ours": [a.build / "bin/mra-server", "-m", a.gguf, "--port", self.port, "-t", threads, "--attn", "exact", "--timeout", "600",
                     "--max-queue", "600"],
            "ours-q8": [a.build / "bin/mra-server", "-m", a.q8, "--port", self.port, "-t", threads, "--timeout", "600", "--max-queue", "600"],
            "llama": [a.python, "-m", "llama_cpp.server", "--model", a.gguf, "--embedding", "true", "--n_ctx", "2048", "--n_batch", "2048",
                      "--n_ubatch", "2048", "--n_threads", threads, "--n_threads_batch", threads, "--host", "127.0.0.1", "--port", self.port],
            "st": [a.python, SCRIPTS / "server_worker.py", a.hf, self.port, threads],
        }[key]
        env = dict(os.environ, HF_HUB_OFFLINE="1", OMP_NUM_THREADS=threads, TOKENIZERS_PARALLELISM="false")
        with open(log, "ab") as f:
            self.process = subprocess.Popen([str(x) for x in command], env=env, stdout=f, stderr=f)
        try:
            self.wait_until_ready(log)
        except BaseException:
            self.stop()
            raise

    def wait_until_ready(self, log: Path) -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise BenchError(f"{self.key} ended with {self.process.returncode}: see {log}")
            try:
                self.ask(self.connect(), "a")
                return
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)
        raise BenchError(f"{self.key} does not answer: see {log}")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def ask(self, c: http.client.HTTPConnection, text: str) -> list[float]:
        c.request("POST", "/v1/embeddings", json.dumps({"input": text}), {"Content-Type": "application/json"})
        r = c.getresponse()
        body = r.read()
        if r.status != 200:
            raise BenchError(f"{self.key}: {r.status}: {body[:300].decode('utf-8', 'replace')}")
        return json.loads(body)["data"][0]["embedding"]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def measure(server: Server, kind: str, clients: int, seconds: float) -> dict:
    """Each client asks until the time is over and waits for its last reply; every latency counts."""
    all_texts, lock, latencies, failed = texts(kind, 256), threading.Lock(), [], []
    start, end = time.monotonic(), time.monotonic() + seconds

    def client(number: int) -> None:
        try:
            c, i = server.connect(), number
            while True:
                t = time.monotonic()
                server.ask(c, all_texts[i % len(all_texts)])
                with lock:
                    latencies.append(time.monotonic() - t)
                i += clients
                if time.monotonic() > end:
                    return
        except Exception as e:
            failed.append(f"{type(e).__name__}: {e}")

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise BenchError(failed[0])
    took = time.monotonic() - start
    latencies.sort()
    at = lambda q: latencies[min(len(latencies) - 1, math.ceil(q * len(latencies)) - 1)]
    return {"server": server.key, "text": kind, "clients": clients, "requests": len(latencies), "per_second": len(latencies) / took,
            "p50_ms": 1e3 * at(0.5), "p99_ms": 1e3 * at(0.99)}


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def run(*command) -> None:
    if subprocess.run([str(c) for c in command]).returncode != 0:
        raise BenchError(f"failed: {' '.join(str(c) for c in command)}")


def prepare(a: argparse.Namespace) -> None:
    work = a.build / "server-bench"
    work.mkdir(parents=True, exist_ok=True)
    if not a.python:
        a.python = work / "venv/bin/python"
        wanted, stamp = SCRIPTS / "server-requirements.txt", work / "installed.txt"
        if not stamp.exists() or stamp.read_text() != wanted.read_text():
            print("installing docs/scripts/server-requirements.txt (several GB; llama.cpp is compiled)", file=sys.stderr)
            venv.create(work / "venv", with_pip=True)
            run(a.python, "-m", "pip", "install", "-q", "-r", wanted)
            stamp.write_text(wanted.read_text())
    if not a.hf:
        short, a.hf = work / "minilm", work / "minilm-2048"
        if not short.exists():
            run(a.python, ROOT / "convert/fetch_minilm.py", short)
        if not a.hf.exists():
            run(a.python, SCRIPTS / "repeat_positions.py", short, a.hf, 2048)
    if not a.gguf:
        a.gguf = work / "model-f16.gguf"
        run(a.python, ROOT / "convert/convert_hf.py", a.hf, "-o", a.gguf, "--type", "f16")
    a.q8 = work / "model-q8_0.gguf"
    run(a.build / "bin/mra-quantize", a.gguf, a.q8, "q8_0")


def same_vectors(a: argparse.Namespace, servers: list[Server]) -> None:
    """Also warms them up."""
    found = {s.key: [s.ask(s.connect(), texts(kind, 1)[0]) for kind in a.texts] for s in servers}
    first = "st" if "st" in found else servers[0].key
    for key in found:
        for kind, x, y in zip(a.texts, found[key], found[first]):
            c = cosine(x, y)
            print(f"{key}, {kind}: cosine to {first} {c:.5f}", file=sys.stderr)
            if not c >= 0.99:
                raise BenchError(f"{key} computes another embedding than {first}")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=Path)
    p.add_argument("--hf", type=Path, help="the model's Hugging Face folder, with 2048 positions or more")
    p.add_argument("--gguf", type=Path, help="its f16 file")
    p.add_argument("--python", type=Path, help="one that has server-requirements.txt")
    p.add_argument("--only", default="st,llama,ours,ours-q8")
    p.add_argument("--clients", default="1,8,64")
    p.add_argument("--texts", default="short,long")
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("-o", type=Path)
    a = p.parse_args()
    a.texts, keys = a.texts.split(","), a.only.split(",")
    servers: list[Server] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops the servers, too
    try:
        prepare(a)
        for key in keys:
            servers.append(Server(key, a, a.build / "server-bench/servers.log"))
        same_vectors(a, servers)
        out = []
        print(f"| {'server':8} | text  | clients | requests/s |  p50 ms |  p99 ms |\n|---|---|---:|---:|---:|---:|")
        for kind in a.texts:
            for clients in map(int, a.clients.split(",")):
                for server in servers:
                    r = measure(server, kind, clients, a.seconds)
                    out.append(r)
                    print(f"| {server.key:8} | {kind:5} | {clients:7} | {r['per_second']:10.1f} | {r['p50_ms']:7.1f} | {r['p99_ms']:7.1f} |", flush=True)
        if a.o:
            a.o.write_text("".join(json.dumps(r) + "\n" for r in out))
        return 0
    except BenchError as e:
        print(f"bench_server: {e}", file=sys.stderr)
        return 1
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
