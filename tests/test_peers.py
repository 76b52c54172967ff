"""docs/scripts/bench_peers.py with made-up contenders: what it reports, and what must end it. Needs no PyTorch and no llama.cpp."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "scripts" / "bench_peers.py"

# Plays every program that the script starts. A worker's speed is known: torch takes 4 units per token, ours 1.
FAKE = """#!%s
import json, os, sys, time
from pathlib import Path
name, args, fault = os.path.basename(sys.argv[0]), sys.argv[1:], os.environ.get("FAULT", "")
if args[0].endswith("make_random.py"):
    Path(args[1]).mkdir()
    Path(args[1], "model.safetensors").touch()
    Path(args[1], "config.json").write_text('{"vocab_size": 100}')
elif args[0].endswith("convert_hf.py"):
    Path(args[3]).touch()
elif args[0].endswith("peers_worker.py") or name == "mra-bench":
    kind = "ours" if name == "mra-bench" else args[1]
    if fault == "start " + kind: sys.exit(7)
    print(json.dumps({"about": kind + " 1.0"}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        assert min(job["ids"]) >= 10 and max(job["ids"]) < 100
        if fault == "error " + kind: print('{"error": "no luck"}', flush=True); continue
        if fault == "hang " + kind: time.sleep(60)
        unit = 1 if kind == "ours" else 4
        away = fault == "wrong " + kind or job.get("budget", 1) < 1
        print(json.dumps({"seconds": unit * len(job["ids"]) * job.get("budget", 1), "peak_mb": 5, "embedding": [1, 0.5 if away else 0]}), flush=True)
"""


class Peers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.build = Path(self.folder.name) / "build"
        (self.build / "bin").mkdir(parents=True)
        for name in ("python", "mra-bench", "mra-quantize"):
            path = self.build / "bin" / name
            path.write_text(FAKE % sys.executable)
            path.chmod(0o755)

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *args, fault=""):
        out = Path(self.folder.name) / "out"
        command = [sys.executable, "-B", str(SCRIPT), str(self.build), "--python", str(self.build / "bin/python"), "-o", str(out), *args]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, FAULT=fault))
        rows = [json.loads(line) for line in (out / "peers.jsonl").read_text().splitlines()] if done.returncode == 0 else []
        return done, rows

    def test_rows(self):
        done, rows = self.run_script("-n", "4096,512", "--max-seconds", "1e6")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([r["n"] for r in rows], [512] * 4 + [4096] * 5)
        self.assertEqual([r["ratio"] for r in rows], [4, 4, 4, 1, 32, 32, 32, 8, 1])
        self.assertEqual(rows[0]["seconds"], 2048)
        self.assertEqual([r["reps"] for r in rows], [1] * 9, "a run above --seconds is the only one")
        self.assertAlmostEqual(rows[8]["cosine"], 0.8944, 4)
        self.assertIn("| 4096 | ggml-mra w = 1/8, q8_0 | 512 |", done.stdout)
        self.assertIn("PyTorch float: torch-fp32 1.0", done.stdout)
        self.assertIn("<svg", (Path(self.folder.name) / "out/peers.svg").read_text())

    def test_turns(self):
        _, rows = self.run_script("-n", "64", "--seconds", "1e6", "--reps", "3")
        self.assertEqual([r["reps"] for r in rows], [3] * 4)

    def test_leaves_out_what_takes_too_long(self):
        done, rows = self.run_script("-n", "64,512", "--max-seconds", "5000")
        self.assertEqual([r["contender"] for r in rows if r["n"] == 512], ["ggml-mra exact, q8_0"], done.stderr)
        self.assertIsNone(rows[-1]["cosine"])

    def test_only(self):
        _, rows = self.run_script("-n", "64", "--only", "ours,llama")
        self.assertEqual([r["contender"] for r in rows], ["llama.cpp Q8_0", "ggml-mra exact, q8_0"])

    def test_faults(self):
        for fault, says in (("wrong ours", "ggml-mra exact, q8_0 computes something else than PyTorch float: cosine 0.8944"),
                            ("wrong llama", "llama.cpp Q8_0 computes something else"), ("wrong torch-int8", "PyTorch int8 computes something else"),
                            ("start llama", "llama.cpp Q8_0: its process ended with 7"), ("error torch-int8", "PyTorch int8: no luck"),
                            ("hang ours", "no answer in 1 s")):
            done, _ = self.run_script("-n", "64", "--max-seconds", "1", fault=fault)
            self.assertEqual(done.returncode, 1, fault)
            self.assertIn(says, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_usage(self):
        for args, code, says in ((("-n", "0"), 2, "list of lengths"), (("--only", "jax"), 2, "jax"), (("-t", "0"), 2, "positive")):
            done, _ = self.run_script(*args)
            self.assertEqual(done.returncode, code, args)
            self.assertIn(says, done.stderr)
        (self.build / "bin/mra-bench").unlink()
        done, _ = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("run make first", done.stderr)


if __name__ == "__main__":
    unittest.main()
