"""Starting mra-server on a free port of this machine and talking to it; standard library only."""
from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

MODELS = Path(__file__).parent / "golden" / "models"


class Reply:
    def __init__(self, response: http.client.HTTPResponse):
        self.status = response.status
        self.headers = response.headers
        self.bytes = response.read()

    @property
    def json(self):
        return json.loads(self.bytes)

    def error(self) -> str:
        e = self.json["error"]
        return e if isinstance(e, str) else e["message"]


class Server:
    """with Server(BIN, "-m", ...) as s: s.post("/embed", {...})"""

    def __init__(self, folder: str, *args: str, models: tuple = ("bert.gguf", "xlm-roberta.gguf"), threads: int = 1):
        self.log = tempfile.TemporaryFile()
        command = [f"{folder}/mra-server", "--port", "0", "-t", str(threads)]
        for model in models:
            command += ["-m", str(MODELS / model)]
        self.process = subprocess.Popen([*command, *args], stderr=self.log)
        self.port = self.wait_for_port()

    def messages(self) -> str:
        self.log.seek(0)
        return self.log.read().decode()

    def wait_for_port(self) -> int:
        for _ in range(600):
            found = re.search(r"listening on http://\S*:(\d+)\n", self.messages())
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError("mra-server did not start: " + self.messages())

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def stop(self, sig: int = signal.SIGTERM) -> int:
        self.process.send_signal(sig)
        return self.process.wait(60)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def request(self, method: str, path: str, body=None, headers: dict | None = None, connection=None) -> Reply:
        c = connection or self.connect()
        c.request(method, path, body, headers or {})
        reply = Reply(c.getresponse())
        if not connection:
            c.close()
        return reply

    def get(self, path: str, **k) -> Reply:
        return self.request("GET", path, **k)

    def post(self, path: str, body, **k) -> Reply:
        return self.request("POST", path, body if isinstance(body, (bytes, str)) else json.dumps(body), **k)

    def metric(self, name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics").bytes.decode(), re.M)
        return float(found.group(1)) if found else 0.0

    def rss_kb(self) -> int:
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text()).group(1))

    def n_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def wait_until(true, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def in_threads(n: int, work) -> list:
    """Results of work(0) .. work(n - 1), each in a thread of its own; what one raises is its result."""
    results = [None] * n

    def run(i: int) -> None:
        try:
            results[i] = work(i)
        except Exception as e:
            results[i] = e

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def embed_rows(folder: str, texts: list, *args: str, model: str = "bert.gguf", width: int = 64) -> list:
    """mra-embed's rows as bytes, little-endian float32."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        for t in texts:
            f.write(json.dumps({"text": t}) + "\n")
        f.flush()
        p = subprocess.run([f"{folder}/mra-embed", "-t", "1", "-m", str(MODELS / model), "--format", "raw", "-f", f.name, *args],
                           capture_output=True, check=True)
    return [p.stdout[i:i + 4 * width] for i in range(0, len(p.stdout), 4 * width)]
