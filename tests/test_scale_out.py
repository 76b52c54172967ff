"""examples/scale-out/embed_shards.py without Ray: rows against mra-embed, and what is left when processes die.

    python tests/test_scale_out.py BIN        BIN: the folder of mra-embed; needs pyarrow
"""
from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "examples/scale-out/embed_shards.py"
MODEL = ROOT / "tests/golden/models/bert.gguf"
LONG = "a " * 500
BIN = ""


def make_shards(folder: Path, n: int = 3, rows: int = 20) -> dict:
    """-> {shard: [(id, text)]}; Parquet, JSON Lines and packed ones in turn, one of them in a folder of its own."""
    made = {}
    for s in range(n):
        data = [(f"{s}-{i}", f"text {i} of shard {s} " + "word " * (i % 7)) for i in range(rows)]
        name = ("a/part{}.parquet", "part{}.jsonl", "part{}.jsonl.gz")[s % 3].format(s)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps({"id": i, "text": t, "other": 1}) + "\n" for i, t in data).encode()
        if s % 3 == 0:
            pq.write_table(pa.table({"id": [i for i, _ in data], "text": [t for _, t in data]}), path)
        else:
            path.write_bytes(lines if s % 3 == 1 else gzip.compress(lines))
        made[name] = data
    return made


def embed(texts: list) -> list:
    lines = "".join(json.dumps({"text": t}) + "\n" for t in texts).encode()
    out = subprocess.run([f"{BIN}/mra-embed", "-m", MODEL, "--format", "raw", "--input", "jsonl", "-"], input=lines, capture_output=True,
                         check=True).stdout
    return [out[i:i + 256] for i in range(0, len(out), 256)]


def bits(vector: list) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


def outputs(folder: Path) -> list:
    return sorted(p for p in folder.iterdir() if p.suffix == ".parquet" and not p.name.startswith("."))


def all_rows(folder: Path) -> list:
    """Rows of all outputs as (input, row, id, vector, error)."""
    found = []
    for path in outputs(folder):
        table = pq.read_table(path)
        name = table.schema.metadata[b"mra.input"].decode()
        found += [(name, r["row"], r["id"], r["vector"], r["error"]) for r in table.to_pylist()]
    return found


class ScaleOut(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.source, self.target = Path(self.folder.name, "in"), Path(self.folder.name, "out")
        self.source.mkdir()
        self.addCleanup(self.folder.cleanup)

    def run_script(self, *args: str, code: int = 0, program: str = "", source: Path | None = None) -> str:
        done = subprocess.run([sys.executable, "-B", SCRIPT, source or self.source, self.target, "-m", MODEL, "--threads", "1", "--mra-embed",
                               program or f"{BIN}/mra-embed", *args], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def check_all(self, made: dict) -> None:
        rows = all_rows(self.target)
        wanted = [(s, i) for s, data in made.items() for i in range(len(data))]
        self.assertEqual(sorted((r[0], r[1]) for r in rows), sorted(wanted))  # each exactly once
        vectors = {s: embed([t for _, t in data]) for s, data in made.items()}
        for s, row, name, vector, error in rows:
            self.assertEqual((name, error), (made[s][row][0], None))
            self.assertEqual(bits(vector), vectors[s][row])

    def program(self, text: str) -> str:
        """A mra-embed that misbehaves first, in the shell; FIRST is true once, for the first shard."""
        path = Path(self.folder.name, "mra-embed")
        path.write_text(f"#!/bin/sh\nreal={BIN}/mra-embed\nlast=; for last; do :; done\n"
                        f"FIRST() {{ [ \"$last\" = - ] && mkdir {self.folder.name}/first 2>/dev/null; }}\n{text}\nexec $real \"$@\"\n")
        path.chmod(0o755)
        return str(path)

    def test_rows_are_the_programs(self):
        made = make_shards(self.source)
        self.assertIn("3 of 3 shards, 60 rows, 0 failed", self.run_script())
        self.check_all(made)
        manifest = json.loads((self.target / "manifest.json").read_text())
        self.assertEqual([(f["input"], f["rows"], f["failed"]) for f in manifest["files"]], [(s, 20, 0) for s in sorted(made)])
        self.assertEqual({f["output"] for f in manifest["files"]}, {p.name for p in outputs(self.target)})

    def test_done_is_done(self):
        made = make_shards(self.source)
        self.run_script()
        before = {p: p.stat().st_mtime_ns for p in outputs(self.target)}
        self.run_script(program=self.program("[ \"$last\" = - ] && exit 1"))  # nothing is computed again
        self.assertEqual({p: p.stat().st_mtime_ns for p in outputs(self.target)}, before)
        self.run_script("--options=--normalize")  # other options: other files
        self.assertEqual(len(outputs(self.target)), 6)
        with open(self.source / "part1.jsonl", "a") as f:
            f.write('{"id": "new", "text": "one more"}\n')
        self.assertIn("61 rows", self.run_script())
        self.assertEqual(len(outputs(self.target)), 7)
        self.assertEqual(len(made), 3)

    def test_failed_rows_are_kept(self):
        lines = ['{"id": 1, "text": "good"}', json.dumps({"id": 2, "text": LONG}), "{broken", '{"id": 4}', '{"id": 5, "text": 7}', "[1]",
                 '{"id": 7, "text": "\\ud800"}', "", '{"id": 8, "text": "good"}', "\xff"]
        (self.source / "a.jsonl").write_bytes("\n".join(lines).encode("latin-1"))
        self.assertIn("9 rows, 7 failed", self.run_script(code=3))
        rows = all_rows(self.target)
        good = embed(["good"])[0]
        self.assertEqual([r[1] for r in rows], list(range(9)))
        self.assertEqual([r[2] for r in rows], [1, 2, None, 4, 5, None, 7, 8, None])
        self.assertEqual([r[3] and bits(r[3]) for r in rows], [good, None, None, None, None, None, None, good, None])
        for r, words in zip(rows, (None, "502 tokens, the limit is 128", "not JSON", "no text", "the text is int", "not a JSON object",
                                   "surrogate", None, "not JSON")):
            self.assertTrue(r[4] is None if words is None else words in r[4], (r, words))
        self.run_script("--options=--truncate right", code=3)
        self.assertIn(("9", "6"), [(m[b"mra.rows"].decode(), m[b"mra.failed"].decode()) for m in
                                   (pq.read_schema(p).metadata for p in outputs(self.target))])

    def test_killed_in_the_middle(self):
        made = make_shards(self.source, 6)
        killer = self.program("n=$(ls $(dirname $0)/out | grep -c parquet$)\n[ $n = 3 ] && FIRST && { head -c 300 >/dev/null; kill -9 $PPID; exit 1; }")
        self.run_script(program=killer, code=-9)
        self.assertEqual(len(outputs(self.target)), 3)
        self.assertFalse((self.target / "manifest.json").exists())
        self.run_script(program=killer)
        self.check_all(made)

    def test_embed_dies(self):
        made = make_shards(self.source)
        for misbehave in ("FIRST && { $real \"$@\" | head -c 700; exit 9; }",  # ended early
                          "FIRST && { $real \"$@\"; echo more; exit 0; }",  # too much
                          "FIRST && { $real \"$@\"; exit 1; }"):
            Path(self.folder.name, "first").exists() and Path(self.folder.name, "first").rmdir()
            for p in outputs(self.target) if self.target.exists() else []:
                p.unlink()
            said = self.run_script(program=self.program(misbehave), code=3)
            self.assertIn("a/part0.parquet: ShardError: mra-embed", said)
            self.assertIn("2 of 3 shards", said)
            self.run_script(program=self.program(misbehave))
            self.check_all(made)

    def test_parts(self):
        made = make_shards(self.source, 5)
        self.run_script("--shard", "1/2")
        self.assertEqual(len(outputs(self.target)), 3)
        twice = [threading.Thread(target=self.run_script, args=("--shard", "2/2")) for _ in range(2)]
        for t in twice:
            t.start()
        for t in twice:
            t.join()
        self.check_all(made)
        self.assertEqual([p.name for p in self.target.iterdir() if p.name.startswith(".")], [])
        one = next(iter(made))
        before = len(outputs(self.target))
        self.run_script(source=self.source / one)  # a single file
        self.assertEqual(len(outputs(self.target)), before + 1)  # named by its own folder

    def test_refused(self):
        make_shards(self.source)
        for words, args in (("--shard 3/2", ["--shard", "3/2"]), ("--truncate chunk", ["--options=--truncate chunk"]),
                            ("--format is set", ["--options=--format json"]), ("no program", ["--mra-embed", "nowhere"])):
            self.assertIn(words, self.run_script(*args, code=1))
        self.assertIn("no column body; it has id, text", self.run_script("--text", "body", code=3))
        self.assertIn("no .parquet", self.run_script(code=1, source=Path(BIN)))


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
